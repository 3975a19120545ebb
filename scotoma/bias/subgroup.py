"""How much more, or less, does compression fail each group?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from scotoma.bias.counting import RateMetric, check_names, metrics, tally, words_of
from scotoma.errors import DataError
from scotoma.numbers import (
    ChangeEvidence,
    Estimate,
    RateEvidence,
    Tally,
    Variance,
    check_level,
)
from scotoma.numbers.inputs import array, populations


@dataclass(frozen=True)
class GroupRate:
    """One rate of one group.

    Attributes:
        group: Name of the group.
        metric: `error`, `fpr` or `fnr`.
        class_id: The class against the rest; None for the error and for the positive class.
        rate: Mean over the members, a fraction.
    """

    group: str
    metric: str
    class_id: int | None
    rate: Estimate


@dataclass(frozen=True)
class GroupChange:
    """What compression does to one rate of one group.

    Attributes:
        group: Name of the group.
        metric: `error`, `fpr` or `fnr`.
        class_id: The class against the rest; None for the error and for the positive class.
        dense: The rate of the dense population, a fraction.
        compressed: The rate of the compressed population, a fraction.
        relative: compressed / dense - 1; its interval is on the log scale.
        absolute: compressed - dense, a fraction.
        relative_variance: Variance of log(compressed / dense) and its parts.
        absolute_variance: Variance of the difference and its parts.
    """

    group: str
    metric: str
    class_id: int | None
    dense: Estimate
    compressed: Estimate
    relative: Estimate
    absolute: Estimate
    relative_variance: Variance
    absolute_variance: Variance

    @property
    def events(self) -> float:
        """Effective events of the change: the smaller of dense and compressed."""
        return self.absolute.events


SELECTED = RateMetric("selected", None, "selection", "examples")
SELECTIONS = np.s_[:, [1]]  # false positives, where all labels are negative


def rates(
    labels: npt.ArrayLike,
    predicted: npt.ArrayLike,
    groups: npt.ArrayLike,
    names: Sequence[str],
    *,
    positive: int | None = None,
    n_classes: int,
    clusters: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> list[GroupRate]:
    """Error, FPR and FNR of every group, averaged over the members of one population.

    error = (FP + FN)/n, FPR = FP/(FP + TN), FNR = FN/(FN + TP). Without a positive class the error
    counts every wrong prediction, and FPR and FNR are those of each class against the rest.

    Args:
        labels: True class ids, shape (N,).
        predicted: Predicted class ids, shape (N, K).
        groups: Who belongs to which group, bool, shape (G, N); groups may overlap.
        names: One name a group.
        positive: The positive class; None for every class against the rest.
        n_classes: Number of classes.
        clusters: Id of each row's cluster, shape (N,); None where every row is its own.
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        Group by group, the metrics in the order of `metrics`; undefined rates are nan with their
        reason.

    Raises:
        DataError: Ids out of range, shapes that do not fit together, or a level that is no
            fraction.

    References:
        Hooker et al. (2020), Characterising Bias in Compressed Models.

    >>> found = rates([0, 0, 0, 1], [[0], [1], [0], [1]], [[True] * 4], ["all"],
    ...               positive=1, n_classes=2)
    >>> [(rate.metric, round(rate.rate.value, 4)) for rate in found]
    [('error', 0.25), ('fpr', 0.3333), ('fnr', 0.0)]
    """
    check_level(level)
    moments = tally(
        labels, predicted, None, groups, positive=positive, n_classes=n_classes, clusters=clusters
    )
    return _rates(RateEvidence.of_tally(moments), names, metrics(n_classes, positive), level)


def amplification(
    labels: npt.ArrayLike,
    dense: npt.ArrayLike,
    compressed: npt.ArrayLike,
    groups: npt.ArrayLike,
    names: Sequence[str],
    *,
    positive: int | None = None,
    n_classes: int,
    clusters: npt.ArrayLike | None = None,
    paired: bool = False,
    level: float = 0.95,
) -> list[GroupChange]:
    """What compression does to error, FPR and FNR of every group.

    The published normalised difference is `relative`: (compressed - dense) / dense, from
    unrounded rates. Intervals are over examples (or clusters) and training runs, crossed; with one
    member in each population over examples only.

    Args:
        labels: True class ids, shape (N,).
        dense: Predictions of the dense members, shape (N, K).
        compressed: Predictions of the compressed members on the same rows, shape (N, K').
        groups: Who belongs to which group, bool, shape (G, N); groups may overlap.
        names: One name a group.
        positive: The positive class; None for every class against the rest.
        n_classes: Number of classes.
        clusters: Id of each row's cluster, shape (N,); None where every row is its own.
        paired: Member m of `compressed` derives from member m of `dense`.
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        Group by group, the metrics in the order of `metrics`. What cannot be estimated is nan with
        its reason.

    Raises:
        DataError: Ids out of range, shapes that do not fit together, or a level that is no
            fraction.

    References:
        Hooker et al. (2020), Characterising Bias in Compressed Models, table 3.

    >>> import numpy as np
    >>> labels = np.zeros(200, int)
    >>> dense = (np.arange(200) % 10 == 0).astype(int)[:, None]
    >>> compressed = (np.arange(200) % 5 == 0).astype(int)[:, None]
    >>> change = amplification(labels, dense, compressed, np.ones((1, 200), bool), ["all"],
    ...                        positive=1, n_classes=2)[1]
    >>> change.metric, round(change.relative.value, 6), round(change.absolute.value, 6)
    ('fpr', 1.0, 0.1)
    >>> round(change.relative.low, 2), round(change.relative.high, 2), change.relative.note
    (0.44, 1.78, 'one training run: says nothing about the next one')
    >>> max(change.relative.p_above(0.2), change.absolute.p_above(0.005)) < 0.01
    True
    """
    check_level(level)
    sides = populations(dense, compressed, n_classes, paired=paired)
    moments = tally(
        labels, *sides, groups, positive=positive, n_classes=n_classes, paired=paired,
        clusters=clusters,
    )  # fmt: skip
    return group_changes(moments, names, positive=positive, n_classes=n_classes, level=level)


def group_changes(
    moments: Tally,
    names: Sequence[str],
    *,
    positive: int | None = None,
    n_classes: int,
    level: float = 0.95,
) -> list[GroupChange]:
    """`amplification` from additive moments, so that shards are summed first and asked once.

    Args:
        moments: From `tally`, of shape (G, E).
        names: One name a group.
        positive: As given to `tally`.
        n_classes: As given to `tally`.
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        As `amplification`.

    Raises:
        DataError: The moments are not of these groups and metrics, or a level that is no fraction.

    >>> moments = tally([0, 1], [[0], [0]], [[1], [0]], [[True, True]], n_classes=2)
    >>> len(group_changes(moments, ["all"], n_classes=2))
    5
    """
    kinds = metrics(n_classes, positive)
    if moments.n.shape != (len(names), len(kinds)):
        raise DataError(
            f"moments must hold {len(names)} groups of {len(kinds)} metrics, got shape "
            f"{moments.n.shape}: pass the names and classes they were counted with"
        )
    return change_list(ChangeEvidence.of_tally(moments), names, kinds, level)


def selection_rates(
    selected: npt.ArrayLike,
    groups: npt.ArrayLike,
    names: Sequence[str],
    *,
    clusters: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> list[GroupRate]:
    """Estimate the share of every group that is selected, averaged over models.

    Args:
        selected: Whether each example gets the favourable outcome, bool, shape (N, K).
        groups: Who belongs to which group, bool, shape (G, N); groups may overlap.
        names: One name a group.
        clusters: Id of each row's cluster, shape (N,); None where every row is its own.
        level: Coverage of the intervals, a fraction in (0, 1).

    Raises:
        DataError: Shapes that do not fit together, or a level that is no fraction.

    >>> (rate,) = selection_rates([[True], [False], [True], [True]], [[True] * 4], ["all"])
    >>> rate.metric, rate.rate.value, rate.rate.n
    ('selected', 0.75, 4)
    """
    check_level(level)
    moments = _selected(selected, None, groups, clusters)
    return _rates(RateEvidence.of_tally(moments.take(SELECTIONS)), names, [SELECTED], level)


def selection_changes(
    dense: npt.ArrayLike,
    compressed: npt.ArrayLike,
    groups: npt.ArrayLike,
    names: Sequence[str],
    *,
    kind: RateMetric = SELECTED,
    clusters: npt.ArrayLike | None = None,
    paired: bool = False,
    level: float = 0.95,
) -> list[GroupChange]:
    """Estimate how compression changes the share of every group that is selected.

    Args:
        dense: Whether dense models select each example, bool, shape (N, K).
        compressed: Whether compressed models do, shape (N, K').
        groups: As for `selection_rates`, like all that are not described.
        names: One name a group.
        kind: What models do to the examples, in words.
        clusters: Id of each row's cluster.
        paired: Member m of `compressed` derives from member m of `dense`.
        level: Coverage of the intervals.

    Raises:
        DataError: As for `selection_rates`; paired populations of different size.

    >>> half, all_of_them = np.arange(80) % 2 == 0, np.ones(80, bool)
    >>> (row,) = selection_changes(half[:, None], all_of_them[:, None], [all_of_them], ["all"])
    >>> row.dense.value, row.compressed.value, row.absolute.value
    (0.5, 1.0, 0.5)
    """
    check_level(level)
    moments = _selected(dense, array(compressed, "selected"), groups, clusters, paired=paired)
    return change_list(ChangeEvidence.of_tally(moments.take(SELECTIONS)), names, [kind], level)


def _selected(
    dense: npt.ArrayLike,
    compressed: npt.ArrayLike | None,
    groups: npt.ArrayLike,
    clusters: npt.ArrayLike | None,
    *,
    paired: bool = False,
) -> Tally:
    """Count as false positives, of labels that are all negative, who is selected."""
    sides = [array(own, "selected") for own in (dense, compressed) if own is not None]
    for hits in sides:
        if hits.ndim != 2 or not hits.size:
            raise DataError(
                f"selected must have a column a model and a row an example, got shape {hits.shape}"
            )
    before, *after = (hits.astype(bool).astype(np.intp) for hits in sides)
    return tally(
        np.zeros(len(before), np.intp), before, after[0] if after else None, groups, positive=1,
        n_classes=2, paired=paired, clusters=clusters,
    )  # fmt: skip


def _rates(
    known: RateEvidence, names: Sequence[str], kinds: Sequence[RateMetric], level: float
) -> list[GroupRate]:
    """Give some metrics of all groups, from evidence of shape (G, E)."""
    check_names(names, len(known.n))
    rates = known.columns(words_of(names, kinds), level=level).estimates()
    places = product(names, kinds)
    return [
        GroupRate(name, kind.name, kind.class_id, rate)
        for (name, kind), rate in zip(places, rates, strict=True)
    ]


def change_list(
    known: ChangeEvidence, names: Sequence[str], kinds: Sequence[RateMetric], level: float
) -> list[GroupChange]:
    """Give the changes of some metrics of all groups, from evidence of shape (G, E)."""
    check_names(names, len(known.dense.n))
    columns = known.columns(words_of(names, kinds), level=level)
    numbers = (columns[what].estimates() for what in columns)
    spreads = (columns[what].variances() for what in ("relative", "absolute"))
    return [
        GroupChange(name, kind.name, kind.class_id, *parts)
        for (name, kind), *parts in zip(product(names, kinds), *numbers, *spreads, strict=True)
    ]
