"""What do the answers say? From events and the key to the result of a study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from scotoma.audit.study import (
    ArmAnswers,
    Balance,
    Blinding,
    Effect,
    GroupEffect,
    QuestionResult,
    Sensitivity,
    StudyFlow,
    StudyResult,
)
from scotoma.study.agreement import annotator_agreement, counts_of
from scotoma.study.arms import mean_difference
from scotoma.study.blinding import FLAGGED, bang, effective_guesses, james
from scotoma.study.effects import FEWEST_ANNOTATORS, bootstrap_interval, difference, interaction
from scotoma.study.mixed_model import odds_ratio
from scotoma.study.plan import KeyEntry, Orders, StudyPlan
from scotoma.study.questions import ANSWERS, CONTRASTS, GUESS, QUESTIONS, StudyQuestion
from scotoma.study.store import Event
from scotoma.uncertainty import holm

__all__ = ["study_result"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_Name = TypeVar("_Name", bound=tuple[str, ...])
YES, NO, CANT_TELL = range(3)  # places in ANSWERS
FAST_MS = 300
FEW = 5  # annotators below which the claim is about these annotators


@dataclass(frozen=True, eq=False)
class Table:
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


def study_result(
    plan: StudyPlan,
    key: Mapping[str, KeyEntry],
    orders: Mapping[int, Orders],
    events: Sequence[Event],
    *,
    erased: int = 0,
    deviations: Sequence[str] = (),
) -> StudyResult:
    """Analyse a study as its plan says.

    Args:
        plan: The plan.
        key: What each item is.
        orders: Of the annotators with events.
        events: All of them; of one annotator, place and question the last counts.
        erased: Annotators whose events were deleted.
        deviations: What was not done as planned, beyond what the events show.

    Returns:
        The result: equal answers give equal results, whenever and wherever they were given.
    """
    table = tabulated(plan, key, orders, events)
    asked = [one for one in QUESTIONS if one.key in plan.questions]
    pairs = [(one, a, b) for one in asked for a, b in CONTRASTS]
    found = _adjusted(
        {
            (one.key, f"{a}-{b}"): difference(*_shares_of(table, one, a, b), level=plan.level)
            for one, a, b in pairs
        }
    )
    groups = _groups(table, key, pairs, plan)
    consistency = _consistency(table)
    screened = _screened(plan, table, consistency)
    results = []
    for one in asked:
        effects, sensitivity, odds = {}, {}, {}
        for a, b in CONTRASTS:
            name = f"{a}-{b}"
            effects[name] = found[one.key, name]
            sensitivity[name] = tuple(_sensitivity(table, one, a, b, plan, screened, effects[name]))
            odds[name] = odds_ratio(*_shares_of(table, one, a, b), level=plan.level)
        results.append(
            QuestionResult(
                key=one.key,
                text=one.text,
                counted="yes" if one.counted == "yes" else "no",
                title=one.title,
                bucket=one.bucket,
                remark=_remark(one, plan),
                effects=effects,
                sensitivity=sensitivity,
                odds=odds,
                groups={name: groups[one.key, name] for name in effects} if plan.group else {},
                arms=tuple(_arm(table, key, one, arm, plan) for arm in ("A", "B", "C")),
            )
        )
    blinding = _blinding(plan, table)
    return StudyResult(
        variant=plan.variant,
        group=plan.group,
        plan_sha256=plan.sha256,
        labels=plan.labels,
        primary=plan.primary,
        level=plan.level,
        conclusion=_conclusion(plan, found[plan.primary], asked),
        scope=_scope(len(table.people)),
        still_cie=plan.still_cie,
        questions=tuple(results),
        blinding=blinding,
        balance=_balance(plan, key),
        flow=_flow(table, erased, consistency, screened),
        deviations=(*_deviations(plan, table), *deviations),
    )


def tabulated(
    plan: StudyPlan,
    key: Mapping[str, KeyEntry],
    orders: Mapping[int, Orders],
    events: Sequence[Event],
) -> Table:
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
    return Table(
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


def _shares(values: Ints, counted: str, cant_tell: float = np.nan) -> Floats:
    """1 where the counted answer was given, 0 where the other, `cant_tell` where neither."""
    place = ANSWERS.index(counted)
    return np.select(
        [values == -1, values == CANT_TELL, values == place], [np.nan, cant_tell, 1.0], 0.0
    )


def _shares_of(
    table: Table, one: StudyQuestion, a: str, b: str, among: npt.NDArray[np.bool_] | None = None
) -> tuple[Floats, Floats]:
    """Answers in two arms as shares, of all items or some."""
    shares = _shares(table.answers[one.key], one.counted)
    kept = np.ones(len(table.items), bool) if among is None else among
    return shares[kept & (table.arms == a)], shares[kept & (table.arms == b)]


def _adjusted(found: Mapping[_Name, Effect]) -> dict[_Name, Effect]:
    """The same with Holm's p-values over all that are tested."""
    tested = [name for name, effect in found.items() if effect.p is not None]
    adjusted = dict(zip(tested, holm([found[name].p or 0.0 for name in tested]), strict=True))
    return {
        name: effect.model_copy(update={"adjusted_p": float(adjusted[name])})
        if name in adjusted
        else effect
        for name, effect in found.items()
    }


