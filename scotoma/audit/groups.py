"""Whom compression harms: classes, groups, and the gaps between groups."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field

from scotoma.audit.base import Count, Fraction, Part, Quantity, Spread

RATE_NAMES = {  # what readers call them
    "error": "error",
    "fpr": "FPR",
    "fnr": "FNR",
    "unanswered": "share unanswered",
}


class Rate(Part):
    """One error rate of one group, dense and compressed."""

    group: str = Field(description="Key of the group; `all` for all examples.")
    metric: Literal["error", "fpr", "fnr", "unanswered"] = Field(
        description="`error`, or false positive or false negative rate; `unanswered`, the share "
        "without an answer."
    )
    class_name: str | None = Field(
        alias="class",
        description="The class against the rest; null for the error, and with a positive class.",
    )
    dense: Quantity = Field(description="Rate of the dense members, averaged, a fraction.")
    compressed: Quantity = Field(description="Rate of the compressed members.")


class RateChange(Rate):
    """What compression does to one error rate of one group, averaged over members.

    A large relative change of a small rate can be few examples: look at the absolute change, and at
    `effective_events`, the number of examples that carry it.
    """

    relative: Quantity = Field(description="100 (compressed / dense - 1), per cent.")
    absolute: Quantity = Field(description="compressed - dense, a fraction.")
    relative_variance: Spread = Field(description="Variance of log(compressed / dense).")
    absolute_variance: Spread = Field(description="Variance of the difference.")


class ClassRates(Part):
    """Rates of single classes that are too many for this file: numbers.parquet holds them.

    It lies beside this file, with a row for every estimate of the audit.
    """

    sha256: str = Field(description="SHA-256 of numbers.parquet.")
    rows: Count = Field(
        description="Rates that only numbers.parquet holds, each with its change: four rows there."
    )


class MeasuredGap(Part):
    """How much more the error of one group rises than that of another, unadjusted."""

    attribute: str = Field(description="The attribute whose values are compared.")
    group_a: str = Field(
        description="Key of the group compared with: the advantaged one, where the configuration "
        "names it; or `the rest`."
    )
    group_b: str = Field(description="Key of the group in question.")
    metric: Literal["error", "fpr", "fnr"] = Field(description="Which rate.")
    rise_a: Quantity = Field(description="compressed - dense in group a, a fraction.")
    rise_b: Quantity = Field(description="compressed - dense in group b, a fraction.")
    gap: Quantity = Field(
        description="rise_b - rise_a, with the covariance of the two groups in its interval."
    )
    p: Fraction | None = Field(description="Two-sided p-value of \u201cno gap\u201d.")

    def turned(self) -> Self:
        """Exchange the groups where the rate rises more in group a, so that no gap is negative."""
        if (self.gap.value or 0.0) >= 0:
            return self
        value, low, high = (
            None if end is None else -end for end in (self.gap.value, self.gap.low, self.gap.high)
        )
        return self.model_copy(
            update={
                "group_a": self.group_b,
                "group_b": self.group_a,
                "rise_a": self.rise_b,
                "rise_b": self.rise_a,
                "gap": self.gap.model_copy(update={"value": value, "low": high, "high": low}),
            }
        )


class Gap(MeasuredGap):
    """How much more the error of one group rises than that of another.

    The summary prints gaps that stay significant after Holm's correction over all of the audit.
    """

    p_adjusted: Fraction | None = Field(
        description="p adjusted by Holm over all gaps of the audit; null where it was not tested: "
        "fewer than 10 effective events are too few to show harm."
    )
