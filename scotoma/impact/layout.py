"""Sums over classes and clusters, and the variance of every class's impact at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scotoma.inputs import Codes, Flags, Floats, Labels
from scotoma.numbers import Variance, cluster_sums, combine, flip_floor
from scotoma.numbers.influences import member_variance

DUST = 1e-24  # what rounding leaves of influences that agree


@dataclass(frozen=True)
class Layout:
    """Pairs of a class and a cluster that share rows, in order of class.

    Attributes:
        order: Rows in order of (class, cluster), shape (N,).
        pair_start: First place in `order` of each pair, shape (J,).
        pair_rows: Rows of each pair, shape (J,).
        pair_class: Place of its class in `present`, shape (J,).
        pair_cluster: Its cluster, shape (J,).
        present: Ids of the classes that have rows, shape (P,).
        codes: Cluster of each row, shape (N,); None where every row is its own.
    """

    order: Codes
    pair_start: Codes
    pair_rows: Floats
    pair_class: Codes
    pair_cluster: Codes
    present: Codes
    codes: Codes | None

    @classmethod
    def of(cls, labels: Labels, codes: Codes | None) -> Layout:
        """Lay out the rows of `labels`, shape (N,), whose clusters are `codes`.

        >>> Layout.of(np.array([1, 0, 1]), None).order.tolist()
        [1, 0, 2]
        """
        cluster = np.arange(len(labels)) if codes is None else codes
        order = np.lexsort((cluster, labels))
        present, class_of = np.unique(labels[order], return_inverse=True)
        ordered = cluster[order]
        changes = np.diff(class_of, prepend=-1) | np.diff(ordered, prepend=-1)
        start = np.flatnonzero(changes)
        rows = np.diff(start, append=len(labels)).astype(np.float64)
        return cls(
            order, start, rows, class_of[start], ordered[start], present.astype(np.intp), codes
        )

    @property
    def class_units(self) -> Floats:
        """Pairs of each class, shape (P,)."""
        return np.bincount(self.pair_class).astype(np.float64)

    @property
    def class_rows(self) -> Floats:
        """Rows of each class, shape (P,)."""
        return np.asarray(np.bincount(self.pair_class, self.pair_rows), np.float64)

    def pair_sums(self, values: Floats | Flags) -> Floats | Flags:
        """Sums of rows (N, ...) over each pair, (J, ...)."""
        ordered = values[self.order]
        return (
            ordered
            if self.codes is None
            else np.add.reduceat(ordered, self.pair_start, dtype=np.float64)
        )

    def class_sums(self, pairs: Floats | Flags) -> Floats:
        """Sums of pairs (J, ...) over each class, (P, ...)."""
        first = np.flatnonzero(np.diff(self.pair_class, prepend=-1))
        return np.asarray(np.add.reduceat(pairs, first, dtype=np.float64))

    def class_means(self, values: Floats | Flags) -> Floats:
        """Means of rows (N, K) over each class, (P, K).

        >>> layout = Layout.of(np.array([1, 0, 1]), None)
        >>> layout.class_means(np.array([[1.0], [0.0], [0.0]])).tolist()
        [[0.0], [0.5]]
        """
        return self.class_sums(self.pair_sums(values)) / self.class_rows[:, None]

    def effective_events(self, events: Floats) -> Floats:
        """Effective events of each class, (sum s)^2 / sum s^2 over its clusters.

        >>> layout = Layout.of(np.array([1, 0, 1]), None)
        >>> layout.effective_events(np.array([2.0, 0.0, 2.0])).tolist()
        [0.0, 2.0]
        """
        s = np.asarray(self.pair_sums(events), np.float64)
        squares = self.class_sums(s**2)
        return np.where(squares > 0, self.class_sums(s) ** 2 / np.maximum(squares, 1), 0.0)

    def own(self, values: Floats, units: Floats | int) -> Floats:
        """What pairs add to the mean of their class, times a number of units, (J, K)."""
        share = (units / self.class_rows)[self.pair_class][:, None]
        pairs = self.pair_sums(values) * share
        pairs -= self.class_means(values)[self.pair_class] * (self.pair_rows[:, None] * share)
        return pairs


def crossed(was: Flags, now: Flags, layout: Layout, *, paired: bool) -> Variance:
    """Crossed variance of (recall - accuracy), compressed minus dense, of each class.

    What `Number.variance` gives for the classes one by one, without a table of examples by classes:
    off its class the influence of an example is that on the accuracy, the same for every class. So
    a sum over units of a power of u - v, where u is 0 off the class, is that of v, and what the
    units of the class change of it.
    """
    n = len(was) if layout.codes is None else int(layout.codes.max()) + 1
    if n < 2:
        return Variance(*np.full((6, len(layout.present)), np.nan))

    def squares(values: Floats) -> tuple[Floats, Floats, Floats]:
        """(u - v)^2 - v^2 of pairs, the v of pairs, and the v of units, a column a member."""
        u = layout.own(values, n)
        v = cluster_sums(values - values.mean(axis=0), layout.codes) * (n / len(values))
        of_pair = v[layout.pair_cluster]
        moved = u - 2 * of_pair
        moved *= u
        return moved, of_pair, v

    change = (now.mean(axis=1) - was.mean(axis=1))[:, None]
    moved, of_pair, v = squares(change)
    second = np.maximum((v**2).sum() + layout.class_sums(moved)[:, 0], 0.0)
    fourth = (v**4).sum() + layout.class_sums(moved * (moved + 2 * of_pair**2))[:, 0]
    varies = second > 0
    kurtosis = np.where(varies, n * fourth / np.where(varies, second, 1.0) ** 2, 1.0)
    parts = []
    sides: list[tuple[Flags, ...]] = [(now, was)] if paired else [(was,), (now,)]
    for errors in sides:
        k = errors[0].shape[1]
        own = residual = np.zeros_like(second)
        if k > 1:
            means = [layout.class_means(one) - one.mean(axis=0) for one in errors]
            own = member_variance(means[0] - means[1] if paired else means[0])
            mean = change if paired else errors[0].mean(axis=1, keepdims=True)
            sse = np.zeros_like(second)
            for member in range(k):  # all at once would take many times the memory of the answers
                values = errors[0][:, [member]] - mean
                values -= errors[1][:, [member]] if paired else 0
                moved, _, v = squares(values)
                sse += (v**2).sum() + layout.class_sums(moved[:, 0])
            residual = np.maximum(sse, 0.0) / ((n - 1) * (k - 1) * n * k)
        parts.append((own, residual, k))
    whole = combine(second / (n - 1) / n, np.maximum(kurtosis - 1, 0.0), n, parts)
    return whole.floored(_floor(change, layout))


def _floor(change: Floats, layout: Layout) -> Floats:
    """The variance floor of recall less accuracy of each class, shape (P,).

    With w the shares of the classes, that is (1 - w) times its own recall less w times those of the
    others, any of which may hold flips that it does not show: the floors of the recalls
    (`flip_floor`) add up with the squares of these weights.
    """
    psi, n = layout.own(change, layout.class_units)[:, 0], layout.class_units
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
