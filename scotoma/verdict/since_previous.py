"""What changed since the previous audit, beyond what two noisy audits differ by chance?

Each audit has models and examples of its own, so that both bring their uncertainty: the variances
add. Where both were measured on the same examples the interval is wider than it need be, for what
is difficult in one is difficult in the other; `scotoma compare` pairs these examples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from scotoma.audit import Audit, Quantity
from scotoma.audit.base import At, Row
from scotoma.audit.document import DENSE
from scotoma.audit.previous import EXCESS, Comparable, PreviousAudit
from scotoma.config.gate import GateRules
from scotoma.config.gate_changes import SincePreviousRule
from scotoma.numbers import Estimate, holm, satterthwaite, undefined
from scotoma.verdict.evidence import read_estimate

Word = Literal["better", "worse", "undecided"]
REPEATED = (
    "the previous audit rests on the same examples and answers; name the audit before it with "
    "--previous"
)


@dataclass(frozen=True)
class Change:
    """One number of one variant in two audits.

    Attributes:
        variant: The variant.
        metric: `error`, `fpr`, `fnr` or `cie_share_excess`.
        group: Key of the group; `all` for all examples.
        before: The number in the earlier audit, a fraction.
        after: The number in the later one.
        change: after - before, with the uncertainty of both.
        p: Two-sided p-value of no change; nan where there is none.
        p_adjusted: The same, adjusted by Holm over all changes.
        verdict: `better`, `worse` or `undecided`.
    """

    variant: str
    metric: str
    group: str
    before: Estimate
    after: Estimate
    change: Estimate
    p: float = math.nan
    p_adjusted: float = math.nan
    verdict: Word = "undecided"


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
    total, df = satterthwaite(
        (_variance(one), math.inf if math.isnan(one.df) else one.df) for one in (before, after)
    )
    if math.isnan(value) or math.isnan(total) or not total > 0:
        reason = before.reason and f"previous audit: {before.reason}"
        return undefined(reason or after.reason or "nothing varies", value=value, **rests)
    return Estimate.on_scale(value, math.sqrt(total), df, level=after.level, **rests)


@dataclass(frozen=True)
class Before:
    """An audit, and the one before it.

    Attributes:
        audit: The later audit, as far as it is compared.
        previous: The audit before it; None where nobody named one.
    """

    audit: Comparable
    previous: PreviousAudit | None

    @classmethod
    def of(cls, audit: Audit, previous: PreviousAudit | None) -> Before:
        """Pick what is compared."""
        return cls(Comparable.of(audit), previous)

    def compared_with(self, variant: str) -> Comparable | None:
        """Pick the audit that a variant is compared with: never one of the same inputs.

        Repeating a failed gate must fail again, so that the previous audit's own predecessor takes
        the place of a repetition. None where there is none of other inputs.
        """
        known = () if self.previous is None else (self.previous.audit, self.previous.earlier)
        own = self.audit.fingerprint
        others = (one for one in known if one and not own.same_inputs(one.fingerprint, variant))
        return next(others, None)

    def rows(self, variant: str) -> list[At]:
        """List the `absolute` change of every number of a variant that both audits have."""
        before = self.compared_with(variant)
        if before is None or _unlike(before, self.audit, variant):
            return []
        place = partial(Row, variant=variant, what="change")
        return [
            {"absolute": place(metric=c.metric, group=c.group, number=Quantity.of(c.change))}
            for c in changes(before, self.audit, variant)
        ]

    def nothing(self, variant: str) -> str | None:
        """Say why an audit that was named cannot be compared with; None where none can be had."""
        if self.previous is None:
            return None
        if self.previous.missing:
            return self.previous.reason
        named = self.previous.audit is not None
        return REPEATED if named and self.compared_with(variant) is None else None

    def label(self, variant: str) -> str:
        """What a rule asks about that has no numbers."""
        missing = self.previous is not None and self.previous.missing
        return f"change {'' if missing else f'of {variant} '}since the previous audit"

    def warnings(self, rules: GateRules, variants: Sequence[str]) -> Iterator[str]:
        """Say what was not compared and why, and whether a verdict looks again at one test set.

        A run keeps its number of models, so that no run knows of earlier looks: only the previous
        audit tells of one, and each look is judged at the whole of alpha.
        """
        previous, after = self.previous, self.audit
        before = None if previous is None else previous.audit
        asked = [rule.id for rule in rules.rules if isinstance(rule, SincePreviousRule)]
        if asked and before is None and not (previous and previous.missing):
            why = "no previous audit was named" if previous is None else previous.reason
            yield f"{', '.join(asked)} is not judged: {why}"
        if before is None:
            return
        for variant in variants if asked else ():
            yield from self._not_compared(variant)
        if not before.dataset_sha256 or before.dataset_sha256 != after.dataset_sha256:
            return
        for variant in [name for name in after.variants[1:] if name in before.variants]:
            was, now = (_fewest_models(audit, variant) for audit in (before, after))
            if 0 < was < now:
                noun = "model" if was == 1 else "models"
                yield (
                    f"the previous audit has the same test examples and {was} {noun}, this one "
                    f"{now}: each such look adds up to {100 * rules.alpha / 2:g}% to the "
                    "chance of a false FAIL or PASS"
                )
                return

    def _not_compared(self, variant: str) -> Iterator[str]:
        """Say which parts of a variant have no counterpart in the previous audit."""
        before, after = self.compared_with(variant), self.audit
        if before is None:
            return
        if why := _unlike(before, after, variant):
            yield f"{variant} is not compared with the previous audit: {why}"
            return
        earlier, later = _numbers(before, variant), _numbers(after, variant)
        new = [key for key in later if key not in earlier and key[0] != EXCESS]
        for group in dict.fromkeys(group for _, group in new):
            yield f"{variant}: the previous audit had no group {group}"
        if why := _other_excess(before, after, variant):
            yield f"{variant}: CIE excess is not compared with the previous audit, {why}"


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
        Change(variant, *key, earlier[key], number, rise_since(earlier[key], number))
        for key, number in later.items()
        if key in earlier
    ]


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
            math.nan if math.isnan(estimate.low) else estimate.p_differs() for estimate in estimates
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
    if variant not in before.variants:
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
    earlier, later = (audit.votes[variant] for audit in (before, after))
    if earlier == later:
        return ""
    noun = "vote" if earlier == 1 else "votes"
    return f"which measured it at {earlier} {noun} a side, not {later}"


def _fewest_models(audit: Comparable, variant: str) -> int:
    """Models of the smaller population that a variant's rates rest on; 0 where it has no rates."""
    own = variant, DENSE
    rates = [row.number for row in audit.rows if row.variant in own and row.metric != EXCESS]
    return min((rate.members for rate in rates), default=0)


def _numbers(audit: Comparable, variant: str) -> dict[tuple[str, str], Estimate]:
    """Collect numbers by metric and group: the rates of a population, and its CIE excess."""
    return {
        (row.metric or "", row.group or ""): read_estimate(row.number)
        for row in audit.rows
        if row.variant == variant
    }


def _variance(estimate: Estimate) -> float:
    """Compute the variance of the number itself; nan where its audit gives none."""
    if estimate.scale == "rule of three":  # 3/n and more of a tail than any test needs
        bounds = estimate.at(0.95)
        return max(bounds.value - bounds.low, bounds.high - bounds.value) ** 2
    if estimate.scale == "logit":
        return (estimate.se * estimate.value * (1 - estimate.value)) ** 2
    return estimate.se**2 if estimate.scale == "identity" else math.nan
