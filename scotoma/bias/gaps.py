"""Does compression hurt one group more than another?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.bias.counting import (
    Events,
    RateMetric,
    at_risk,
    by_cluster,
    events,
    group_masks,
    metrics,
)
from scotoma.bias.results import GroupGap
from scotoma.errors import DataError
from scotoma.inputs import Codes, Flags, Floats, booleans, cluster_ids, populations, true_labels
from scotoma.uncertainty import (
    FEW_EVENTS,
    ChangeEvidence,
    Estimate,
    Variance,
    check_level,
    crossed_variance,
    of_variance,
    ratio_influence,
    undefined,
)
from scotoma.uncertainty.crossed import influences_variance
from scotoma.uncertainty.influences import Influences
from scotoma.uncertainty.rates import FEW, PopulationRate


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
        clusters: Id of each row's cluster, shape (N,); None where every row is its own.
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
    (0.15, 0.094, 0.206)
    """
    check_level(level)
    d, c = populations(dense, compressed, n_classes, paired=paired)
    y = true_labels(labels, len(d), n_classes)
    contrast = Contrast.of(
        y, group_a, group_b, names=names, metric=metric, positive=positive, n_classes=n_classes,
        clusters=clusters,
    )  # fmt: skip
    before, after = (contrast.side(events(y, ids, n_classes, positive)) for ids in (d, c))
    return contrast.gap(before, after, paired=paired, level=level)


@dataclass(frozen=True, eq=False)
class Side:
    """What one population does to two groups, summed up so that others can be compared with it.

    Attributes:
        rates: The rate of group a, and that of group b.
        difference: Influences of the clusters of both groups on the rate of b minus that of a; None
            where a group has no example at risk.
    """

    rates: tuple[PopulationRate, PopulationRate]
    difference: Influences | None


@dataclass(frozen=True, eq=False)
class Contrast:
    """Two groups whose rates are set against each other.

    Attributes:
        names: Names of group a and group b.
        kind: The rate.
        number: Its number among `metrics`.
        masks: Who belongs to the groups, shape (2, N).
        codes: Number of each row's cluster, from 0 without gaps, shape (N,).
        rows: Rows of each cluster at risk in either group, shape (2, n).
    """

    names: tuple[str, str]
    kind: RateMetric
    number: int
    masks: Flags
    codes: Codes
    rows: Floats

    @classmethod
    def of(
        cls,
        labels: npt.NDArray[np.integer],
        group_a: npt.ArrayLike,
        group_b: npt.ArrayLike,
        *,
        names: tuple[str, str] = ("a", "b"),
        metric: str = "error",
        positive: int | None = None,
        n_classes: int,
        clusters: npt.ArrayLike | None = None,
    ) -> Contrast:
        """Check the groups; arguments and errors as for `gap`, labels checked before.

        >>> labels = np.array([0, 1, 0])
        >>> Contrast.of(labels, labels == 0, labels == 1, n_classes=2).rows.tolist()
        [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
        """
        shape = labels.shape
        masks = np.stack([booleans(group_a, "group_a", shape), booleans(group_b, "group_b", shape)])
        masks = group_masks(masks, len(labels), names)
        kinds = metrics(n_classes, positive)
        offered = ["error"] if positive is None else [kind.name for kind in kinds]
        if metric not in offered:
            raise DataError(
                f"metric must be one of {', '.join(offered)}, got '{metric}': "
                "pass the positive class for its fpr and fnr"
            )
        number = offered.index(metric)
        codes = cluster_ids(clusters, len(labels))
        codes = np.arange(len(labels)) if codes is None else codes
        risk = at_risk(n_classes, positive)[labels, number] & masks
        rows = np.stack([np.bincount(codes, weights=own) for own in risk]).astype(np.float64)
        return cls(names, kinds[number], number, masks, codes, rows)

    def side(self, population: Events) -> Side:
        """Sum up a population by its events."""
        tables = [by_cluster(population, mask, self.number, self.codes) for mask in self.masks]
        rate_a, rate_b = (
            PopulationRate.of(table, r) for table, r in zip(tables, self.rows, strict=True)
        )
        if not self.rows.any(axis=1).all():
            return Side((rate_a, rate_b), None)
        # One set of clusters: one without rows of a group moves that group's rate by nothing.
        kept = self.rows.any(axis=0)
        of_a, of_b = (
            ratio_influence(table[kept], r[kept])
            for table, r in zip(tables, self.rows, strict=True)
        )
        return Side((rate_a, rate_b), Influences.of(of_b - of_a))

    def gap(
        self, dense: Side, compressed: Side, *, paired: bool = False, level: float = 0.95
    ) -> GroupGap:
        """Compare two populations; arguments and returns as for `gap`."""
        changes = [
            ChangeEvidence.of_rates(was, now, paired=paired, relative=False)
            for was, now in zip(dense.rates, compressed.rates, strict=True)
        ]
        rise_a, rise_b = (
            change.absolute((), self.kind.words(name), level=level)
            for change, name in zip(changes, self.names, strict=True)
        )
        variance = self._variance(dense, compressed, paired=paired)
        # Either group may hold flips that the other does not show.
        floor = sum(float(change.difference.floor) for change in changes)
        rise = self._difference(rise_a, rise_b, variance and variance.floored(floor))
        return GroupGap(self.names[0], self.names[1], self.kind.name, rise_a, rise_b, rise)

    def _variance(self, dense: Side, compressed: Side, *, paired: bool) -> Variance | None:
        """The variance of the influences on the clusters of both groups."""
        was, now = dense.difference, compressed.difference
        if was is None or now is None:
            return None
        if paired:
            return crossed_variance(was.values, now.values, paired=True, unit=None)
        return influences_variance(was, now, unit=None)

    def _difference(
        self, rise_a: Estimate, rise_b: Estimate, variance: Variance | None
    ) -> Estimate:
        """rise_b - rise_a; undefined where a group has no example at risk."""
        n, members, level = int(self.rows.any(axis=0).sum()), rise_a.members, rise_a.level
        effective_events = min(rise_a.events, rise_b.events)
        value = rise_b.value - rise_a.value
        if variance is None or math.isnan(value):
            reason = rise_a.reason or rise_b.reason
            return undefined(reason, n=n, members=members, events=effective_events, level=level)
        note = FEW_EVENTS if effective_events < FEW else ""
        return of_variance(
            value, variance, n=n, members=members, events=effective_events, level=level, note=note
        )
