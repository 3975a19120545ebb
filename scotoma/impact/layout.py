"""Sums over classes and clusters, and the variance of every class's impact at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scotoma.numbers import Variance, cluster_sums, combine, flip_floor
from scotoma.numbers.influences import member_variance
from scotoma.numbers.inputs import Codes, Flags, Floats, Labels

DUST = 1e-24  # what rounding leaves of influences that agree


@dataclass(frozen=True)
class Layout:
    """Pairs of a class and a cluster that share rows; rows are in order of both.

    Attributes:
        start: First row of each pair, shape (J,).
        rows: Rows of each pair, shape (J,).
        first: First pair of each class that has rows, shape (P,).
        of_class: Place of each pair's class among these, shape (J,).
        codes: Cluster of each row, shape (N,); None where every row is its own, and a pair.
    """

    start: Codes
    rows: Floats
    first: Codes
    of_class: Codes
    codes: Codes | None

    @classmethod
    def of(cls, labels: Labels, codes: Codes | None) -> Layout:
        """Lay out rows, whose labels are in order and, of one label, their clusters.

        >>> Layout.of(np.array([0, 1, 1]), None).first.tolist()
        [0, 1]
        """
        same = np.arange(len(labels)) if codes is None else codes
        changes = [np.diff(own, prepend=-1) != 0 for own in (labels, same)]
        start = np.flatnonzero(changes[0] | changes[1])
        rows = np.diff(start, append=len(labels)).astype(np.float64)
        other = changes[0][start]
        return cls(start, rows, np.flatnonzero(other), np.cumsum(other) - 1, codes)

    @property
    def units(self) -> int:
        """Clusters, or rows that are one of their own."""
        return len(self.start) if self.codes is None else int(self.codes.max()) + 1

    @property
    def class_units(self) -> Floats:
        """Pairs of each class, shape (P,)."""
        return np.diff(self.first, append=len(self.start)).astype(np.float64)

    @property
    def class_rows(self) -> Floats:
        """Rows of each class, shape (P,)."""
        return self.class_sums(self.rows)

    def pair_sums(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Sums of rows (N, ...) over each pair, (J, ...)."""
        whole = self.codes is None
        return values if whole else np.add.reduceat(values, self.start, dtype=np.float64)

    def class_sums(self, pairs: npt.NDArray[Any]) -> Floats:
        """Sums of pairs (J, ...) over each class, (P, ...)."""
        return np.asarray(np.add.reduceat(pairs, self.first, dtype=np.float64))

    def class_means(self, values: npt.NDArray[Any]) -> Floats:
        """Means of rows (N, K) over each class, (P, K).

        >>> layout = Layout.of(np.array([0, 1, 1]), None)
        >>> layout.class_means(np.array([[0.0], [1.0], [0.0]])).tolist()
        [[0.0], [0.5]]
        """
        return self.class_sums(self.pair_sums(values)) / self.class_rows[:, None]

    def effective_events(self, events: Floats) -> Floats:
        """Effective events of each class, (sum s)^2 / sum s^2 over its clusters.

        >>> layout = Layout.of(np.array([0, 1, 1]), None)
        >>> layout.effective_events(np.array([0.0, 2.0, 2.0])).tolist()
        [0.0, 2.0]
        """
        s = np.asarray(self.pair_sums(events), np.float64)
        squares = self.class_sums(s**2)
        return np.where(squares > 0, self.class_sums(s) ** 2 / np.maximum(squares, 1), 0.0)

    def on_classes(self, values: Floats) -> Floats:
        """What pairs add to the mean of rows (N,) over their class, times its rows, (J,)."""
        pairs = self.pair_sums(values)
        means = self.class_sums(pairs) / self.class_rows
        return np.asarray(pairs - means[self.of_class] * self.rows)

    def on_all(self, values: Floats) -> tuple[Floats, Floats]:
        """What units add to the mean of all rows (N,), times these; the same by pairs."""
        units = cluster_sums(values - values.mean(), self.codes)
        return units, units if self.codes is None else units[self.codes[self.start]]


