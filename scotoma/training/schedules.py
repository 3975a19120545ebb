"""How large is a step? It rises in a warm-up, then falls."""

from __future__ import annotations

import math

from scotoma.config import Recipe

__all__ = ["learning_rate"]

# Where the rate of one-cycle starts and ends, as Smith and Topin (2018) and torch have it.
STARTS_AT, ENDS_AT = 1 / 25, 1 / 25 / 1e4


def learning_rate(step: int, recipe: Recipe) -> float:
    """Compute the step size at a step.

    Args:
        step: Optimiser step, from 0.
        recipe: In steps. `cosine` and `linear` fall to 0 and `constant` stays, each after a linear
            warm-up; `one-cycle` rises along a cosine from a 25th of the peak and falls along one
            to a 10,000th of that.

    Returns:
        Above 0; at most `recipe.learning_rate`.

    >>> recipe = Recipe(steps=100, warmup=0.1, learning_rate=1.0)
    >>> [round(learning_rate(step, recipe), 3) for step in (0, 9, 10, 55, 99)]
    [0.1, 1.0, 1.0, 0.5, 0.0]
    """
    peak, steps = recipe.learning_rate, recipe.total_steps
    if recipe.schedule == "one-cycle":
        return peak * _one_cycle(step, steps, recipe.warmup)
    rising = max(1, round(recipe.warmup * steps))
    if step < rising:
        return peak * (step + 1) / rising
    progress = (step - rising) / max(1, steps - rising)
    match recipe.schedule:
        case "cosine":
            return peak * 0.5 * (1 + math.cos(math.pi * progress))
        case "linear":
            return peak * (1 - progress)
        case "constant":
            return peak


def _one_cycle(step: int, steps: int, warmup: float) -> float:
    """Compute the rate as a fraction of the peak, which may lie between two steps."""
    top = warmup * steps - 1
    if step <= top:
        return _between(STARTS_AT, 1.0, step / top if top > 0 else 1.0)
    return _between(1.0, ENDS_AT, (step - top) / (steps - 1 - top))


def _between(start: float, end: float, progress: float) -> float:
    """Go from `start` to `end` along half a cosine."""
    return end + (start - end) / 2 * (1 + math.cos(math.pi * progress))