def _groups(
    table: Table,
    key: Mapping[str, KeyEntry],
    pairs: Sequence[tuple[StudyQuestion, str, str]],
    plan: StudyPlan,
) -> dict[tuple[str, str], tuple[GroupEffect, ...]]:
    """Differences within groups and how they differ between groups, where the plan has groups."""
    of = np.array([key[item].group for item in table.items])
    names = sorted(set(of)) if plan.group else []
    apart = names[:1] if len(names) == 2 else names  # of two, one interaction says all
    within, between = {}, {}
    for one, a, b in pairs:
        for name in names:
            at = (one.key, f"{a}-{b}", name)
            own, rest = (
                _shares_of(table, one, a, b, of == name),
                _shares_of(table, one, a, b, of != name),
            )
            within[at] = difference(*own, level=plan.level)
            if name in apart and len(names) > 1:
                between[at] = interaction(own, rest, level=plan.level)
    within, between = _adjusted(within), _adjusted(between)
    found: dict[tuple[str, str], tuple[GroupEffect, ...]] = {}
    for (question, contrast, name), effect in within.items():
        row = GroupEffect(
            group=name, effect=effect, interaction=between.get((question, contrast, name))
        )
        found[question, contrast] = (*found.get((question, contrast), ()), row)
    return found


def _sensitivity(
    table: Table,
    one: StudyQuestion,
    a: str,
    b: str,
    plan: StudyPlan,
    screened: Sequence[int],
    primary: Effect,
) -> list[Sensitivity]:
    values = table.answers[one.key]
    of_no = 1.0 if one.counted == "no" else 0.0
    cases = [
        ("can't tell counted as no", of_no, of_no, values),
        ("can't tell counted for a larger difference", 1.0, 0.0, values),
        ("can't tell counted for a smaller difference", 0.0, 1.0, values),
    ]
    if screened:
        kept = np.isin(table.people, screened, invert=True)
        cases.append(("without screened annotators", np.nan, np.nan, values[:, kept]))
    rows = []
    for treatment, in_a, in_b, taken in cases:
        first = _shares(taken, one.counted, in_a)[table.arms == a]
        second = _shares(taken, one.counted, in_b)[table.arms == b]
        found = difference(first, second, level=plan.level)
        rows.append(
            Sensitivity(treatment=treatment, value=found.value, low=found.low, high=found.high)
        )
    if primary.low is not None:
        shares = _shares(values, one.counted)
        low, high = bootstrap_interval(
            shares[table.arms == a], shares[table.arms == b], seed=plan.seed, level=plan.level
        )
        rows.append(
            Sensitivity(
                treatment="interval by bootstrap of items and annotators",
                value=primary.value,
                low=low,
                high=high,
            )
        )
    return rows


def _arm(
    table: Table, key: Mapping[str, KeyEntry], one: StudyQuestion, arm: str, plan: StudyPlan
) -> ArmAnswers:
    own = table.arms == arm
    values = table.answers[one.key][own]
    counts = counts_of(values, len(ANSWERS))
    found = annotator_agreement(counts, seed=plan.seed, level=plan.level)
    totals = counts.sum(axis=0)
    share = None
    if arm != "C":
        given = _shares(values, one.counted)
        weights = np.array(
            [key[item].weight for item, mine in zip(table.items, own, strict=True) if mine]
        )[:, None] * ~np.isnan(given)
        if weights.sum() > 0:
            share = float(np.nansum(weights * np.nan_to_num(given)) / weights.sum())
    return ArmAnswers(
        arm=arm,
        yes=int(totals[YES]),
        no=int(totals[NO]),
        cant_tell=int(totals[CANT_TELL]),
        population_share=share,
        alpha=found.alpha,
        alpha_low=found.low,
        alpha_high=found.high,
        ac1=found.ac1,
        raw=found.raw,
        pairable=found.items,
        reason=found.reason,
    )


def _remark(one: StudyQuestion, plan: StudyPlan) -> str:
    if one.key != "q3":
        return ""
    if plan.labels == "paper":
        return "Labels 2 and 3 differ exactly in arm A, so this says nothing about the images."
    return "This depends on the labels shown (rule: pooled votes), not on the image alone."


def _consistency(table: Table) -> dict[int, float | None]:
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


def _screened(
    plan: StudyPlan, table: Table, consistency: Mapping[int, float | None]
) -> tuple[int, ...]:
    return tuple(
        person
        for person, seconds in zip(table.people, table.seconds, strict=True)
        if ((own := consistency[person]) is not None and own < plan.consistency_screen)
        or seconds < plan.time_screen_s
    )


