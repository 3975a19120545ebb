"""What one dense and one compressed model would have said of the groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.config import Config
from scotoma.verdict.one_model import one_model_trap

__all__ = ["group_errors", "one_model"]

RELATIVE, ABSOLUTE = 0.2, 0.005  # of the default gate


def group_errors(
    predicted: NDArray[np.unsignedinteger[Any]],
    labels: NDArray[np.integer[Any]],
    masks: NDArray[np.bool_],
    positive: int | None,
) -> NDArray[np.float64]:
    """Error of every member on every group.

    Args:
        predicted: Class ids, shape (N, K).
        labels: True class ids, shape (N,).
        masks: Which examples belong to each group, shape (G, N).
        positive: Class whose confusion with the others is the error; None where any is one.

    Returns:
        Fractions, shape (G, K); nan where a group is empty.

    >>> masks = np.array([[True, True, True], [False, True, True]])
    >>> group_errors(np.array([[1], [1], [2]], np.uint8), np.array([1, 2, 0]), masks, 1).round(2)
    array([[0.33],
           [0.5 ]])
    """
    truth = labels[:, None]
    wrong = (
        predicted != truth if positive is None else (predicted == positive) != (truth == positive)
    )
    with np.errstate(invalid="ignore"):
        found: NDArray[np.float64] = masks.astype(np.float64) @ wrong / masks.sum(axis=1)[:, None]
    return found


def one_model(config: Config, errors: Mapping[str, NDArray[np.float64]]) -> dict[str, Any]:
    """How often few models a side would contradict all of them about the error of the groups.

    Args:
        config: Its variants and its seed.
        errors: Of `group_errors`, by variant.

    Returns:
        The limits, and rows of `one_model_trap` by compressed variant.
    """
    return {
        "relative": RELATIVE,
        "absolute": ABSOLUTE,
        "variants": {
            variant.name: one_model_trap(
                errors["dense"],
                errors[variant.name],
                relative=RELATIVE,
                absolute=ABSOLUTE,
                paired=variant.paired,
                seed=config.population.seed,
            )
            for variant in config.resolved_variants[1:]
        },
    }
