"""Which classes does compression hurt beyond what it does to the model as a whole?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

from scotoma.errors import DataError
from scotoma.impact.layout import Layout, crossed, welch
from scotoma.inputs import Flags, Floats, StatisticsProtocol, cluster_ids, populations, true_labels
from scotoma.numbers import (
    FEW_EVENTS,
    Estimate,
    Variance,
    benjamini_hochberg,
    check_level,
    few_runs,
    holm,
    undefined,
)
from scotoma.numbers.rates import FEW

ClassCorrection = Literal["bh", "by", "holm"]


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassImpact:
    """The impact of compression on each class, arrays of shape (C,) in the order of class ids.

    Attributes:
        n: Examples of the class; clusters where rows belong together.
        dense_recall: Recall averaged over dense members, a fraction; nan without examples.
        compressed_recall: The same for compressed members.
        normalised: 100 [(recall - accuracy) compressed - (recall - accuracy) dense], percentage
            points.
        absolute: 100 (recall compressed - recall dense), percentage points.
        low: Lower end of the interval of `normalised`, percentage points.
        high: Upper end of the interval of `normalised`, percentage points.
        p: Two-sided p-value of "the class changes as the accuracy does".
        p_adjusted: The same, adjusted over the classes that were tested.
        significant: p_adjusted <= 1 - level.
        se: Standard error of `normalised`, percentage points.
        df: Degrees of freedom of its t distribution.
        of_examples: Its variance over examples, squared percentage points.
        of_members: Its variance over training runs, likewise.
        of_both: Chance of one member on one example, counted in both of the above.
        floor: What examples that did not change may still change, likewise.
        effective_events: Examples of the class that carry its errors, or its hits if fewer.
        reason: Why a class has no p-value, as a sentence to print; empty otherwise.
        dense_accuracy: Accuracy of the dense members, a fraction.
        compressed_accuracy: Accuracy of the compressed members.
        members: Size of the smaller population.
        protocol: `sound` or `published`.
        correction: Over the classes: `bh`, `by`, `holm`, or None.
        level: Coverage of the intervals, a fraction.
    """

    n: npt.NDArray[np.int64]
    dense_recall: Floats
    compressed_recall: Floats
    normalised: Floats
    absolute: Floats
    low: Floats
    high: Floats
    p: Floats
    p_adjusted: Floats
    significant: Flags
    se: Floats
    df: Floats
    of_examples: Floats
    of_members: Floats
    of_both: Floats
    floor: Floats
    effective_events: Floats
    reason: tuple[str, ...]
    dense_accuracy: float
    compressed_accuracy: float
    members: int
    protocol: StatisticsProtocol
    correction: ClassCorrection | None
    level: float

    def estimate(self, class_id: int) -> Estimate:
        """The normalised difference of one class with its interval, percentage points.

        >>> impact = class_impact([[0, 0], [1, 1]], [[0, 0], [1, 0]], [0, 1], n_classes=3)
        >>> impact.estimate(2).reason
        'undefined (no examples of class 2)'
        """
        c, n = class_id, int(self.n[class_id])
        value, events = float(self.normalised[c]), float(self.effective_events[c])
        few = FEW_EVENTS if events < FEW else ""
        note = "; ".join(filter(None, [few, few_runs(self.members)]))
        if self.reason[c]:
            return undefined(
                self.reason[c],
                value=value,
                n=n,
                members=self.members,
                events=events,
                level=self.level,
                note=note,
            )
        return Estimate.on_scale(
            value,
            float(self.se[c]),
            float(self.df[c]),
            events=events,
            level=self.level,
            n=n,
            members=self.members,
            note=note,
        )


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
) -> ClassImpact:
    """Recall of each class minus accuracy, compressed against dense.

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
        One entry per class; nan with a reason where a class has no examples or nothing varies.

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
    >>> impact.normalised.round(1).tolist(), impact.significant.tolist()
    ([6.7, 6.7, -13.3], [True, True, True])
    """
    check_level(level)
    if protocol not in ("sound", "published"):
        raise DataError(f"protocol must be 'sound' or 'published', got {protocol!r}: choose one")
    d, c = populations(dense, compressed, n_classes, paired=paired)
    y = true_labels(labels, len(d), n_classes)
    n_classes = n_classes or 1 + max(int(ids.max()) for ids in (d, c, y))
    chosen = _correction(protocol, correction)
    members = min(d.shape[1], c.shape[1])
    if protocol == "published" and members < 2:
        raise DataError(
            "protocol='published' compares runs with runs and needs at least 2 members a "
            f"population, got {d.shape[1]} and {c.shape[1]}: use protocol='sound'"
        )
    was, now = (d == y[:, None]).astype(np.float64), (c == y[:, None]).astype(np.float64)
    layout = Layout.of(y, cluster_ids(clusters, len(y)))
    before, after = layout.class_means(was), layout.class_means(now)
    shifted = before - was.mean(axis=0), after - now.mean(axis=0)
    value = shifted[1].mean(axis=1) - shifted[0].mean(axis=1)
    hits = was.sum(axis=1) + now.sum(axis=1)
    missed = layout.effective_events(d.shape[1] + c.shape[1] - hits)
    hit = layout.effective_events(hits)
    if protocol == "published":
        variance = welch(*shifted)
        reason = np.where(variance.total > 0, "", "p not estimable (no spread between members)")
    else:
        variance = crossed(was, now, layout, paired=paired)
        reason = _untested(layout, variance)
    tested = reason == ""
    se = np.where(tested, np.sqrt(np.where(tested, variance.total, 1.0)), np.nan)
    df = np.where(tested, variance.df, np.nan)
    half = stdtrit(df, (1 + level) / 2) * se
    spread = partial(layout.spread, n_classes=n_classes)
    p = spread(2 * stdtr(df, -np.abs(value) / se))
    p_adjusted = _adjust(p, chosen)
    reasons = [f"undefined (no examples of class {class_id})" for class_id in range(n_classes)]
    for class_id, text in zip(layout.present.tolist(), reason.tolist(), strict=True):
        reasons[class_id] = text
    return ClassImpact(
        n=np.nan_to_num(spread(layout.class_units)).astype(np.int64),
        dense_recall=spread(before.mean(axis=1)),
        compressed_recall=spread(after.mean(axis=1)),
        normalised=spread(100 * value),
        absolute=spread(100 * (after.mean(axis=1) - before.mean(axis=1))),
        low=spread(100 * (value - half)),
        high=spread(100 * (value + half)),
        p=p,
        p_adjusted=p_adjusted,
        significant=p_adjusted <= 1 - level,  # nan compares false
        se=spread(100 * se),
        df=spread(df),
        of_examples=spread(100**2 * variance.examples),
        of_members=spread(100**2 * variance.members),
        of_both=spread(100**2 * variance.residual),
        floor=spread(100**2 * np.broadcast_to(variance.floor, value.shape)),
        effective_events=np.nan_to_num(spread(np.minimum(missed, hit))),
        reason=tuple(reasons),
        dense_accuracy=float(was.mean()),
        compressed_accuracy=float(now.mean()),
        members=members,
        protocol=protocol,
        correction=chosen,
        level=level,
    )


def _untested(layout: Layout, variance: Variance) -> npt.NDArray[np.str_]:
    """Why each class has no p-value; empty where it has one."""
    reason = np.where(variance.total > 0, "", "p not estimable (nothing varies)").astype(object)
    if len(layout.present) == 1:
        reason[:] = "p not estimable (one class: its recall is the accuracy)"
    return reason.astype(np.str_)


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
