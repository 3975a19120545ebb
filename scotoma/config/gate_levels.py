"""Which level of fairness may a gate demand, whatever compression changed?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from scotoma.config.gate_changes import GateRule
from scotoma.questions import CLARIFY, QUESTIONS

LEVEL_METRICS = (*QUESTIONS["clarify"].metrics, *QUESTIONS["fairness"].metrics)
if TYPE_CHECKING:
    LevelMetric = str
else:
    LevelMetric = Literal[LEVEL_METRICS]
# Of the training data: no model moves them.
OF_LABELS = [name for name, metric in CLARIFY.items() if metric["stage"] == "pre-training"]
MOST_NEXT = 1_000


def neutral(metric: str) -> float:
    """The value of a metric where both sides are treated alike.

    >>> neutral("clarify.DI"), neutral("fairness.DI")
    (1.0, 0.0)
    """
    return float(CLARIFY[metric]["neutral"]) if metric in CLARIFY else 0.0


def twins(name: str) -> list[str]:
    """List the metrics that a bare name may mean.

    >>> twins("DI"), twins("EOTP"), twins("fpr")
    (['clarify.DI', 'fairness.DI'], ['fairness.EOTP'], [])
    """
    return [metric for metric in LEVEL_METRICS if metric.partition(".")[2] == name]


class LevelRule(GateRule):
    """A fairness metric stays within limits: its level, not what compression changes of it."""

    metric: LevelMetric = Field(
        description="One of Clarify's metrics, such as clarify.DI, or of the seven of the "
        "fixed-seed study, such as fairness.DI."
    )
    over: Literal["groups"] = Field(
        "groups",
        description="Each attribute; of Clarify's metrics each pair of facets of an attribute.",
    )
    attributes: list[str] | None = Field(
        None, min_length=1, description="These attributes only; null for all."
    )
    min: float | None = Field(None, description="Smallest level that is acceptable.")
    max: float | None = Field(None, description="Largest level that is acceptable.")
    of: Literal["every_member", "mean"] = Field(
        "every_member",
        description="`every_member`: the worst of the next training runs stays within, and no "
        "model of this audit is shown to lie outside. `mean`: the mean over training runs does.",
    )
    next_runs: int = Field(
        16, ge=1, le=MOST_NEXT, description="How many next training runs must stay within."
    )

    def _misfits(self) -> Iterator[str]:
        if self.min is None and self.max is None:
            yield (f"rule {self.id!r} needs min, max or both; add one of them")
        if self.min is not None and self.max is not None and self.min > self.max:
            yield (f"rule {self.id!r} has min {self.min:g} above max {self.max:g}; exchange them")
        fair = neutral(self.metric)
        low = self.min is not None and self.min > fair
        if low or (self.max is not None and self.max < fair):
            limit = f"min: {self.min:g}" if low else f"max: {self.max:g}"
            other = [name for name in twins(self.metric.partition(".")[2]) if name != self.metric]
            hint = f" or {other[0]}, which is fair at {neutral(other[0]):g}" if other else ""
            yield (
                f"rule {self.id!r} forbids fairness: {self.metric} is {fair:g} where groups are "
                f"treated alike, got {limit}; write {'max' if low else 'min'}{hint}"
            )
        asked = [name for name in self.changed() if name in ("of", "next_runs")]
        if self.metric in OF_LABELS and asked:
            yield (
                f"rule {self.id!r} asks {self.metric} of models, but it describes the training "
                f"data; remove {asked[0]}"
            )
        if self.of == "mean" and "next_runs" in asked:
            yield (
                f"rule {self.id!r} has next_runs, but of: mean asks for no single run; remove one"
            )
