"""What a configuration may hold, and the rules that hold inside it."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from scotoma.config.variants import (
    Float16,
    Frozen,
    Int4,
    Int8,
    Onnx,
    Prune,
    Variant,
    VariantEntry,
    resolve,
)
from scotoma.printable import nearest

__all__ = [
    "Cifar10Source",
    "Cluster",
    "Config",
    "DigitsSource",
    "Float16",
    "FolderSource",
    "GroupColumn",
    "Groups",
    "Int4",
    "Int8",
    "Label",
    "Onnx",
    "OnnxSource",
    "ParquetSource",
    "Population",
    "Preprocess",
    "Prune",
    "Recipe",
    "Source",
    "Split",
    "Tracking",
    "Variant",
]


class Recipe(Frozen):
    """All that decides a training run, apart from the data, the model and the seed."""

    steps: int = Field(600, ge=1, le=10_000_000, description="Optimiser steps of one member.")
    batch_size: int = Field(64, ge=1, description="Images a step.")
    learning_rate: float = Field(0.02, gt=0, description="Peak step size, reached after `warmup`.")
    warmup: float = Field(0.1, ge=0, lt=1, description="Fraction of the steps with a rising rate.")
    momentum: float = Field(0.9, ge=0, lt=1, description="Nesterov momentum.")
    weight_decay: float = Field(5e-4, ge=0, description="L2 penalty on conv and linear weights.")
    prune_begin: float = Field(0.1, ge=0, lt=1, description="First mask update, fraction of steps.")
    prune_end: float = Field(0.65, gt=0, le=1, description="Last mask update, fraction of steps.")
    prune_every: float = Field(0.02, gt=0, le=1, description="Between updates, fraction of steps.")
    augmentation: Literal["none", "flip", "crop-flip"] = Field(
        "none", description="Of training images: mirrored; also shifted by up to an eighth."
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="Of the products in training; weights are float32 in any case."
    )

    @property
    def mask_updates(self) -> tuple[int, int, int]:
        """First step, last step and distance of the mask updates.

        The distance is kept, so the last update falls on the largest multiple of it that fits.

        >>> Recipe(steps=10_000, prune_end=0.9, prune_every=0.05).mask_updates  # the CIE paper
        (1000, 9000, 500)
        """
        begin = round(self.prune_begin * self.steps)
        every = max(1, round(self.prune_every * self.steps))
        updates = max(1, (round(self.prune_end * self.steps) - begin) // every)
        return begin, begin + updates * every, every

    @model_validator(mode="after")
    def _pruning_ends_within_the_run(self) -> Recipe:
        if self.prune_end <= self.prune_begin:
            raise ValueError(
                f"prune_end must be later than prune_begin, got {self.prune_end} and "
                f"{self.prune_begin}; the CIE paper uses 0.9 and 0.1"
            )
        _, last, _ = self.mask_updates
        if last >= self.steps:
            raise ValueError(
                f"the last mask update would fall on step {last} of {self.steps}, after the last; "
                "lower prune_every or prune_end, or train for more steps"
            )
        return self


class DigitsSource(Frozen):
    """The embedded data: 8x8 digits in two styles, one of them rare in each class."""

    kind: Literal["digits-s"] = "digits-s"
    model: str = Field("tiny-convnet", description="A name of ours or of torchvision.")
    skew: float = Field(0.95, gt=0.5, lt=1, description="Share of a class's majority style.")
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

    kind: Literal["image_folder"]
    model: str = Field("tiny-convnet", description="A name of ours or of torchvision.")
    images: str = Field(description="Folder or s3:// prefix of image files, all of one size.")
    attributes: str = Field(description="CSV with the key column `image`, one row an image.")
    split: Split
    recipe: Recipe = Recipe()


class Preprocess(Frozen):
    """What pixels become before a model made elsewhere: (pixel / scale - mean) / std."""

    scale: float = Field(255.0, gt=0, description="What pixels of 0 to 255 are divided by.")
    mean: list[float] = Field(
        [0.0, 0.0, 0.0], min_length=3, max_length=3, description="Of R, G and B, taken away."
    )
    std: list[Annotated[float, Field(gt=0)]] = Field(
        [1.0, 1.0, 1.0], min_length=3, max_length=3, description="Of R, G and B, divided by."
    )
    layout: Literal["NCHW", "NHWC"] = Field("NCHW", description="Order of the model's input.")


class OnnxSource(Frozen):
    """Models made elsewhere, and the images and attributes to audit them on."""

    kind: Literal["onnx"]
    models: str = Field(description="Folder with a folder of .onnx files for each variant.")
    preprocessing: Preprocess = Preprocess()
    images: str = Field(description="Folder or s3:// prefix of image files, all of one size.")
    attributes: str = Field(description="CSV with the key column `image`, one row an image.")
    split: Split

    @property
    def model(self) -> str:
        """No network is trained."""
        raise AttributeError("models of source.kind onnx are made elsewhere")

    @property
    def recipe(self) -> Recipe:
        """No network is trained."""
        raise AttributeError("models of source.kind onnx are made elsewhere")


class ParquetSource(Frozen):
    """Images and attributes in Parquet files, as the Hugging Face hub lays them out."""

    kind: Literal["parquet"]
    model: str = Field("resnet8", description="A name of ours or of torchvision.")
    data: str = Field(description="Folder or s3:// prefix of train*.parquet and test*.parquet.")
    recipe: Recipe = Recipe()


class Cifar10Source(Frozen):
    """CIFAR-10 in Parquet, as it is, or made into CIFAR-10S: colour and grey, each class skewed."""

    kind: Literal["cifar10", "cifar10s"]
    model: str = Field("resnet8", description="A name of ours or of torchvision.")
    data: str = Field(description="Folder or s3:// prefix of train*.parquet and test*.parquet.")
    skew: float = Field(
        0.95, gt=0.5, lt=1, description="cifar10s: share of a class's majority style in training."
    )
    recipe: Recipe = Recipe()


Source = DigitsSource | FolderSource | ParquetSource | Cifar10Source | OnnxSource


class Label(Frozen):
    """The target: which column, and which value is the positive class where there is one."""

    column: str
    positive: str | int | None = None


class GroupColumn(Frozen):
    """One attribute, and how its values are called."""

    column: str
    names: dict[str, str] | None = Field(None, description="Value in the table: name shown.")


class Groups(BaseModel):
    """Attributes by name, and the intersections to look at beside them."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    __pydantic_extra__: dict[str, GroupColumn]

    intersections: list[list[str]] = Field(
        default_factory=list, description="Lists of two or more attribute names."
    )

    @property
    def attributes(self) -> dict[str, GroupColumn]:
        """Attribute name to its column, in the order of the configuration."""
        return dict(self.__pydantic_extra__)

    @model_validator(mode="after")
    def _intersections_name_attributes(self) -> Groups:
        known = list(self.attributes)
        for names in self.intersections:
            if len(set(names)) < 2:
                raise ValueError(f"an intersection needs two different attributes, got {names}")
            for name in names:
                if name not in known:
                    raise ValueError(
                        f"intersection names the attribute {name!r}, which is not among "
                        f"{known}{nearest(name, known)}"
                    )
        return self


