"""What would the bias of the same models be on another test set? By drawing examples anew."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from scotoma.bias.fairness import examples_in_groups, fairness_of_cells
from scotoma.bias.formulas import ClassConfusion, weigh
from scotoma.numbers.inputs import Codes, Floats, cluster_ids

DRAWS = 400  # a standard deviation of these is known to 3.5%
CHUNK = 4_000_000  # counts held at once, 32 MB


def resampled_bias(
    labels: npt.ArrayLike,
    populations: Sequence[npt.ArrayLike],
    groups: npt.ArrayLike,
    metrics: Sequence[str],
    *,
    n_classes: int,
    class_id: int | None = None,
    clusters: npt.ArrayLike | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Floats:
    """Draw test examples, or whole clusters, Poisson(1) times each, and measure bias again.

    Every population meets the same draws, so that differences between populations are paired.

    Args:
        labels: True class ids, shape (N,).
        populations: Predicted class ids of the members of each, shape (N, K).
        groups: Who belongs to which group, bool, shape (G, N), G at least 2; no row in two groups.
        metrics: Of the seven.
        n_classes: Number of classes.
        class_id: The class against the rest; None for the mean over all classes.
        clusters: Id of each row's cluster, shape (N,); None where every row is its own.
        draws: How many.
        seed: Of the draws.

    Returns:
        Mean over the members, shape (draws, populations, metrics); nan where a draw leaves a
        metric undefined.

    Raises:
        DataError: Groups that overlap, or shapes that do not fit together.

    >>> predicted = [[0], [1], [1], [0]] * 50
    >>> groups = np.array([[True, False], [False, True]]).repeat(100, axis=1)
    >>> once = resampled_bias([0, 1] * 100, [predicted], groups, ["DP"], n_classes=2, draws=3)
    >>> once.shape
    (3, 1, 1)
    """
    answer = np.empty((draws, len(populations), len(metrics)))
    ids = cluster_ids(clusters, np.asarray(labels).size)
    weights: Floats | None = None
    for place, predicted in enumerate(populations):
        y, p, group, rows = examples_in_groups(labels, predicted, groups, n_classes)
        if weights is None:
            weights = _weights(ids, rows, np.asarray(labels).size, draws, seed)
        shape = (len(np.asarray(groups)), n_classes)
        members = p.shape[1]
        step = max(1, CHUNK // (members * shape[0] * shape[1]))
        for start in range(0, draws, step):
            part = weights[start : start + step]
            cells = _confusion(y, p, group, shape, part)
            for m, metric in enumerate(metrics):
                found = fairness_of_cells(metric, cells)
                values = found.overall if class_id is None else found.per_class[:, class_id]
                by_draw = values.reshape(len(part), members).mean(axis=1)
                answer[start : start + step, place, m] = by_draw
    return answer


def _weights(ids: Codes | None, rows: Codes, n: int, draws: int, seed: int) -> Floats:
    """How often each draw takes each row, shape (draws, rows)."""
    rng = np.random.Generator(np.random.Philox(key=seed))
    own = np.arange(n) if ids is None else ids
    return rng.poisson(1.0, (draws, int(own.max(initial=-1)) + 1))[:, own[rows]].astype(np.float64)


def _confusion(
    y: Codes, p: Codes, group: Codes, shape: tuple[int, int], weights: Floats
) -> ClassConfusion:
    """Weighted counts of each class against the rest, (G, draws x M, C)."""
    own = group * shape[1]
    # Of every prediction of a class whether it is right: the last of two cells.
    codes = 2 * (own[:, None] + p) + (p == y[:, None])
    counts = weigh(codes, weights, (*shape, 2))
    positive, tp = counts.sum(axis=-1), counts[..., 1]
    actual = weigh((own + y)[:, None], weights, (*shape, 1))[..., 0].repeat(p.shape[1], axis=1)
    return ClassConfusion.of(positive, tp, actual, actual.sum(axis=2, keepdims=True))
