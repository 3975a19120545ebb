"""The gate's rules on corrupted pictures: how much worse than dense a variant may get on them."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field

from scotoma.config.gate_changes import FrozenGatePart, Id

__all__ = ["OTHER_PICTURES", "MaxLoss", "PicturesRule", "RobustnessRule"]

Family = Literal["all", "noise", "blur", "weather", "digital", "extended"]
PicturesMetric = Literal["overconfidence", "unnoticed_pictures"]
OTHER_PICTURES: tuple[str, ...] = get_args(PicturesMetric)


class MaxLoss(FrozenGatePart):
    """How much more a variant may lose than dense."""

    points: float = Field(ge=0, lt=100, description="Percentage points: 2.0.")


class RobustnessRule(FrozenGatePart):
    """No group loses more than dense on corrupted pictures, but for a margin."""

    id: Id
    metric: Literal["robustness_loss"]
    scale: Literal["absolute", "relative"] = Field(
        "relative",
        description="Points of accuracy, or points of relative robustness: per cent of the clean "
        "accuracy that are left.",
    )
    top: Literal[1, 5] = Field(
        1,
        description="5: a picture is right whose label is among the five classes of the highest "
        "scores; for more than ten classes.",
    )
    over: Literal["groups", "all"] = Field(
        "groups", description="Every group, or all examples together."
    )
    kinds: list[Family] | None = Field(
        None, min_length=1, description="Families of corruptions; null for all that were made."
    )
    max_increase: MaxLoss


class PicturesRule(FrozenGatePart):
    """No group gets worse than with dense models on other pictures, but for a margin.

    `overconfidence` is confidence less accuracy, under corruption; `unnoticed_pictures` the chance
    that a clean picture is more familiar than a corrupted one, how much it falls.
    """

    id: Id
    metric: PicturesMetric
    over: Literal["groups", "all"] = Field(
        "all", description="Every group, or all examples together."
    )
    kinds: list[Family] | None = Field(
        None,
        min_length=1,
        description="Families of corruptions; null for all that were made.",
    )
    max_increase: MaxLoss
