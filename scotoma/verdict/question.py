"""One question of a gate: did this number of this variant rise beyond its margins?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from scotoma.audit.groups import RATE_NAMES
from scotoma.bias.results import GroupChange
from scotoma.numbers import Estimate
from scotoma.verdict.level import Level

__all__ = ["Margin", "Question"]

Kind = Literal["relative", "absolute", "score"]
Margin = tuple[Kind, Estimate, float]


@dataclass(frozen=True)
class Question:
    """Did this number of this variant rise beyond its margins?

    Attributes:
        rule: Id of the rule that asks.
        metric: Its metric.
        group: Key of the group; `all` for all examples.
        class_name: The class, where the number is one class's; else None.
        where: Which number, in words: "FPR male & old".
        relative: Margin on compressed / dense - 1, a fraction; None for no such margin.
        absolute: Margin on the difference, a fraction, of scores in their unit; None for no such
            margin.
        change: The evidence; None where the audit holds none.
        reason: Why it holds none, as a sentence to print; else empty.
        clearing: Largest difference, a fraction, that a PASS has to rule out: the absolute margin,
            or the sampling margin where that is wider. Known before compression.
        not_judged: Why a PASS does not need it, as a sentence to print; else empty. Harm is looked
            for all the same.
        too_small: Whether it is the size of the test set that keeps it from being judged.
        level: The limit and the evidence, where a level is asked for instead of a rise.
    """

    rule: str
    metric: str
    group: str
    class_name: str | None
    where: str
    relative: float | None
    absolute: float | None
    change: GroupChange | None
    reason: str = ""
    clearing: float | None = None
    not_judged: str = ""
    too_small: bool = False
    level: Level | None = None

    @property
    def unit(self) -> Literal["absolute", "score"]:
        """Which kind a difference is: of fractions, or in the unit of a score."""
        return "score" if self.metric == "mean_score" else "absolute"

    @property
    def margins(self) -> list[Margin]:
        """List each margin of the rule: its name, the estimate, the margin in the estimate's unit.

        Harm exceeds them all.

        >>> from scotoma.verdict.evidence import difference_alone
        >>> change = Estimate.on_scale(0.02, 0.005, 9.0, n=500, members=10)
        >>> question = Question("cie", "cie_share_excess", "all", None, "CIE excess", None, 0.01,
        ...                     difference_alone("cie_share_excess", "all", change))
        >>> [(name, margin) for name, _, margin in question.margins]
        [('absolute', 0.01)]
        """
        if self.change is None:
            return []
        margins: list[tuple[Kind, Estimate, float]] = []
        if self.relative is not None:
            margins.append(("relative", self.change.relative, 100 * self.relative))
        if self.absolute is not None:
            margins.append((self.unit, self.change.absolute, self.absolute))
        return margins

    @property
    def events(self) -> float:
        """Effective events that harm rests on: those of the compressed population."""
        return math.nan if self.change is None else self.change.compressed.events

    def harm_margins(self, min_events: float) -> list[Margin]:
        """List the margins that harm exceeds, all of them.

        A rate that hardly occurs in the dense models has no ratio to judge. The rise in points
        then has to exceed the absolute margin, and the relative one of the highest rate that the
        dense models may have on another test set.

        Args:
            min_events: Effective events that a rate must have to be divided by.

        >>> rate = Estimate.on_scale(0.01, 0.005, 9.0, n=400, members=1, events=4.0, scale="logit")
        >>> from scotoma.numbers import Variance
        >>> rise = Estimate.on_scale(0.08, 0.015, 9.0, n=400, members=1, events=4.0)
        >>> none = Variance(0.0, 0.0, 0.0, 0.0, 9.0)
        >>> change = GroupChange("all", "error", None, rate, rate, rise, rise, none, none)
        >>> question = Question("e", "error", "all", None, "error", 0.2, 0.005, change)
        >>> [(name, margin) for name, _, margin in question.harm_margins(10)]
        [('absolute', 0.005)]
        """
        if self.change is None or self.relative is None:
            return self.margins
        dense, relative = self.change.dense, self.change.relative
        if dense.events >= min_events and not math.isnan(relative.low):
            return self.margins
        if self.metric not in RATE_NAMES or math.isnan(dense.high):
            return self.margins
        widest = max(self.relative * _highest(dense), self.absolute or 0.0)
        return [(self.unit, self.change.absolute, widest)]

    @property
    def beyond(self) -> bool:
        """Whether the estimate lies beyond every margin that would clear it."""
        margins = self.clearing_margins
        return bool(margins) and all(estimate.value > margin for _, estimate, margin in margins)

    @property
    def clearing_margins(self) -> list[Margin]:
        """List the margins of which a PASS keeps one; those without an interval are left out."""
        kept = [margin for margin in self.margins if margin[0] == "relative"]
        widest = self.absolute if self.clearing is None else self.clearing
        if self.change is not None and widest is not None:
            kept.append((self.unit, self.change.absolute, widest))
        return [margin for margin in kept if not math.isnan(margin[1].low)]


def _highest(rate: Estimate) -> float:
    """Upper end of a rate that few examples carry: the lower of its interval's and of Poisson's.

    The t interval of a few events on the logit scale reaches too far up.
    """
    from scipy.special import gammaincinv

    if not rate.events > 0:
        return rate.high
    most = float(gammaincinv(rate.events + 1, (1 + rate.level) / 2))
    return min(rate.high, rate.value * most / rate.events)
