"""Where examples and models come from: one section a kind."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from scotoma.config.annotated_sources import MODEL, CocoSource, ImsituSource
from scotoma.config.predictions_source import (
    DetectionsSource,
    PredictionsSource,
    ScoresSource,
)
from scotoma.config.recipe import Recipe
from scotoma.config.registered import RegisteredModel
from scotoma.config.variants import Frozen

__all__ = [
    "LOCATIONS",
    "CelebaSource",
    "Cifar10Source",
    "CocoSource",
    "DetectionsSource",
    "DigitsSource",
    "FileSource",
    "FolderSource",
    "ImsituSource",
    "OnnxSource",
    "ParquetSource",
    "PredictionsSource",
    "Preprocess",
    "ScoresSource",
    "Source",
    "Split",
]


# Keys of a source that hold a path or an s3:// URI: what is there counts, not where it is.
LOCATIONS = (
    "images",
    "attributes",
    "data",
    "models",
    "files",
    "examples",
    "captions",
    "training",
)

Size = Annotated[
    int | None,
    Field(
        ge=8,
        le=1024,
        description="Pixels per side: images are cropped to their central square and resized; "
        "empty: images keep their size, which must be the same.",
    ),
]


Orientation = Annotated[
    Literal["exif", "stored"],
    Field(
        description="Turn pictures upright as their EXIF orientation says, as browsers show them; "
        "or take pixels as they are stored, as torchvision and timm do."
    ),
]


class DigitsSource(Frozen):
    """The embedded data: 8x8 digits in two styles, one of them rare in each class."""

    kind: Literal["digits-s"] = "digits-s"
    model: str = Field("tiny-convnet", description=MODEL)
    skew: float = Field(0.95, gt=0.5, lt=1, description="Share of a class's majority style.")
    styled: Literal["paper", "dim", "inverted"] = Field(
        "paper",
        description="The second style: blue paper, ink of 0.35 of its strength, or black on white.",
    )
    recipe: Recipe = Recipe()


class Split(Frozen):
    """Which column says where a row belongs, and by which values."""

    column: str
    train: str | int
    test: str | int
    calibrate: str | int | None = Field(
        None, description="Rows that int8-static is calibrated on; else rows of `train`."
    )


class FolderSource(Frozen):
    """The user's own images: a folder and a table of attributes, joined by file name."""

    kind: Literal["image_folder", "train"]
    model: str = Field("tiny-convnet", description=MODEL)
    images: str = Field(description="Folder or s3:// prefix of image files.")
    attributes: str = Field(description="CSV with one row per image.")
    key: str = Field(
        "image", min_length=1, description="Column of `attributes` with the name of the image."
    )
    split: Split
    size: Size = None
    orientation: Orientation = "exif"
    recipe: Recipe = Recipe()


class Preprocess(Frozen):
    """What pixels become before an external model: (pixel / scale - mean) / std."""

    scale: float = Field(255.0, gt=0, description="Divisor of pixel values from 0 to 255.")
    mean: list[float] = Field(
        [0.0, 0.0, 0.0], min_length=3, max_length=3, description="Mean of R, G and B, subtracted."
    )
    std: list[Annotated[float, Field(gt=0)]] = Field(
        [1.0, 1.0, 1.0],
        min_length=3,
        max_length=3,
        description="Standard deviation of R, G and B, a divisor.",
    )
    channels: Literal["RGB", "BGR"] = Field("RGB", description="Order of the channels.")
    layout: Literal["NCHW", "NHWC"] = Field(
        "NCHW", description="Order of the axes, for models whose input leaves them open."
    )


def _both_sides(value: Any) -> Any:
    """Spell out a square."""
    return [value, value] if isinstance(value, int) and not isinstance(value, bool) else value


HeightAndWidth = Annotated[
    list[Annotated[int, Field(ge=1, le=4096)]],
    Field(min_length=2, max_length=2),
    BeforeValidator(_both_sides, json_schema_input_type=int | list[int]),
]