def _blinding(plan: StudyPlan, table: Table) -> Blinding:
    counts = {
        arm: [int((table.guesses[table.arms == arm] == place).sum()) for place in range(3)]
        for arm in ("A", "B", "C")
    }
    indices = {}
    flagged = []
    for arm, (yes, no, cant_tell) in counts.items():
        right, wrong = (YES, NO) if arm == "A" else (NO, YES)
        guesses = table.guesses[table.arms == arm]
        scores = np.select(
            [guesses == right, guesses == wrong, guesses == CANT_TELL], [1.0, -1.0, 0.0], np.nan
        )
        found = bang(
            (yes, no)[right], (yes, no)[wrong], cant_tell,
            level=plan.level, effective=effective_guesses(scores),
        )  # fmt: skip
        indices[arm] = (
            None
            if found.value is None or found.low is None or found.high is None
            else (found.value, found.low, found.high, found.guesses)
        )
        if found.value is not None and abs(found.value) > FLAGGED:
            flagged.append(
                f"Guesses about arm {arm} were {'right' if found.value > 0 else 'wrong'} more "
                f"often than chance (Bang's index {found.value:+.2f})."
            )
    if plan.labels == "paper":
        flagged.append("Not blind: labels 2 and 3 differ exactly in arm A.")
    flagged += [
        f"A machine tells arms {name} apart without pixels (AUC {leak.value:.2f})."
        for name, leak in plan.leak.items()
        if leak.low > 0.5
    ]
    a, b, c = (counts[arm] for arm in ("A", "B", "C"))
    others = (b[0] + c[0], b[1] + c[1], b[2] + c[2])
    return Blinding(
        machine={name: (one.value, one.low, one.high) for name, one in plan.leak.items()},
        bang=indices,
        james=james((a[0], a[1], a[2]), others),
        flagged=tuple(flagged),
    )


def _balance(plan: StudyPlan, key: Mapping[str, KeyEntry]) -> Balance:
    arms = {arm: [one for one in key.values() if one.arm == arm] for arm in ("A", "B", "C")}
    names = sorted({one.class_name for one in key.values()})
    agreement = {arm: np.array([one.agreement for one in own]) for arm, own in arms.items()}
    return Balance(
        classes={
            name: {arm: sum(one.class_name == name for one in own) for arm, own in arms.items()}
            for name in names
        },
        agreement={arm: float(values.mean()) for arm, values in agreement.items()},
        imbalance=mean_difference(agreement["A"], agreement["C"]),
        rules={
            arm: dict(sorted(Counter(one.label_rule for one in own).items()))
            for arm, own in arms.items()
        },
    )


def _flow(
    table: Table,
    erased: int,
    consistency: Mapping[int, float | None],
    screened: Sequence[int],
) -> StudyFlow:
    stacked = np.stack(list(table.answers.values()))
    seen = (stacked >= 0).any(axis=0) | table.skipped
    return StudyFlow(
        sampled=len(table.items),
        annotators=len(table.people),
        erased=erased,
        shown=int(seen.sum()),
        answered=int((stacked >= 0).sum()),
        cant_tell=int((stacked == CANT_TELL).sum()),
        skipped=int(table.skipped.sum()),
        fast=table.fast,
        consistency={str(person): share for person, share in consistency.items()},
        median_s={
            str(person): None if np.isnan(seconds) else float(seconds)
            for person, seconds in zip(table.people, table.seconds, strict=True)
        },
        screened=tuple(map(str, screened)),
    )


def _deviations(plan: StudyPlan, table: Table) -> list[str]:
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


def _scope(annotators: int) -> str:
    if annotators < FEWEST_ANNOTATORS:
        return (
            f"{annotators} of {FEWEST_ANNOTATORS} annotators: descriptive only, nothing is claimed "
            "about others."
        )
    if annotators < FEW:
        return f"{annotators} annotators: the claim is about these annotators."
    return f"{annotators} annotators, taken as drawn from people like them."


def _conclusion(plan: StudyPlan, found: Effect, asked: Sequence[StudyQuestion]) -> str:
    key, contrast = plan.primary
    question = next(one for one in asked if one.key == key)
    against = {"A-B": "unchanged images", "A-C": "equally contested unchanged images"}[contrast]
    if found.value is None:
        return f"Nothing can be said yet about \u201c{question.title}\u201d: {found.reason}."
    size = f"{100 * found.value:+.0f} points"
    what = f"\u201c{question.title}\u201d among changed images than among {against}"
    if found.low is None or found.high is None or found.adjusted_p is None:
        return f"{size} more answers {what}, without an interval: {found.reason}."
    ends = f"[{100 * found.low:+.0f}, {100 * found.high:+.0f}]"
    shown = "shown" if found.adjusted_p < 1 - plan.level else "not shown"
    return f"{size} {ends} more answers {what}: {shown} (Holm p = {found.adjusted_p:.3f})."
