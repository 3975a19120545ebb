"""Sums over classes and clusters, and the variance of every class's impact at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scotoma.inputs import Codes, Floats, Labels
from scotoma.numbers import Variance, cluster_sums, combine, flip_floor
from scotoma.numbers.influences import member_variance

DUST = 1e-24  # what rounding leaves of influences that agree


@dataclass(frozen=True)
class Layout:
    """Rows put in order of class, and within a class of cluster, so that sums are runs of rows.

    A pair is the rows of one class in one cluster; without clusters every row is its own.
    """

    order: Codes  # rows in order of (class, cluster), shape (N,)
    pair_start: Codes  # first place in `order` of each pair, shape (J,)
    pair_rows: Floats  # rows of each pair, shape (J,)
    pair_class: Codes  # place of its class in `present`, shape (J,)
    pair_cluster: Codes  # its cluster, shape (J,)
    class_start: Codes  # first pair of each class, shape (P,)
    class_rows: Floats  # rows of each class, shape (P,)
    class_units: Floats  # pairs of each class, shape (P,)
    present: Codes  # ids of the classes that have rows, shape (P,)
    codes: Codes | None  # cluster of each row, shape (N,); None where every row is its own
    cluster_rows: Floats  # rows of each cluster, shape (G,)

    @classmethod
    def of(cls, labels: Labels, codes: Codes | None) -> Layout:
        """Lay out the rows of `labels`, shape (N,), whose clusters are `codes`.

        >>> Layout.of(np.array([1, 0, 1]), None).order.tolist()
        [1, 0, 2]
        """
        cluster = np.arange(len(labels)) if codes is None else codes
        order = np.lexsort((cluster, labels))
        present, class_of = np.unique(labels[order], return_inverse=True)
        new_class = np.diff(class_of, prepend=-1) != 0
        pair_start = np.flatnonzero(new_class | (np.diff(cluster[order], prepend=-1) != 0))
        pair_class = class_of[pair_start]
        return cls(
            order=order,
            pair_start=pair_start,
            pair_rows=np.diff(pair_start, append=len(labels)).astype(np.float64),
            pair_class=pair_class,
            pair_cluster=cluster[order][pair_start],
            class_start=np.flatnonzero(np.diff(pair_class, prepend=-1)),
            class_rows=np.bincount(class_of).astype(np.float64),
            class_units=np.bincount(pair_class).astype(np.float64),
            present=present.astype(np.intp),
            codes=codes,
            cluster_rows=np.bincount(cluster).astype(np.float64),
        )

    def pair_sums(self, values: Floats) -> Floats:
        """Sums of rows (N, ...) over each pair, (J, ...)."""
        ordered = values[self.order]
        if self.codes is None:
            return ordered
        return np.asarray(np.add.reduceat(ordered, self.pair_start), np.float64)

    def class_sums(self, pairs: Floats) -> Floats:
        """Sums of pairs (J, ...) over each class, (P, ...)."""
        return np.asarray(np.add.reduceat(pairs, self.class_start), np.float64)

    def class_means(self, values: Floats) -> Floats:
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
        s = self.pair_sums(events)
        squares = self.class_sums(s**2)
        return np.where(squares > 0, self.class_sums(s) ** 2 / np.maximum(squares, 1), 0.0)

    def influences(self, values: Floats) -> tuple[Floats, Floats]:
        """What pairs add to their class's recall, (J, K), and clusters to the accuracy, (G, K).

        The influence of cluster g on (recall of a class - accuracy) is u of its pair in that class,
        0 if it has none, minus v_g; over the clusters its mean is 0 and its spread that of the
        estimate.
        """
        means = self.class_means(values)
        pairs = self.pair_sums(values) - self.pair_rows[:, None] * means[self.pair_class]
        u = pairs * (len(self.cluster_rows) / self.class_rows)[self.pair_class][:, None]
        whole = cluster_sums(values - values.mean(axis=0), self.codes)
        return u, whole * (len(self.cluster_rows) / len(values))

    def squares(self, u: Floats, v: Floats) -> Floats:
        """Sum over clusters and members of (u - v)^2 for each class, shape (P,)."""
        crossed = (u * (u - 2 * v[self.pair_cluster])).sum(axis=1)
        return np.asarray((v**2).sum() + self.class_sums(crossed), np.float64)

    def fourths(self, u: Floats, v: Floats) -> Floats:
        """Sum over clusters of (u - v)^4 for each class, shape (P,)."""
        own = v[self.pair_cluster]
        beyond = ((u - own) ** 4 - own**4).sum(axis=1)
        return np.asarray((v**4).sum() + self.class_sums(beyond), np.float64)

    def spread(self, values: Floats, n_classes: int) -> Floats:
        """Numbers of the classes that have rows as numbers of all classes, nan for the others."""
        whole = np.full(n_classes, np.nan)
        whole[self.present] = values
        return whole


def crossed(was: Floats, now: Floats, layout: Layout, *, paired: bool) -> Variance:
    """Crossed variance of (recall - accuracy), compressed minus dense, of each class.

    What `crossed_variance` gives for the classes' influences one by one, without a table of
    examples by classes: off its class an example's influence is the same for every class.
    """
    n = len(layout.cluster_rows)
    if n < 2:
        nothing = np.full(layout.present.shape, np.nan)
        return Variance(nothing, nothing, nothing, nothing, nothing)
    u, v = layout.influences((now.mean(axis=1) - was.mean(axis=1))[:, None])
    second = np.maximum(layout.squares(u, v), 0.0)
    fourth = layout.fourths(u, v)
    varies = second > 0
    kurtosis = np.where(varies, n * fourth / np.where(varies, second, 1.0) ** 2, 1.0)
    parts = []
    for values in [now - was] if paired else [was, now]:
        k = values.shape[1]
        if k == 1:
            parts.append((np.zeros_like(second), np.zeros_like(second), k))
            continue
        own = member_variance(layout.class_means(values) - values.mean(axis=0))
        residuals = layout.influences(values - values.mean(axis=1, keepdims=True))
        parts.append((own, layout.squares(*residuals) / ((n - 1) * (k - 1) * n * k), k))
    whole = combine(second / (n - 1) / n, np.maximum(kurtosis - 1, 0.0), n, parts)
    return whole.floored(_floor(was, now, layout))


def _floor(was: Floats, now: Floats, layout: Layout) -> Floats:
    """The variance floor of recall less accuracy of each class, shape (P,).

    With w the shares of the classes, that is (1 - w) times its own recall less w times those of the
    others, any of which may hold flips that it does not show: the floors of the recalls
    (`flip_floor`) add up with the squares of these weights.
    """
    pairs = layout.pair_sums((now.mean(axis=1) - was.mean(axis=1))[:, None])[:, 0]
    n, mean_rows = layout.class_units, layout.class_rows / layout.class_units
    means = layout.class_sums(pairs) / layout.class_rows
    psi = (pairs - layout.pair_rows * means[layout.pair_class]) / mean_rows[layout.pair_class]
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
