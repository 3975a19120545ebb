"""Predictions of external models: the section that says where they are."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from scotoma.config.recipe import Recipe
from scotoma.config.variants import Frozen

__all__ = ["MEASURES", "DetectionsSource", "PredictionsSource", "ScoresSource"]


Measure = Literal["given", "absolute_error", "squared_error"]
MEASURES: tuple[str, ...] = Measure.__args__  # type: ignore[attr-defined]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Column = Annotated[str, Field(min_length=1)]
Columns = Annotated[
    list[Column],
    Field(min_length=1),
    BeforeValidator(_as_list, json_schema_input_type=Column | list[Column]),
]


class PredictionsSource(Frozen):
    """What external models answered, and on which examples."""

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
    predicted: str = Field(
        "predicted",
        min_length=1,
        description="Column of the predictions in `files`, where `columns` names none.",
    )
    examples: str = Field(
        min_length=1,
        description="CSV, Parquet or .npz: ids, labels and attributes[, image]; or instances of "
        "COCO in .json, whose categories are columns for label.columns.",
    )
    captions: str | None = Field(
        None,
        min_length=1,
        description="Captions of COCO in .json, which give the column gender: female or male where "
        "those of an image name women or men, missing where they name both or neither.",
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


class DetectionsSource(PredictionsSource):
    """What external detectors find: a box of the ground truth is an example."""

    kind: Literal["detections"]  # type: ignore[assignment]  # a table of predictions in COCO's form
    files: str = Field(
        min_length=1,
        description="COCO's results JSON, .npz, or YOLO's text files by pattern: "
        "found/{variant}/{model}.json, found/{variant}/{model}/*.txt.",
    )
    examples: str = Field(
        min_length=1,
        description="The ground truth: COCO's instances JSON, or data.yaml in YOLO's layout.",
    )
    iou: float = Field(
        0.5, gt=0, le=1, description="Smallest intersection over union of a box that is found."
    )
    min_score: float = Field(0.25, description="Score from which on detections are used.")
    classes: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=lambda: ["found", "missed"], description="What becomes of a box."
    )

    @model_validator(mode="after")
    def _files_are_of_detectors(self) -> DetectionsSource:
        for name in ("columns", "numbered", "training"):
            if getattr(self, name):
                raise ValueError(
                    f"source.{name} is for source.kind predictions, and COCO's files need none; "
                    "leave it out"
                )
        if self.classes != ["found", "missed"] or self.key != "example_id":
            raise ValueError(
                "source.classes and source.key are for source.kind predictions; leave them out"
            )
        return self


class ScoresSource(PredictionsSource):
    """What external models score: a number for each example, which is no class."""

    kind: Literal["scores"]  # type: ignore[assignment]  # a table of predictions that are numbers
    files: str = Field(
        min_length=1,
        description="CSV, Parquet or .npz by pattern, with a column `score`; for an error with a "
        "column `predicted`.",
    )
    measure: Measure = Field(
        "given",
        description="`given`: the files hold the score. `absolute_error`, `squared_error`: they "
        "hold predicted numbers, which are compared with label.column.",
    )
    lower_is_better: bool | None = Field(
        None, description="Of the score; needed where it is given, true of an error."
    )
    name: str = Field("", max_length=80, description="What readers call the score.")
    unit: str = Field(
        "", max_length=20, description="What it is measured in, such as minutes; empty for none."
    )

    @model_validator(mode="after")
    def _scores_have_a_direction(self) -> ScoresSource:
        for name in ("training", "captions", "classes"):
            if getattr(self, name):
                raise ValueError(
                    f"source.{name} is for source.kind predictions, and scores have no classes; "
                    "leave it out"
                )
        if self.measure == "given" and self.lower_is_better is None:
            raise ValueError(
                "source.lower_is_better is missing; write true for a loss or an error, false for a "
                "score such as accuracy"
            )
        if self.measure != "given" and self.lower_is_better is False:
            raise ValueError(
                f"source.lower_is_better is false, and a smaller {self.score_name} is better; "
                "leave it out"
            )
        return self

    @property
    def is_lower_better(self) -> bool:
        """Whether a lower score is the better one."""
        return self.lower_is_better is not False

    @property
    def score_name(self) -> str:
        """What readers call the score: its name, or what it is.

        >>> ScoresSource(kind="scores", files="s.csv", examples="e.csv",
        ...              measure="absolute_error").score_name
        'absolute error'
        """
        return self.name or ("score" if self.measure == "given" else self.measure.replace("_", " "))

    @property
    def score_column(self) -> str:
        """The column of the files that holds a number for each example and model."""
        return "score" if self.measure == "given" else "predicted"
