"""Ways of compressing, as a configuration names them and as they are resolved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    Tag,
    field_validator,
)

from scotoma.config.shared import Frozen
from scotoma.config.sheet import Says

MADE_ELSEWHERE = ("onnx", "predictions")  # kinds of variants that are taken in
NAME_BYTES = 200  # of the 255 of a file's name
WORDS = Says("begin with a letter or digit and hold only letters, digits, spaces, dots and dashes")
Mode = Literal["dynamic", "dynamic-per-layer", "static"]
Step = Literal["int8-dynamic", "int8-dynamic-per-layer", "int8-static", "float16"]


class Prune(Frozen):
    """Magnitude pruning during training, one variant a sparsity, and what is made of each."""

    prune: list[Annotated[float, Field(ge=0, lt=1)]] = Field(min_length=1)
    masks: Literal["shadow", "hard"] = Field(
        "shadow", description="shadow: masked weights may come back until the last update."
    )
    scope: Literal["layer", "global"] = Field(
        "layer", description="Whether each layer loses that share, or all of them together."
    )
    exempt: list[Literal["first", "last"]] = Field(
        default_factory=list, description="Layers that are not pruned."
    )
    then: list[Step] = Field(
        default_factory=list, description="Compressions of the pruned members."
    )

    @field_validator("then", "exempt", mode="before")
    @classmethod
    def _one_is_a_list_of_one(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


class Int8(Frozen):
    """Post-training quantization of the dense members, one variant a mode."""

    int8: list[Mode] = Field(min_length=1)
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
    protocol: Literal["sound", "published"] = Field(
        "sound",
        description="static: images from a seeded shuffle, or, as published, the first training "
        "images as they stand, often of one class.",
    )
    calibration: Literal["shuffled", "group-balanced"] = Field(
        "shuffled",
        description="static: the first images of the shuffle, or as many of each class and group.",
    )

    def _misfits(self) -> Iterator[str]:
        if self.protocol == "published" and self.calibration == "group-balanced":
            yield (
                "protocol: published takes the first training images as they stand, and "
                "calibration: group-balanced chooses them; keep one of them"
            )


class Float16(Frozen):
    """The dense members in half precision."""

    float16: Literal[True]


def _short(name: str) -> str:
    """Refuse a name that no file can have, with what is added to it."""
    if len(name.encode()) > NAME_BYTES:
        raise ValueError(
            f"the name of a variant must have at most {NAME_BYTES} bytes in UTF-8, got "
            f"{len(name.encode())}; shorten it"
        )
    return name


class External(Frozen):
    """Variants that others made."""

    paired: bool = Field(
        False, description="Each model was made from the dense one, or baseline, of its name."
    )
    models: int | None = Field(
        None, ge=1, le=255, description="Models of each of these; null for population.models."
    )
    bits: Literal[4, 8, 16, 32] | None = Field(
        None, description="Bits per weight, if known: a note says where they are stored otherwise."
    )

    def _misfits(self) -> Iterator[str]:
        if self.paired and self.models is not None:
            yield (
                f"paired variants have as many models as dense, got models: {self.models}; leave "
                "out models, or paired"
            )


class Onnx(External):
    """External models, one variant a folder of `source.models`."""

    onnx: list[
        Annotated[str, Field(pattern=r"^\w[\w.+-]*$", max_length=80), WORDS, AfterValidator(_short)]
    ] = Field(min_length=1)


class Predicted(External):
    """Predictions of external models, one variant a name in `source.files`."""

    predictions: list[
        Annotated[
            str,
            Field(pattern=r"^\w[\w .,+=@()-]*$", min_length=1, max_length=80),
            WORDS,
            AfterValidator(_short),
        ]
    ] = Field(min_length=1)


WAYS: dict[str, type[Frozen]] = {
    "prune": Prune, "int8": Int8, "float16": Float16, "onnx": Onnx,
    "predictions": Predicted,
}  # fmt: skip


def way_of(entry: Any) -> str | None:
    """Name the way of an entry, or of what was written for one; None of what has not one way."""
    if isinstance(entry, dict):
        ways = [key for key in WAYS if key in entry]
        return ways[0] if len(ways) == 1 else None
    return next((way for way, model in WAYS.items() if isinstance(entry, model)), "dense")


VariantEntry = Annotated[
    Annotated[Literal["dense"], Tag("dense")]
    | Annotated[Prune, Tag("prune")]
    | Annotated[Int8, Tag("int8")]
    | Annotated[Float16, Tag("float16")]
    | Annotated[Onnx, Tag("onnx")]
    | Annotated[Predicted, Tag("predictions")],
    Discriminator(way_of),
]


class Variant(Frozen):
    """One way of compressing, resolved.

    A member of a variant with `derived_from` is made of the member of the same index of that
    variant; the others are trained: on seeds of their own, or `forked` from the dense ones.
    """

    name: str
    kind: Literal["dense", "prune", "int8", "float16", "onnx", "predictions"]
    derived_from: str = ""  # name of the variant whose members it is made of
    forked: bool = False  # one training up to the first mask update with the dense members
    sparsity: float = 0.0  # fraction of the conv and linear weights that are zero
    masks: Literal["shadow", "hard"] = "shadow"
    scope: Literal["layer", "global"] = "layer"
    exempt: tuple[Literal["first", "last"], ...] = ()  # layers that are not pruned
    mode: Literal["", "dynamic", "dynamic-per-layer", "static"] = ""
    bits: int | None = 32  # of a weight; None of external models where it is not said
    models: int | None = None  # where they are not as many as dense ones
    calibrator: Literal["minmax", "entropy", "percentile"] = "minmax"
    percentile: float = 99.99  # share of the values that a range holds, %
    images: int = 100  # that choose the ranges of int8-static
    reduce_range: bool = False  # weights of 7 bits
    protocol: Literal["sound", "published", "group-balanced"] = "sound"  # of calibration images

    @property
    def made_elsewhere(self) -> bool:
        """Whether its members, or what they said, are taken in and not made here."""
        return self.kind in MADE_ELSEWHERE

    @property
    def paired_with(self) -> str:
        """The variant whose member k shares the chance of member k; empty where none does."""
        return "dense" if self.forked else self.derived_from

    @property
    def paired(self) -> bool:
        """Whether member k goes with dense member k: what every comparison is made with."""
        return self.paired_with == "dense"


def resolve(entries: list[VariantEntry], *, forked: bool = False) -> tuple[Variant, ...]:
    """Every variant that the entries stand for, dense first.

    Args:
        entries: As the configuration has them.
        forked: Whether pruned members go on from the dense ones.

    Returns:
        The variants.

    >>> [variant.paired for variant in resolve(["dense", Prune(prune=[0.9])], forked=True)]
    [False, True]
    """
    variants: list[Variant] = []
    for entry in entries:
        if entry == "dense":
            variants.insert(0, Variant(name="dense", kind="dense"))
        elif isinstance(entry, Prune):
            pruned = [_pruned(entry, sparsity) for sparsity in entry.prune]
            variants += pruned
            variants += [_after(one, step) for one in pruned for step in entry.then]
        elif isinstance(entry, Int8):
            variants += [_int8(entry, mode) for mode in entry.int8]
        elif isinstance(entry, Float16):
            variants.append(Variant(name="float16", kind="float16", derived_from="dense", bits=16))
        elif isinstance(entry, Onnx | Predicted):
            of = "dense" if entry.paired else ""
            names = entry.onnx if isinstance(entry, Onnx) else entry.predictions
            kind: Literal["onnx", "predictions"]
            kind = "onnx" if isinstance(entry, Onnx) else "predictions"
            variants += [
                Variant(name=name, kind=kind, derived_from=of, bits=entry.bits, models=entry.models)
                for name in names
            ]
    if forked:
        of_pruning = {one.name for one in variants if one.kind == "prune"}
        variants = [
            one.model_copy(update={"forked": bool({one.name, one.derived_from} & of_pruning)})
            for one in variants
        ]
    return tuple(variants)


def _pruned(entry: Prune, sparsity: float) -> Variant:
    """A sparsity; what is not the default stands in its name."""
    exempt = tuple(end for end in ("first", "last") if end in entry.exempt)
    marks = {
        "hard": entry.masks == "hard",
        "global": entry.scope == "global",
        f"exempt-{'-'.join(exempt)}": bool(exempt),
    }
    return Variant.model_validate(
        {
            "name": "-".join([f"prune-{sparsity:g}", *(mark for mark in marks if marks[mark])]),
            "kind": "prune",
            "sparsity": sparsity,
            "masks": entry.masks,
            "scope": entry.scope,
            "exempt": exempt,
        }
    )


def _int8(entry: Int8, mode: Mode) -> Variant:
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
    balanced = entry.calibration == "group-balanced"
    protocol = ("group-balanced" if balanced else entry.protocol) if static else "sound"
    if protocol != "sound":
        marks.append(protocol)
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
        protocol=protocol,
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
            "bits": {"int8": 8, "float16": 16}[kind],
        }
    )
