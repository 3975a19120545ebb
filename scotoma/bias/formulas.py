"""The formulas of the fixed-seed study's metrics, on counts of one class against the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scotoma.numbers.inputs import Floats

Counts = npt.NDArray[Any]
GroupWeights = Literal["examples", "negatives"]


@dataclass(frozen=True)
class ClassConfusion:
    """Counts of one class against the rest, by group, member and class.

    Attributes:
        cells: True positives, false positives, false negatives and true negatives, shape
            (4, G, M, C).
    """

    cells: Floats

    @classmethod
    def of(cls, called: Counts, tp: Counts, positives: Counts, n: Counts) -> ClassConfusion:
        """The counts behind these, of shapes that broadcast to (G, M, C)."""
        return cls(
            np.stack(
                np.broadcast_arrays(tp, called - tp, positives - tp, n - called - positives + tp)
            )
        )

    @property
    def n(self) -> Floats:
        """Examples, shape (G, M, C)."""
        return np.asarray(self.cells.sum(axis=0))

    @property
    def called(self) -> Floats:
        """Positive predictions."""
        return np.asarray(self.cells[0] + self.cells[1])

    @property
    def positives(self) -> Floats:
        """Positive labels."""
        return np.asarray(self.cells[0] + self.cells[2])

    @property
    def negatives(self) -> Floats:
        """Negative labels."""
        return np.asarray(self.cells[1] + self.cells[3])


def _rate(over: Floats, under: Floats) -> Floats:
    return np.asarray(np.where(under > 0, over / under, np.nan))


def _all(counts: Floats) -> Floats:
    return np.asarray(counts.sum(axis=0, keepdims=True))


def _largest_pair(over: Floats, under: Floats) -> Floats:
    rates = _rate(over, under)
    return np.asarray(rates.max(axis=0) - rates.min(axis=0))


def _impact(c: ClassConfusion, weights: GroupWeights) -> Floats:
    """1 - smallest/largest: the formula's min, also where the smaller rate is 0."""
    rates = _rate(c.called, c.n)
    return 1 - _rate(rates.min(axis=0), rates.max(axis=0))


def _subgroups(over: Floats, under: Floats, share: Floats) -> Floats:
    """Weighted mean distance from the rate of all; a group without weight adds nothing."""
    apart = share * np.abs(_rate(_all(over), _all(under)) - _rate(over, under))
    value = np.where(share > 0, apart, 0.0).sum(axis=0)
    return np.where(under.sum(axis=0) > 0, value, np.nan)


def _amplification(c: ClassConfusion, weights: GroupWeights) -> Floats:
    moved = np.abs(_rate(c.called, _all(c.called)) - _rate(c.positives, _all(c.positives)))
    leading = c.positives == c.positives.max(axis=0)
    value = np.where(leading, moved, -np.inf).max(axis=0)
    return np.where(np.isnan(moved).any(axis=0), np.nan, value)


FORMULAS: dict[str, Callable[[ClassConfusion, GroupWeights], Floats]] = {
    "DP": lambda c, weights: _largest_pair(c.called, c.n),
    "DI": _impact,
    "SPSF": lambda c, weights: _subgroups(c.called, c.n, c.n / _all(c.n)),
    "FPSF": lambda c, weights: _subgroups(
        c.cells[1], c.negatives, (c.n if weights == "examples" else c.negatives) / _all(c.n)
    ),
    "EOFP": lambda c, weights: _largest_pair(c.cells[1], c.negatives),
    "EOTP": lambda c, weights: _largest_pair(c.cells[0], c.positives),
    "BA": _amplification,
}
# Denominators by which each may be undefined, in the order in which they are named: of every group
# or, with one entry, of all together.
DENOMINATORS: dict[str, Callable[[ClassConfusion], dict[str, Floats]]] = {
    "DP": lambda c: {"examples": c.n},
    "DI": lambda c: {"examples": c.n, "predictions": _all(c.called)},
    "SPSF": lambda c: {"examples": _all(c.n)},
    "FPSF": lambda c: {
        "negatives": np.where((c.n > 0) | (_all(c.negatives) == 0), c.negatives, np.nan)
    },
    "EOFP": lambda c: {"negatives": c.negatives},
    "EOTP": lambda c: {"positives": c.positives},
    "BA": lambda c: {"predictions": _all(c.called), "positives": _all(c.positives)},
}
