"""All that decides a training run, apart from the data, the model and the seed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from scotoma.config.shared import Frozen
from scotoma.errors import ConfigError

DEFAULT_STEPS = 400


class Recipe(Frozen):
    """All that decides a training run, apart from the data, the model and the seed."""

    steps: int | None = Field(
        None,
        ge=1,
        le=10_000_000,
        description=f"Optimiser steps of one member; {DEFAULT_STEPS} unless `epochs` is set.",
    )
    epochs: float | None = Field(
        None, gt=0, le=100_000, description="Passes over the training data, in place of `steps`."
    )
    batch_size: int = Field(64, ge=1, description="Images a step.")
    optimiser: Literal["sgd", "adamw", "adam"] = Field(
        "sgd", description="sgd is Nesterov's; adam has its weight decay inside, as an L2 penalty."
    )
    schedule: Literal["cosine", "linear", "one-cycle", "constant"] = Field(
        "cosine", description="How the step size falls after `warmup`."
    )
    learning_rate: float = Field(0.02, gt=0, description="Peak step size, reached after `warmup`.")
    warmup: float = Field(0.1, ge=0, lt=1, description="Fraction of the steps with a rising rate.")
    momentum: float = Field(
        0.9, ge=0, lt=1, description="Nesterov momentum; adamw, adam: decay of the mean gradient."
    )
    adamw_squares: float = Field(
        0.999, ge=0, lt=1, description="adamw, adam: decay of the mean squared gradient."
    )
    weight_decay: float = Field(
        5e-4, ge=0, description="On conv and linear weights: an L2 penalty; adamw: decoupled."
    )
    bias_rate: float = Field(
        1.0, gt=0, description="Step size of biases, as a multiple of that of the weights."
    )
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="Share of a label that is spread over all classes."
    )
    prune_begin: float = Field(0.1, ge=0, lt=1, description="First mask update, fraction of steps.")
    prune_end: float = Field(0.65, gt=0, le=1, description="Last mask update, fraction of steps.")
    prune_every: float = Field(
        0.02, gt=0, le=1, description="Interval between mask updates, fraction of steps."
    )
    augmentation: Literal[
        "none", "flip", "crop-flip", "alternating-flip", "crop-alternating-flip"
    ] = Field(
        "none",
        description="Training images: mirrored, by chance or every other epoch; crop-: also "
        "shifted.",
    )
    crop: float = Field(
        0.125, gt=0, le=0.5, description="crop-: largest shift each way, fraction of the size."
    )
    averaging: Literal["none", "ema", "lookahead"] = Field(
        "none",
        description="Average of the weights: ema evaluates it; lookahead also resets the "
        "weights to it.",
    )
    average_decay: float = Field(
        0.99, ge=0, lt=1, description="Fraction of itself that the average keeps at an update."
    )
    average_every: int = Field(1, ge=1, description="Steps between updates of the average.")
    average_ramp: float = Field(
        0.0, ge=0, description="The decay grows as this power of the run's progress; 0: constant."
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="Precision of products in training; weights are always float32."
    )

    @property
    def total_steps(self) -> int:
        """Optimiser steps of one member.

        Raises:
            ValueError: The recipe counts epochs, whose steps the data decide: see `resolved`.
        """
        if self.steps is None:
            raise ValueError(f"{self.epochs} epochs are so many steps only of data of known size")
        return self.steps

    @property
    def mask_updates(self) -> tuple[int, int, int]:
        """First step, last step and distance of the mask updates.

        The distance is kept, so the last update falls on the largest multiple of it that fits.

        >>> Recipe(steps=10_000, prune_end=0.9, prune_every=0.05).mask_updates  # the CIE paper
        (1000, 9000, 500)
        """
        begin = round(self.prune_begin * self.total_steps)
        every = max(1, round(self.prune_every * self.total_steps))
        updates = max(1, (round(self.prune_end * self.total_steps) - begin) // every)
        return begin, begin + updates * every, every

    def resolved(self, examples: int) -> Recipe:
        """The same recipe in steps.

        Args:
            examples: Size of the training split; an epoch leaves out what fills no batch.

        Returns:
            A recipe with `steps` and without `epochs`.

        Raises:
            ConfigError: So many steps do not hold the mask updates.

        >>> Recipe(epochs=8, batch_size=1000).resolved(50_000).steps
        400
        """
        if self.steps is not None or self.epochs is None:
            return self
        batches = examples // min(self.batch_size, examples)
        steps = max(1, round(self.epochs * batches))
        try:
            return Recipe.model_validate({**self.model_dump(), "steps": steps, "epochs": None})
        except ValidationError as error:
            reason = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
            raise ConfigError(
                f"source.recipe.epochs {self.epochs:g} are {steps} steps of this data: {reason}"
            ) from error

    @model_validator(mode="before")
    @classmethod
    def _steps_or_epochs(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        steps, epochs = values.get("steps"), values.get("epochs")
        if steps is not None and epochs is not None:
            raise ValueError(f"steps {steps} and epochs {epochs} are both given; keep one of them")
        return {**values, "steps": DEFAULT_STEPS} if steps is None and epochs is None else values

    def _misfits(self) -> Iterator[str]:
        if self.prune_end <= self.prune_begin:
            yield (
                f"prune_end must be later than prune_begin, got {self.prune_end} and "
                f"{self.prune_begin}; the CIE paper uses 0.9 and 0.1"
            )
        elif self.steps is not None and (last := self.mask_updates[1]) >= self.steps:
            yield (
                f"the last mask update would fall on step {last} of {self.steps}, after the last; "
                "lower prune_every or prune_end, or train for more steps"
            )
        cropped = self.augmentation.startswith("crop-")
        averaged = self.averaging != "none"
        needs = {
            "adamw_squares": ("optimiser adamw or adam", self.optimiser != "sgd"),
            "crop": ("augmentation crop-flip or crop-alternating-flip", cropped),
            "average_decay": ("averaging ema or lookahead", averaged),
            "average_every": ("averaging ema or lookahead", averaged),
            "average_ramp": ("averaging ema or lookahead", averaged),
        }
        for key, (what, effective) in needs.items():
            if not effective and key in self.changed():
                yield (
                    f"{key} {getattr(self, key):g} has no effect without {what}; add that, or "
                    "leave out the key"
                )
        if self.schedule == "one-cycle" and self.warmup == 0:
            yield ("schedule one-cycle rises during warmup, which must be above 0, got 0")
