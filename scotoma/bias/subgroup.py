"""How much more, or less, does compression fail each group?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from scotoma.bias.counting import (
    Metric,
    at_risk,
    by_cluster,
    events,
    group_masks,
    metrics,
    tally,
)
from scotoma.bias.results import GroupChange, GroupGap, GroupRate
from scotoma.errors import DataError
from scotoma.inputs import booleans, class_ids, populations, true_labels, units
from scotoma.uncertainty import (
    FEW_EVENTS,
    ChangeEvidence,
    ClusterMoments,
    Estimate,
    Moments,
    RateEvidence,
    check_level,
    crossed_variance,
    none_seen,
    of_variance,
    ratio_influence,
    undefined,
)
from scotoma.uncertainty.rates import FEW


def rates(
    labels: npt.ArrayLike,
    predicted: npt.ArrayLike,
    groups: npt.ArrayLike,
    names: Sequence[str],
    *,
    positive: int | None = None,
    n_classes: int,
    clusters: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> list[GroupRate]:
    """Error, FPR and FNR of every group, averaged over the members of one population.

    error = (FP + FN)/n, FPR = FP/(FP + TN), FNR = FN/(FN + TP). Without a positive class the error
    counts every wrong prediction, and FPR and FNR are those of each class against the rest.

    Args:
        labels: True class ids, shape (N,).
        predicted: Predicted class ids, shape (N, K).
        groups: Who belongs to which group, bool, shape (G, N); groups may overlap.
        names: One name a group.
        positive: The positive class; None for every class against the rest.
        n_classes: Number of classes.
        clusters: Integer id of each row's source, shape (N,), where rows share sources.
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        Group by group, the metrics in the order of `metrics`; undefined rates are nan with their
        reason.

    Raises:
        DataError: Ids out of range, shapes that do not fit together, or a level that is no
            fraction.

    References:
        Hooker et al. (2020), Characterising Bias in Compressed Models.

    >>> found = rates([0, 0, 0, 1], [[0], [1], [0], [1]], [[True] * 4], ["all"],
    ...               positive=1, n_classes=2)
    >>> [(rate.metric, round(rate.rate.value, 4)) for rate in found]
    [('error', 0.25), ('fpr', 0.3333), ('fnr', 0.0)]
    """
    check_level(level)
    ids = class_ids(predicted, "predicted", n_classes)
    y = true_labels(labels, len(ids), n_classes)
    masks = group_masks(groups, len(y), names)
    kinds = metrics(n_classes, positive)
    moments = tally(y, ids, None, masks, positive=positive, n_classes=n_classes, clusters=clusters)
    known = RateEvidence.of_moments(moments)
    return [
        _rate(known, (g, e), name, kind, level)
        for g, name in enumerate(names)
        for e, kind in enumerate(kinds)
    ]


def amplification(
    labels: npt.ArrayLike,
    dense: npt.ArrayLike,
    compressed: npt.ArrayLike,
    groups: npt.ArrayLike,
    names: Sequence[str],
    *,
    positive: int | None = None,
    n_classes: int,
    clusters: npt.ArrayLike | None = None,
    paired: bool = False,
    level: float = 0.95,
) -> list[GroupChange]:
    """What compression does to error, FPR and FNR of every group.

    The published normalised difference is `relative`: 100 (compressed - dense) / dense, from
    unrounded rates. Intervals are over examples (or clusters) and training runs, crossed; with one
    member in each population over examples only.

    Args:
        labels: True class ids, shape (N,).
        dense: Predictions of the dense members, shape (N, K).
        compressed: Predictions of the compressed members on the same rows, shape (N, K').
        groups: Who belongs to which group, bool, shape (G, N); groups may overlap.
        names: One name a group.
        positive: The positive class; None for every class against the rest.
        n_classes: Number of classes.
        clusters: Integer id of each row's source, shape (N,), where rows share sources.
        paired: Member m of `compressed` derives from member m of `dense`.
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        Group by group, the metrics in the order of `metrics`. What cannot be estimated is nan with
        its reason.

    Raises:
        DataError: Ids out of range, shapes that do not fit together, or a level that is no
            fraction.

    References:
        Hooker et al. (2020), Characterising Bias in Compressed Models, table 3.

    >>> import numpy as np
    >>> labels = np.zeros(200, int)
    >>> dense = (np.arange(200) % 10 == 0).astype(int)[:, None]
    >>> compressed = (np.arange(200) % 5 == 0).astype(int)[:, None]
    >>> change = amplification(labels, dense, compressed, np.ones((1, 200), bool), ["all"],
    ...                        positive=1, n_classes=2)[1]
    >>> change.metric, round(change.relative.value, 6), round(change.absolute.value, 6)
    ('fpr', 100.0, 0.1)
    >>> round(change.relative.low), round(change.relative.high), change.relative.note
    (46, 174, 'one training run: says nothing about the next one')
    >>> change.harm_p(relative=0.2, absolute=0.005) < 0.01
    True
    """
    check_level(level)
    d, c = populations(dense, compressed, n_classes, paired=paired)
    y = true_labels(labels, len(d), n_classes)
    masks = group_masks(groups, len(y), names)
    moments = tally(
        y, d, c, masks, positive=positive, n_classes=n_classes, paired=paired, clusters=clusters
    )
    return changes(moments, names, positive=positive, n_classes=n_classes, level=level)


def changes(
    moments: Moments | ClusterMoments,
    names: Sequence[str],
    *,
    positive: int | None = None,
    n_classes: int,
    level: float = 0.95,
) -> list[GroupChange]:
    """`amplification` from additive moments, so that shards are summed first and asked once.

    Args:
        moments: From `tally`, of shape (G, E).
        names: One name a group.
        positive: As given to `tally`.
        n_classes: As given to `tally`.
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        As `amplification`.

    Raises:
        DataError: The moments are not of these groups and metrics, or a level that is no fraction.

    >>> moments = tally([0, 1], [[0], [0]], [[1], [0]], [[True, True]], n_classes=2)
    >>> len(changes(moments, ["all"], n_classes=2))
    5
    """
    check_level(level)
    kinds = metrics(n_classes, positive)
    if moments.n.shape != (len(names), len(kinds)):
        raise DataError(
            f"moments must hold {len(names)} groups of {len(kinds)} metrics, got shape "
            f"{moments.n.shape}: pass the names and classes they were counted with"
        )
    known = ChangeEvidence.of_moments(moments)
    return [
        _change(known, (g, e), name, kind, level)
        for g, name in enumerate(names)
        for e, kind in enumerate(kinds)
    ]


def gap(
    labels: npt.ArrayLike,
    dense: npt.ArrayLike,
    compressed: npt.ArrayLike,
    group_a: npt.ArrayLike,
    group_b: npt.ArrayLike,
    *,
    names: tuple[str, str] = ("a", "b"),
    metric: str = "error",
    positive: int | None = None,
    n_classes: int,
    clusters: npt.ArrayLike | None = None,
    paired: bool = False,
    level: float = 0.95,
) -> GroupGap:
    """How much more one rate rose in group b than in group a, as one contrast.

    The groups share members, and may share examples and clusters, so that their covariance counts:
    the interval is not that of two separate ones.

    Args:
        labels: True class ids, shape (N,).
        dense: Predictions of the dense members, shape (N, K).
        compressed: Predictions of the compressed members on the same rows, shape (N, K').
        group_a: The group compared with, bool, shape (N,).
        group_b: The group in question, bool, shape (N,).
        names: Names of group a and group b.
        metric: `error`, or `fpr` or `fnr` of the positive class.
        positive: The class whose errors count; None only for the error over all classes.
        n_classes: Number of classes.
        clusters: Integer id of each row's source, shape (N,), where rows share sources.
        paired: Member m of `compressed` derives from member m of `dense`.
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        Both rises and their difference, fractions; nan with the reason where a group has no
        example at risk.

    Raises:
        DataError: As `amplification`, or a metric that there is not.

    >>> import numpy as np
    >>> row = np.arange(400)
    >>> dense = (row % 20 == 0).astype(int)[:, None]
    >>> compressed = (row % np.where(row < 200, 20, 5) == 0).astype(int)[:, None]
    >>> found = gap(np.zeros(400, int), dense, compressed, row < 200, row >= 200, n_classes=2)
    >>> round(found.gap.value, 3), round(found.gap.low, 3), round(found.gap.high, 3)
    (0.15, 0.1, 0.2)
    """
    check_level(level)
    d, c = populations(dense, compressed, n_classes, paired=paired)
    y = true_labels(labels, len(d), n_classes)
    masks = np.stack(
        [booleans(group_a, "group_a", (len(y),)), booleans(group_b, "group_b", (len(y),))]
    )
    masks = group_masks(masks, len(y), names)
    kinds = metrics(n_classes, positive)
    offered = ["error"] if positive is None else [kind.name for kind in kinds]
    if metric not in offered:
        raise DataError(
            f"metric must be one of {', '.join(offered)}, got '{metric}': "
            "pass the positive class for its fpr and fnr"
        )
    e = offered.index(metric)
    codes = units(clusters, len(y))
    codes = np.arange(len(y)) if codes is None else codes
    both = [events(y, predicted, n_classes, positive) for predicted in (d, c)]
    risk = at_risk(n_classes, positive)[y, e] & masks
    wrong = [[by_cluster(found, mask, e, codes) for found in both] for mask in masks]
    rows = [np.bincount(codes, weights=mask).astype(np.float64) for mask in risk]
    rises = [
        ChangeEvidence.of_clusters(pair[0], pair[1], r, paired=paired, relative=False).absolute(
            (), kinds[e].words(name), level=level
        )
        for pair, r, name in zip(wrong, rows, names, strict=True)
    ]
    contrast = _contrast(rises[0], rises[1], wrong, rows, paired=paired)
    return GroupGap(names[0], names[1], metric, rises[0], rises[1], contrast)


def _contrast(
    rise_a: Estimate,
    rise_b: Estimate,
    wrong: Sequence[Sequence[npt.ArrayLike]],
    rows: Sequence[npt.NDArray[np.float64]],
    *,
    paired: bool,
) -> Estimate:
    """rise_b - rise_a with the variance of its influences on the clusters of both groups."""
    kept = (rows[0] > 0) | (rows[1] > 0)
    n, members, level = int(kept.sum()), rise_a.members, rise_a.level
    carriers = min(rise_a.events, rise_b.events)
    value = rise_b.value - rise_a.value
    if math.isnan(value):
        reason = rise_a.reason or rise_b.reason
        return undefined(reason, n=n, members=members, events=carriers, level=level)
    # One common set of units: a unit without rows of a group moves that group's rate by nothing.
    (dense_a, compressed_a), (dense_b, compressed_b) = (
        [ratio_influence(np.asarray(table)[kept], r[kept]) for table in pair]
        for pair, r in zip(wrong, rows, strict=True)
    )
    variance = crossed_variance(dense_b - dense_a, compressed_b - compressed_a, paired=paired)
    note = FEW_EVENTS if carriers < FEW else ""
    if variance.total == 0:
        unit = n * (1 / rise_a.n + 1 / rise_b.n)
        return none_seen(
            value, n=n, members=members, lowest=-2.0, highest=2.0, level=level, note=note,
            events=carriers, unit=unit,
        )  # fmt: skip
    return of_variance(
        value, variance, n=n, members=members, events=carriers, level=level, note=note
    )


def _rate(
    known: RateEvidence, index: tuple[int, ...], name: str, kind: Metric, level: float
) -> GroupRate:
    estimate = known.estimate(index, kind.words(name), level=level)
    return GroupRate(name, kind.name, kind.class_id, estimate)


def _change(
    known: ChangeEvidence, index: tuple[int, ...], name: str, kind: Metric, level: float
) -> GroupChange:
    words = kind.words(name)
    return GroupChange(
        group=name,
        metric=kind.name,
        class_id=kind.class_id,
        dense=known.dense.estimate(index, words, level=level),
        compressed=known.compressed.estimate(index, words, level=level),
        relative=known.relative(index, words, level=level),
        absolute=known.absolute(index, words, level=level),
        relative_variance=known.log_ratio.at(index),
        absolute_variance=known.difference.at(index),
    )