class Cluster(Frozen):
    """Rows that share a source are one unit for every interval."""

    column: str


class Population(Frozen):
    """How many members each variant has, and the seed that all of theirs derive from."""

    models: int = Field(10, ge=1, le=255, description="Members a variant.")
    seed: int = Field(0, ge=0, lt=2**32)


class Tracking(Frozen):
    """Where MLflow keeps the runs."""

    uri: str | None = Field(
        None, description="MLflow tracking URI; `off`; empty: MLFLOW_TRACKING_URI, then sqlite."
    )


class Config(Frozen):
    """An audit: data, label, groups, variants and the size of the population."""

    version: Literal[1] = 1
    project: str = Field("digits-s", min_length=1, max_length=80, pattern=r"^[\w][\w .-]*$")
    source: Annotated[Source, Field(discriminator="kind")] = DigitsSource()
    label: Label = Label(column="digit")
    groups: Groups = Groups()
    cluster: Cluster | None = None
    variants: list[VariantEntry] = Field(min_length=1)
    population: Population = Population()
    tracking: Tracking = Tracking()
    keep_scores: bool = Field(
        False, description="Keep the softmax probability of every predicted class, in float16."
    )
    deterministic: bool = Field(False, description="Same seed, same machine: the same bytes.")

    @field_validator("variants")
    @classmethod
    def _variants_are_distinct_and_have_a_baseline(
        cls, entries: list[VariantEntry]
    ) -> list[VariantEntry]:
        names = [variant.name for variant in resolve(entries)]
        if "dense" not in names:
            raise ValueError("variants must name `dense`: every change is measured against it")
        if len(names) < 2:
            raise ValueError("variants must name a compressed one, such as {prune: [0.9]}")
        if doubled := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"variants names {', '.join(doubled)} twice; keep one of them")
        return entries

    @model_validator(mode="after")
    def _models_come_from_one_place(self) -> Config:
        made_elsewhere = isinstance(self.source, OnnxSource)
        for entry in self.variants:
            if entry != "dense" and isinstance(entry, Onnx) is not made_elsewhere:
                way = next(iter(type(entry).model_fields))
                raise ValueError(
                    f"variants holds {{{way}: ...}}, which is for source.kind onnx; name models "
                    "made elsewhere there"
                    if isinstance(entry, Onnx)
                    else f"variants holds {{{way}: ...}}, which needs networks that are trained "
                    "here; name folders of source.models as {onnx: [...]}"
                )
        return self

    @property
    def resolved_variants(self) -> tuple[Variant, ...]:
        """Every variant with its name, dense first, then in the order of the configuration."""
        return resolve(self.variants)

    def variant(self, name: str) -> Variant:
        """The resolved variant of that name."""
        return next(variant for variant in self.resolved_variants if variant.name == name)

    def digest(self) -> str:
        """SHA-256 of what decides the results: not where runs are tracked, nor where data lie."""
        deciding = self.model_dump(
            mode="json",
            exclude={"tracking": True, "source": {"images", "attributes", "data", "models"}},
        )
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()