def crossed(was: Flags, now: Flags, layout: Layout, *, paired: bool) -> Variance:
    """Crossed variance of (recall - accuracy), compressed minus dense, of each class.

    What `Number.variance` gives for the classes one by one, without a table of examples by classes:
    off its class the influence of an example is that on the accuracy, the same for every class. So
    a sum over units of a power of u - v, where u is 0 off the class, is that of v, and what the
    units of the class change of it.
    """
    n = layout.units
    if n < 2:
        return Variance(*np.full((6, len(layout.first)), np.nan))
    on_class, on_all = (n / layout.class_rows)[layout.of_class], n / len(was)

    def influences(values: Floats) -> tuple[Floats, Floats, Floats]:
        """(u - v)^2 - v^2 of pairs, the v of pairs, and the v of units."""
        u, (units, v) = on_class * layout.on_classes(values), layout.on_all(values)
        v = v * on_all
        return u * (u - 2 * v), v, units * on_all

    change = now.mean(axis=1) - was.mean(axis=1)
    moved, v, units = influences(change)
    second = np.maximum((units**2).sum() + layout.class_sums(moved), 0.0)
    fourth = (units**4).sum() + layout.class_sums(moved * (moved + 2 * v**2))
    varies = second > 0
    kurtosis = np.where(varies, n * fourth / np.where(varies, second, 1.0) ** 2, 1.0)
    parts = []
    for errors in [now.astype(np.int8) - was] if paired else [was, now]:
        k = errors.shape[1]
        own = residual = np.zeros_like(second)
        if k > 1:
            means, sse, pairs = errors.mean(axis=1), 0.0, np.zeros(len(layout.rows))
            for member in errors.T:  # all at once would take many times the memory of the answers
                moved, _, units = influences(member - means)
                sse += float(units @ units)
                pairs += moved
            own = member_variance(layout.class_means(errors) - errors.mean(axis=0))
            sse_of_class = np.maximum(sse + layout.class_sums(pairs), 0.0)
            residual = sse_of_class / ((n - 1) * (k - 1) * n * k)
        parts.append((own, residual, k))
    whole = combine(second / (n - 1) / n, np.maximum(kurtosis - 1, 0.0), n, parts)
    return whole.floored(_floor(change, layout))


def _floor(change: Floats, layout: Layout) -> Floats:
    """The variance floor of recall less accuracy of each class, shape (P,).

    With w the shares of the classes, that is (1 - w) times its own recall less w times those of the
    others, any of which may hold flips that it does not show: the floors of the recalls
    (`flip_floor`) add up with the squares of these weights.
    """
    n = layout.class_units
    psi = layout.on_classes(change) * (n / layout.class_rows)[layout.of_class]
    second, fourth = (layout.class_sums(psi**power) / n for power in (2, 4))
    with np.errstate(divide="ignore", invalid="ignore"):
        varies = (second > DUST) & (n > 1)
        examples = np.where(varies, second / (n - 1), 0.0)
        excess = np.where(varies, np.maximum(fourth / second**2 - 1, 0.0), 0.0)
    floor, share = flip_floor(examples, excess, n), layout.class_rows / layout.class_rows.sum()
    weighed = share**2 * floor
    return np.asarray((1 - share) ** 2 * floor + weighed.sum() - weighed)


def welch(before: Floats, after: Floats) -> Variance:
    """Variance of the difference of the members' means, test images fixed, of each class."""
    own = [member_variance(part) for part in (before, after)]
    total, none = own[0] + own[1], np.zeros(len(before))
    spread = own[0] ** 2 / (before.shape[1] - 1) + own[1] ** 2 / (after.shape[1] - 1)
    df = total**2 / np.where(spread > 0, spread, np.nan)
    return Variance(total, none, total, none, df, none)