class OnnxSource(Frozen):
    """External models, and the images and attributes to audit them on."""

    kind: Literal["onnx"]
    models: str = Field(
        description="Folder or s3:// prefix with a folder of .onnx files for each variant, or the "
        "registered model of MLflow that has them: models:/NAME@ALIAS or models:/NAME/VERSION."
    )
    preprocessing: Preprocess = Preprocess()
    size: HeightAndWidth | None = Field(
        None,
        description="Pixels per side, or [height, width], to which each image is resized; empty: "
        "what the first dense model takes, else images must have one size.",
    )
    fit: Literal["middle", "squash"] = Field(
        "middle",
        description="Keep the proportions of an image and cut its middle out, or squash all of it.",
    )
    crop: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Share of the resized sides that is kept, in the middle: 0.875 for 224 of 256.",
    )
    resample: Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"] = Field(
        "bilinear", description="Pillow's filter for resizing."
    )
    orientation: Orientation = "exif"
    images: str = Field(description="Folder or s3:// prefix of image files.")
    attributes: str = Field(description="CSV with one row per image.")
    key: str = Field(
        "image", min_length=1, description="Column of `attributes` with the name of the image."
    )
    split: Split | None = Field(None, description="Without it every row is a test example.")
    classes: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list,
        description="All classes of the models, in the order of their scores; empty: as id2label "
        "in a config.json beside them says, else the labels in the order of text.",
    )
    output: str = Field(
        "", description="Output of the models that holds the scores; empty: the one that fits."
    )

    @field_validator("models")
    @classmethod
    def _an_address_of_a_registry_is_whole(cls, models: str) -> str:
        RegisteredModel.parse(models)
        return models

    @property
    def registered(self) -> RegisteredModel | None:
        """The model of the registry that `models` names; None for a folder."""
        return RegisteredModel.parse(self.models)

    @property
    def model(self) -> str:
        """No network is trained."""
        raise AttributeError("models of source.kind onnx are external")

    @property
    def recipe(self) -> Recipe:
        """No network is trained."""
        raise AttributeError("models of source.kind onnx are external")


class ParquetSource(Frozen):
    """Images and attributes in Parquet files, as the Hugging Face hub lays them out."""

    kind: Literal["parquet"]
    model: str = Field("resnet8", description=MODEL)
    data: str = Field(description="Folder or s3:// prefix of train*.parquet and test*.parquet.")
    size: Size = None
    orientation: Orientation = "exif"
    recipe: Recipe = Recipe()


class CelebaSource(Frozen):
    """CelebA as its authors publish it: aligned faces, 40 attributes, their partition."""

    kind: Literal["celeba"]
    model: str = Field("resnet18", description=MODEL)
    data: str = Field(description="Folder or s3:// prefix of img_align_celeba and the lists.")
    size: int = Field(
        128, ge=8, le=1024, description="Pixels per side, of the square in the middle."
    )
    recipe: Recipe = Recipe()


class Cifar10Source(Frozen):
    """CIFAR-10 in Parquet, as it is, or made into CIFAR-10S: colour and grey, each class skewed."""

    kind: Literal["cifar10", "cifar10s"]
    model: str = Field("resnet8", description=MODEL)
    data: str = Field(description="Folder or s3:// prefix of train*.parquet and test*.parquet.")
    skew: float = Field(
        0.95, gt=0.5, lt=1, description="cifar10s: share of a class's majority style in training."
    )
    recipe: Recipe = Recipe()


Source = (
    DigitsSource
    | FolderSource
    | ParquetSource
    | CelebaSource
    | CocoSource
    | ImsituSource
    | Cifar10Source
    | OnnxSource
    | PredictionsSource
    | DetectionsSource
    | ScoresSource
)
# Whose images are files of their own.
FileSource = FolderSource | OnnxSource | CelebaSource | CocoSource | ImsituSource
