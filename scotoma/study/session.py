"""What may an annotator see and say? The state of a page, and which events are taken."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scotoma.errors import DataError
from scotoma.study.plan import Orders, StudyPlan
from scotoma.study.questions import ANSWERS, GUESS, QUESTIONS
from scotoma.study.store import Event

__all__ = [
    "COMMENT",
    "LONGEST_COMMENT",
    "checked_event",
    "comment_line",
    "consent_text",
    "page_state",
]

COMMENT, SKIP = "comment", "skip"
LONGEST_COMMENT = 500
LONGEST_MS = 24 * 3600 * 1000
PAUSE_MINUTES = 25
FIELDS = {"key", "place", "item", "question", "value", "shown_ms"}


def consent_text(plan: StudyPlan) -> dict[str, str]:
    """What a person reads before the first image."""
    return {
        "contact": plan.contact,
        "purpose": plan.purpose,
        "keep": plan.keep,
        "faces": plan.faces,
    }


def page_state(
    plan: StudyPlan,
    orders: Orders,
    labels: Mapping[str, Sequence[str]],
    events: Iterable[Event] = (),
    *,
    places: Sequence[tuple[str, int]] | None = None,
) -> dict[str, Any]:
    """All that a page shows: nothing that depends on the arm of an item.

    Args:
        plan: The plan.
        orders: Of the annotator.
        labels: Class names by item id.
        events: Of the annotator, in order; the last of a place and question counts.
        places: Part and number of those that this page shows, without a gap; None for all.
    """
    answers: dict[str, dict[str, str]] = {}
    for event in events:
        answers.setdefault(event.place, {})[event.question] = event.value
    whole = {"p": orders.practice, "m": orders.main, "g": orders.guess}
    numbers = {name: range(len(own)) for name, own in whole.items()}
    if places is not None:
        kept = {name: [number for part, number in places if part == name] for name in whole}
        numbers = {
            name: range(own[0], own[-1] + 1) if own else range(0) for name, own in kept.items()
        }
    parts = {name: [own[number] for number in numbers[name]] for name, own in whole.items()}
    return {
        "study": plan.sha256[:16],
        "questions": [
            {"key": one.key, "text": one.text, "yes": one.yes, "no": one.no}
            for one in QUESTIONS
            if one.key in plan.questions
        ],
        "labels": {item: list(labels[item]) for own in parts.values() for item in own},
        "parts": parts,
        "first": {name: own.start for name, own in numbers.items()},
        "total": {name: len(own) for name, own in whole.items()},
        "answers": answers,
        "pause_minutes": PAUSE_MINUTES,
        "longest_comment": LONGEST_COMMENT,
    }


def comment_line(text: str) -> str:
    r"""A comment on one line, without characters that steer how others are shown.

    >>> comment_line("one\n two \u202e\U0001f469\u200d\U0001f469")
    'one two \U0001f469\U0001f469'
    """
    return "".join(c for c in " ".join(text.split()) if c.isprintable())


def checked_event(content: Any, annotator: int, plan: StudyPlan, orders: Orders) -> Event:
    """Make an event of what a page sent.

    Args:
        content: Decoded JSON.
        annotator: Whose session it came in.
        plan: The plan.
        orders: Of the annotator.

    Raises:
        DataError: A field is missing, unknown or of a value that is not allowed.
    """
    if not isinstance(content, dict) or content.keys() != FIELDS:
        raise DataError(f"an answer must have the fields {', '.join(sorted(FIELDS))}")
    texts = {name: content[name] for name in FIELDS - {"shown_ms"}}
    if not all(isinstance(text, str) for text in texts.values()):
        raise DataError("the fields of an answer must be texts")
    shown_ms = content["shown_ms"]
    if type(shown_ms) is not int or not 0 <= shown_ms <= LONGEST_MS:
        raise DataError("shown_ms must be whole milliseconds within a day")
    if not re.fullmatch(r"[0-9a-f]{32}", texts["key"]):
        raise DataError("key must be 32 hexadecimal digits")
    parts = {"p": orders.practice, "m": orders.main, "g": orders.guess}
    place = re.fullmatch(r"([pmg])(\d{1,5})", texts["place"])
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
