"""Predictions of models made elsewhere: the section that says where they are."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from scotoma.config.recipe import Recipe
from scotoma.config.variants import Frozen

__all__ = ["PredictionsSource"]


class PredictionsSource(Frozen):
    """What models made elsewhere said, and the examples that they said it of."""

    kind: Literal["predictions"]
    files: str = Field(
        min_length=1,
        description="CSV or Parquet by pattern: preds/*.parquet, preds/{variant}/{model}.csv.",
    )
    examples: str = Field(
        min_length=1, description="CSV or Parquet: ids, labels and attributes[, image]."
    )
    key: str = Field(
        "example_id",
        min_length=1,
        description="Column of the ids in `examples`, and in `files` without an `example_id`.",
    )
    training: str | None = Field(
        None,
        min_length=1,
        description="CSV or Parquet of what the models were trained on: labels and attributes, "
        "for the metrics of the training data.",
    )
    classes: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list,
        description="Classes that models may predict beside the labels of the examples.",
    )

    @property
    def model(self) -> str:
        """No network is trained."""
        raise AttributeError("predictions of source.kind predictions are external")

    @property
    def recipe(self) -> Recipe:
        """No network is trained."""
        raise AttributeError("predictions of source.kind predictions are external")
