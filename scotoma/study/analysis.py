"""What do the answers say? From events and the key to the result of a study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from scotoma.audit.study import (
    ArmAnswers,
    Balance,
    Effect,
    GroupEffect,
    QuestionResult,
    StudyResult,
    Told,
)
from scotoma.document import Interval, in_words, show
from scotoma.numbers import holm
from scotoma.study.answer_table import (
    CANT_TELL,
    NO,
    YES,
    AnswerTable,
    answer_table,
    counted_shares,
    shares_between,
)
from scotoma.study.answers import Event
from scotoma.study.arms import mean_difference
from scotoma.study.blinding import blinding_of
from scotoma.study.effects import (
    bootstrap_interval,
    difference,
    drawn_times,
    interaction,
    middle,
    weighted_share,
)
from scotoma.study.mixed_model import odds_ratio
from scotoma.study.plan import KeyEntry, Orders, StudyPlan
from scotoma.study.questions import ANSWERS, CONTRASTS, QUESTIONS, StudyQuestion
from scotoma.study.taking_part import (
    consistency_of,
    plan_deviations,
    scope_of,
    screened_people,
    study_flow,
)

_Name = TypeVar("_Name", bound=tuple[str, ...])


def study_result(
    plan: StudyPlan,
    key: Mapping[str, KeyEntry],
    orders: Mapping[int, Orders],
    events: Sequence[Event],
    *,
    deviations: Sequence[str] = (),
) -> StudyResult:
    """Analyse a study as its plan says.

    Args:
        plan: The plan.
        key: What each item is.
        orders: Of the annotators with events.
        events: All of them; of one annotator, place and question the last counts.
        deviations: What was not done as planned, beyond what the events show.

    Returns:
        The result: equal answers give equal results, whenever and wherever they were given.
    """
    table = answer_table(plan, key, orders, events)
    asked = [one for one in QUESTIONS if one.key in plan.questions]
    pairs = [(one, a, b) for one in asked for a, b in CONTRASTS]
    found = _adjusted(
        {
            (one.key, f"{a}-{b}"): difference(*shares_between(table, one, a, b), level=plan.level)
            for one, a, b in pairs
        }
    )
    groups = _groups(table, key, pairs, plan)
    consistency = consistency_of(table)
    screened = screened_people(plan, table, consistency)
    results = []
    for one in asked:
        effects, sensitivity, odds = {}, {}, {}
        for a, b in CONTRASTS:
            name = f"{a}-{b}"
            effects[name] = found[one.key, name]
            sensitivity[name] = _sensitivity(table, one, a, b, plan, screened, effects[name])
            odds[name] = odds_ratio(*shares_between(table, one, a, b), level=plan.level)
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
    blinding = blinding_of(plan, table)
    return StudyResult(
        variant=plan.variant,
        group=plan.group,
        plan_sha256=plan.sha256,
        labels=plan.labels,
        primary=plan.primary,
        level=plan.level,
        conclusion=_conclusion(plan, found[plan.primary], asked),
        scope=scope_of(plan, len(table.people)),
        still_cie=plan.still_cie,
        questions=tuple(results),
        blinding=blinding,
        balance=_balance(plan, key),
        flow=study_flow(plan, table, consistency, screened),
        deviations=(*plan_deviations(plan, table), *deviations),
    )


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
    table: AnswerTable,
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
                shares_between(table, one, a, b, of == name),
                shares_between(table, one, a, b, of != name),
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
    table: AnswerTable,
    one: StudyQuestion,
    a: str,
    b: str,
    plan: StudyPlan,
    screened: Sequence[int],
    primary: Effect,
) -> dict[str, Told]:
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
    told = {}
    for treatment, in_a, in_b, taken in cases:
        first = counted_shares(taken, one.counted, in_a)[table.arms == a]
        second = counted_shares(taken, one.counted, in_b)[table.arms == b]
        found = difference(first, second, level=plan.level)
        told[treatment] = _plain(found)
    if primary.low is not None:
        shares = counted_shares(values, one.counted)
        low, high = bootstrap_interval(
            shares[table.arms == a], shares[table.arms == b], seed=plan.seed, level=plan.level
        )
        told["interval by bootstrap of items and annotators"] = Told(
            value=primary.value, low=low, high=high, n=primary.n
        )
    return told


def _arm(
    table: AnswerTable, key: Mapping[str, KeyEntry], one: StudyQuestion, arm: str, plan: StudyPlan
) -> ArmAnswers:
    own = table.arms == arm
    values = table.answers[one.key][own]
    counts = counts_of(values, len(ANSWERS))
    totals = counts.sum(axis=0)
    weights = [key[item].weight for item, mine in zip(table.items, own, strict=True) if mine]
    answered = int((values >= 0).any(axis=1).sum())
    population = Told(n=answered, reason=f"arm {arm} is matched, not drawn at random")
    if None not in weights:
        share = weighted_share(
            counted_shares(values, one.counted), np.array(weights, float), level=plan.level
        )
        population = _plain(share)
    return ArmAnswers(
        arm=arm,
        yes=int(totals[YES]),
        no=int(totals[NO]),
        cant_tell=int(totals[CANT_TELL]),
        population=population,
        items=answered,
        **annotator_agreement(counts, seed=plan.seed, level=plan.level),
    )


def _plain(effect: Effect) -> Told:
    return Told(**{name: getattr(effect, name) for name in Told.model_fields})


def _remark(one: StudyQuestion, plan: StudyPlan) -> str:
    if one.key != "q3":
        return ""
    if plan.labels == "paper":
        return "Labels 2 and 3 differ exactly in arm A, so this says nothing about the images."
    return "This depends on the labels shown (rule: pooled votes), not on the image alone."


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


def _conclusion(plan: StudyPlan, found: Effect, asked: Sequence[StudyQuestion]) -> str:
    key, contrast = plan.primary
    question = next(one for one in asked if one.key == key)
    against = {"A-B": "unchanged images", "A-C": "equally contested unchanged images"}[contrast]
    if found.value is None:
        return f"Nothing can be said yet about \u201c{question.title}\u201d: {found.reason}."
    size = in_words(Interval(found.value, found.low, found.high), "points")
    what = f"\u201c{question.title}\u201d among changed images than among {against}"
    if found.low is None or found.high is None or found.adjusted_p is None:
        return f"{size} more answers {what}, without an interval: {found.reason}."
    shown = "shown" if found.adjusted_p < 1 - plan.level else "not shown"
    p = show(found.adjusted_p, "p")
    return f"{size} more answers {what}: {shown} (Holm p {p})."


Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
DRAWS = 2000


def counts_of(answers: npt.NDArray[np.int64], categories: int) -> Counts:
    """Count the answers of every item.

    Args:
        answers: Category of each item and annotator, -1 where there is none, shape (items, J).
        categories: Number of categories.

    Returns:
        Counts, shape (items, categories).

    >>> counts_of(np.array([[0, 0, 1], [1, -1, -1]]), 2).tolist()
    [[2, 1], [0, 1]]
    """
    return np.stack([(answers == category).sum(axis=1) for category in range(categories)], axis=1)


def alpha(counts: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Floats:
    """Krippendorff's alpha for nominal categories, missing answers allowed.

    Args:
        counts: How many annotators gave each category, shape (items, categories).
        weights: How often each item counts, shape (..., items); once where left out.

    Returns:
        Alpha, shape (...,); nan where fewer than two categories occur.

    References:
        Krippendorff (2011), Computing Krippendorff's alpha-reliability; with n pairable answers,
        n_c of them c, alpha = 1 - (n - 1) S / (n^2 - sum n_c^2),
        S = sum_u (n_u^2 - sum_c n_uc^2) / (n_u - 1).

    >>> float(alpha([[2, 0], [1, 1], [0, 2], [0, 1]]).round(4))
    0.4444
    """
    table = np.asarray(counts, float)
    table = table * (table.sum(axis=1) > 1)[:, None]  # a single answer agrees with nobody
    times = np.ones(len(table)) if weights is None else np.asarray(weights, float)
    size = table.sum(axis=1)
    apart = (size**2 - (table**2).sum(axis=1)) / np.maximum(size - 1, 1)
    of_category = times @ table
    n = of_category.sum(axis=-1)
    expected = n**2 - (of_category**2).sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(expected > 0, 1 - (n - 1) * (times @ apart) / expected, np.nan))


def annotator_agreement(counts: npt.ArrayLike, *, seed: int, level: float = 0.95) -> dict[str, Any]:
    """Measure agreement three ways: a low alpha on a rare answer needs the other two beside it.

    Args:
        counts: How many annotators gave each category, shape (items, categories).
        seed: Of the bootstrap.
        level: Of the intervals, from bootstraps of items.

    Returns:
        The fields of `scotoma.audit.study.ArmAnswers` that are about agreement: `alpha`, `ac1` and
        `raw`.

    References:
        Gwet (2008), British Journal of Mathematical and Statistical Psychology 61:29-48: AC1 and
        why alpha falls where one answer is rare.

    >>> annotator_agreement([[3, 0], [3, 0]], seed=0)["alpha"].reason
    'all answers are equal, so there is no agreement by chance to compare with'
    """
    table = np.asarray(counts, float)
    size = table.sum(axis=1)
    pairs = table[size > 1]
    if not len(pairs):
        nothing = Told(reason="no item has answers of two annotators")
        return {"alpha": nothing, "ac1": nothing, "raw": None}
    sizes, rng = pairs.sum(axis=1), np.random.default_rng(seed)
    found: dict[str, Any] = {
        "raw": float(np.mean((pairs * (pairs - 1)).sum(axis=1) / (sizes * (sizes - 1))))
    }
    equal = bool(np.isnan(alpha(pairs)))
    reason = "all answers are equal, so there is no agreement by chance to compare with" * equal
    for name, of, rows in (("alpha", alpha, pairs), ("ac1", _ac1, table)):
        value = float(of(rows, np.ones(len(rows))))
        low, high = (
            (None, None) if equal else middle(of(rows, drawn_times(rng, len(rows), DRAWS)), level)
        )
        known = None if np.isnan(value) else value
        found[name] = Told(value=known, low=low, high=high, n=len(pairs), reason=reason)
    return found


def _ac1(table: Floats, weights: npt.ArrayLike) -> Floats:
    """Gwet's AC1, each item as often as its weight says, shape (..., items)."""
    times = np.asarray(weights, float)
    size = table.sum(axis=1)
    rated, paired = size > 0, size > 1
    agreeing = (table * (table - 1)).sum(axis=1) / np.maximum(size * (size - 1), 1)
    shares = table / np.maximum(size, 1)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        raw = times @ (agreeing * paired) / (times @ paired)
        share = times @ shares / (times @ rated)[..., None]
        chance = (share * (1 - share)).sum(axis=-1) / (table.shape[1] - 1)
        return np.asarray((raw - chance) / (1 - chance))
