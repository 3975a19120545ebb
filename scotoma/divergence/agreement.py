"""How many members agree with each member on each example?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scotoma.numbers import COMPRESSED, Estimate, Units
from scotoma.numbers.inputs import Flags, Floats, Labels, booleans, populations, true_labels
from scotoma.predictions import label_counts

CHUNK = 2**15  # rows whose labels are counted at once


class Agreement(NamedTuple):
    """Members that give the label of each member, by example.

    Attributes:
        dense_dense: Dense members with the label of each dense member, itself included, (N, K).
        dense_compressed: Compressed members with the label of each dense member, (N, K).
        compressed_dense: Dense members with the label of each compressed member, (N, K').
    """

    dense_dense: Labels
    dense_compressed: Labels
    compressed_dense: Labels


def agreement(dense: Labels, compressed: Labels) -> Agreement:
    """Count for each member the members of its own and of the other population that agree with it.

    Args:
        dense: Class ids, shape (N, K).
        compressed: Class ids of the same examples, shape (N, K').

    >>> same = agreement(np.array([[0, 0, 7]]), np.array([[7, 0]]))
    >>> [part.tolist() for part in same]
    [[[2, 2, 1]], [[1, 1, 1]], [[1, 2]]]
    """
    n, k, other = len(dense), dense.shape[1], compressed.shape[1]
    counts = np.min_scalar_type(max(k, other))
    same = Agreement(*(np.empty((n, size), counts) for size in (k, k, other)))
    for start in range(0, n, CHUNK):
        rows = slice(start, start + CHUNK)
        labels = np.concatenate([dense[rows], compressed[rows]], axis=1)
        if labels.max() >= NARROW:
            labels = row_labels(labels)
        width = int(labels.max()) + 1
        d, c = labels[:, :k].astype(np.int64), labels[:, k:].astype(np.int64)
        b, v = label_counts(d, width), label_counts(c, width)
        same.dense_dense[rows] = np.take_along_axis(b, d, axis=1)
        same.dense_compressed[rows] = np.take_along_axis(v, d, axis=1)
        same.compressed_dense[rows] = np.take_along_axis(b, c, axis=1)
    return same


def row_labels(ids: Labels) -> Labels:
    """Renumber each row's labels from 0 in ascending order.

    >>> row_labels(np.array([[7, 3, 7]])).tolist()
    [[1, 0, 1]]
    """
    order = np.argsort(ids, axis=1)
    ranks = label_ranks(np.take_along_axis(ids, order, axis=1))
    local = np.empty_like(ranks)
    np.put_along_axis(local, order, ranks, axis=1)
    return local


# What a flip of a dense member is, seen from its compressed partner.
BACK = {"right_to_wrong": "wrong_to_right", "wrong_to_right": "right_to_wrong"}


@dataclass(frozen=True, kw_only=True)
class LedgerRow:
    """How the predictions of one group change, as shares of its predictions.

    Attributes:
        group: Its name.
        n: Examples of the group.
        changed: Dense and compressed differ: the sum of the others, which are None without labels.
        right_to_wrong: Dense right, compressed wrong.
        wrong_to_right: Dense wrong, compressed right.
        wrong_to_other: Both wrong, with different labels.
    """

    group: str
    n: int
    changed: Estimate
    right_to_wrong: Estimate | None = None
    wrong_to_right: Estimate | None = None
    wrong_to_other: Estimate | None = None


def flip_ledger(
    dense: npt.ArrayLike,
    compressed: npt.ArrayLike,
    labels: npt.ArrayLike | None,
    groups: npt.ArrayLike,
    names: Sequence[str],
    *,
    paired: bool = False,
    clusters: npt.ArrayLike | None = None,
) -> list[LedgerRow]:
    """Gross flips of each group: right to wrong, wrong to right, wrong to another wrong.

    Averaged over pairs of a dense and a compressed member, no modal label in between: over the K
    pairs where they are paired, over all K K' pairs otherwise. Flips of unpaired members hold those
    that seeds alone make; compare them with the ledger of a second dense population.

    Args:
        dense: Class ids, shape (N, K).
        compressed: Class ids of the same examples, shape (N, K').
        labels: True class ids, shape (N,); None where they are not known.
        groups: Which examples belong to each group, bool, shape (G, N); groups may overlap.
        names: G names.
        paired: Member m of `compressed` derives from member m of `dense`.
        clusters: Integer id of each row's cluster, shape (N,); None where every row is its own.

    Returns:
        One row per group, intervals on the logit scale over examples and training runs.

    Raises:
        DataError: As `score`; groups that are not one row per name.

    >>> row = flip_ledger([[0], [1], [1]], [[1], [0], [2]], [0, 0, 0], [[True] * 3], ["all"])[0]
    >>> [round(flip.value, 2) for flip in (row.changed, row.right_to_wrong, row.wrong_to_right)]
    [1.0, 0.33, 0.33]
    """
    d, c = populations(dense, compressed, None, paired=paired)
    y = None if labels is None else true_labels(labels, len(d), None)[:, None]
    inside = booleans(groups, "groups", (len(names), len(d)))
    units = Units.of(len(d), clusters)
    was, now = (None if y is None else own == y for own in (d, c))
    kinds: dict[str, tuple[Labels, Labels | None]]
    if paired:  # each has one partner, and by either side they are the same
        by_dense = _flips(was, now, 1, (d == c).view(np.uint8))
        kinds = {kind: (flips, None) for kind, flips in by_dense.items()}
    else:
        k, other = d.shape[1], c.shape[1]
        _, same_d, same_c = agreement(d, c)
        a, b = (
            None if right is None else right.sum(axis=1, keepdims=True, dtype=same_d.dtype)
            for right in (was, now)
        )
        by_dense, by_compressed = _flips(was, b, other, same_d), _flips(now, a, k, same_c)
        kinds = {kind: (own, by_compressed[BACK.get(kind, kind)]) for kind, own in by_dense.items()}
    rows = []
    for name, group in zip(names, inside, strict=True):
        reason = f"undefined (no examples in group {name!r})"
        shares = {kind: _share(*flips, group, units, reason) for kind, flips in kinds.items()}
        rows.append(LedgerRow(group=name, n=int(group.sum()), **shares))
    return rows


def _flips(
    right: Flags | None, partners_right: Labels | Flags | None, partners: int, same: Labels
) -> dict[str, Labels]:
    """Count the partners in the other population with whom each member makes each kind of flip.

    Args:
        right: Which answers of the members are right, shape (N, K); None without labels.
        partners_right: How many of a member's partners are right, shape (N, K) or (N, 1).
        partners: How many partners it has.
        same: How many of them give its label, shape (N, K).
    """
    flips = {"changed": partners - same}
    if right is None or partners_right is None:
        return flips
    wrong = partners - partners_right.astype(same.dtype)
    return flips | {
        "right_to_wrong": right * wrong,
        "wrong_to_right": ~right * (partners - wrong),
        # A label shared with a wrong member is wrong: what is neither right nor shared is another.
        "wrong_to_other": ~right * (wrong - same),
    }


def _share(
    by_dense: Labels, by_compressed: Labels | None, group: Flags, units: Units, reason: str
) -> Estimate:
    """Rate of a flip over pairs of members.

    With e_x the share of pairs that flip on x, psi_x = e_x and the members' influences are the
    shares of each one's partners: the first-order terms of a two-sample U-statistic.
    """
    rate = units.mean(by_dense, group)
    if by_compressed is not None:
        partners = units.partners(by_compressed, group, axis=COMPRESSED)
        rate = rate / by_compressed.shape[1] + partners / by_dense.shape[1]
    return rate.rate(reason)


GIVEN_POPULATIONS = "these populations, another test set"


def weighted_rate(
    events: npt.ArrayLike,
    units: Units,
    weights: Floats | None = None,
    *,
    members: int | None = None,
    level: float = 0.95,
    note: str = "",
    empty: str = "no examples",
) -> Estimate:
    """Rate of an event over members and weighted examples, interval on the logit scale.

    The weights are taken as given; rows of weight 0 are not at risk and do not count in n. What
    carries it are the events, or the examples without, if these are fewer.

    Args:
        events: 0/1 or shares in [0, 1], shape (N, K).
        units: The examples, and their clusters.
        weights: Non-negative, shape (N,); None weighs all alike.
        members: Size of the smaller population where the columns are not the members.
        level: Coverage, a fraction in (0, 1).
        note: What to say beside the number.
        empty: Why nothing is at risk, if nothing is.

    Returns:
        The rate; bounds by the rule of three where it is 0 or 1; nan where nothing is at risk.

    >>> weighted_rate([[1, 0], [0, 0], [1, 1]], Units.of(3), np.array([1.0, 1.0, 0.5])).value
    0.4
    """
    shares = np.asarray(events, np.float64)
    at_risk = None if weights is None else weights > 0
    seen, missed = (units.mean(one, at_risk) for one in (shares, 1 - shares))
    rate = seen if weights is None else units.mean(shares, weights)
    rate = replace(rate, events=min(seen.events, missed.events))
    return rate.rate(f"undefined ({empty})", members=members, level=level, note=note)


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
