"""How much more does the error of one group rise than that of another?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from scotoma.answers.group_keys import group_key
from scotoma.answers.groups import Groups
from scotoma.audit.base import Row, rows_at
from scotoma.bias.counting import RateMetric, at_risk, check_names, metrics
from scotoma.datasets import AuditedExamples
from scotoma.errors import DataError
from scotoma.numbers import COMPRESSED, DENSE, Estimate, Number, Units, check_level, holm, undefined
from scotoma.numbers.enough import FEW
from scotoma.numbers.inputs import Flags, booleans, populations, true_labels

REST = "the rest"
NO_INTERVAL = "a p-value has no interval"
UNTESTED = f"not tested: fewer than {FEW} effective events are too few to show harm"


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
) -> dict[str, Estimate]:
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
        `rise_a` and `rise_b`, compressed - dense in each group, and `gap`, rise_b - rise_a; all
        fractions, nan with the reason where a group has no example at risk.

    Raises:
        DataError: As `amplification`, or a metric that there is not.

    >>> import numpy as np
    >>> row = np.arange(400)
    >>> dense = (row % 20 == 0).astype(int)[:, None]
    >>> compressed = (row % np.where(row < 200, 20, 5) == 0).astype(int)[:, None]
    >>> rises = gap(np.zeros(400, int), dense, compressed, row < 200, row >= 200, n_classes=2)
    >>> round(rises["gap"].value, 3), round(rises["gap"].low, 3), round(rises["gap"].high, 3)
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
) -> dict[str, Estimate]:
    """Compare the rises of two groups.

    Either group may hold flips that the other does not show, so that their floors add up.
    """
    a, b = (
        own.estimate(reason=kind.words(name).nobody, level=level)
        for own, name in zip(rises, names, strict=True)
    )
    difference = (rises[1] - rises[0]).estimate(reason=a.reason or b.reason, level=level)
    return {"rise_a": a, "rise_b": b, "gap": difference}


def gap_rows(
    examples: AuditedExamples,
    advantaged: Mapping[str, str],
    dense: npt.NDArray[np.unsignedinteger],
    compressed: npt.NDArray[np.unsignedinteger],
    *,
    paired: bool,
) -> Iterator[dict[str, Any]]:
    """Compute the gaps of a compressed population, each with its two-sided p-value.

    Args:
        examples: The test examples.
        advantaged: Attribute to the value that its others are compared with, each in turn. Without
            one, two values are compared with each other, and each of more with the rest.
        dense: Class ids of the dense members, shape (N, K).
        compressed: Class ids of the compressed members, shape (N, K').
        paired: Member m of it derives from dense member m.

    Yields:
        Fields of `Row`: the numbers of `gap`, and `p`.
    """
    groups, truth = examples.partition(), examples.labels[:, None]
    units = Units.of(len(truth), examples.clusters)
    was, now = dense != truth, compressed != truth
    error = metrics(len(examples.classes), None)[0]

    @lru_cache(maxsize=2)  # the advantaged group comes back in every contrast, no other does
    def rise_of(key: str, but: str = "") -> Number:
        mask = ~groups.mask(but) if key == REST else groups.mask(key)
        return rise(units, was, now, mask, paired=paired)

    for attribute, a, b in _contrasts(groups, examples.attributes, advantaged):
        numbers = group_gap(error, (a, b), (rise_of(a, b if a == REST else ""), rise_of(b)))
        own = numbers["gap"]
        p = undefined(
            own.reason or NO_INTERVAL, value=own.p_differs(), n=own.n, members=own.members,
            events=own.events, level=own.level,
        )  # fmt: skip
        facts = {"attribute": attribute, "group_a": a, "group_b": b}
        yield from rows_at({"metric": error.name, "facts": facts}, numbers | {"p": p})


def groups_of(groups: Groups, attribute: str) -> dict[str, npt.NDArray[np.bool_]]:
    """Key of each group that one attribute forms to its members, shape (N,)."""
    own = zip(groups.by_key.items(), groups.attributes, strict=True)
    return {key: mask for (key, mask), of in own if of == (attribute,)}


def adjusted_rows(rows: Iterable[Row]) -> Iterator[Row]:
    """Adjust the p-values of all gaps of an audit by Holm, as one family.

    A gap of too few effective events can show no harm, and is no part of the family.
    """
    tests = [row for row in rows if row.what == "p"]
    few = [(row.number.effective_events or 0.0) < FEW for row in tests]
    p = np.array([row.number.value for row in tests], float)
    for row, rare, value in zip(tests, few, holm(np.where(few, np.nan, p)).tolist(), strict=True):
        own = {"value": None, "reason": row.undefined or UNTESTED} if rare else {"value": value}
        number = row.number.model_copy(update=own)
        yield row.model_copy(update={"what": "p_adjusted", "number": number})


def _contrasts(
    groups: Groups, attributes: tuple[str, ...], advantaged: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Pair the groups of every attribute: each with the advantaged one, the other or the rest."""
    for attribute in attributes:
        keys = list(groups_of(groups, attribute))
        if attribute in advantaged:
            favoured = group_key([(attribute, advantaged[attribute])])
            yield from ((attribute, favoured, key) for key in keys if key != favoured)
        elif len(keys) == 2:
            yield attribute, keys[0], keys[1]
        else:
            yield from ((attribute, REST, key) for key in keys)
