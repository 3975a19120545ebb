"""One question of a gate: did this number of this variant rise beyond its margins?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from scotoma.bias.results import GroupChange
from scotoma.uncertainty import Estimate
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
    def clearing_margins(self) -> list[Margin]:
        """List the margins of which a PASS keeps one; those without an interval are left out."""
        kept = [margin for margin in self.margins if margin[0] == "relative"]
        widest = self.absolute if self.clearing is None else self.clearing
        if self.change is not None and widest is not None:
            kept.append((self.unit, self.change.absolute, widest))
        return [margin for margin in kept if not math.isnan(margin[1].low)]
