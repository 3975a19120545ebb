"""How fair is every single model, by the seven metrics of the fixed-seed study?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.bias.clarify.estimates import rows_per_cluster
from scotoma.bias.fairness import (
    NAMES,
    examples_in_groups,
    fairness_of_cells,
    pairs_as_classes,
)
from scotoma.bias.formulas import FORMULAS, ClassConfusion
from scotoma.numbers.inputs import Codes, Floats, cluster_ids
from scotoma.questions import OF_PREDICTIONS

MOST_GROUPS = 50  # with a standard error, whose cost grows with the square of their number

STEP = 1e-3  # of an example, by which a count is moved for the slope of a metric


@dataclass(frozen=True)
class MemberFairness:
    """One metric on every member.

    Attributes:
        values: Mean over the classes, or the value of the one class; shape (M,), nan where it is
            undefined.
        per_class: Shape (M, C).
        se: Standard error of each value over examples, shape (M,): the mean over its classes, since
            chance lifts the absolute difference of every class, and none makes up for another;
            nan above `MOST_GROUPS` groups.
        reason: Why a value is undefined for at least one member; empty otherwise.
    """

    values: Floats
    per_class: Floats
    se: Floats
    reason: str = ""


def member_fairness(
    labels: npt.ArrayLike | None,
    predicted: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    n_classes: int,
    class_id: int | None = None,
    clusters: npt.ArrayLike | None = None,
    measured: int | None = None,
    of_label: npt.ArrayLike | None = None,
) -> dict[str, MemberFairness]:
    """Measure the seven metrics on every member of a population.

    Args:
        labels: True class ids, shape (N,); None where they are not known.
        predicted: Predicted class ids, shape (N, M).
        groups: Who belongs to which group, bool, shape (G, N), G at least 2; no row in two groups.
        n_classes: Number of classes.
        class_id: The class against the rest; None for the mean over all classes.
        clusters: Id of each row's cluster, shape (N,), whose rows are taken for one that stands for
            all of them; None where every row is its own.
        measured: How many of the classes are measured, the first ones; the others, as a missing
            answer, are none of them. None for all.
        of_label: Which of several labels each row is about, shape (N,), every example with a row
            for each; class ids are then 1 where the label is there, and labels stand in the place
            of the classes. None where examples have one label.

    Returns:
        Name to values, each a fraction in [0, 1], 0 is fair; without labels DP, DI and SPSF only.

    Raises:
        DataError: Groups that overlap, or shapes that do not fit together.

    References:
        Qian et al. 2021, Section 2.2 and Appendix A.2; MS-COCO as it is measured there.

    >>> labels, predicted = [0, 1, 0, 1], [[0, 0], [1, 1], [1, 0], [1, 0]]
    >>> groups = [[True, True, False, False], [False, False, True, True]]
    >>> member_fairness(labels, predicted, groups, n_classes=2, class_id=1)["DP"].values
    array([0.5, 0.5])
    >>> two = member_fairness([1, 0, 0, 1], [[1], [1], [0], [1]], groups, n_classes=2,
    ...     of_label=[0, 1, 0, 1])
    >>> two["DP"].per_class, two["DP"].values
    (array([[1., 0.]]), array([0.5]))
    """
    names = NAMES if labels is not None else OF_PREDICTIONS
    given = np.zeros(len(np.asarray(predicted)), np.intp) if labels is None else labels
    y, p, group, rows = examples_in_groups(given, predicted, groups, n_classes)
    each = 1
    if of_label is not None:
        y, p, each = pairs_as_classes(y, p, np.asarray(of_label)[rows])
        n_classes, measured = each + 1, each
    cells = _confusion(y, p, group, len(np.asarray(groups)), n_classes, each)
    cells = ClassConfusion(cells.cells[..., :measured])
    ids = cluster_ids(clusters, np.asarray(given).size)
    inflation = 1.0 if ids is None else rows_per_cluster(ids[rows]) / each
    return _measured(names, cells, inflation, class_id)


def _measured(
    names: tuple[str, ...], cells: ClassConfusion, inflation: float, class_id: int | None
) -> dict[str, MemberFairness]:
    """Measure the metrics of these names on counts of each class (or label) against the rest."""
    classes = slice(None) if class_id is None else [class_id]
    judged = ClassConfusion(cells.cells[..., classes])
    answer = {}
    for name in names:
        found = fairness_of_cells(name, cells)
        values = found.overall if class_id is None else found.per_class[:, class_id]
        reason = ""
        if np.isnan(values).any():
            lacking = next(iter(found.reasons)) if class_id is None else class_id
            reason = found.reasons[lacking]
        se = np.full(len(values), np.nan)
        if judged.cells.shape[1] <= MOST_GROUPS:
            se = np.where(np.isfinite(values), _standard_errors(name, judged, inflation), np.nan)
        answer[name] = MemberFairness(values, found.per_class, se, reason)
    return answer


def _standard_errors(name: str, cells: ClassConfusion, inflation: float) -> Floats:
    """Standard error of each member over examples, the mean over the classes, shape (M,).

    Counts of one class against the rest are multinomial and the metrics do not change with their
    sum, so that V = sum over cells of count slope^2. Half an example more in every cell keeps a
    rate of 0 or 1 from being known for certain. Of more than two groups the standard errors add up,
    for chance lifts the largest pair, and the sum over groups, more than each of them.
    """
    more = cells.cells + 0.5

    def measured(at: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return FORMULAS[name](ClassConfusion(at), "examples")

    value, variance = measured(more), np.zeros(more.shape[1:])
    for cell, group in np.ndindex(more.shape[:2]):
        moved = more.copy()
        moved[cell, group] += STEP
        variance[group] += more[cell, group] * ((measured(moved) - value) / STEP) ** 2
    few = len(variance) == 2
    se = np.sqrt(variance.sum(axis=0)) if few else np.sqrt(variance).sum(axis=0)
    return np.asarray((se * np.sqrt(inflation)).mean(axis=1), np.float64)


def _confusion(
    y: Codes, p: Codes, group: Codes, groups: int, n_classes: int, rows_an_example: int
) -> ClassConfusion:
    """Count each class against the rest, (G, M, C): of 1,000 classes no square table is held."""
    shape, places = (groups, p.shape[1], n_classes), groups * n_classes
    counts = np.empty((2, *shape))  # predicted, and rightly so
    for member, own in enumerate(p.T):
        for part, rows in enumerate((slice(None), own == y)):
            cell = group[rows] * n_classes + own[rows]
            counts[part, :, member] = np.bincount(cell, minlength=places).reshape(groups, -1)
    positive, tp = counts
    actual = np.bincount(group * n_classes + y, minlength=places).reshape(groups, 1, n_classes)
    n = np.bincount(group, minlength=groups).reshape(groups, 1, 1) / rows_an_example
    return ClassConfusion.of(positive, tp, actual, n)
