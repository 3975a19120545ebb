"""What a configuration may hold, and the rules that hold inside it."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
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
    "ParquetSource",
    "Population",
    "Prune",
    "Recipe",
    "Source",
    "Split",
    "Tracking",
    "Variant",
]


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Recipe(_Frozen):
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


class DigitsSource(_Frozen):
    """The embedded data: 8x8 digits in two styles, one of them rare in each class."""

    kind: Literal["digits-s"] = "digits-s"
    model: str = Field("tiny-convnet", description="A name of ours or of torchvision.")
    skew: float = Field(0.95, gt=0.5, lt=1, description="Share of a class's majority style.")
    recipe: Recipe = Recipe()


class Split(_Frozen):
    """Which column says where a row belongs, and by which values."""

    column: str
    train: str | int
    test: str | int
    calibrate: str | int | None = Field(
        None, description="Rows that int8-static is calibrated on; else rows of `train`."
    )


class FolderSource(_Frozen):
    """The user's own images: a folder and a table of attributes, joined by file name."""

    kind: Literal["image_folder"]
    model: str = Field("tiny-convnet", description="A name of ours or of torchvision.")
    images: str = Field(description="Folder or s3:// prefix of image files, all of one size.")
    attributes: str = Field(description="CSV with the key column `image`, one row an image.")
    split: Split
    recipe: Recipe = Recipe()


class ParquetSource(_Frozen):
    """Images and attributes in Parquet files, as the Hugging Face hub lays them out."""

    kind: Literal["parquet"]
    model: str = Field("resnet8", description="A name of ours or of torchvision.")
    data: str = Field(description="Folder or s3:// prefix of train*.parquet and test*.parquet.")
    recipe: Recipe = Recipe()


class Cifar10Source(_Frozen):
    """CIFAR-10 in Parquet, as it is, or made into CIFAR-10S: colour and grey, each class skewed."""

    kind: Literal["cifar10", "cifar10s"]
    model: str = Field("resnet8", description="A name of ours or of torchvision.")
    data: str = Field(description="Folder or s3:// prefix of train*.parquet and test*.parquet.")
    skew: float = Field(
        0.95, gt=0.5, lt=1, description="cifar10s: share of a class's majority style in training."
    )
    recipe: Recipe = Recipe()


Source = DigitsSource | FolderSource | ParquetSource | Cifar10Source


class Label(_Frozen):
    """The target: which column, and which value is the positive class where there is one."""

    column: str
    positive: str | int | None = None


class GroupColumn(_Frozen):
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


class Cluster(_Frozen):
    """Rows that share a source are one unit for every interval."""

    column: str


Step = Literal["int8-dynamic", "int8-static", "float16", "int4"]


