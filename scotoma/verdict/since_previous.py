"""What changed since the previous audit, beyond what two noisy audits differ by chance?

Each audit has models and examples of its own, so that both bring their uncertainty: the variances
add. Where both were measured on the same examples the interval is wider than it need be, for what
is difficult in one is difficult in the other; `scotoma diff` pairs these examples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from scotoma.audit import Audit
from scotoma.audit.document import DENSE
from scotoma.audit.groups import RATE_NAMES
from scotoma.audit.previous import Comparable, PreviousAudit
from scotoma.config.gate import GateRules, SincePreviousRule
from scotoma.numbers import Estimate, holm, undefined
from scotoma.verdict.evidence import Rise, read_estimate
from scotoma.verdict.question import Question

__all__ = [
    "Change",
    "changes",
    "compared_with",
    "earlier_look",
    "judged",
    "not_compared",
    "rise_since",
    "since_previous",
]

Word = Literal["better", "worse", "undecided"]
EXCESS = "cie_share_excess"
REPEATED = (
    "the previous audit rests on the same examples and answers; name the audit before it with "
    "--previous"
)


@dataclass(frozen=True)
class Change:
    """One number of one variant in two audits.

    Attributes:
        metric: `error`, `fpr`, `fnr` or `cie_share_excess`.
        group: Key of the group; `all` for all examples.
        before: The number in the earlier audit, a fraction.
        after: The number in the later one.
        change: after - before, with the uncertainty of both.
    """

    metric: str
    group: str
    before: Estimate
    after: Estimate
    change: Estimate


def rise_since(before: Estimate, after: Estimate) -> Estimate:
    """Compute the rise of a number from one audit to another that shares no randomness with it.

    The standard error of a rate, which its audit gives on the logit scale, is carried over to the
    rate itself; of a rate that no example or every one shows it is the whole bound of the rule of
    three, which is more than its spread. Variances add; degrees of freedom are Welch's and
    Satterthwaite's.

    Args:
        before: A rate, or a difference of rates.
        after: The same in the later audit.

    Returns:
        `after` less `before`, a fraction; without interval where one of the two has none.

    References:
        Welch (1947), Biometrika 34:28-35.

    >>> before, after = (
    ...     Estimate.on_scale(rate, 0.01, 9.0, n=900, members=10) for rate in (0.10, 0.13)
    ... )
    >>> rise = rise_since(before, after)
    >>> round(rise.value, 4), round(rise.se, 4), rise.df
    (0.03, 0.0141, 18.0)
    """
    value = after.value - before.value
    rests: dict[str, Any] = {
        "n": min(before.n, after.n),
        "members": min(before.members, after.members),
        "events": after.events,  # what has become worse carries the harm
    }
    variances = [_variance(estimate) for estimate in (before, after)]
    total = sum(variances)
    if math.isnan(value) or math.isnan(total) or not total > 0:
        reason = before.reason and f"previous audit: {before.reason}"
        return undefined(reason or after.reason or "nothing varies", value=value, **rests)
    free = [math.inf if math.isnan(one.df) else one.df for one in (before, after)]
    df_part = sum(own**2 / df for own, df in zip(variances, free, strict=True))
    df = total**2 / df_part if df_part else math.inf
    return Estimate.on_scale(value, math.sqrt(total), df, level=after.level, **rests)


def changes(before: Comparable, after: Comparable, variant: str) -> list[Change]:
    """Compare every group rate, and the CIE excess, that two audits have for one variant.

    Args:
        before: The earlier audit.
        after: The later one.
        variant: Its name, which both have; of `dense` there is no excess.

    Returns:
        Changes in the order of the later audit; one model a variant has no excess, and excesses at
        different votes are not compared.
    """
    earlier, later = _numbers(before, variant), _numbers(after, variant)
    if _other_excess(before, after, variant):
        earlier.pop((EXCESS, "all"), None)
    return [
        Change(*key, earlier[key], number, rise_since(earlier[key], number))
        for key, number in later.items()
        if key in earlier
    ]


def compared_with(
    previous: PreviousAudit | None, after: Comparable, variant: str
) -> Comparable | None:
    """Pick the audit that a variant is compared with: never one of the same inputs.

    Repeating a failed gate must fail again, so that the previous audit's own predecessor takes the
    place of a repetition.

    Args:
        previous: The previous audit.
        after: The later one.
        variant: A compressed variant.

    Returns:
        The audit; None where there is none of other inputs.
    """
    candidates = () if previous is None else (previous.audit, previous.earlier)
    for before in candidates:
        if before is not None and not after.fingerprint.same_inputs(before.fingerprint, variant):
            return before
    return None


def not_compared(before: Comparable, after: Comparable, variant: str) -> list[str]:
    """Say which parts of a variant have no counterpart in the previous audit."""
    if why := _unlike(before, after, variant):
        return [f"{variant} is not compared with the previous audit: {why}"]
    earlier, later = _numbers(before, variant), _numbers(after, variant)
    new = dict.fromkeys(
        group for metric, group in later if metric != EXCESS and (metric, group) not in earlier
    )
    sentences = [f"{variant}: the previous audit had no group {group}" for group in new]
    if why := _other_excess(before, after, variant):
        sentences.append(f"{variant}: CIE excess is not compared with the previous audit, {why}")
    return sentences


def earlier_look(before: Comparable, after: Comparable, alpha: float) -> str:
    """Say that a verdict looks again at the same examples with more models; empty if not.

    A run keeps its number of models, so that no run knows of earlier looks: only the previous audit
    tells of one, and each look is judged at the whole of alpha.

    Args:
        before: The earlier audit.
        after: The later one.
        alpha: Of the gate.
    """
    if not before.dataset_sha256 or before.dataset_sha256 != after.dataset_sha256:
        return ""
    for variant in [name for name in after.subgroups if name in before.subgroups]:
        was, now = (_fewest_models(audit, variant) for audit in (before, after))
        if 0 < was < now:
            noun = "model" if was == 1 else "models"
            return (
                f"the previous audit has the same test examples and {was} {noun}, this one {now}: "
                f"each such look adds up to {100 * alpha / 2:g}% to the chance of a false FAIL or "
                "PASS"
            )
    return ""


def since_previous(
    audit: Audit, variant: str, rules: GateRules, previous: PreviousAudit | None
) -> Iterator[Question]:
    """Ask what a gate asks of a variant beside the previous audit.

    FPR and FNR of every group where there is a positive class, else its error; and the CIE excess.

    Args:
        audit: The audit.
        variant: A compressed variant.
        rules: The gate.
        previous: The previous audit; None where nobody named one.

    Yields:
        A question a number that both audits have; one without evidence where the previous audit
        could not be read; none where there is nothing to compare with.
    """
    rates = {"error"} if audit.examples.positive is None else {"fpr", "fnr"}
    names = audit.group_names
    for rule in rules.rules:
        if not isinstance(rule, SincePreviousRule) or previous is None:
            continue
        if previous.missing:
            where = "change since the previous audit"
            yield Question(
                rule.id, rule.metric, "all", None, where, None, None, None, previous.reason
            )
        after = Comparable.of(audit)
        before = compared_with(previous, after, variant)
        if previous.audit is not None and before is None:
            where = f"change of {variant} since the previous audit"
            yield Question(rule.id, rule.metric, "all", None, where, None, None, None, REPEATED)
        if before is None or _unlike(before, after, variant):
            continue
        for change in changes(before, after, variant):
            if change.metric in rates | {EXCESS}:
                what = (
                    "CIE excess"
                    if change.metric == EXCESS
                    else f"{RATE_NAMES[change.metric]} {names[change.group]}"
                )
                yield Question(
                    rule.id, rule.metric, change.group, None, f"{what} since the previous audit",
                    None, rule.margin, Rise(change.change),
                )  # fmt: skip


def judged(estimates: Sequence[Estimate], alpha: float) -> list[tuple[float, float, Word]]:
    """Judge changes as better, worse or undecided: two-sided tests of no change, one family.

    Args:
        estimates: Changes of what should be small.
        alpha: Chance of any false word.

    Returns:
        P-value, the same adjusted by Holm, and the word, of each; nan where there is no interval.

    >>> rises = [Estimate.on_scale(v, 0.005, 9.0, n=500, members=10) for v in (-0.02, 0.001)]
    >>> [word for _, _, word in judged(rises, 0.05)]
    ['better', 'undecided']
    """
    p = np.array(
        [
            math.nan if math.isnan(estimate.low) else
            min(1.0, 2 * min(estimate.p_above(0.0), estimate.p_below(0.0)))
            for estimate in estimates
        ],
        dtype=float,
    )  # fmt: skip
    words: list[tuple[float, float, Word]] = []
    for estimate, own, adjusted in zip(estimates, p, holm(p), strict=True):
        decided = adjusted <= alpha  # nan compares false
        word: Word = ("worse" if estimate.value > 0 else "better") if decided else "undecided"
        words.append((float(own), float(adjusted), word))
    return words


def _unlike(before: Comparable, after: Comparable, variant: str) -> str:
    """Say why the previous audit tells nothing about a variant; empty where it does."""
    if variant not in [one.name for one in before.variants]:
        return "it was not among its variants"
    if before.examples != after.examples:
        return "its classes or its positive class differ"
    return ""


def _other_excess(before: Comparable, after: Comparable, variant: str) -> str:
    """Say why the excesses of two audits are not the same number; empty where they are."""
    if variant == DENSE or after.scope == "shipped":
        return ""
    if before.scope == "shipped":
        return "which has one model a variant"
    earlier, later = (audit.divergence[variant].cie.votes for audit in (before, after))
    if earlier == later:
        return ""
    noun = "vote" if earlier == 1 else "votes"
    return f"which measured it at {earlier} {noun} a side, not {later}"


def _fewest_models(audit: Comparable, variant: str) -> int:
    """Models of the smaller population that a variant's rates rest on; 0 where it has no rates."""
    rates = [rate for row in audit.subgroups[variant] for rate in (row.dense, row.compressed)]
    return min((rate.members for rate in rates), default=0)


def _numbers(audit: Comparable, variant: str) -> dict[tuple[str, str], Estimate]:
    """Collect numbers by metric and group: the rates of a population, and its CIE excess."""
    dense = variant == DENSE
    # Without labels there are no rates.
    rows = next(iter(audit.subgroups.values()), ()) if dense else audit.subgroups.get(variant, ())
    numbers: dict[tuple[str, str], Estimate] = {
        (row.metric, row.group): read_estimate(row.dense if dense else row.compressed)
        for row in rows
        if row.class_name is None
    }
    if not dense and audit.scope != "shipped":  # whose flips have no floor
        numbers[EXCESS, "all"] = read_estimate(audit.divergence[variant].cie.excess)
    return numbers


def _variance(estimate: Estimate) -> float:
    """Compute the variance of the number itself; nan where its audit gives none."""
    if estimate.scale == "rule of three":  # 3/n and more of a tail than any test needs
        bounds = estimate.at(0.95)
        return max(bounds.value - bounds.low, bounds.high - bounds.value) ** 2
    if estimate.scale == "logit":
        return (estimate.se * estimate.value * (1 - estimate.value)) ** 2
    return estimate.se**2 if estimate.scale == "identity" else math.nan
