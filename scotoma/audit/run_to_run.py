"""How far models of different seeds lie apart in fairness, and whether compression moves that."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from scotoma.audit.base import Count, Fraction, Number, Part, Quantity

__all__ = ["FairnessComparison", "FairnessRuns", "RunTests"]

Metric = Literal["DP", "DI", "SPSF", "FPSF", "EOFP", "EOTP", "BA"]


class RunTests(Part):
    """Tests over members, by one protocol."""

    u_p: Fraction | None = Field(description="P-value of the Mann-Whitney test of the means.")
    u_p_adjusted: Fraction | None = Field(
        description="The same, adjusted over the metrics and attributes of the variant by "
        "Benjamini and Hochberg; as `published`, unadjusted."
    )
    levene_p: Fraction | None = Field(description="P-value of Levene's test of the variances.")
    levene_p_adjusted: Fraction | None = Field(description="The same, adjusted likewise.")
    spread_ratio: Quantity = Field(
        description="Standard deviation of the compressed members over that of the dense ones; "
        "as `published`, each divided by its own mean."
    )
    reason: str = Field(description="Why the variances have no test; else empty.")


class FairnessComparison(Part):
    """Compressed members against dense ones in one fairness metric; examples are held fixed."""

    difference: Quantity = Field(
        description="Mean of the compressed members minus that of the dense ones, a fraction."
    )
    cohens_d: Quantity = Field(description="The same in standard deviations over members.")
    effect: str = Field(description="Size of Cohen's d on Sawilowsky's scale.")
    sound: RunTests = Field(description="Two-sided tests, exact where they can be, and adjusted.")
    published: RunTests = Field(
        description="The tests of the study: one-sided in the direction of the means, unadjusted."
    )


class FairnessRuns(Part):
    """One fairness metric of the fixed-seed study on every member: a fraction, 0 is fair."""

    attribute: str = Field(description="The attribute whose values are the groups.")
    metric: Metric = Field(description="Short name of the metric.")
    values: tuple[Fraction | None, ...] = Field(
        description="Of each member: of the positive class, without one the mean over the classes; "
        "where examples have several labels, the mean over the labels."
    )
    se: tuple[Number | None, ...] = Field(
        (),
        description="Standard error of each value over examples, the mean over its classes: no "
        "class makes up for another. Examples of a cluster count as one that stands for all of "
        "them, which is cautious. Null above 50 groups.",
    )
    mean: Fraction | None = Field(description="Mean over the members.")
    max_diff: Fraction | None = Field(description="MaxDiff: largest minus smallest value.")
    std: Number | None = Field(description="STDEV: standard deviation over the members, ddof=0.")
    sigma: Quantity = Field(
        description="The standard deviation behind other runs, ddof=1, with its interval."
    )
    worst_class: str | None = Field(
        description="The class, or label, whose values lie furthest apart; null with a positive "
        "class of one label."
    )
    class_max_diff: Fraction | None = Field(description="MaxDiff of that class.")
    class_std: Number | None = Field(description="STDEV of that class.")
    members: Count = Field(description="Number of members.")
    reason: str = Field(description="Why the metric is undefined for a member; else empty.")
    compared: FairnessComparison | None = Field(
        description="Against the dense members; null for dense itself, and where a side has fewer "
        "than two members or an undefined value."
    )
