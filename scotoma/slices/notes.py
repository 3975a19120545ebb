"""Which properties of the data should a reader know before trusting a slice?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from scotoma.slices.outcomes import Outcome
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.view import Description

PURE = 0.999  # share of the examples whose answer the feature's value determines


def harm_everywhere(view: Description, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Say so where all examples differ from their baseline, as then any large slice does."""
    if settings["reference"] != "baseline" or settings["metric"] == "auc":
        return ()
    change = view.change()
    if not (change.low > 0 or change.high < 0):
        return ()
    return (
        f"all examples together differ from the baseline by {change.value:+.3g} "
        f"[{change.low:+.3g}, {change.high:+.3g}]: use reference='rest' to find where they changed "
        "more than elsewhere",
    )


def leaks(encoded: Encoded, outcome: Outcome, labels: npt.ArrayLike | None) -> tuple[str, ...]:
    """Name each feature whose values determine the label or the outcome.

    Such a feature was computed from the answer: its slices say nothing about the model.
    """
    answers: list[tuple[str, npt.NDArray[np.generic]]] = []
    if labels is not None:
        answers.append(("label", np.asarray(labels)[outcome.rows]))
    if outcome.model.members == 1 and np.isin(outcome.model.above, (0, 1)).all():
        answers.append(("outcome", outcome.model.above[:, 0]))
    notes: list[str] = []
    for name, codes in zip(encoded.features, encoded.codes, strict=True):
        known = [what for what, answer in answers if _determines(codes, answer)]
        if known:
            notes.append(
                f"column {name!r} tells the {known[0]} of nearly every example: its slices are "
                "leakage, leave it out"
            )
    return tuple(notes)


def _determines(codes: npt.NDArray[np.uint8], answer: npt.NDArray[np.generic]) -> bool:
    values, own = np.unique(answer, return_inverse=True)
    if values.size < 2 or values.size > 1000:
        return False
    table = np.bincount(codes.astype(np.int64) * values.size + own, minlength=256 * values.size)
    most = table.reshape(-1, values.size).max(1).sum() / own.size
    alone = np.bincount(own).max() / own.size
    return bool(most >= PURE and alone < 0.5 + PURE / 2 and most > alone)
