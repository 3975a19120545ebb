"""Whom compression harms: classes, groups, and the gaps between groups."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from scotoma.audit.base import Count, Flag, Fraction, Number, Part, Quantity, Real

RATE_NAMES = {  # what readers call them
    "error": "error",
    "fpr": "FPR",
    "fnr": "FNR",
    "unanswered": "share unanswered",
}


class ClassRates(Part):
    """Rates of single classes that are too many for this file: numbers.parquet holds them.

    It lies beside this file, with a row for every estimate of the audit.
    """

    sha256: str = Field(description="SHA-256 of numbers.parquet.")
    rows: Count = Field(
        description="Rates that only numbers.parquet holds, each with its change: four rows there."
    )


class MetricGuide(Part):
    """A metric in words."""

    name: str = Field(description="Its short name, as in the rows.")
    title: str = Field(description="Its full name.")
    question: str = Field(description="What it answers.")
    formula: str = Field(
        description="How it is computed; a is the advantaged, d the disadvantaged facet."
    )
    neutral: Real = Field(description="The value that means \u201cno bias\u201d.")
    sign: str = Field(description="What the two sides of the neutral value mean.")
    stage: Literal["pre-training", "post-training"] = Field(
        description="Whether it describes the data or the predictions."
    )


class OutcomeQuestion(Part):
    """A question in plain words, and the metrics that answer it."""

    key: str = Field(description="One word for it.")
    question: str = Field(description="The question.")
    start: str = Field(description="The metric to look at first.")
    why: str = Field(description="Why that one.")
    metrics: tuple[MetricGuide, ...] = Field(description="All metrics that answer it.")


class LabelMetric(Part):
    """A metric of the labels, which compression does not change, for one pair of facets."""

    split: Literal["training", "test"] = Field(
        description="Whose labels: of the examples that the models were trained on, which the "
        "pre-training metrics are about, or of the test examples."
    )
    attribute: str = Field(description="The attribute.")
    disadvantaged: str = Field(description="Key of facet d, or `the rest`.")
    advantaged: str = Field(description="Key of facet a, or `the rest`.")
    metric: str = Field(description="Short name of the metric.")
    value: Quantity = Field(description="The metric.")


class ModelMetric(Part):
    """A metric of the predictions for one pair of facets, dense beside compressed."""

    attribute: str = Field(description="The attribute.")
    disadvantaged: str = Field(description="Key of facet d, or `the rest`.")
    advantaged: str = Field(description="Key of facet a, or `the rest`.")
    metric: str = Field(description="Short name of the metric.")
    dense: Quantity = Field(description="The metric of the dense members.")
    compressed: Quantity = Field(description="The metric of the compressed members.")
    change: Quantity = Field(description="compressed - dense, with an interval of its own.")


class MemberMetric(Part):
    """A metric of every member of a variant, for one pair of facets."""

    attribute: str = Field(description="The attribute.")
    disadvantaged: str = Field(description="Key of facet d, or `the rest`.")
    advantaged: str = Field(description="Key of facet a, or `the rest`.")
    metric: str = Field(description="Short name of the metric.")
    values: tuple[Number | None, ...] = Field(
        description="Of each member; null where it is undefined."
    )
    se: tuple[Number | None, ...] = Field(
        description="Standard error of each value over examples, of DI that of its logarithm. "
        "Examples of a cluster count as one that stands for all of them, which is cautious."
    )


class SelectionRow(Part):
    """How often a variant selects one group, beside the group of the attribute selected most."""

    attribute: str = Field(description="The attribute, or those of an intersection.")
    group: str = Field(description="Key of the group.")
    n: Count = Field(description="Its test examples.")
    share: Fraction = Field(description="Of the examples whose group is known.")
    selected: Real = Field(description="Its examples that are selected, mean over the models.")
    rate: Quantity = Field(description="Selection rate, a fraction.")
    ratio: Quantity | None = Field(
        description="Rate over that of the group selected most; null for groups under 2% of the "
        "examples, and where nobody is selected. The interval treats that group as chosen "
        "beforehand."
    )
    standing: Literal["highest", "kept", "below", "too small", "no selection"] = Field(
        description="`highest` for the group selected most, `kept` or `below` four fifths of it."
    )
    certain: Flag = Field(
        description="Whether the whole interval of the ratio lies on that side of four fifths."
    )


class Outcomes(Part):
    """Clarify's 21 metrics: who gets the favourable outcome, of two facets of an attribute.

    Facet a is the advantaged, d the disadvantaged. If the configuration names the advantaged value,
    d is all others. If not, of two values the one that is rarer among the training examples (where
    there are none, among the test examples) is d, and of more each in turn, against the rest.
    Strata are the values of all other attributes together. A metric that cannot be computed says
    what it needs: without `label.positive` there is no favourable outcome, and FT needs columns of
    numbers, which `clarify.features` names.
    [Measuring](measuring.md#the-21-metrics-of-clarify) says what each one asks.
    """

    questions: tuple[OutcomeQuestion, ...] = Field(
        description="The metrics by the question that they answer, and the one to start with."
    )
    data: tuple[LabelMetric, ...] = Field(
        description="Metrics of the labels, first of the training examples, then of the test "
        "examples; empty without labels."
    )
    variants: dict[str, tuple[ModelMetric, ...]] = Field(
        description="Metrics of the predictions, by compressed variant; without labels those that "
        "need none."
    )
    members: dict[str, tuple[MemberMetric, ...]] = Field(
        default_factory=dict,
        description="Metrics of every member, by variant, dense too: those that are defined.",
    )
    selection: dict[str, tuple[SelectionRow, ...]] = Field(
        default_factory=dict,
        description="The four-fifths rule, by variant, dense too: selection rates of the groups of "
        "each attribute. It needs a favourable class, and no label.",
    )


class ChangedScore(Part):
    """An example whose mean score gets much worse."""

    example_id: str = Field(description="Id of the example.")
    dense: Number = Field(description="Mean over the dense models.")
    compressed: Number = Field(description="Mean over the compressed models.")
    attributes: dict[str, str] = Field(description="Attribute to value.")


class ScoreReport(Part):
    """Where each example has a score of each model: what it is, and examples that get worse.

    The numbers are rows of question `scores`, in the unit of the score:

    | rows | what they are |
    |---|---|
    | `mean` | mean of a variant over all examples and members, dense too, and of every member |
    | `means.dense`, `.compressed`, `.absolute` | mean of a group before and after; compressed - dense |
    | `means.worse` | `absolute`, positive where the mean gets worse: negated where higher is better |
    | `means.relative` | how much worse, per cent: 100 (compressed / dense - 1) where lower is better, 100 (dense / compressed - 1) where higher is. Null unless both means are above 0; its spread is that of log(compressed / dense) |
    | `means.p_adjusted` | two-sided p-value of “nothing changed”, adjusted by Holm over the groups of the variant |
    | `quantiles.dense`, `.compressed`, `.absolute` | a quantile of the scores of a group, `share` 0.5 for the median |
    """  # noqa: E501

    name: str = Field(description="What the score is called.")
    unit: str = Field(description="What it is measured in; empty for nothing.")
    lower_is_better: Flag = Field(description="Whether a lower score is the better one.")
    examples: dict[str, tuple[ChangedScore, ...]] = Field(
        description="The examples whose score gets worse most, by compressed variant; "
        "divergence.parquet has all."
    )
    shown: Count = Field(description="How many examples are listed at most.")
