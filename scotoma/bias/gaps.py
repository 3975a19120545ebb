"""Does compression hurt one group more than another?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scotoma.bias.counting import RateMetric, at_risk, group_masks, metrics
from scotoma.bias.results import GroupGap
from scotoma.errors import DataError
from scotoma.inputs import Flags, Labels, booleans, populations, true_labels
from scotoma.numbers import COMPRESSED, DENSE, Number, Units, check_level

Rates = tuple[Number, Number]  # of group a, and of group b


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
    before = contrast.rates(d, DENSE)
    return contrast.gap(before, contrast.rates(c, DENSE if paired else COMPRESSED), level=level)


@dataclass(frozen=True, eq=False)
class Contrast:
    """Two groups whose rates are set against each other.

    Attributes:
        names: Names of group a and group b.
        kind: The rate.
        at_risk: Who counts in each group, shape (2, N).
        labels: True class ids, shape (N,).
        positive: The class whose errors count; None for all.
        units: The examples, and their clusters.
    """

    names: tuple[str, str]
    kind: RateMetric
    at_risk: Flags
    labels: Labels
    positive: int | None
    units: Units

    @classmethod
    def of(
        cls,
        labels: Labels,
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
        >>> Contrast.of(labels, labels == 0, labels == 1, n_classes=2).at_risk.tolist()
        [[True, False, True], [False, True, False]]
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
        risk = at_risk(n_classes, positive)[labels, number] & masks
        units = Units.of(len(labels), clusters)
        return cls(names, kinds[number], risk, labels, positive, units)

    def rates(self, predicted: npt.NDArray[np.integer[Any]], axis: str) -> Rates:
        """Both groups' rates in one population: class ids of its members, shape (N, K)."""
        wrong = predicted != self.labels[:, None]
        if self.positive is not None:  # a confusion among other classes is no error
            wrong &= (predicted == self.positive) | (self.labels == self.positive)[:, None]
        a, b = (self.units.mean(wrong, risk, axis=axis) for risk in self.at_risk)
        return a, b

    def gap(self, dense: Rates, compressed: Rates, *, level: float = 0.95) -> GroupGap:
        """Compare two populations; returns as for `gap`.

        Either group may hold flips that the other does not show, so that their floors add up.
        """
        rises = [now.since(was) for was, now in zip(dense, compressed, strict=True)]
        estimates = []
        for rise, name in zip(rises, self.names, strict=True):
            estimates.append(rise.estimate(reason=self.kind.words(name).nobody, level=level))
        rise_a, rise_b = estimates
        difference = (rises[1] - rises[0]).estimate(
            reason=rise_a.reason or rise_b.reason, level=level
        )
        return GroupGap(self.names[0], self.names[1], self.kind.name, rise_a, rise_b, difference)
