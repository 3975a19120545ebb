"""Which examples does compression change? Label counts, modal labels, distances."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.numbers.inputs import Flags, Floats, Labels, populations
from scotoma.predictions import label_counts

CELLS = 2**19  # counts held at once; about what a core's cache takes
NARROW = 64  # classes up to which a count for each class is cheaper than sorting a row's labels


@dataclass(frozen=True)
class CieCount:
    """A number of CIEs, and what it would be if ties were resolved otherwise.

    Attributes:
        count: CIEs with ties going to the smallest class id.
        low: CIEs that are so however ties are resolved.
        high: CIEs if every tie is resolved towards a difference.
        ties: Examples tied in either population.

    >>> str(CieCount(count=555, low=521, high=603, ties=82))
    '555 (521 to 603, 82 ties)'
    """

    count: int
    low: int
    high: int
    ties: int

    def __str__(self) -> str:
        """The count, its range over tie resolutions and the number of tied examples."""
        if not self.ties:
            return f"{self.count:,}"
        noun = "tie" if self.ties == 1 else "ties"
        return f"{self.count:,} ({self.low:,} to {self.high:,}, {self.ties:,} {noun})"


@dataclass(frozen=True, eq=False, kw_only=True)
class DivergenceScores:
    """How far two populations diverge on each example.

    Attributes:
        dense_modal: Most frequent dense label, the smallest class id among equals, shape (N,).
        compressed_modal: The same for the compressed population, shape (N,).
        dense_votes: Dense members that give `dense_modal`, shape (N,).
        compressed_votes: Compressed members that give `compressed_modal`, shape (N,).
        dense_tied: More than one dense label is most frequent: undecided, shape (N,).
        compressed_tied: The same for the compressed population, shape (N,).
        cie: Compression Identified Exemplar: the modal labels differ, shape (N,).
        cie_certain: The modal labels differ however ties are resolved, shape (N,).
        taxicab: sum_i |b_i - v_i K/K'|, shape (N,): members for K = K', shares of the compressed
            population scaled to K members otherwise; in [0, 2K].
        jaccard: 1 - sum min(b, v) / sum max(b, v), the same ranking; shares for K != K', in [0, 1].
        dense_members: K.
        compressed_members: K'.
        n_classes: Number of classes.
        seed: Breaks ties in the rankings made from these scores; the scores use no chance.
    """

    dense_modal: Labels
    compressed_modal: Labels
    dense_votes: Labels
    compressed_votes: Labels
    dense_tied: Flags
    compressed_tied: Flags
    cie: Flags
    cie_certain: Flags
    taxicab: Floats
    jaccard: Floats
    dense_members: int
    compressed_members: int
    n_classes: int
    seed: int = 0

    @property
    def n(self) -> int:
        """Number of examples."""
        return int(self.cie.size)

    @property
    def cie_count(self) -> CieCount:
        """Number of CIEs with its range over all ways to resolve ties.

        >>> score([[0, 1], [0, 0]], [[1, 1], [0, 0]], 2).cie_count
        CieCount(count=1, low=0, high=1, ties=1)
        """
        tied = self.dense_tied | self.compressed_tied
        return CieCount(
            count=int(self.cie.sum()),
            low=int(self.cie_certain.sum()),
            # Untied on both sides and equal is the only way never to differ.
            high=int((self.cie | tied).sum()),
            ties=int(tied.sum()),
        )


def score(
    dense: npt.ArrayLike, compressed: npt.ArrayLike, n_classes: int, *, seed: int = 0
) -> DivergenceScores:
    """Score every example by how differently two populations label it.

    With b_i and v_i the number of dense and compressed members that label an example i: it is a
    CIE (Compression Identified Exemplar, also called PIE) if the most frequent labels differ; its
    taxicab distance is sum_i |b_i - v_i|. Memory stays at a few
    numbers an example: rows pass in chunks, and above 64 classes only the labels of a row are
    counted.

    Args:
        dense: Class ids, integers in [0, n_classes), shape (N, K).
        compressed: Class ids of the same examples, shape (N, K').
        n_classes: Number of classes, at least 2.
        seed: Kept with the scores; decides which of tied examples are listed.

    Returns:
        The scores of N examples.

    Raises:
        DataError: Input that is ragged, empty, not integer, out of range or of different examples.

    References:
        Hooker et al. (2019), Selective Brain Damage, section 2.3; Hooker et al. (2020),
        Characterising Bias in Compressed Models, section 3 and Appendix A.1, whose equation 2
        gives Jaccard from taxicab: J = 2T / (K + K + T).

    >>> scores = score([[0, 0, 1], [2, 2, 2]], [[1, 1, 1], [2, 2, 0]], n_classes=3)
    >>> scores.cie.tolist(), scores.taxicab.tolist(), scores.jaccard.tolist()
    ([True, False], [4.0, 2.0], [0.8, 0.5])
    """
    d, c = populations(dense, compressed, n_classes)
    n, k_d, k_c = len(d), d.shape[1], c.shape[1]
    ids = np.int32 if n_classes > np.iinfo(np.int16).max else np.int16
    modal = np.empty((2, n), ids)
    votes = np.empty((2, n), np.int32)
    tied = np.empty((2, n), np.bool_)
    certain = np.empty(n, np.bool_)
    distance = np.empty(n, np.int64)
    for rows in _chunks(n, k_d + k_c, n_classes):
        b, v, names = _row_counts(d[rows], c[rows], n_classes)
        tops = []
        for side, counts in enumerate((b, v)):
            first = counts.argmax(axis=1)[:, None]  # the first of equals: the smallest class id
            most = np.take_along_axis(counts, first, axis=1)
            top = counts == most
            modal[side, rows] = np.take_along_axis(names, first, axis=1)[:, 0]
            votes[side, rows] = most[:, 0]
            tied[side, rows] = top.sum(axis=1) > 1
            tops.append(top)
        certain[rows] = ~(tops[0] & tops[1]).any(axis=1)
        # Whole numbers until the last division, so that equal distances tie exactly.
        distance[rows] = np.abs(b - v if k_d == k_c else b * k_c - v * k_d).sum(axis=1)
    most_distant, per_member = (2 * k_d, 1) if k_d == k_c else (2 * k_d * k_c, k_c)
    return DivergenceScores(
        dense_modal=modal[0],
        compressed_modal=modal[1],
        dense_votes=votes[0],
        compressed_votes=votes[1],
        dense_tied=tied[0],
        compressed_tied=tied[1],
        cie=modal[0] != modal[1],
        cie_certain=certain,
        taxicab=distance / per_member,
        jaccard=2 * distance / (most_distant + distance),
        dense_members=k_d,
        compressed_members=k_c,
        n_classes=n_classes,
        seed=seed,
    )


def _chunks(n: int, members: int, n_classes: int) -> Iterator[slice]:
    # Above NARROW a row holds at most as many labels as members.
    width = n_classes if n_classes <= NARROW else members
    step = max(1, CELLS // max(width, members))
    return (slice(start, start + step) for start in range(0, n, step))


def _row_counts(dense: Labels, compressed: Labels, n_classes: int) -> tuple[Labels, Labels, Labels]:
    """Counts b and v, and the class id of each of their cells, ascending; all (rows, width)."""
    if n_classes <= NARROW:
        names = np.broadcast_to(np.arange(n_classes), (len(dense), n_classes))
        return label_counts(dense, n_classes), label_counts(compressed, n_classes), names
    # Two ids per class, one for each population: one sort then orders the labels of a row and keeps
    # apart who gave them.
    keys = np.concatenate([dense.astype(np.int32) * 2, compressed.astype(np.int32) * 2 + 1], axis=1)
    keys.sort(axis=1)
    labels = keys >> 1
    place = label_ranks(labels)
    rows, width = len(labels), int(place[:, -1].max()) + 1
    cells = (np.arange(rows)[:, None] * width + place) * 2 + (keys & 1)
    counts = np.bincount(cells.ravel(), minlength=rows * width * 2).reshape(rows, width, 2)
    names = np.zeros((rows, width), np.int32)
    np.put_along_axis(names, place, labels, axis=1)
    return counts[..., 0], counts[..., 1], names


def label_ranks(ordered: Labels) -> Labels:
    """Rank of each label among the distinct labels of its row, for rows in ascending order.

    >>> label_ranks(np.array([[3, 3, 8, 9]]))
    array([[0, 0, 1, 2]])
    """
    steps = np.zeros(ordered.shape, np.int64)
    np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=1, out=steps[:, 1:])
    return steps
