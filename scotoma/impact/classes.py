"""Which classes does compression hurt beyond what it does to the model as a whole?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.numbers import (
    FEW_EVENTS,
    Estimate,
    Variance,
    benjamini_hochberg,
    check_level,
    cluster_sums,
    combine,
    few_runs,
    flip_floor,
    holm,
    of_variance,
    undefined,
)
from scotoma.numbers.enough import FEW
from scotoma.numbers.influences import member_variance
from scotoma.numbers.inputs import (
    Codes,
    Flags,
    Floats,
    Labels,
    StatisticsProtocol,
    cluster_ids,
    populations,
    true_labels,
)

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


ClassCorrection = Literal["bh", "by", "holm"]
NOTHING = Variance(*[math.nan] * 6)  # known of a class without examples


@dataclass(frozen=True, kw_only=True)
class ClassImpact:
    """What compression does to the recall of one class beyond what it does to the accuracy.

    Attributes:
        class_id: The class.
        dense_recall: Recall averaged over dense members, a fraction; nan without examples.
        compressed_recall: The same for compressed members.
        loss: Recall lost less accuracy lost, a fraction: above 0 where the class is hurt more than
            the model as a whole. `events` are the examples of the class that carry its errors, or
            its hits if fewer.
        loss_variance: Its variance and parts.
        p: Two-sided p-value of "the class changes as the accuracy does"; nan where `loss` has a
            reason.
        p_adjusted: The same, adjusted over the classes that were tested.
        significant: p_adjusted <= 1 - level.
    """

    class_id: int
    dense_recall: float
    compressed_recall: float
    loss: Estimate
    loss_variance: Variance
    p: float
    p_adjusted: float
    significant: bool

    @property
    def numbers(self) -> dict[str, Estimate]:
        """All of it by what it is, as an audit's rows have it; only the loss has an interval."""
        n, members, level = self.loss.n, self.loss.members, self.loss.level
        bare = undefined("only its change has an interval", n=n, members=members, level=level)
        p = replace(bare, reason=self.loss.reason or "a p-value has no interval")
        return {
            "dense": replace(bare, value=self.dense_recall),
            "compressed": replace(bare, value=self.compressed_recall),
            "beyond accuracy": self.loss,
            "p": replace(p, value=self.p),
            "p, adjusted": replace(p, value=self.p_adjusted),
        }


