"""How many members agree with each member on each example?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scotoma.divergence.scoring import NARROW, label_ranks
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
