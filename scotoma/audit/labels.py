"""What several labels of an example add to audit.json: whole examples, and how scores rank."""

from __future__ import annotations

from pydantic import Field

from scotoma.audit.base import Count, Part, Quantity

__all__ = ["AveragePrecision", "ExamplesChanged", "LabelPrecision", "SeveralLabels"]


class ExamplesChanged(Part):
    """How many examples change in any of their labels."""

    cie: Count = Field(
        description="CIE of whole examples: those with a label whose most frequent answer changes."
    )
    floor: Quantity = Field(
        description="Share of examples to which two dense members give different labels."
    )
    disagreement: Quantity = Field(
        description="Share to which a dense and a compressed member give different labels."
    )
    excess: Quantity = Field(description="`disagreement` - `floor`.")


class LabelPrecision(Part):
    """Average precision of one label."""

    label: str = Field(description="Name of the label.")
    positives: Count = Field(description="Test examples that have it.")
    value: Quantity = Field(description="Average precision, mean over the members, a fraction.")
    change: Quantity | None = Field(description="Minus that of dense; null for dense itself.")


class AveragePrecision(Part):
    """How well the scores of a population rank the examples of each label."""

    mean: Quantity = Field(
        description="mAP: mean over the labels that some test example has, a fraction."
    )
    change: Quantity | None = Field(description="Minus that of dense; null for dense itself.")
    labels: tuple[LabelPrecision, ...] = Field(description="Each label.")


class SeveralLabels(Part):
    """Where an example has several labels, every (example, label) is a row of all other parts."""

    names: tuple[str, ...] = Field(description="The labels, in the order of the configuration.")
    attribute: str = Field(description="The attribute whose groups are the labels.")
    examples: Count = Field(description="Test examples, each with a row for every label.")
    changed: dict[str, ExamplesChanged] = Field(description="By compressed variant.")
    average_precision: dict[str, AveragePrecision] = Field(
        description="By variant, dense too; empty where no scores are kept (`keep_scores`)."
    )
