"""How often halves of populations disagree: exactly for two labels, over seeded splits otherwise.

Two routes to the same numbers. A row on which both populations use only two labels depends on the
members through its votes alone, so drawing halves is drawing from an urn and the average over all
splits is a table. With more labels, or with paired members, halves are drawn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import comb

from scotoma.divergence.scoring import label_ranks
from scotoma.inputs import Floats, Labels

Masks = npt.NDArray[np.float32]
CELLS = 2**20  # outcomes (split, swap, row) held at once


class Halves(NamedTuple):
    """Disagreement of halves on each row, averaged over splits.

    Attributes:
        dense_dense: Share of splits whose dense halves A and B differ, shape (n,).
        dense_compressed: Share of splits whose dense half A differs from compressed half B, (n,).
        drops: What leaving out one member adds to dense_compressed - dense_dense, halves keeping
            their size: (n, K) for dense and (n, K') for compressed members, or one (n, K) for
            pairs.
    """

    dense_dense: Floats
    dense_compressed: Floats
    drops: list[Floats]


def halves(
    dense: Labels, compressed: Labels, half: int, *, paired: bool, splits: int, seed: int
) -> tuple[Halves, bool]:
    """Disagreement of halves of `half` members, by the cheaper route for each row.

    Args:
        dense: Class ids, shape (n, K), K > 2 half.
        compressed: Class ids, shape (n, K'), K' > half.
        half: Members a half, odd.
        paired: Leave members out in pairs, and let B be the same members in both populations.
        splits: Number of splits where they are drawn.
        seed: Draws the splits.

    Returns:
        The halves' disagreement, and whether any row needed drawn splits.

    >>> dense, compressed = np.array([[0, 0, 1]]), np.array([[1, 1, 1]])
    >>> shares, drawn = halves(dense, compressed, 1, paired=False, splits=9, seed=0)
    >>> shares.dense_compressed.round(4).tolist(), drawn
    ([0.6667], False)
    """
    n, k, other = len(dense), dense.shape[1], compressed.shape[1]
    local, widths = row_labels(np.concatenate([dense, compressed], axis=1))
    sizes = [k] if paired else [k, other]
    result = Halves(np.zeros(n), np.zeros(n), [np.zeros((n, size)) for size in sizes])
    plan: SplitPlan | None = None
    for width in np.unique(widths).tolist():
        rows = np.flatnonzero(widths == width)
        d, c = local[rows, :k], local[rows, k:]
        if width <= 2 and not paired:
            part = by_tables(d, c, half)
        else:
            plan = plan or SplitPlan.draw(k, other, half, paired=paired, splits=splits, seed=seed)
            part = by_splits(d, c, plan, width)
        result.dense_dense[rows] = part.dense_dense
        result.dense_compressed[rows] = part.dense_compressed
        for whole, piece in zip(result.drops, part.drops, strict=True):
            whole[rows] = piece
    return result, plan is not None


def row_labels(ids: Labels) -> tuple[Labels, Labels]:
    """Each row's labels renumbered from 0 in ascending order, and how many it has.

    >>> row_labels(np.array([[7, 3, 7]]))[0].tolist()
    [[1, 0, 1]]
    """
    order = np.argsort(ids, axis=1)
    ranks = label_ranks(np.take_along_axis(ids, order, axis=1))
    local = np.empty_like(ranks)
    np.put_along_axis(local, order, ranks, axis=1)
    return local, ranks[:, -1] + 1


def majority(k: int, half: int) -> Floats:
    """Chance that `half` of k members, b of whom say 1, say 1 by majority; shape (k + 1,) over b.

    >>> majority(4, 3).tolist()
    [0.0, 0.0, 0.5, 1.0, 1.0]
    """
    ones = np.arange(half + 1)[:, None]
    return np.asarray(_urn(k, half)[2 * ones[:, 0] > half].sum(axis=0), np.float64)


def disagreement(k: int, half: int) -> Floats:
    """Chance that two disjoint halves of k members, b of whom say 1, differ; shape (k + 1,) over b.

    A says 1 and B says 0, twice by symmetry; given a ones in A, B comes from the other k - half
    members, b - a of whom say 1.

    >>> disagreement(3, 1).round(4).tolist()
    [0.0, 0.6667, 0.6667, 0.0]
    """
    ones, b = np.arange(half + 1)[:, None], np.arange(k + 1)[None]
    rest = np.clip(b - ones, 0, k - half)  # where clipped, the urn's chance is 0
    b_says_0 = 1 - majority(k - half, half)[rest]
    both = np.where(2 * ones > half, _urn(k, half) * b_says_0, 0.0)
    return np.asarray(2 * both.sum(axis=0), np.float64)


def _urn(k: int, half: int) -> Floats:
    """Hypergeometric chance of a ones among `half` of k, shape (half + 1, k + 1) over (a, b)."""
    a, b = np.arange(half + 1)[:, None], np.arange(k + 1)[None]
    return np.asarray(comb(b, a) * comb(k - b, half - a) / comb(k, half), np.float64)


def by_tables(dense: Labels, compressed: Labels, half: int) -> Halves:
    """Average over all splits of two unpaired populations that say 0 or 1.

    >>> by_tables(np.array([[0, 0, 1]]), np.array([[1, 1, 1]]), 1).dense_dense.round(4).tolist()
    [0.6667]
    """
    k, other = dense.shape[1], compressed.shape[1]
    b, v = dense.sum(axis=1), compressed.sum(axis=1)
    f, g = majority(k, half)[b], majority(other, half)[v]
    within, across = disagreement(k, half)[b], _differ(f, g)
    without_own = b[:, None] - dense
    f_left = majority(k - 1, half)[without_own]
    drop_dense = _differ(f_left, g[:, None]) - disagreement(k - 1, half)[without_own]
    g_left = majority(other - 1, half)[v[:, None] - compressed]
    drop_compressed = _differ(f[:, None], g_left) - across[:, None]
    return Halves(within, across, [drop_dense - (across - within)[:, None], drop_compressed])


def _differ(p: Floats, q: Floats) -> Floats:
    return p * (1 - q) + q * (1 - p)


class SplitPlan(NamedTuple):
    """Drawn splits as 0/1 masks over members, and each split with one member exchanged.

    A split leaves at least one member unused, the spare. Putting the spare in a member's place
    gives a random split of the others, so the same draws serve with and without the member:
    the difference carries far less chance than two sets of draws would.

    Attributes:
        a: Dense members of half A, shape (S, K).
        b: Dense members of half B, shape (S, K).
        c: Compressed members of half B, shape (S, K').
        a_swaps: A with each of its members exchanged for the spare, shape (S half, K).
        b_swaps: The same for B, shape (S half, K).
        c_swaps: The same for the compressed half, shape (S half, K').
        a_who: 1 where the row of `a_swaps` leaves out the member, shape (K, S half).
        b_who: The same for `b_swaps`, shape (K, S half).
        c_who: The same for `c_swaps`, shape (K', S half).
        paired: Compressed members are the partners of the dense ones.
    """

    a: Masks
    b: Masks
    c: Masks
    a_swaps: Masks
    b_swaps: Masks
    c_swaps: Masks
    a_who: Masks
    b_who: Masks
    c_who: Masks
    paired: bool

    @classmethod
    def draw(
        cls, k: int, other: int, half: int, *, paired: bool, splits: int, seed: int
    ) -> SplitPlan:
        """Draw `splits` splits into disjoint halves A and B of `half` members.

        >>> plan = SplitPlan.draw(5, 5, 1, paired=True, splits=4, seed=0)
        >>> bool((plan.a * plan.b).any()), bool((plan.b == plan.c).all())
        (False, True)
        """
        rng = np.random.default_rng(seed)
        order = rng.permuted(np.tile(np.arange(k), (splits, 1)), axis=1)
        in_a, in_b, spare = order[:, :half], order[:, half : 2 * half], order[:, 2 * half]
        if paired:
            in_c, spare_c = in_b, spare
        else:
            drawn = rng.permuted(np.tile(np.arange(other), (splits, 1)), axis=1)
            in_c, spare_c = drawn[:, :half], drawn[:, half]
        a, a_swaps, a_who = _masks(in_a, spare, k)
        b, b_swaps, b_who = _masks(in_b, spare, k)
        c, c_swaps, c_who = _masks(in_c, spare_c, other)
        return cls(a, b, c, a_swaps, b_swaps, c_swaps, a_who, b_who, c_who, paired)


def _masks(members: Labels, spare: Labels, k: int) -> tuple[Masks, Masks, Masks]:
    splits, half = members.shape
    mask = np.zeros((splits, k), np.float32)
    np.put_along_axis(mask, members, 1, axis=1)
    out, swap = members.reshape(-1), np.arange(splits * half)
    swaps = np.repeat(mask, half, axis=0)
    swaps[swap, out] = 0
    swaps[swap, np.repeat(spare, half)] = 1
    who = np.zeros((k, splits * half), np.float32)
    who[out, swap] = 1
    return mask, swaps, who


def by_splits(dense: Labels, compressed: Labels, plan: SplitPlan, width: int) -> Halves:
    """Average over drawn splits, for rows whose labels are numbered below `width`.

    >>> plan = SplitPlan.draw(3, 3, 1, paired=False, splits=600, seed=0)
    >>> part = by_splits(np.array([[0, 0, 1]]), np.array([[1, 1, 1]]), plan, 2)
    >>> part.dense_dense.round(1).tolist()
    [0.7]
    """
    n, splits = len(dense), len(plan.a)
    sizes = [plan.a.shape[1]] if plan.paired else [plan.a.shape[1], plan.c.shape[1]]
    result = Halves(np.zeros(n), np.zeros(n), [np.zeros((n, size)) for size in sizes])
    step = max(1, CELLS // len(plan.a_swaps))
    for start in range(0, n, step):
        rows = slice(start, start + step)
        d, c = dense[rows].T, compressed[rows].T
        half_a, half_b = _modal(plan.a, d, width), _modal(plan.b, d, width)
        half_c = _modal(plan.c, c, width)
        within, across = half_a != half_b, half_a != half_c
        swap_a = _by_split(_modal(plan.a_swaps, d, width), splits)
        swap_b = _by_split(_modal(plan.b_swaps, d, width), splits)
        swap_c = _by_split(_modal(plan.c_swaps, c, width), splits)
        # Change of [A against C] - [A against B] when one member makes way for the spare.
        change_a = _change(swap_a != half_c[:, None], across)
        change_a -= _change(swap_a != half_b[:, None], within)
        change_b = -_change(half_a[:, None] != swap_b, within)
        change_c = _change(half_a[:, None] != swap_c, across)
        drop_dense = plan.a_who @ _flat(change_a) + plan.b_who @ _flat(change_b)
        drop_compressed = plan.c_who @ _flat(change_c)
        drops = [drop_dense + drop_compressed] if plan.paired else [drop_dense, drop_compressed]
        result.dense_dense[rows] = within.mean(axis=0)
        result.dense_compressed[rows] = across.mean(axis=0)
        for whole, piece in zip(result.drops, drops, strict=True):
            whole[rows] = piece.T / splits
    return result


def disjoint_halves(dense: Labels, half: int, *, splits: int, seed: int) -> Floats:
    """Share of splits on which two disjoint halves of one population differ, shape (n,).

    Args:
        dense: Class ids, shape (n, K), K >= 2 half.
        half: Members a half, odd or even; ties go to the smallest class id.
        splits: Number of splits drawn for rows with more than two labels.
        seed: Draws the splits.

    >>> disjoint_halves(np.array([[0, 0, 1], [4, 4, 4]]), 1, splits=9, seed=0).round(4).tolist()
    [0.6667, 0.0]
    """
    local, widths = row_labels(dense)
    k = dense.shape[1]
    few, result = widths <= 2, np.zeros(len(dense))
    result[few] = disagreement(k, half)[local[few].sum(axis=1)]
    order = np.random.default_rng(seed).permuted(np.tile(np.arange(k), (splits, 1)), axis=1)
    masks = np.zeros((2, splits, k), np.float32)
    np.put_along_axis(masks[0], order[:, :half], 1, axis=1)
    np.put_along_axis(masks[1], order[:, half : 2 * half], 1, axis=1)
    for width in np.unique(widths[~few]).tolist():
        rows = np.flatnonzero(widths == width)
        for part in np.array_split(rows, 1 + rows.size * splits // CELLS):
            votes = local[part].T
            differ = _modal(masks[0], votes, width) != _modal(masks[1], votes, width)
            result[part] = differ.mean(axis=0)
    return result


def _modal(masks: Masks, votes: Labels, width: int) -> npt.NDArray[np.uint8]:
    """Modal label of the masked members, ties to the smallest; (E, K) and (K, r) give (E, r)."""
    best = masks @ (votes == 0).astype(np.float32)
    modal = np.zeros(best.shape, np.uint8)
    for label in range(1, width):
        counts = masks @ (votes == label).astype(np.float32)
        modal[counts > best] = label
        np.maximum(best, counts, out=best)
    return modal


def _by_split(modal: npt.NDArray[np.uint8], splits: int) -> npt.NDArray[np.uint8]:
    return modal.reshape(splits, -1, modal.shape[1])


def _change(now: npt.NDArray[np.bool_], before: npt.NDArray[np.bool_]) -> npt.NDArray[np.int8]:
    return now.view(np.int8) - before.view(np.int8)[:, None]


def _flat(change: npt.NDArray[np.int8]) -> Masks:
    return change.reshape(-1, change.shape[-1]).astype(np.float32)
