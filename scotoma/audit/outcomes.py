"""Who gets the favourable outcome: the 21 metrics of SageMaker Clarify."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from scotoma.audit.base import Part, Quantity, Real

__all__ = ["LabelMetric", "MetricGuide", "ModelMetric", "OutcomeQuestion", "Outcomes"]


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
        "examples."
    )
    variants: dict[str, tuple[ModelMetric, ...]] = Field(
        description="Metrics of the predictions, by compressed variant."
    )
