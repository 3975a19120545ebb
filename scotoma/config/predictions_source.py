"""Predictions of models made elsewhere: the section that says where they are."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from scotoma.config.recipe import Recipe
from scotoma.config.variants import Frozen

__all__ = ["PredictionsSource"]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Column = Annotated[str, Field(min_length=1)]
Columns = Annotated[
    list[Column],
    Field(min_length=1),
    BeforeValidator(_as_list, json_schema_input_type=Column | list[Column]),
]


class PredictionsSource(Frozen):
    """What models made elsewhere said, and the examples that they said it of."""

    kind: Literal["predictions"]
    files: str = Field(
        min_length=1,
        description="CSV, Parquet or .npz by pattern: preds/*.parquet, "
        "preds/{variant}/{model}.csv.",
    )
    columns: dict[str, Columns] = Field(
        default_factory=dict,
        description="Variant: the column of its predictions in `files`, or a list with one column "
        "for each model.",
    )
    examples: str = Field(
        min_length=1, description="CSV, Parquet or .npz: ids, labels and attributes[, image]."
    )
    key: str = Field(
        "example_id",
        min_length=1,
        description="Column of the ids in `examples`, and in `files` without an `example_id`.",
    )
    numbered: bool = Field(
        False, description="No ids: every file holds all examples in one order, counted from 0."
    )
    training: str | None = Field(
        None,
        min_length=1,
        description="CSV or Parquet of what the models were trained on: labels and attributes, "
        "for the metrics of the training data.",
    )
    classes: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list,
        description="Classes that models may predict beside the labels of the examples; without "
        "labels all of them, by default those that are predicted.",
    )

    @model_validator(mode="after")
    def _columns_name_variants_and_models(self) -> PredictionsSource:
        if self.columns and ("{variant}" in self.files or "{model}" in self.files):
            raise ValueError(
                "source.columns names variants and models, and so does source.files; leave "
                "{variant} and {model} out of one of them"
            )
        named = [column for columns in self.columns.values() for column in columns]
        if doubled := sorted({name for name in named if named.count(name) > 1}):
            raise ValueError(
                f"source.columns names {doubled[0]!r} twice; give every model its own column"
            )
        return self

    @property
    def id_column(self) -> str | None:
        """The column of the ids; None where rows are numbered."""
        return None if self.numbered else self.key

    @property
    def model(self) -> str:
        """No network is trained."""
        raise AttributeError("predictions of source.kind predictions are external")

    @property
    def recipe(self) -> Recipe:
        """No network is trained."""
        raise AttributeError("predictions of source.kind predictions are external")
