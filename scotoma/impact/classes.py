"""Which classes does compression hurt beyond what it does to the model as a whole?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.impact.layout import Layout, crossed, welch
from scotoma.numbers import (
    FEW_EVENTS,
    Estimate,
    Variance,
    benjamini_hochberg,
    check_level,
    few_runs,
    holm,
    of_variance,
    undefined,
)
from scotoma.numbers.enough import FEW
from scotoma.numbers.inputs import Floats, StatisticsProtocol, cluster_ids, populations, true_labels

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
    p = np.array([2 * min(one.p_above(0.0), one.p_below(0.0)) for one in losses])
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
