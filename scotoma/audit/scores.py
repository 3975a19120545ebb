"""What an audit of scores holds, where each example has a number of each model and no class."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from scotoma.answers.note import AdmissionNote
from scotoma.audit.base import Count, Flag, Fraction, Number, Part, Quantity, Spread


class MeanOfVariant(Part):
    """The mean score of a population."""

    mean: Quantity = Field(description="Over all examples and members, in the unit of the score.")
    members: tuple[Number, ...] = Field(
        min_length=1, description="Mean of every member, in the order of their names."
    )


class ScoreChange(Part):
    """What compression does to the mean score of one group."""

    group: str = Field(description="Key of the group; `all` for all examples.")
    dense: Quantity = Field(description="Mean of the dense models.")
    compressed: Quantity = Field(description="Mean of the compressed models.")
    absolute: Quantity = Field(description="compressed - dense, in the unit of the score.")
    worse: Quantity = Field(
        description="The same, positive where the mean gets worse: `absolute` where lower is "
        "better, else -`absolute`."
    )
    relative: Quantity = Field(
        description="How much worse, per cent: 100 (compressed / dense - 1) where lower is better, "
        "100 (dense / compressed - 1) where higher is. Null unless both means are above 0."
    )
    absolute_variance: Spread = Field(description="Variance of `absolute`.")
    relative_variance: Spread = Field(description="Variance of log(compressed / dense).")
    p_adjusted: Fraction | None = Field(
        description="Two-sided p-value of \u201cnothing changed\u201d, adjusted by Holm over the "
        "groups of the variant; null without an interval."
    )


class QuantileRow(Part):
    """What compression does to one quantile of the scores of one group."""

    group: str = Field(description="Key of the group; `all` for all examples.")
    share: Fraction = Field(description="Which quantile: 0.5 for the median.")
    dense: Quantity = Field(description="The quantile over the examples and the dense models.")
    compressed: Quantity = Field(description="The same over the compressed models.")
    absolute: Quantity = Field(description="compressed - dense, in the unit of the score.")


class ChangedScore(Part):
    """An example whose mean score gets much worse."""

    example_id: str = Field(description="Id of the example.")
    dense: Number = Field(description="Mean over the dense models.")
    compressed: Number = Field(description="Mean over the compressed models.")
    attributes: dict[str, str] = Field(description="Attribute to value.")


class ScoredMeans(Part):
    """Means and quantiles of every group."""

    variants: dict[str, MeanOfVariant] = Field(description="By variant, dense too.")
    means: dict[str, tuple[ScoreChange, ...]] = Field(
        description="Mean of every group, by compressed variant; all examples first."
    )
    quantiles: dict[str, tuple[QuantileRow, ...]] = Field(
        description="Quantiles of every group, by compressed variant."
    )


class ScoredSection(ScoredMeans):
    """What the step `bias` leaves of an audit of scores."""

    admission: tuple[AdmissionNote, ...] = Field(
        (), description="How the scores were read, and whether they are better than guessing."
    )
    answers: dict[str, str] = Field(
        default_factory=dict, description="SHA-256 of the scores of each variant."
    )


class ScoreReport(ScoredMeans):
    """Where each example has a score of each model: means, quantiles, examples that get worse."""

    name: str = Field(description="What the score is called.")
    unit: str = Field(description="What it is measured in; empty for nothing.")
    lower_is_better: Flag = Field(description="Whether a lower score is the better one.")
    examples: dict[str, tuple[ChangedScore, ...]] = Field(
        description="The examples whose score gets worse most, by compressed variant; "
        "divergence.parquet has all."
    )
    shown: Count = Field(description="How many examples are listed at most.")

    @model_validator(mode="after")
    def _parts_name_the_same_variants(self) -> Self:
        names = sorted(self.means)
        for part, rows in (("quantiles", self.quantiles), ("examples", self.examples)):
            if sorted(rows) != names:
                raise ValueError(f"scores.{part} must hold {', '.join(names)}, got {sorted(rows)}")
        return self
