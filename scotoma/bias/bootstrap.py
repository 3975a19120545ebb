"""Draws of the crossed bootstrap, as weighted counts per group, label and prediction."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scotoma.numbers.inputs import Codes, Floats

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
