"""What the commands of a study print."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from scipy import optimize

from scotoma.document import Cell, Column, Interval, Table, in_words, show
from scotoma.document.text import text_table
from scotoma.power.forecast import chance_beyond, seen_variances
from scotoma.study.arms import WARNED_IMBALANCE
from scotoma.study.leak import REFUSED
from scotoma.study.plan import KeyEntry, MeasuredNumber, StudyPlan
from scotoma.study.taking_part import arm_a_words


def _leak_lines(leaks: Mapping[str, MeasuredNumber], labels: str) -> list[str]:
    """Say how well a machine tells the arms apart."""
    lines = []
    for contrast, leak in leaks.items():
        shown = in_words(Interval(leak.value, leak.low, leak.high), "ratio")
        said = f"machine leak {contrast}: AUC {shown}"
        if leak.value > REFUSED:
            said += f", not blind (above {REFUSED})"
        elif leak.low > 0.5:
            said += ", warning: above 0.5"
        elif leak.high < 0.5:
            said += ": their labels are more alike than by chance"
        lines.append(said)
    lines.append(f"labels: {labels}" + (", not blind by construction" if labels == "paper" else ""))
    return lines


def balance_lines(key: Mapping[str, KeyEntry]) -> list[str]:
    """Say how many images of each class and group are in an arm, and how far models agree there."""
    found: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for entry in key.values():
        arms = found.setdefault((entry.class_name, entry.group), {})
        arms.setdefault(entry.arm, []).append(entry.agreement)
    grouped = any(group for _, group in found)
    rows: list[dict[str, Cell]] = [
        {"class": name, "group": group, "images": len(arms["A"]),
         **{arm: fmean(arms[arm]) for arm in ("A", "B", "C")}}
        for (name, group), arms in sorted(found.items())
    ]  # fmt: skip
    columns = [
        Column("class", "class"), *([Column("group", "group")] if grouped else []),
        Column("images", "images an arm", "count"), Column("A", "models agree: A", "ratio"),
        Column("B", "B", "ratio"), Column("C", "C", "ratio"),
    ]  # fmt: skip
    return [*text_table(Table("balance", "", columns, rows, stub=1 + grouped)), ""]


def plan_lines(plan: StudyPlan, asked: int, folder: str) -> list[str]:
    """Say what a study will be able to show, and what to do next."""
    lines = [
        f"{3 * plan.per_arm:,} images in 3 arms of {plan.per_arm:,}, "
        f"{len(plan.questions)} questions, {plan.annotators} annotators planned",
        arm_a_words(plan),
        f"{plan.kept} of {plan.draws} plans drawn were blind and balanced; this is the first",
        *_leak_lines(plan.leak, plan.labels),
        f"agreement of models, A minus C: {show(plan.imbalance, 'effect')} standard deviations"
        + (
            ", warning: C is less contested than A"
            if abs(plan.imbalance) > WARNED_IMBALANCE
            else ""
        ),
    ]
    if plan.still_cie is not None:
        share = show(plan.still_cie, "rate", brief=True)
        lines.append(f"{share} of arm A are CIEs of the other half of the members, too")
    lines += _detectable(plan, exhausted=plan.per_arm < asked)
    lines += [
        f"plan {plan.sha256[:16]}",
        f"next: send the files in {folder}/send, then: scotoma study result {folder} FILES",
    ]
    return lines


def _detectable(plan: StudyPlan, *, exhausted: bool) -> list[str]:
    """The smallest difference that the study would show, and what would make it smaller."""
    if plan.annotators < 3:
        return [
            f"{plan.annotators} of 3 annotators needed for intervals: results will be descriptive"
        ]
    now = smallest_difference(plan.per_arm, plan.annotators)
    if now is None:
        return ["too small to show any difference with 80% power; ask more people"]
    ways = {"2 more annotators": smallest_difference(plan.per_arm, plan.annotators + 2) or 1.0}
    if not exhausted:
        ways["twice the images"] = smallest_difference(2 * plan.per_arm, plan.annotators) or 1.0
    better = min(ways, key=lambda name: ways[name])
    return [
        f"smallest difference shown with 80% power: {show(now, 'extent')} over a share of 17%; "
        f"{show(ways[better], 'extent')} with {better}"
    ]


BASE = 0.17  # share of the answer in the second arm, about what PIE's groups had
OF_ITEMS = 0.34  # share of an answer's variance that lies between items
SD_OF_ANNOTATORS = 0.064  # by which annotators differ in the difference itself
WANTED = 0.8


def power(difference: float, per_arm: int, annotators: int) -> float:
    """Probability that a difference of two shares is significant at 5%.

    Variances are those of `scotoma.study.effects.difference`; what annotators and items contribute
    is assumed (the constants of this module), so this plans a study and judges none.

    Args:
        difference: True difference, in (0, 1 - BASE).
        per_arm: Items an arm, each judged by every annotator.
        annotators: At least 2.

    >>> round(power(0.14, 100, 5), 1)
    0.8
    """
    shares = (BASE, BASE + difference)
    of_answers = OF_ITEMS + (1 - OF_ITEMS) / annotators
    items = sum(share * (1 - share) for share in shares) * of_answers / per_arm
    people = SD_OF_ANNOTATORS**2 / annotators
    parts = [(items, 2.0 * per_arm - 2), (people, annotators - 1.0)]
    return float(chance_beyond(difference, items + people, *seen_variances(parts)))


def smallest_difference(per_arm: int, annotators: int) -> float | None:
    """The smallest true difference that is significant with 80% power; None where none is.

    >>> round(smallest_difference(100, 5), 2), smallest_difference(2, 2)
    (0.15, None)
    """
    if annotators < 2 or per_arm < 2:
        return None
    most = 0.999 - BASE
    if power(most, per_arm, annotators) < WANTED:
        return None
    root = optimize.brentq(lambda d: power(d, per_arm, annotators) - WANTED, 1e-6, most, xtol=1e-6)
    return float(root)