class Prune(_Frozen):
    """Magnitude pruning during training, one variant a sparsity, and what is made of each."""

    prune: list[Annotated[float, Field(ge=0, lt=1)]] = Field(min_length=1)
    then: list[Step] = Field(
        default_factory=list, description="Compressions of the pruned members."
    )

    @field_validator("then", mode="before")
    @classmethod
    def _one_is_a_list_of_one(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


class Int8(_Frozen):
    """Post-training quantization of the dense members, one variant a mode."""

    int8: list[Literal["dynamic", "static"]] = Field(min_length=1)
    calibrator: Literal["minmax", "entropy", "percentile"] = Field(
        "minmax", description="static: how the ranges of activations are chosen."
    )
    percentile: float = Field(
        99.99, gt=50, le=100, description="percentile: share of the values that a range holds, %."
    )
    images: int = Field(100, ge=1, description="static: training images that choose the ranges.")
    reduce_range: bool = Field(
        False, description="Weights of 7 bits, for processors whose 8-bit products overflow."
    )


class Float16(_Frozen):
    """The dense members in half precision."""

    float16: Literal[True]


class Int4(_Frozen):
    """Weights of the dense members in 4 bits, a scale a block; activations as they were."""

    int4: Literal[True]
    block: Literal[16, 32, 64, 128, 256] = Field(32, description="Weights that share a scale.")


_WAYS: dict[str, type[_Frozen]] = {
    "prune": Prune, "int8": Int8, "float16": Float16, "int4": Int4
}  # fmt: skip


def _variant_kind(entry: Any) -> str | None:
    if isinstance(entry, dict):
        ways = [key for key in _WAYS if key in entry]
        return ways[0] if len(ways) == 1 else None
    return next((way for way, model in _WAYS.items() if isinstance(entry, model)), "dense")


VariantEntry = Annotated[
    Annotated[Literal["dense"], Tag("dense")]
    | Annotated[Prune, Tag("prune")]
    | Annotated[Int8, Tag("int8")]
    | Annotated[Float16, Tag("float16")]
    | Annotated[Int4, Tag("int4")],
    Discriminator(_variant_kind),
]


class Population(_Frozen):
    """How many members each variant has, and the seed that all of theirs derive from."""

    models: int = Field(10, ge=1, le=255, description="Members a variant.")
    seed: int = Field(0, ge=0, lt=2**32)


class Tracking(_Frozen):
    """Where MLflow keeps the runs."""

    uri: str | None = Field(
        None, description="MLflow tracking URI; `off`; empty: MLFLOW_TRACKING_URI, then sqlite."
    )


class Variant(_Frozen):
    """One way of compressing, resolved.

    A member of a variant with `derived_from` is made of the member of the same index of that
    variant; the others are trained on seeds of their own.
    """

    name: str
    kind: Literal["dense", "prune", "int8", "float16", "int4"]
    derived_from: str = ""  # name of the variant whose members it is made of
    sparsity: float = 0.0  # fraction of the conv and linear weights that are zero
    mode: Literal["", "dynamic", "static"] = ""
    bits: int = 32  # of a weight
    calibrator: Literal["minmax", "entropy", "percentile"] = "minmax"
    percentile: float = 99.99  # share of the values that a range holds, %
    images: int = 100  # that choose the ranges of int8-static
    reduce_range: bool = False  # weights of 7 bits
    block: int = 32  # weights that share a scale, of int4

    @property
    def paired(self) -> bool:
        """Whether member k derives from dense member k: what every comparison is made with."""
        return self.derived_from == "dense"


def _resolve(entries: list[VariantEntry]) -> tuple[Variant, ...]:
    """Every variant that the entries stand for, dense first."""
    found: list[Variant] = []
    for entry in entries:
        if entry == "dense":
            found.insert(0, Variant(name="dense", kind="dense"))
        elif isinstance(entry, Prune):
            pruned = [Variant(name=f"prune-{s:g}", kind="prune", sparsity=s) for s in entry.prune]
            found += pruned
            found += [_after(one, step) for one in pruned for step in entry.then]
        elif isinstance(entry, Int8):
            found += [_int8(entry, mode) for mode in entry.int8]
        elif isinstance(entry, Float16):
            found.append(Variant(name="float16", kind="float16", derived_from="dense", bits=16))
        elif isinstance(entry, Int4):
            name = "int4" if entry.block == 32 else f"int4-block{entry.block}"
            block = entry.block
            found.append(Variant(name=name, kind="int4", derived_from="dense", bits=4, block=block))
    return tuple(found)


def _int8(entry: Int8, mode: Literal["dynamic", "static"]) -> Variant:
    """A mode of int8; what is not the default stands in its name."""
    static = mode == "static"
    calibrator = entry.calibrator if static else "minmax"
    marks: list[str] = [] if calibrator == "minmax" else [calibrator]
    if calibrator == "percentile" and entry.percentile != 99.99:
        marks.append(f"{entry.percentile:g}")
    if static and entry.images != 100:
        marks.append(f"{entry.images}images")
    if entry.reduce_range:
        marks.append("7bit")
    return Variant(
        name="-".join(["int8", mode, *marks]),
        kind="int8",
        derived_from="dense",
        mode=mode,
        bits=8,
        calibrator=calibrator,
        percentile=entry.percentile,
        images=entry.images,
        reduce_range=entry.reduce_range,
    )


def _after(pruned: Variant, step: Step) -> Variant:
    """What a compression makes of a pruned variant."""
    kind, _, mode = step.partition("-")
    return Variant.model_validate(
        {
            "name": f"{pruned.name}+{step}",
            "kind": kind,
            "derived_from": pruned.name,
            "sparsity": pruned.sparsity,
            "mode": mode,
            "bits": {"int8": 8, "float16": 16, "int4": 4}[kind],
        }
    )


class Config(_Frozen):
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
    deterministic: bool = Field(False, description="Same seed, same machine: the same bytes.")

    @field_validator("variants")
    @classmethod
    def _variants_are_distinct_and_have_a_baseline(
        cls, entries: list[VariantEntry]
    ) -> list[VariantEntry]:
        names = [variant.name for variant in _resolve(entries)]
        if "dense" not in names:
            raise ValueError("variants must name `dense`: every change is measured against it")
        if len(names) < 2:
            raise ValueError("variants must name a compressed one, such as {prune: [0.9]}")
        if doubled := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"variants names {', '.join(doubled)} twice; keep one of them")
        return entries

    @property
    def resolved_variants(self) -> tuple[Variant, ...]:
        """Every variant with its name, dense first, then in the order of the configuration."""
        return _resolve(self.variants)

    def variant(self, name: str) -> Variant:
        """The resolved variant of that name."""
        return next(variant for variant in self.resolved_variants if variant.name == name)

    def digest(self) -> str:
        """SHA-256 of what decides the results: not where runs are tracked, nor where data lie."""
        deciding = self.model_dump(
            mode="json", exclude={"tracking": True, "source": {"images", "attributes", "data"}}
        )
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()
