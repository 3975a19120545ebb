"""What did people answer? Files of the page and exports of Label Studio, read together."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scotoma.errors import ConfigError, DataError
from scotoma.processes.untrusted import read_apart
from scotoma.storage.files import open_regular
from scotoma.study.label_studio import Judgement, read_judgements
from scotoma.study.plan import Orders, StudyKey, StudyPlan
from scotoma.study.questions import (
    ANSWERS,
    COMMENT,
    GUESS,
    LONGEST_COMMENT,
    LONGEST_MS,
    SKIP,
    comment_line,
)

FORMAT = "scotoma study answers"
FIELDS = {"place", "item", "question", "value", "shown_ms"}


@dataclass(frozen=True)
class Event:
    """One answer, as it was given.

    Attributes:
        annotator: Who, counted from 1.
        place: Part and place in the annotator's order: `p0` practice, `m0` main, `g0` second pass.
        item: The item there.
        question: `q1` to `q6`, `comment`, `skip` or `guess`.
        value: The answer.
        shown_ms: Milliseconds from the first paint of the image to the answer.
    """

    annotator: int
    place: str
    item: str
    question: str
    value: str
    shown_ms: int


@dataclass(frozen=True)
class Submissions:
    """All answers to a study.

    Attributes:
        events: In the order in which each annotator gave them; the last of a question counts.
        orders: By annotator.
        outside: Annotators who answered in Label Studio.
    """

    events: tuple[Event, ...]
    orders: dict[int, Orders]
    outside: tuple[int, ...]


def read_submissions(files: Sequence[Path], plan: StudyPlan, key: StudyKey) -> Submissions:
    """Read the files that came back, each whole or not at all, in a process with limits.

    Of two files of one annotator the longer counts if it holds all that the other does, so that a
    download in between does no harm. People of Label Studio are numbered after the planned ones.

    Args:
        files: What the page downloaded, and exports of Label Studio.
        plan: The plan of the study.
        key: What its items are, and who saw them when.

    Raises:
        ConfigError: A file cannot be read.
        DataError: It is of another kind or study, or holds what the study does not ask for.
    """
    orders = dict(enumerate(key.orders, 1))
    by_annotator: dict[int, tuple[Path, list[Event]]] = {}
    judgements: dict[str, Judgement] = {}
    for path in files:
        if path.is_dir():
            raise ConfigError(f"{path} must be a file of answers, got a folder; name what is in it")
        try:
            annotator, rows = read_apart(answers_of, path, plan, key, path=path, called=str(path))
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
        if annotator is None:
            for one in (Judgement(*row) for row in rows):
                known = judgements.get(one.annotation)
                if known is None or known.updated <= one.updated:
                    judgements[one.annotation] = one
            continue
        events = [Event(*row) for row in rows]
        other, before = by_annotator.get(annotator, (path, []))
        shorter, longer = sorted((before, events), key=len)
        if Counter(shorter) - Counter(longer):
            raise DataError(
                f"{path} and {other} must be of two people, got annotator {annotator} in both with "
                "different answers; leave one of them out"
            )
        by_annotator[annotator] = (path, longer)
    found = [event for number in sorted(by_annotator) for event in by_annotator[number][1]]
    people = sorted({one.person for one in judgements.values()})
    numbers = {person: len(orders) + place for place, person in enumerate(people, 1)}
    items = tuple(sorted(key.items))
    for one in sorted(judgements.values(), key=lambda one: (one.updated, one.annotation)):
        found += _of_judgement(one, numbers[one.person], items)
    whole = Orders(practice=(), main=items, guess=())
    return Submissions(
        events=tuple(found),
        orders=orders | dict.fromkeys(numbers.values(), whole),
        outside=tuple(numbers.values()),
    )


def answers_of(path: Path, plan: StudyPlan, key: StudyKey) -> tuple[int | None, list[Any]]:
    """Read the answers of one file; called in the process that reads from outside.

    Args:
        path: The file.
        plan: As for `read_submissions`.
        key: The same.

    Returns:
        The annotator and fields of events; None and fields of judgements of Label Studio.
    """
    with open_regular(path) as file:
        data = file.read()
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, list):
        found = read_judgements(content, str(path), plan, frozenset(key.items))
        return None, [list(vars(one).values()) for one in found]
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError(
            f"{path} must be answers that the page of a study downloaded, or a JSON export of "
            "Label Studio, got another file; ask for it again"
        )
    annotator, events = _of_page(content, str(path), plan, dict(enumerate(key.orders, 1)))
    return annotator, [list(vars(one).values()) for one in events]


def _of_page(
    outer: Mapping[str, Any], name: str, plan: StudyPlan, orders: Mapping[int, Orders]
) -> tuple[int, list[Event]]:
    """The annotator and the answers of a file that the page downloaded."""
    text = outer.get("content")
    if not isinstance(text, str) or _sha256(text) != outer.get("sha256"):
        raise DataError(
            f"{name} must be as the page left it, got another checksum; ask for the file again"
        )
    try:
        content = json.loads(text)
        study, annotator = str(content["study"]), content["annotator"]
        consented, rows = content["consent"] is True, list(content["events"])
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise DataError(
            f"{name} must hold study, annotator, consent and events, got "
            f"{type(error).__name__}; ask for the file again"
        ) from error
    if study != plan.sha256:
        raise DataError(
            f"{name} must answer this study, whose plan is {plan.sha256[:16]}, got "
            f"{re.sub('[^0-9a-f]', '?', study[:16])}; name the folder of its own study"
        )
    if type(annotator) is not int or annotator not in orders:
        raise DataError(
            f"{name} must be of an annotator from 1 to {len(orders)}, got another; ask for the "
            "file again"
        )
    if not consented:
        raise DataError(f"{name} holds no consent of annotator {annotator}; leave it out")
    events = []
    for number, row in enumerate(rows, 1):
        try:
            events.append(_event(row, annotator, plan, orders[annotator]))
        except DataError as error:
            raise DataError(f"{name}, answer {number}: {error}; ask for the file again") from error
    if not events:
        raise DataError(f"{name} holds no answer yet; ask annotator {annotator} for one that does")
    return annotator, events


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _event(content: Any, annotator: int, plan: StudyPlan, orders: Orders) -> Event:
    """An answer of a page, whose fields have a closed set of values."""
    if not isinstance(content, dict) or content.keys() != FIELDS:
        raise DataError(f"an answer must have the fields {', '.join(sorted(FIELDS))}")
    texts = {name: content[name] for name in FIELDS - {"shown_ms"}}
    if not all(isinstance(text, str) for text in texts.values()):
        raise DataError("the fields of an answer must be texts")
    shown_ms = content["shown_ms"]
    if type(shown_ms) is not int or not 0 <= shown_ms <= LONGEST_MS:
        raise DataError("shown_ms must be whole milliseconds within a day")
    parts = {"p": orders.practice, "m": orders.main, "g": orders.guess}
    place = re.fullmatch(r"([pmg])(\d{1,5})", texts["place"], re.ASCII)
    if place is None or int(place[2]) >= len(parts[place[1]]):
        raise DataError("place is none of this annotator's")
    if parts[place[1]][int(place[2])] != texts["item"]:
        raise DataError("item is not at this place")
    question, value = texts["question"], texts["value"]
    asked = (GUESS,) if place[1] == "g" else (*plan.questions, COMMENT, SKIP)
    if question not in asked:
        raise DataError("question is not asked here")
    if question == COMMENT:
        if len(value) > LONGEST_COMMENT:
            raise DataError(f"a comment has at most {LONGEST_COMMENT} characters")
        texts["value"] = comment_line(value)
    elif value not in (("yes", "no") if question == SKIP else ANSWERS):
        raise DataError("value is not one of the answers")
    return Event(annotator=annotator, shown_ms=shown_ms, **texts)


def _of_judgement(one: Judgement, annotator: int, items: Sequence[str]) -> list[Event]:
    place = f"m{items.index(one.item)}"
    said = one.answers or {SKIP: "yes"}
    return [
        Event(annotator, place, one.item, question, value, one.shown_ms)
        for question, value in sorted(said.items())
    ]
