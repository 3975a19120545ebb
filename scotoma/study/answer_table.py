"""What did each person answer about each item? Events as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.study.answers import Event
from scotoma.study.plan import KeyEntry, Orders, StudyPlan
from scotoma.study.questions import ANSWERS, GUESS, StudyQuestion

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
YES, NO, CANT_TELL = range(3)  # places in ANSWERS
FAST_MS = 300


@dataclass(frozen=True, eq=False)
class AnswerTable:
    """Answers as arrays, one row an item of an arm in the order of the key, one column a person.

    Attributes:
        items: Item ids.
        arms: Arm of each item, shape (N,).
        people: Numbers of the annotators.
        answers: By question: place in ANSWERS, -1 for none, shape (N, J).
        again: The same of the second showing of a repeated item.
        seconds: Median seconds from the first sight of an image to its first answer, shape (J,).
        skipped: Whether an item was skipped, shape (N, J).
        fast: Answers given within 300 ms of the image.
        guesses: Place in ANSWERS of each guess, -1 for none, shape (N, J).
    """

    items: tuple[str, ...]
    arms: npt.NDArray[np.str_]
    people: tuple[int, ...]
    answers: dict[str, Ints]
    again: dict[str, Ints]
    seconds: Floats
    skipped: npt.NDArray[np.bool_]
    fast: int
    guesses: Ints


def answer_table(
    plan: StudyPlan,
    key: Mapping[str, KeyEntry],
    orders: Mapping[int, Orders],
    events: Sequence[Event],
) -> AnswerTable:
    """Put answers into arrays; the last event of a person, place and question counts."""
    people = tuple(sorted({event.annotator for event in events if event.place[0] != "p"}))
    items = tuple(sorted(key))
    row = {item: number for number, item in enumerate(items)}
    shape = (len(items), len(people))
    answers = {one: np.full(shape, -1) for one in plan.questions}
    again = {one: np.full(shape, -1) for one in plan.questions}
    skipped, guesses = np.zeros(shape, bool), np.full(shape, -1)
    last: dict[tuple[int, str, str], Event] = {}
    first_ms: dict[tuple[int, str], int] = {}
    fast = 0
    for event in events:
        last[event.annotator, event.place, event.question] = event
        if event.place[0] == "m" and event.question in answers:
            first_ms.setdefault((event.annotator, event.place), event.shown_ms)
            fast += event.shown_ms < FAST_MS
    for (annotator, place, question), event in last.items():
        if place[0] == "p":
            continue
        column, number = people.index(annotator), int(place[1:])
        repeated = place[0] == "m" and event.item in orders[annotator].main[:number]
        at = row[event.item], column
        if question == GUESS:
            guesses[at] = ANSWERS.index(event.value)
        elif question == "skip":
            skipped[at] |= event.value == "yes" and not repeated
        elif question in answers:
            (again if repeated else answers)[question][at] = ANSWERS.index(event.value)
    for values in answers.values():
        values[skipped] = -1
    times = [[ms for (one, _), ms in first_ms.items() if one == person] for person in people]
    return AnswerTable(
        items=items,
        arms=np.array([key[item].arm for item in items]),
        people=people,
        answers=answers,
        again=again,
        seconds=np.array([np.median(own) / 1000 if own else np.nan for own in times]),
        skipped=skipped,
        fast=fast,
        guesses=guesses,
    )


def counted_shares(values: Ints, counted: str, cant_tell: float = np.nan) -> Floats:
    """1 where the counted answer was given, 0 where the other, `cant_tell` where neither."""
    place = ANSWERS.index(counted)
    return np.select(
        [values == -1, values == CANT_TELL, values == place], [np.nan, cant_tell, 1.0], 0.0
    )


def shares_between(
    table: AnswerTable,
    one: StudyQuestion,
    a: str,
    b: str,
    among: npt.NDArray[np.bool_] | None = None,
) -> tuple[Floats, Floats]:
    """Answers in two arms as shares, of all items or some."""
    shares = counted_shares(table.answers[one.key], one.counted)
    kept = np.ones(len(table.items), bool) if among is None else among
    return shares[kept & (table.arms == a)], shares[kept & (table.arms == b)]
