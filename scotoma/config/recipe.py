"""All that decides a training run, apart from the data, the model and the seed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from scotoma.config.variants import Frozen

__all__ = ["Recipe"]


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
