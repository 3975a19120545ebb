"""Does compression hurt one group more than another?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from scotoma.bias.counting import RateMetric, at_risk, check_names, metrics
from scotoma.bias.subgroup import GroupGap
from scotoma.errors import DataError
from scotoma.numbers import COMPRESSED, DENSE, Number, Units, check_level
from scotoma.numbers.inputs import Flags, booleans, populations, true_labels


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
    sides = (("group_a", group_a), ("group_b", group_b))
    masks = np.stack([booleans(mask, name, y.shape) for name, mask in sides])
    check_names(names, len(masks))
    kinds = metrics(n_classes, positive)
    offered = ["error"] if positive is None else [kind.name for kind in kinds]
    if metric not in offered:
        raise DataError(
            f"metric must be one of {', '.join(offered)}, got '{metric}': "
            "pass the positive class for its fpr and fnr"
        )
    number, units = offered.index(metric), Units.of(len(y), clusters)
    was, now = (predicted != y[:, None] for predicted in (d, c))
    if positive is not None:  # a confusion among other classes is no error
        was, now = (
            wrong & ((predicted == positive) | (y == positive)[:, None])
            for wrong, predicted in ((was, d), (now, c))
        )
    risk = at_risk(n_classes, positive)[y, number] & masks
    rises = [rise(units, was, now, own, paired=paired) for own in risk]
    return group_gap(kinds[number], names, rises, level=level)


def rise(units: Units, was: Flags, now: Flags, at_risk: Flags, *, paired: bool) -> Number:
    """How much a rate rises from the dense to the compressed population.

    Args:
        units: The examples, and their clusters.
        was: Who of the dense members goes wrong, shape (N, K).
        now: Who of the compressed members does, shape (N, K').
        at_risk: The examples that count, shape (N,).
        paired: Member m of the compressed population derives from dense member m.

    >>> wrong = np.array([[False], [True]])
    >>> rise(Units.of(2), wrong, ~wrong, wrong[:, 0], paired=True).value
    -1.0
    """
    after = units.mean(now, at_risk, axis=DENSE if paired else COMPRESSED)
    return after.since(units.mean(was, at_risk))


def group_gap(
    kind: RateMetric, names: tuple[str, str], rises: Sequence[Number], *, level: float = 0.95
) -> GroupGap:
    """Compare the rises of two groups.

    Either group may hold flips that the other does not show, so that their floors add up.
    """
    a, b = (
        own.estimate(reason=kind.words(name).nobody, level=level)
        for own, name in zip(rises, names, strict=True)
    )
    difference = (rises[1] - rises[0]).estimate(reason=a.reason or b.reason, level=level)
    return GroupGap(*names, kind.name, a, b, difference)
