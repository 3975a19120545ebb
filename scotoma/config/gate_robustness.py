"""The gate's rule on corrupted pictures: how much more than dense a variant may lose on them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from scotoma.config.gate_changes import Frozen, Id

__all__ = ["MaxLoss", "RobustnessRule"]

Family = Literal["all", "noise", "blur", "weather", "digital", "extended"]


class MaxLoss(Frozen):
    """How much more a variant may lose than dense."""

    points: float = Field(ge=0, lt=100, description="Percentage points: 2.0.")


class RobustnessRule(Frozen):
    """No group loses more than dense on corrupted pictures, but for a margin."""

    id: Id
    metric: Literal["robustness_loss"]
    scale: Literal["absolute", "relative"] = Field(
        "relative",
        description="Points of accuracy, or points of relative robustness: per cent of the clean "
        "accuracy that are left.",
    )
    over: Literal["groups", "all"] = Field(
        "groups", description="Every group, or all examples together."
    )
    kinds: list[Family] | None = Field(
        None, min_length=1, description="Families of corruptions; null for all that were made."
    )
    max_increase: MaxLoss
