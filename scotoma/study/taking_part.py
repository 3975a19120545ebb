"""How did people take part? Consistency, screens, flow of items and what deviates from the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from scotoma.audit.study import AnnotatorFlow, StudyFlow, Told
from scotoma.numbers.wilson_interval import wilson
from scotoma.study.answer_table import CANT_TELL, AnswerTable
from scotoma.study.effects import FEWEST_ANNOTATORS
from scotoma.study.plan import StudyPlan

FEW = 5  # annotators below which the claim is about these annotators


def consistency_of(table: AnswerTable) -> dict[int, float | None]:
    """Share of equal answers to the two showings of repeated items, by annotator."""
    found: dict[int, float | None] = {}
    for column, person in enumerate(table.people):
        equal = both = 0
        for question, values in table.answers.items():
            first, second = values[:, column], table.again[question][:, column]
            twice = (first >= 0) & (second >= 0)
            both += int(twice.sum())
            equal += int((twice & (first == second)).sum())
        found[person] = equal / both if both else None
    return found


def screened_people(
    plan: StudyPlan, table: AnswerTable, consistency: Mapping[int, float | None]
) -> tuple[int, ...]:
    """Annotators that fail a screen of the plan: equal answers to repeats, or median time."""
    return tuple(
        person
        for person, seconds in zip(table.people, table.seconds, strict=True)
        if ((own := consistency[person]) is not None and own < plan.consistency_screen)
        or seconds < plan.time_screen_s
    )


def study_flow(
    plan: StudyPlan,
    table: AnswerTable,
    consistency: Mapping[int, float | None],
    screened: Sequence[int],
) -> StudyFlow:
    """Count what became of the images: shown, answered, left out."""
    stacked = np.stack(list(table.answers.values()))
    seen = (stacked >= 0).any(axis=0) | table.skipped
    return StudyFlow(
        sampled=len(table.items),
        annotators=len(table.people),
        shown=int(seen.sum()),
        answered=int((stacked >= 0).sum()),
        cant_tell=int((stacked == CANT_TELL).sum()),
        skipped=int(table.skipped.sum()),
        fast=table.fast,
        people=tuple(
            _annotator(plan, table, column, consistency[person], person in screened)
            for column, person in enumerate(table.people)
        ),
    )


def _annotator(
    plan: StudyPlan, table: AnswerTable, column: int, share: float | None, screened: bool
) -> AnnotatorFlow:
    once = np.stack([values[:, column] >= 0 for values in table.answers.values()])
    again = np.stack([values[:, column] >= 0 for values in table.again.values()])
    repeats, seconds = int((once & again).any(axis=0).sum()), float(table.seconds[column])
    low, high = (None, None) if share is None else wilson(share * repeats, repeats, plan.level)
    reason = "" if repeats else "no image was answered twice"
    return AnnotatorFlow(
        annotator=table.people[column],
        images=int(once.any(axis=0).sum()),
        equal=Told(value=share, low=low, high=high, n=repeats, reason=reason),
        median_s=None if np.isnan(seconds) else seconds,
        screened=screened,
    )


def plan_deviations(plan: StudyPlan, table: AnswerTable) -> list[str]:
    """What the answers show that was not done as planned."""
    found = []
    if len(table.people) != plan.annotators:
        found.append(f"{len(table.people)} annotators answered; {plan.annotators} were planned.")
    full = len(table.items) * len(plan.questions) * len(table.people)
    missing = sum(int((values < 0).sum()) for values in table.answers.values())
    if table.people and missing:
        found.append(f"{missing:,} of {full:,} answers are missing.")
    if plan.leaky:
        found.append("The study went on although a machine could tell the arms apart (--leaky).")
    return found


def scope_of(plan: StudyPlan, annotators: int) -> str:
    """Say about whom, and about which images, a study of so many annotators speaks."""
    if annotators < FEWEST_ANNOTATORS:
        people = (
            f"{annotators} of {FEWEST_ANNOTATORS} annotators: descriptive only, nothing is claimed "
            "about others."
        )
    elif annotators < FEW:
        people = f"{annotators} annotators: the claim is about these annotators."
    else:
        people = f"{annotators} annotators, taken as drawn from people like them."
    return f"{people} {arm_a_words(plan)}"


def arm_a_words(plan: StudyPlan) -> str:
    """Say which images arm A holds.

    Args:
        plan: The plan.
    """
    if plan.matched:
        return (
            f"Arm A is {plan.per_arm:,} of the {plan.changed:,} changed images: those with an "
            "equally contested unchanged one."
        )
    return f"Arm A is {plan.per_arm:,} of the {plan.changed:,} changed images, drawn at random."
