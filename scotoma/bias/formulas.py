"""The formulas of the fixed-seed study's metrics, on counts of one class against the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scotoma.numbers.inputs import Codes, Floats

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


_CHUNK = 4_000_000  # weights or counts held at once, 32 MB


def weigh(codes: Codes, weights: Floats, shape: tuple[int, int, int]) -> Floats:
    """Counts of every draw and member.

    Args:
        codes: Flat cell of each row on each member, shape (U, K), in [0, G C C).
        weights: How often each draw takes each row, shape (B, U).
        shape: (G, C, C): groups, labels, predictions.

    Returns:
        Counts [g, b K + m, y, p], shape (G, B K, C, C).

    >>> import numpy as np
    >>> weigh(np.array([[0], [3]]), np.array([[1.0, 2.0]]), (1, 2, 2)).tolist()
    [[[[1.0, 0.0], [0.0, 2.0]]]]
    """
    from scipy.sparse import csr_matrix

    rows, members = codes.shape
    cells = int(np.prod(shape))
    at = (codes + np.arange(members) * cells).ravel()
    which = np.repeat(np.arange(rows), members)
    table = csr_matrix((np.ones(at.size), (at, which)), shape=(members * cells, rows))
    counts = np.asarray(table @ weights.T).reshape(members, *shape, len(weights))
    return np.moveaxis(counts, (4, 0), (1, 2)).reshape(shape[0], -1, *shape[1:])


def example_draws(
    rng: np.random.Generator, codes: Codes, clusters: Codes | None, draws: int, cells: int
) -> Iterator[tuple[Codes, Floats]]:
    """Draw examples, or whole clusters, Poisson(1) times each.

    Rows with the same cells on all members are drawn together: their number of draws is Poisson
    with their count as mean. Clusters keep their rows apart.

    Args:
        rng: Seeded generator.
        codes: As for `weigh`.
        clusters: Number of each row's cluster from 0, shape (U,); None for rows of their own.
        draws: Number of draws in all.
        cells: Counts that a draw makes per member, which limits how many are made at once.

    Yields:
        Codes and weights for `weigh`, some draws at a time.

    >>> import numpy as np
    >>> codes = np.array([[0], [3], [0]])
    >>> drawn = list(example_draws(np.random.default_rng(0), codes, None, 5, 4))
    >>> drawn[0][0].ravel(), drawn[0][1].shape
    (array([0, 3]), (5, 2))
    """
    if clusters is None:
        codes, counts = np.unique(codes, axis=0, return_counts=True)
        size = len(codes)
    else:
        size = int(clusters.max(initial=-1)) + 1
    step = max(1, _CHUNK // max(len(codes), cells * codes.shape[1]))
    for start in range(0, draws, step):
        part = min(step, draws - start)
        if clusters is None:
            yield codes, rng.poisson(counts, size=(part, size)).astype(np.float64)
        else:
            yield codes, rng.poisson(1.0, size=(part, size))[:, clusters].astype(np.float64)
