"""Ways of compressing, as a configuration names them and as they are resolved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    Tag,
)

from scotoma.config.shared import ONE_OR_MORE, Frozen
from scotoma.config.sheet import Says

MADE_ELSEWHERE = ("onnx", "predictions")  # kinds of variants that are taken in
NAME_BYTES = 200  # of the 255 of a file's name
WORDS = Says("begin with a letter or digit and hold only letters, digits, spaces, dots and dashes")
Mode = Literal["dynamic", "dynamic-per-layer", "static"]
ENDS: tuple[End, ...] = ("first", "last")
Step = Literal["int8-dynamic", "int8-dynamic-per-layer", "int8-static", "float16"]


Masks = Literal["shadow", "hard"]
Scope = Literal["layer", "global"]
End = Literal["first", "last"]
Calibrator = Literal["minmax", "entropy", "percentile"]


class Prune(Frozen):
    """Magnitude pruning during training, one variant a sparsity, and what is made of each."""

    prune: list[Annotated[float, Field(ge=0, lt=1)]] = Field(
        min_length=1, description="Shares of the weights to remove, such as [0.5, 0.9]."
    )
    masks: Masks = Field(
        "shadow",
        description="shadow: masked weights still receive gradients and may return until the last "
        "update; hard: they stay 0.",
    )
    scope: Scope = Field(
        "layer", description="Whether each layer loses that share, or all layers together."
    )
    exempt: Annotated[list[End], ONE_OR_MORE] = Field(
        default_factory=list, description="Layers that are not pruned."
    )
    then: Annotated[list[Step], ONE_OR_MORE] = Field(
        default_factory=list, description="Compressions of the pruned members."
    )

    def variants(self) -> list[Variant]:
        """One a sparsity, and what is made of it; what is not the default stands in its name."""
        exempt = [end for end in ENDS if end in self.exempt]
        marks = ["hard"] * (self.masks == "hard") + ["global"] * (self.scope == "global")
        marks += [f"exempt-{'-'.join(exempt)}"] * bool(exempt)
        pruned = [
            Variant(
                name="-".join([f"prune-{sparsity:g}", *marks]), kind="prune", sparsity=sparsity,
                masks=self.masks, scope=self.scope, exempt=tuple(exempt),
            )
            for sparsity in self.prune
        ]  # fmt: skip
        return pruned + [_after(one, step) for one in pruned for step in self.then]


class Int8(Frozen):
    """Post-training quantization of the dense members, one variant a mode."""

    int8: list[Mode] = Field(min_length=1, description="Modes of 8-bit quantization.")
    calibrator: Calibrator = Field(
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
        "images",
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

    def variants(self) -> list[Variant]:
        """One a mode; what is not the default stands in its name."""
        return [self._variant(mode) for mode in self.int8]

    def _variant(self, mode: Mode) -> Variant:
        static = mode == "static"
        calibrator = self.calibrator if static else "minmax"
        marks: list[str] = [] if calibrator == "minmax" else [calibrator]
        if calibrator == "percentile" and self.percentile != 99.99:
            marks.append(f"{self.percentile:g}")
        if static and self.images != 100:
            marks.append(f"{self.images}images")
        if self.reduce_range:
            marks.append("7bit")
        balanced = self.calibration == "group-balanced"
        protocol = ("group-balanced" if balanced else self.protocol) if static else "sound"
        if protocol != "sound":
            marks.append(protocol)
        same = self.model_dump(include={"percentile", "images", "reduce_range"})
        return Variant(
            name="-".join(["int8", mode, *marks]), kind="int8", derived_from="dense", mode=mode,
            bits=8, calibrator=calibrator, protocol=protocol, **same,
        )  # fmt: skip


class Float16(Frozen):
    """The dense members in half precision."""

    float16: Literal[True] = Field(description="Half precision.")

    def variants(self) -> list[Variant]:
        """The one."""
        return [Variant(name="float16", kind="float16", derived_from="dense", bits=16)]


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

    def variants(self) -> list[Variant]:
        """One a name."""
        kind = next(way for way in MADE_ELSEWHERE if way in type(self).model_fields)
        same: dict[str, Any] = {"bits": self.bits, "models": self.models, "kind": kind}
        of = "dense" if self.paired else ""
        return [Variant(name=name, derived_from=of, **same) for name in getattr(self, kind)]


class Onnx(External):
    """External models, one variant a folder of `source.models`."""

    onnx: list[
        Annotated[str, Field(pattern=r"^\w[\w.+-]*$", max_length=80), WORDS, AfterValidator(_short)]
    ] = Field(min_length=1, description="Folders of external models below `source.models`.")


class Predicted(External):
    """Predictions of external models, one variant a name in `source.files`."""

    predictions: list[
        Annotated[
            str,
            Field(pattern=r"^\w[\w .,+=@()-]*$", min_length=1, max_length=80),
            WORDS,
            AfterValidator(_short),
        ]
    ] = Field(min_length=1, description="Names of variants in `source.files`.")


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
    masks: Masks = "shadow"
    scope: Scope = "layer"
    exempt: tuple[End, ...] = ()  # layers that are not pruned
    mode: Mode | Literal[""] = ""
    bits: int | None = 32  # of a weight; None of external models where it is not said
    models: int | None = None  # where they are not as many as dense ones
    calibrator: Calibrator = "minmax"
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
    variants = [Variant(name="dense", kind="dense")] * entries.count("dense")
    variants += [one for entry in entries if entry != "dense" for one in entry.variants()]
    if forked:
        of_pruning = {one.name for one in variants if one.kind == "prune"}
        variants = [
            one.model_copy(update={"forked": bool({one.name, one.derived_from} & of_pruning)})
            for one in variants
        ]
    return tuple(variants)


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
