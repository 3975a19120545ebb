from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from scotoma.config import Recipe
from scotoma.errors import ConfigError

IMPOSSIBLE: dict[str, tuple[dict[str, Any], str]] = {
    "steps and epochs": (
        {"steps": 10, "epochs": 2},
        "steps 10 and epochs 2 are both given; keep one of them",
    ),
    "squares of sgd": (
        {"adamw_squares": 0.9},
        "adamw_squares 0.9 has no effect without optimiser adamw or adam; add that, or leave "
        "out the key",
    ),
    "a crop without shifts": (
        {"crop": 0.1, "augmentation": "alternating-flip"},
        "crop 0.1 has no effect without augmentation crop-flip or crop-alternating-flip",
    ),
    "a decay of no average": (
        {"average_decay": 0.5},
        "average_decay 0.5 has no effect without averaging ema or lookahead",
    ),
    "updates of no average": (
        {"average_every": 5},
        "average_every 5 has no effect without averaging ema or lookahead",
    ),
    "a ramp of no average": (
        {"average_ramp": 3.0},
        "average_ramp 3 has no effect without averaging ema or lookahead",
    ),
    "one cycle without a rise": (
        {"schedule": "one-cycle", "warmup": 0.0},
        "schedule one-cycle rises during warmup, which must be above 0, got 0",
    ),
}


@pytest.mark.parametrize(("values", "message"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_cannot_be_or_has_no_effect_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Recipe(**values)
    assert message in str(refused.value)


def test_a_recipe_is_400_steps_where_nothing_is_said() -> None:
    assert Recipe().steps == 400
    assert Recipe(epochs=3.0).steps is None
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        Recipe(steps=0)


@pytest.mark.parametrize(
    ("epochs", "batch_size", "examples", "steps"),
    # What fills no batch is left out of an epoch; a batch is no larger than the data.
    [(2.0, 16, 70, 8), (0.5, 16, 70, 2), (9.9, 1024, 50_000, 475), (3.0, 512, 100, 3)],
)
def test_epochs_become_steps_once_the_data_are_known(
    epochs: float, batch_size: int, examples: int, steps: int
) -> None:
    recipe = Recipe(epochs=epochs, batch_size=batch_size, momentum=0.8, prune_every=0.01)
    if steps > 3:
        resolved = recipe.resolved(examples)
        assert resolved == recipe.model_copy(update={"steps": steps, "epochs": None})
        assert resolved.resolved(7) is resolved
    else:
        with pytest.raises(ConfigError, match=f"epochs {epochs:g} are {steps} steps of this data"):
            recipe.model_copy(update={"prune_end": 1.0}).resolved(examples)
    with pytest.raises(ValueError, match="only of data of known size"):
        _ = recipe.total_steps
