"""Which rows does a fairer member see? Rows of the training set, from labels, groups and a seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scotoma.numbers.inputs import Flags, Ints

# Streams of a seed, apart from those of data order and augmentation.
SUBSAMPLE, DRAW, SIZE_MATCHED = 2**34, 2**35, 2**36


def cell_sizes(labels: Ints, groups: Ints, shape: tuple[int, int]) -> Ints:
    """Count the examples of every (group, class).

    Args:
        labels: Class ids, shape (N,).
        groups: Group codes, shape (N,).
        shape: G and C.

    Returns:
        Counts, shape (G, C).

    >>> cell_sizes(np.array([0, 1, 1]), np.array([0, 0, 1]), (2, 2)).tolist()
    [[1, 1], [0, 1]]
    """
    return np.bincount(groups * shape[1] + labels, minlength=shape[0] * shape[1]).reshape(shape)


def repeated_rows(labels: Ints, groups: Ints) -> Ints:
    """Repeat every example of a class's smaller groups: S-RS.

    Args:
        labels: Class ids, shape (N,).
        groups: Group codes, shape (N,).

    Returns:
        Rows, each repeated floor(n_major / n) times, n the size of its (class, group) and n_major
        that of the class's largest group, in their order; each once where groups are balanced.

    >>> repeated_rows(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])).tolist()
    [0, 1, 2, 2, 3]
    """
    counts = cell_sizes(labels, groups, (int(groups.max()) + 1, int(labels.max()) + 1))
    times = counts.max(axis=0) // np.maximum(counts, 1)
    return np.repeat(np.arange(len(labels)), times[groups, labels])


def subsampled_rows(labels: Ints, groups: Ints, seed: int) -> Ints:
    """Draw as many examples of every (class, group) as the smallest has: SUBG.

    Args:
        labels: Class ids, shape (N,).
        groups: Group codes, shape (N,).
        seed: Another seed draws others.

    Returns:
        Rows, ascending.

    References:
        Idrissi et al. (2022), "Simple data balancing achieves competitive worst-group-accuracy".

    >>> rows = subsampled_rows(np.array([0, 0, 0, 1]), np.array([0, 0, 0, 0]), seed=3)
    >>> len(rows), 3 in rows
    (2, True)
    """
    cells = groups * (labels.max() + 1) + labels
    present, counts = np.unique(cells, return_counts=True)
    rng = np.random.Generator(np.random.Philox(key=[seed, SUBSAMPLE]))
    drawn = [
        rng.choice(np.flatnonzero(cells == cell), counts.min(), replace=False) for cell in present
    ]
    return np.sort(np.concatenate(drawn))


def rows_with_repeats(repeated: Flags, times: int) -> Ints:
    """List all rows once and some so often: the second training of JTT.

    Args:
        repeated: The rows that stand `times` times, bool, shape (N,).
        times: At least 1.

    >>> rows_with_repeats(np.array([False, True]), 3).tolist()
    [0, 1, 1, 1]
    """
    return np.repeat(np.arange(len(repeated)), np.where(repeated, times, 1))


def balanced_draw(cells: Ints, seed: int, step: int, batch_size: int) -> Ints:
    """Draw a batch in which every cell is as likely as any other, with replacement.

    Args:
        cells: Cell of each example, from 0 without gaps, shape (N,).
        seed: Seed of the member.
        step: Optimiser step.
        batch_size: Rows to draw.

    Returns:
        Rows, shape (batch_size,); a function of the arguments alone.

    References:
        Sagawa et al. (2020), section 4.2: group-balanced sampling.
    """
    order = np.argsort(cells, kind="stable")
    counts = np.bincount(cells)
    starts = np.cumsum(counts) - counts
    rng = np.random.Generator(np.random.Philox(key=[seed, DRAW + step]))
    chosen = rng.integers(0, len(counts), batch_size)
    return np.asarray(order[starts[chosen] + rng.integers(0, counts[chosen])])


def balanced_batch(groups: Ints, drawn: Ints, per_group: int = 16) -> Ints | None:
    """Keep the first rows of each of two groups: the batches of A4 and A5.

    Args:
        groups: Group codes 0 and 1 of the training set, shape (N,).
        drawn: Rows drawn for the batch, 80 in the published code.
        per_group: Rows to keep of each group.

    Returns:
        Rows, shape (2 * per_group,); None where a group has fewer: the batch is skipped.

    >>> groups = np.array([0, 0, 1, 1])
    >>> balanced_batch(groups, np.array([2, 0, 3, 1]), 1).tolist()
    [0, 2]
    """
    kept = [drawn[groups[drawn] == code][:per_group] for code in (0, 1)]
    if any(len(rows) < per_group for rows in kept):
        return None
    return np.concatenate(kept)


def balanced_halves(groups: Ints, seed: int, step: int, batch_size: int) -> Ints:
    """Draw a batch with as many rows of one group as of the other, without replacement.

    The published code draws 80 rows, keeps the first 16 of each group, and skips a batch in which a
    group has fewer. Here it is drawn on until both have enough, so that no step is lost.

    Args:
        groups: Group codes 0 and 1 of the training set, shape (N,).
        seed: Seed of the member.
        step: Optimiser step.
        batch_size: Rows to draw; fewer where a group has less than half of them.

    Returns:
        Rows, half of them of each group; a function of the arguments alone.

    References:
        Wang et al. (2019), "Balanced Datasets Are Not Enough"; its published code.

    >>> rows = balanced_halves(np.array([0, 0, 1, 0, 1]), 5, 3, 4)
    >>> len(rows), {2, 4} <= set(rows.tolist())
    (4, True)
    """
    rng = np.random.Generator(np.random.Philox(key=[seed, DRAW + step]))
    per_group = min(batch_size // 2, int(np.bincount(groups).min()))
    kept = balanced_batch(groups, rng.permutation(len(groups)), per_group)
    assert kept is not None
    return kept


def ratio_subset(labels: NDArray[np.integer], groups: Ints, ratio: float) -> Ints:
    """Remove rows until each label's two groups are within a ratio: R1, R2, R3.

    Args:
        labels: 0 and 1, shape (N, L).
        groups: Group codes 0 and 1, shape (N,).
        ratio: r: for every label that a remaining row has, the groups' counts n_0 and n_1 hold
            1/r <= n_0 / n_1 <= r.

    Returns:
        Rows that stay, ascending. Greedy: of the rows whose removal mends most excess, with the
        fewest labels that need not shrink, the first goes; a label that only one group has loses
        all of its rows.

    References:
        Wang et al. (2019), "Balanced Datasets Are Not Enough", section 3.3; the rule is ours.

    >>> labels, groups = np.array([[1], [1], [1]]), np.array([0, 0, 1])
    >>> ratio_subset(labels, groups, 1.0).tolist()
    [1, 2]
    """
    held = np.asarray(labels, bool)
    stays = np.ones(len(held), bool)
    counts = np.stack([held[groups == code].sum(0) for code in (0, 1)]).astype(np.int64)
    while True:
        excess = np.stack([counts[0] - ratio * counts[1], counts[1] - ratio * counts[0]])
        over = excess > 1e-9  # (2, L)
        if not over.any():
            return np.flatnonzero(stays)
        mends = (held & over[groups]).sum(1)
        costs = (held & ~over[groups]).sum(1)
        merit = np.where(stays & (mends > 0), mends * (held.shape[1] + 1) - costs, -np.inf)
        row = int(merit.argmax())
        stays[row] = False
        counts[groups[row]] -= held[row]


def ratio_rows(labels: Ints, groups: Ints, ratio: float) -> Ints:
    """Choose the rows of R1, R2 and R3, of one label or several; see `ratio_subset`.

    Args:
        labels: Class ids, shape (N,); of several labels 0 and 1, shape (N, L).
        groups: Group codes 0 and 1, shape (N,).
        ratio: Of the two groups, at most.

    >>> ratio_rows(np.array([3, 3, 3, 0]), np.array([0, 0, 1, 1]), 1.0).tolist()
    [1, 2]
    """
    held = labels if labels.ndim == 2 else labels[:, None] == np.unique(labels)
    return ratio_subset(held, groups, ratio)


def size_matched_subset(examples: int, size: int, seed: int) -> Ints:
    """Draw rows at random, as many as a balanced subset has: the control of R1 to R3.

    Args:
        examples: N.
        size: Rows to draw, at most N.
        seed: Another seed draws others.

    Returns:
        Rows, ascending, shape (size,).

    >>> size_matched_subset(3, 3, seed=0).tolist()
    [0, 1, 2]
    """
    rng = np.random.Generator(np.random.Philox(key=[seed, SIZE_MATCHED]))
    return np.sort(rng.choice(examples, size, replace=False))
