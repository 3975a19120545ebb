"""Counts per group: how often each member gives which label which prediction, and what goes wrong.

Everything here adds over examples: shards are counted apart and summed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from scotoma.bias.bootstrap import weigh
from scotoma.errors import DataError
from scotoma.inputs import (
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
from scotoma.numbers import Tally, Words
from scotoma.numbers.tally import power_table


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


@dataclass(frozen=True)
class Events:
    """Who goes wrong where, one entry an event; the metrics of `metrics` number the kinds.

    Attributes:
        row: Example, shape (E,).
        kind: Number of the metric that counts it.
        member: The member with the event.
        members: Number of members.
    """

    row: npt.NDArray[np.intp]
    kind: npt.NDArray[np.intp]
    member: npt.NDArray[np.intp]
    members: int


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
    kinds = len(metrics(n_classes, positive))
    of_dense, of_compressed = (events(y, ids, n_classes, positive) for ids in (d, c))
    codes = cluster_ids(clusters, len(y))
    if codes is not None:
        risk = at_risk(n_classes, positive)
        return Tally.stack(
            [
                Tally.of(
                    by_cluster(of_dense, mask, e, codes),
                    None if compressed is None else by_cluster(of_compressed, mask, e, codes),
                    np.bincount(codes, weights=risk[y, e] & mask),
                    paired=paired,
                )
                for mask in masks
                for e in range(kinds)
            ],
            (len(masks), kinds),
        )
    per_label = np.stack([np.bincount(y[mask], minlength=n_classes) for mask in masks])
    powers = _powers(of_dense, of_compressed, masks, kinds)
    powers[..., 0, 0] = per_label @ at_risk(n_classes, positive)
    of_d, of_c = (_per_member(own, masks, kinds) for own in (of_dense, of_compressed))
    squares = np.full((*of_d.shape[:-1], 3), np.nan)
    squares[..., 0], squares[..., 1] = of_d.sum(-1), of_c.sum(-1)  # an event is its own square
    if paired:
        squares[..., 2] = _per_member(_joint(of_dense, of_compressed, kinds), masks, kinds).sum(-1)
    return Tally(powers[..., None], of_d, of_c, squares)


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


def events(labels: Labels, predicted: Labels, n_classes: int, positive: int | None) -> Events:
    """The events of one population: every wrong prediction, counted under its metrics.

    With a positive class an error is a false positive or a false negative, so that confusions
    among other classes are none.

    Args:
        labels: True class ids, shape (N,).
        predicted: Predicted class ids, shape (N, K).
        n_classes: Number of classes.
        positive: The positive class; None for every class against the rest.

    >>> import numpy as np
    >>> events(np.array([0, 1]), np.array([[1, 0], [1, 0]]), 2, 1).kind.tolist()
    [0, 0, 1, 2]
    """
    row, member = np.nonzero(predicted != labels[:, None])
    label, truth = predicted[row, member].astype(np.intp), labels[row].astype(np.intp)
    if positive is None:
        kinds = [np.zeros_like(row), 1 + label, 1 + n_classes + truth]
    else:
        counted = (label == positive) | (truth == positive)
        row, member, label = row[counted], member[counted], label[counted]
        kinds = [np.zeros_like(row), np.where(label == positive, 1, 2)]
    times = len(kinds)
    return Events(
        np.tile(row, times), np.concatenate(kinds), np.tile(member, times), predicted.shape[1]
    )


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


def by_cluster(own: Events, mask: Flags, kind: int, codes: Codes) -> Ints:
    """Events of one group and kind, per cluster and member, shape (n, K).

    Args:
        own: The events of one population.
        mask: Members of the group, bool, shape (N,).
        kind: Number of the metric.
        codes: Number of each row's cluster, from 0 without gaps, shape (N,).

    >>> import numpy as np
    >>> wrong = events(np.array([0, 0]), np.array([[1, 0], [1, 1]]), 2, 1)
    >>> by_cluster(wrong, np.array([True, True]), 1, np.array([0, 0])).tolist()
    [[2, 1]]
    """
    kept = (own.kind == kind) & mask[own.row]
    n = int(codes.max()) + 1
    flat = codes[own.row[kept]] * own.members + own.member[kept]
    return np.bincount(flat, minlength=n * own.members).reshape(n, own.members)


def _powers(dense: Events, compressed: Events, masks: Flags, kinds: int) -> Ints:
    """Sums of s^i t^j per group and kind, without the examples that have no event."""
    s_key, s_count = np.unique(dense.row * kinds + dense.kind, return_counts=True)
    t_key, t_count = np.unique(compressed.row * kinds + compressed.kind, return_counts=True)
    keys = np.union1d(s_key, t_key)
    powers = np.zeros((len(masks), kinds, 5, 5), np.int64)
    if not keys.size:
        return powers
    s, t = np.zeros(keys.size, np.int64), np.zeros(keys.size, np.int64)
    s[np.searchsorted(keys, s_key)] = s_count
    t[np.searchsorted(keys, t_key)] = t_count
    row, kind = np.divmod(keys, kinds)
    # Few pairs (s, t) occur, so examples are counted by pair and only pairs are raised to powers.
    base = compressed.members + 1
    pair = (kind * (dense.members + 1) + s) * base + t
    pairs, pair_of = np.unique(pair, return_inverse=True)
    rest, t_pair = np.divmod(pairs, base)
    kind_pair, s_pair = np.divmod(rest, dense.members + 1)
    table = power_table(s_pair, t_pair).reshape(len(pairs), -1)
    present, starts = np.unique(kind_pair, return_index=True)
    for g, mask in enumerate(masks):
        seen = np.bincount(pair_of[mask[row]], minlength=len(pairs))
        sums = np.add.reduceat(seen[:, None] * table, starts, axis=0)
        powers[g, present] = sums.reshape(-1, 5, 5)
    return powers


def _per_member(own: Events, masks: Flags, kinds: int) -> Ints:
    """Events of each member per group and kind, shape (G, E, K)."""
    code, bins = own.kind * own.members + own.member, kinds * own.members
    total = np.zeros((len(masks), bins), np.int64)
    for g, mask in enumerate(masks):
        total[g] = np.bincount(code[mask[own.row]], minlength=bins)[:bins]
    return total.reshape(len(masks), kinds, own.members)


def _joint(dense: Events, compressed: Events, kinds: int) -> Events:
    """The events that member m of both populations has on the same example."""
    k = dense.members
    first, second = ((own.row * kinds + own.kind) * k + own.member for own in (dense, compressed))
    row_kind, member = np.divmod(np.intersect1d(first, second, assume_unique=True), k)
    row, kind = np.divmod(row_kind, kinds)
    return Events(row, kind, member, k)
