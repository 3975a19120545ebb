"""Counts per group: how often each member gives which label which prediction, and what goes wrong.

Everything here adds over examples: shards are counted apart and summed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from scotoma.bias.formulas import weigh
from scotoma.errors import DataError
from scotoma.numbers import Tally, Words
from scotoma.numbers.inputs import (
    Codes,
    Flags,
    Ints,
    Labels,
    array,
    booleans,
    class_ids,
    cluster_ids,
    populations,
    true_labels,
)
from scotoma.numbers.tally import power_table

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array


@dataclass(frozen=True)
class RateMetric:
    """A rate that every group has.

    Attributes:
        name: `error`, `fpr` or `fnr`.
        class_id: The class against the rest; None for the error and for the positive class.
        event: What is counted, singular.
        at_risk: The examples it is counted among.
    """

    name: str
    class_id: int | None
    event: str
    at_risk: str

    def words(self, group: str) -> Words:
        """How the metric of one group speaks of itself.

        >>> metrics(2, 1)[1].words("men").where
        "group 'men'"
        """
        return Words(self.event, self.at_risk, f"group '{group}'")


def counts(
    labels: npt.ArrayLike, predicted: npt.ArrayLike, groups: npt.ArrayLike, n_classes: int
) -> Ints:
    """Examples of group g with label y that member m predicts as p.

    Args:
        labels: True class ids in [0, n_classes), shape (N,).
        predicted: Predicted class ids, shape (N, K).
        groups: Who belongs to which group, bool, shape (G, N); groups may overlap.
        n_classes: Number of classes C, at least 2.

    Returns:
        counts[g, m, y, p], int64, shape (G, K, C, C).

    Raises:
        DataError: Ids out of range or shapes that do not fit together.

    >>> counts([0, 1, 1], [[0], [1], [0]], [[True, True, True], [False, True, True]], 2).tolist()
    [[[[1, 0], [1, 1]]], [[[0, 0], [1, 1]]]]
    """
    ids = class_ids(predicted, "predicted", n_classes)
    y = true_labels(labels, len(ids), n_classes)
    masks = group_masks(groups, len(y))
    codes = ids + y[:, None].astype(np.intp) * n_classes
    found = weigh(codes, masks.astype(np.float64), (1, n_classes, n_classes))
    return found.astype(np.int64).reshape(len(masks), ids.shape[1], n_classes, n_classes)


def tally(
    labels: npt.ArrayLike,
    dense: npt.ArrayLike,
    compressed: npt.ArrayLike | None,
    groups: npt.ArrayLike,
    *,
    positive: int | None = None,
    n_classes: int,
    paired: bool = False,
    clusters: npt.ArrayLike | None = None,
) -> Tally:
    """The additive moments of every group and metric; shards merge by `+`.

    The sum over shards is the whole: exactly where every row is its own, to rounding if every
    cluster lies within one shard. A cluster that is cut counts once in each of its shards, as if
    its parts were independent, and intervals come out too short: sort by cluster, and cut between
    clusters.

    Args:
        labels: True class ids, shape (N,).
        dense: Predictions of the dense members, shape (N, K).
        compressed: Predictions of the compressed members, shape (N, K'); None for one population.
        groups: Who belongs to which group, bool, shape (G, N).
        positive: The positive class; None for every class against the rest.
        n_classes: Number of classes.
        paired: Member m of `compressed` derives from member m of `dense`.
        clusters: Id of each row's cluster, shape (N,); None where every row is its own.

    Returns:
        Tally of shape (G, E), summed over clusters where there are some, the metrics in the order
        of `metrics`.

    Raises:
        DataError: Ids out of range or shapes that do not fit together.

    >>> moments = tally([0, 1, 1], [[0], [1], [0]], [[1], [1], [0]], [[True] * 3],
    ...                 positive=1, n_classes=2)
    >>> moments.dense[0, :, 0].tolist(), moments.compressed[0, :, 0].tolist(), moments.n.tolist()
    ([1, 0, 1], [2, 1, 1], [[3, 1, 2]])
    """
    if compressed is None:
        d = class_ids(dense, "predicted", n_classes)
        c = d[:, :0]
    else:
        d, c = populations(dense, compressed, n_classes, paired=paired)
    y = true_labels(labels, len(d), n_classes)
    masks = group_masks(groups, len(y))
    kinds, k = len(metrics(n_classes, positive)), d.shape[1]
    was, now = (events(y, ids, n_classes, positive) for ids in (d, c))
    codes, risk = cluster_ids(clusters, len(y)), at_risk(n_classes, positive)
    if codes is not None:

        def part(sums: list[csc_array], mask: Flags, e: int) -> Tally:
            own, *other = (
                each[:, e * size : (e + 1) * size].toarray()
                for each, size in zip(sums, (d.shape[1], c.shape[1]), strict=True)
            )
            rows = np.bincount(codes, weights=risk[y, e] & mask)
            return Tally.of(own, None if compressed is None else other[0], rows, paired=paired)

        parts = []
        for mask in masks:
            sums = [_by_cluster(own, mask, codes) for own in (was, now)]
            parts += [part(sums, mask, e) for e in range(kinds)]
        return Tally.stack(parts, (len(masks), kinds))

    def by_group(own: csr_array) -> Ints:
        """Events of each group, metric and member."""
        sums = np.stack([own.T @ mask.astype(np.int64) for mask in masks])
        return sums.reshape(len(masks), kinds, own.shape[1] // kinds)

    of_d, of_c = by_group(was), by_group(now)
    powers = _powers(_by_kind(was, kinds) + (k + 1) * _by_kind(now, kinds), masks, k + 1)
    labelled = [np.bincount(y[mask], minlength=n_classes) for mask in masks]
    powers[..., 0, 0] = np.stack(labelled) @ risk
    joint = by_group(was.multiply(now)).sum(axis=-1) if paired else np.nan
    # An event is its own square.
    squares = np.stack(np.broadcast_arrays(of_d.sum(axis=-1), of_c.sum(axis=-1), joint), axis=-1)
    return Tally(powers[..., None], of_d, of_c, squares.astype(np.float64))


@cache
def metrics(n_classes: int, positive: int | None) -> tuple[RateMetric, ...]:
    """The rates of a group: error, FPR and FNR, the latter of the positive class or of every class.

    Args:
        n_classes: Number of classes C.
        positive: The positive class; None for every class against the rest.

    Returns:
        Three metrics, or 1 + 2 C: the error, the FPRs by class, the FNRs by class.

    Raises:
        DataError: The positive class is none of the classes.

    >>> [(metric.name, metric.class_id) for metric in metrics(2, None)]
    [('error', None), ('fpr', 0), ('fpr', 1), ('fnr', 0), ('fnr', 1)]
    """
    if positive is not None and not 0 <= positive < n_classes:
        raise DataError(
            f"positive must be a class id from 0 to {n_classes - 1}, got {positive}: name one of "
            "the classes, or None for every class against the rest"
        )
    error = RateMetric("error", None, "error", "examples")
    if positive is not None:
        return (
            error,
            RateMetric("fpr", None, "false positive", "negatives"),
            RateMetric("fnr", None, "false negative", "positives"),
        )
    return (
        error,
        *(
            RateMetric("fpr", c, f"false positive of class {c}", f"examples outside class {c}")
            for c in range(n_classes)
        ),
        *(
            RateMetric("fnr", c, f"false negative of class {c}", f"examples of class {c}")
            for c in range(n_classes)
        ),
    )


def words_of(groups: Sequence[str], kinds: Sequence[RateMetric]) -> Callable[[int], Words]:
    """Tell how the metrics of groups, numbered group by group, speak of themselves.

    >>> words_of(["men", "women"], metrics(2, 1))(4).where
    "group 'women'"
    """
    return lambda place: kinds[place % len(kinds)].words(groups[place // len(kinds)])


def at_risk(n_classes: int, positive: int | None) -> Flags:
    """Whether an example of label y counts towards the denominator of metric e, shape (C, E).

    >>> at_risk(2, 1).astype(int).tolist()
    [[1, 1, 0], [1, 0, 1]]
    """
    own = np.eye(n_classes, dtype=np.bool_)
    if positive is not None:
        own = own[:, [positive]]
    return np.hstack([np.ones((n_classes, 1), np.bool_), ~own, own])


def events(labels: Labels, predicted: Labels, n_classes: int, positive: int | None) -> csr_array:
    """Who goes wrong where: every wrong prediction, counted under its metrics.

    With a positive class an error is a false positive or a false negative, so that confusions
    among other classes are none.

    Args:
        labels: True class ids, shape (N,).
        predicted: Predicted class ids, shape (N, K).
        n_classes: Number of classes.
        positive: The positive class; None for every class against the rest.

    Returns:
        Ones at (example, e K + member), shape (N, E K), the metrics in the order of `metrics`.

    >>> events(np.array([0, 1]), np.array([[1, 0], [1, 0]]), 2, 1).toarray().tolist()
    [[1, 0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 1]]
    """
    from scipy.sparse import csr_array

    row, member = np.nonzero(predicted != labels[:, None])
    label, truth = predicted[row, member].astype(np.intp), labels[row].astype(np.intp)
    if positive is None:
        kinds = [np.zeros_like(row), 1 + label, 1 + n_classes + truth]
    else:
        counted = (label == positive) | (truth == positive)
        row, member, label = row[counted], member[counted], label[counted]
        kinds = [np.zeros_like(row), np.where(label == positive, 1, 2)]
    k, times = predicted.shape[1], len(kinds)
    at = np.tile(row, times), np.concatenate(kinds) * k + np.tile(member, times)
    shape = len(labels), len(metrics(n_classes, positive)) * k
    return csr_array((np.ones(len(at[0]), np.int64), at), shape=shape)


def group_masks(groups: npt.ArrayLike, rows: int) -> Flags:
    """Membership of the groups, bool, shape (G, rows), checked.

    Raises:
        DataError: Not bool, or not one column per example.

    >>> group_masks([[True, False]], 2).shape
    (1, 2)
    """
    members = array(groups, "groups")
    masks = booleans(members, "groups", (len(members) if members.ndim else 0, rows))
    if not len(masks):
        raise DataError("groups must hold at least one group, got none: pass one row per group")
    return masks


def check_names(names: Sequence[str], groups: int) -> None:
    """Refuse names that do not name each group once.

    >>> check_names(["men", "women"], 2)
    """
    if len(names) != groups or len(set(names)) != groups:
        raise DataError(
            f"names must name each of {groups} groups once, got {len(names)} names, "
            f"{len(set(names))} of them different: pass one name per group"
        )


def _by_cluster(own: csr_array, mask: Flags, codes: Codes) -> csc_array:
    """Events of one group by cluster, shape (n, E K)."""
    from scipy.sparse import csr_array

    rows = np.flatnonzero(mask)
    shape = int(codes.max()) + 1, len(codes)
    held = csr_array((np.ones(len(rows), np.int64), (codes[rows], rows)), shape=shape)
    sums: csc_array = (held @ own).tocsc()
    return sums


def _by_kind(own: csr_array, kinds: int) -> csr_array:
    """Members with an event, shape (N, E)."""
    from scipy.sparse import csr_array

    members = max(own.shape[1] // kinds, 1)
    parts = own.data, own.indices // members, own.indptr
    summed = csr_array(parts, shape=(own.shape[0], kinds), copy=True)
    summed.sum_duplicates()
    return summed


def _powers(members: csr_array, masks: Flags, base: int) -> Ints:
    """Sums of s^i t^j per group and kind, without the examples that have no event.

    Args:
        members: s + t base of every example and kind, shape (N, E).
        masks: The groups, shape (G, N).
        base: More than any s.
    """
    # Sums of s^i t^j with i and j up to 4, since a kurtosis needs fourth powers.
    powers = np.zeros((len(masks), members.shape[1], 5, 5), np.int64)
    if not members.nnz:
        return powers
    row = np.repeat(np.arange(members.shape[0]), np.diff(members.indptr))
    # Few pairs (s, t) occur, so examples are counted by pair and only pairs are raised to powers.
    most = int(members.data.max()) + 1
    pairs, pair_of = np.unique(
        members.indices.astype(np.int64) * most + members.data, return_inverse=True
    )
    kind, code = np.divmod(pairs, most)
    t, s = np.divmod(code, base)
    table = power_table(s, t).reshape(len(pairs), -1)
    present, starts = np.unique(kind, return_index=True)
    for g, mask in enumerate(masks):
        seen = np.bincount(pair_of[mask[row]], minlength=len(pairs))
        sums = np.add.reduceat(seen[:, None] * table, starts, axis=0)
        powers[g, present] = sums.reshape(-1, 5, 5)
    return powers