def class_impact(
    dense: npt.ArrayLike,
    compressed: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    n_classes: int | None = None,
    protocol: StatisticsProtocol = "sound",
    correction: ClassCorrection | Literal["default"] | None = "default",
    clusters: npt.ArrayLike | None = None,
    paired: bool = False,
    level: float = 0.95,
) -> list[ClassImpact]:
    """Recall that each class loses beyond the accuracy lost, compressed against dense.

    `published` is Welch's t-test on the members' (recall - accuracy), uncorrected: it takes the
    test images as fixed and says what other training runs would show on them. On other test
    images it finds too much, the more so the fewer images a class has.

    `sound` asks about other runs and other images: the t-test of the same difference with the
    crossed variance of examples and members, in which the influence of an example is that of the
    class's recall less that of the accuracy; Benjamini-Hochberg over the classes.

    Args:
        dense: Class ids, integers in [0, n_classes), shape (N, K).
        compressed: Class ids of the same examples, shape (N, K').
        labels: True class ids, shape (N,).
        n_classes: Number of classes C, at least 2; None for those up to the largest id that
            occurs in labels or predictions.
        protocol: `sound` or `published`.
        correction: `bh` (Benjamini-Hochberg), `by` (Benjamini-Yekutieli: recalls of one model can
            depend on each other negatively), `holm` for a gate, or None; by default `bh` for
            `sound` and None for `published`.
        clusters: Integer id of each row's cluster, shape (N,); None where every row is its own.
            `published` knows none.
        paired: Member m of `compressed` derives from member m of `dense`. `published` ignores it.
        level: Coverage of the intervals, a fraction in (0, 1); alpha is 1 - level.

    Returns:
        One row per class; nan with a reason where a class has no examples or nothing varies.

    Raises:
        DataError: Input that is ragged, empty, not integer, out of range or of different examples;
            fewer than 2 members under `published`; an unknown protocol or correction.

    References:
        Hooker et al. (2019), Selective Brain Damage, section 2.2; Welch (1947), Biometrika
        34:28-35.

    >>> labels = np.arange(300) % 3
    >>> dense = (labels[:, None] + (np.arange(300)[:, None] % 20 < [1, 2, 1, 2])) % 3
    >>> compressed = np.where((labels == 2)[:, None] & (np.arange(300)[:, None] % 4 < 1), 0, dense)
    >>> impact = class_impact(dense, compressed, labels)
    >>> [(round(row.loss.value, 3), row.significant) for row in impact]
    [(-0.067, True), (-0.067, True), (0.133, True)]
    """
    check_level(level)
    if protocol not in ("sound", "published"):
        raise DataError(f"protocol must be 'sound' or 'published', got {protocol!r}: choose one")
    d, c = populations(dense, compressed, n_classes, paired=paired)
    y = true_labels(labels, len(d), n_classes)
    n_classes = n_classes or 1 + max(int(ids.max()) for ids in (d, c, y))
    chosen = _correction(protocol, correction)
    members = min(d.shape[1], c.shape[1])
    published = protocol == "published"
    if published and members < 2:
        raise DataError(
            "protocol='published' compares runs with runs and needs at least 2 members a "
            f"population, got {d.shape[1]} and {c.shape[1]}: use protocol='sound'"
        )
    codes = cluster_ids(clusters, len(y))
    order = np.argsort(y, kind="stable") if codes is None else np.lexsort((codes, y))
    y, d, c = y[order], d[order], c[order]
    was, now = (ids != y[:, None] for ids in (d, c))
    layout = Layout.of(y, None if codes is None else codes[order])
    present = y[layout.start[layout.first]].tolist()
    missed = layout.class_means(was), layout.class_means(now)
    before, after = missed[0] - was.mean(axis=0), missed[1] - now.mean(axis=0)
    lost = after.mean(axis=1) - before.mean(axis=1)
    variance = welch(before, after) if published else crossed(was, now, layout, paired=paired)
    errors = was.sum(axis=1) + now.sum(axis=1)
    hits = d.shape[1] + c.shape[1] - errors
    events = np.minimum(layout.effective_events(errors), layout.effective_events(hits))
    why = "no spread between members" if published else "nothing varies"
    if not published and len(present) == 1:
        why = "one class: its recall is the accuracy"

    def loss(place: int) -> Estimate:
        number, own = float(events[place]), variance.at((place,))
        note = FEW_EVENTS if number < FEW else ""
        n, value = int(layout.class_units[place]), float(lost[place])
        if own.total > 0 and why[:3] != "one":
            return of_variance(
                value, own, n=n, members=members, events=number, level=level, note=note
            )
        return undefined(
            f"p not estimable ({why})", value=value, n=n, members=members, events=number,
            level=level, note="; ".join(filter(None, [note, few_runs(members)])),
        )  # fmt: skip

    places = {one: place for place, one in enumerate(present)}
    losses = [
        loss(places[one])
        if one in places
        else undefined(
            f"undefined (no examples of class {one})", n=0, members=members, events=0.0, level=level
        )
        for one in range(n_classes)
    ]
    p = np.array([one.p_differs() for one in losses])
    adjusted = _adjust(p, chosen)
    recalls = [1 - own.mean(axis=1) for own in missed]
    return [
        ClassImpact(
            class_id=one,
            dense_recall=float(recalls[0][places[one]]) if one in places else math.nan,
            compressed_recall=float(recalls[1][places[one]]) if one in places else math.nan,
            loss=losses[one],
            loss_variance=variance.at((places[one],)) if one in places else NOTHING,
            p=float(p[one]),
            p_adjusted=float(adjusted[one]),
            significant=bool(adjusted[one] <= 1 - level),  # nan compares false
        )
        for one in range(n_classes)
    ]


def _adjust(p: Floats, correction: ClassCorrection | None) -> Floats:
    if correction is None:
        return p
    return holm(p) if correction == "holm" else benjamini_hochberg(p, dependence=correction == "by")


def _correction(
    protocol: StatisticsProtocol, correction: ClassCorrection | Literal["default"] | None
) -> ClassCorrection | None:
    if correction == "default":
        return "bh" if protocol == "sound" else None
    if correction not in ("bh", "by", "holm", None):
        raise DataError(
            f"correction must be 'bh', 'by', 'holm' or None, got {correction!r}: choose one"
        )
    return correction
