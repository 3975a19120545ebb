"""The seven group metrics of the fixed-seed study: one number a class, and their mean.

Each takes one class against the rest and asks whether the groups are treated alike; all are
fractions in [0, 1], and 0 is fair. They are absolute values or largest pairs, so that chance alone
lifts them above 0: `fairness_bounds` says how large the truth may be, `signed` gives the two-sided
interval of the difference behind a metric of two groups.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from scotoma.bias.clarify import all_metrics
from scotoma.bias.clarify.cells import FACETS
from scotoma.bias.counting import group_masks
from scotoma.bias.formulas import (
    DENOMINATORS,
    FORMULAS,
    ClassConfusion,
    GroupWeights,
    example_draws,
    weigh,
)
from scotoma.errors import DataError
from scotoma.numbers import Estimate, check_level, few_runs, undefined
from scotoma.numbers.inputs import (
    Codes,
    Floats,
    Labels,
    array,
    class_ids,
    cluster_ids,
    floats,
    true_labels,
)
from scotoma.questions import STUDY

NAMES = STUDY
# The Clarify metric that is the signed difference behind each of these, group 0 minus group 1.
SIGNED = {"DP": "DPPL", "EOFP": "SD", "EOTP": "RD"}
DIFFERENCE_NOTE = "upper bound only: chance alone lifts an absolute difference above 0"


@dataclass(frozen=True)
class Fairness:
    """One metric on every class and every member.

    Attributes:
        per_class: Shape (C,), or (M, C) for a tensor with members; nan where undefined.
        overall: Unweighted mean over the classes, shape () or (M,); nan where a class is undefined.
        reasons: Class to why it is undefined, for at least one member.
    """

    per_class: Floats
    overall: Floats
    reasons: dict[int, str]


def fairness_metric(
    name: str,
    confusion: npt.ArrayLike,
    *,
    weights: GroupWeights = "examples",
    groups: Sequence[str] = (),
) -> Fairness:
    """One of the seven metrics from counts per group, label and prediction.

    With PPR the share predicted positive, for each class against the rest:

        DP    |PPR_0 - PPR_1|
        DI    1 - min(PPR_0/PPR_1, PPR_1/PPR_0)
        SPSF  sum_g Pr[g] |PPR - PPR_g|
        FPSF  sum_g Pr[g] |FPR - FPR_g|
        EOFP  |FPR_0 - FPR_1|
        EOTP  |TPR_0 - TPR_1|
        BA    |(TP_g + FP_g)/(TP + FP) - P_g/P|, g = argmax P_g/P

    With more than two groups DP, DI, EOFP and EOTP are the largest over all pairs. Where groups tie
    for the largest share of P, BA is the largest over them (with two groups they agree).

    Args:
        name: DP, DI, SPSF, FPSF, EOFP, EOTP or BA.
        confusion: Counts [g, y, p], or [g, m, y, p] with members; the groups share no example.
        weights: Of the groups in FPSF: Pr[g], their share of the examples; `negatives`, their
            negatives over all examples, as in the artefact whose numbers the study printed.
        groups: Names of the groups, for reasons; numbers where it is empty.

    Returns:
        The metric per class and overall.

    Raises:
        DataError: An unknown name or weighting, or a tensor that is none of counts.

    References:
        Qian et al. 2021, Section 2.2 and Appendix A.2.

    >>> import numpy as np
    >>> female, male = [[80, 20], [10, 90]], [[60, 40], [70, 30]]
    >>> [round(100 * float(fairness_metric(name, [female, male]).overall), 1) for name in NAMES]
    [20.0, 33.6, 10.0, 20.0, 40.0, 40.0, 10.1]
    """
    if name not in NAMES:
        raise DataError(f"no metric is called {name!r}: choose among {', '.join(NAMES)}")
    if weights not in ("examples", "negatives"):
        raise DataError(f"weights must be 'examples' or 'negatives', got {weights!r}: name one")
    counts = floats(confusion, "confusion")
    if counts.ndim not in (3, 4) or counts.shape[-1] != counts.shape[-2] or counts.shape[0] < 2:
        raise DataError(
            f"confusion must be counts [g, y, p] or [g, m, y, p] of two groups or more, got shape "
            f"{counts.shape}: count predictions by group first"
        )
    whole = (counts >= 0) & (counts == np.floor(counts))
    if not whole.all():
        raise DataError(
            f"confusion must hold counts, got {counts[~whole][0]:g}: pass counts, not rates"
        )
    tensor = counts if counts.ndim == 4 else counts[:, None]
    n = tensor.sum(axis=(2, 3))[..., None]
    cells = ClassConfusion.of(
        tensor.sum(axis=2), np.einsum("gmcc->gmc", tensor), tensor.sum(axis=3), n
    )
    found = fairness_of_cells(name, cells, weights, groups)
    if counts.ndim == 4:
        return found
    return replace(found, per_class=found.per_class[0], overall=found.overall[0])


def fairness_of_cells(
    name: str,
    cells: ClassConfusion,
    weights: GroupWeights = "examples",
    groups: Sequence[str] = (),
) -> Fairness:
    """One of the seven metrics from the counts of each class against the rest.

    Args:
        name: One of `NAMES`.
        cells: Counts by group, member and class.
        weights: As for `fairness_metric`.
        groups: As for `fairness_metric`.

    Returns:
        The metric per member and class, and per member.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        value = FORMULAS[name](cells, weights)
    return Fairness(value, value.mean(axis=1), _reasons(value, DENOMINATORS[name](cells), groups))


def signed(
    name: str,
    labels: npt.ArrayLike,
    predicted: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    class_id: int,
    clusters: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> Estimate:
    """The difference behind DP, EOFP or EOTP of two groups, with its sign and its interval.

    Args:
        name: DP, EOFP or EOTP.
        labels: True class ids, shape (N,).
        predicted: Predicted class ids, shape (N,) or (N, K).
        groups: Who belongs to which of the two groups, bool, shape (2, N); rows in neither are
            left out.
        class_id: The class against the rest.
        clusters: Id of each row's cluster, shape (N,); None where every row is its own.
        level: Coverage, a fraction in (0, 1).

    Returns:
        Rate of group 0 minus that of group 1, mean over the members, with the interval over
        examples and members, crossed. Its absolute value is the metric of that class for a single
        model; of several, the metric averages their absolute values and is larger.

    Raises:
        DataError: Another metric, other than two groups that share no row, or shapes that do not
            fit together.

    >>> labels = [1] * 40
    >>> predicted = [1] * 18 + [0] * 2 + [1] * 9 + [0] * 11
    >>> groups = [[True] * 20 + [False] * 20, [False] * 20 + [True] * 20]
    >>> gap = signed("EOTP", labels, predicted, groups, class_id=1)
    >>> round(gap.value, 2), round(gap.low, 2), round(gap.high, 2)
    (0.45, 0.18, 0.72)
    """
    if name not in SIGNED:
        raise DataError(
            f"only DP, EOFP and EOTP have signed differences, got {name!r}: use fairness_bounds "
            "for the others"
        )
    y, p, group, rows = examples_in_groups(labels, predicted, groups, None)
    if group.max(initial=0) > 1 or np.asarray(groups).shape[0] != 2:
        raise DataError(
            f"a signed difference needs two groups, got {np.asarray(groups).shape[0]}: "
            "choose two, or use fairness_bounds"
        )
    ids = cluster_ids(clusters, len(rows))
    seen = all_metrics(
        d=group == 1,
        y=y == class_id,
        p=p == class_id,
        clusters=None if ids is None else ids[rows],
        level=level,
        only=[SIGNED[name]],
    )[SIGNED[name]]
    a, d = (f"the {facet}" for facet in FACETS)
    reason = seen.reason.replace(a, "the first group").replace(d, "the second group")
    return replace(seen, reason=reason)


def fairness_bounds(
    names: Sequence[str],
    labels: npt.ArrayLike,
    predicted: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    n_classes: int,
    class_id: int | None = None,
    weights: GroupWeights = "examples",
    clusters: npt.ArrayLike | None = None,
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Metrics averaged over members, and how large their truths may be, all from the same draws.

    A bound is the `level` point of a crossed bootstrap: every draw weighs examples (or clusters)
    by Poisson(1), the same for all members, and takes K - 1 of the K members with replacement.
    Rows that agree in group, label and all predictions are drawn together, which is the same and
    far cheaper.

    Args:
        names: Metrics, as for `fairness_metric`.
        labels: True class ids, shape (N,).
        predicted: Predicted class ids, shape (N,) or (N, K).
        groups: Who belongs to which group, bool, shape (G, N); no row in two groups, rows in none
            are left out.
        n_classes: Number of classes.
        class_id: The class against the rest; None for the mean over all classes.
        weights: As for `fairness_metric`.
        clusters: Id of each row's cluster, shape (N,); None where every row is its own.
        level: Probability that the truth lies below `high`, a fraction in (0, 1).
        draws: Number of draws.
        seed: Same seed, same bounds, whatever the other metrics.

    Returns:
        Name to value and upper bound; `low` is 0, the end of the scale. nan with its reason where
        the metric is undefined for a member.

    Raises:
        DataError: As for `fairness_metric`, groups that overlap, shapes that do not fit together.

    References:
        Owen and Eckles (2012), Annals of Applied Statistics 6:895-927, crossed bootstraps.

    >>> import numpy as np
    >>> row = np.arange(400)
    >>> found = fairness_bounds(NAMES, row % 3 // 2, (row % np.where(row < 200, 20, 5) > 0) * 1,
    ...                      [row < 200, row >= 200], n_classes=2)
    >>> round(found["DP"].value, 2), round(found["DP"].high, 2)
    (0.15, 0.2)
    """
    check_level(level)
    if draws < 1:
        raise DataError(f"draws must be at least 1, got {draws}: 1000 is the default")
    if class_id is not None and not 0 <= class_id < n_classes:
        raise DataError(
            f"class_id must be from 0 to {n_classes - 1}, got {class_id}: name one of the classes"
        )
    y, p, group, rows = examples_in_groups(labels, predicted, groups, n_classes)
    members = p.shape[1]
    shape = (int(np.asarray(groups).shape[0]), n_classes, n_classes)

    def measured(name: str, counts: Floats) -> tuple[Floats, dict[int, str]]:
        seen = fairness_metric(name, counts, weights=weights)
        return seen.overall if class_id is None else seen.per_class[:, class_id], seen.reasons

    codes = (group * n_classes + y)[:, None] * n_classes + p
    whole = weigh(codes, np.ones((1, len(codes))), shape)
    ids = cluster_ids(clusters, np.asarray(labels).shape[0])
    ids = None if ids is None else cluster_ids(ids[rows], len(codes))
    n = len(codes) if ids is None else int(ids.max(initial=-1)) + 1
    rng = np.random.Generator(np.random.Philox(key=seed))
    drawn: dict[str, list[Floats]] = {name: [] for name in names}
    for rows_drawn, times in example_draws(rng, codes, ids, draws, math.prod(shape)):
        counts = weigh(rows_drawn, times, shape)
        for name, parts in drawn.items():
            parts.append(measured(name, counts)[0].reshape(-1, members))
    chosen = rng.multinomial(max(members - 1, 1), np.full(members, 1 / members), size=draws)
    note, nan = "; ".join(filter(None, [DIFFERENCE_NOTE, few_runs(members)])), math.nan
    answer = {}
    for name, parts in drawn.items():
        values, reasons = measured(name, whole)
        value = float(values.mean())
        if math.isnan(value):
            reason = reasons[next(iter(reasons)) if class_id is None else class_id]
            answer[name] = undefined(reason, n=n, members=members, level=level)
        else:
            high = max(_bound(np.concatenate(parts), chosen, level), value)
            answer[name] = Estimate(value, 0.0, high, n, members, nan, nan, level, note=note)
    return answer


def _bound(drawn: Floats, chosen: npt.NDArray[np.int64], level: float) -> float:
    """The `level` point over draws (B, K) of the mean over the members chosen in each."""
    # A member that was not chosen must not make a draw undefined.
    totals = np.where(chosen > 0, drawn, 0.0) * chosen
    averages = totals.sum(axis=1) / chosen.sum(axis=1)
    defined = averages[~np.isnan(averages)]
    return float(np.quantile(defined, level, method="higher")) if defined.size else math.nan


def _reasons(value: Floats, lacking: dict[str, Floats], groups: Sequence[str]) -> dict[int, str]:
    """Why classes are undefined: the first denominator that is 0, in a group or in all."""
    reasons: dict[int, str] = {}
    for class_id in np.flatnonzero(np.isnan(value).any(axis=0)).tolist():
        for what, sizes in lacking.items():
            empty = np.argwhere(sizes[..., class_id] == 0)
            if not len(empty):
                continue
            kind = f"{what} of class {class_id}" if what != "examples" else what
            group = int(empty[0][0])
            where = "" if len(sizes) == 1 else f" in group {groups[group] if groups else group!r}"
            reasons[class_id] = f"undefined (no {kind}{where})"
            break
    return reasons


def examples_in_groups(
    labels: npt.ArrayLike, predicted: npt.ArrayLike, groups: npt.ArrayLike, n_classes: int | None
) -> tuple[Codes, Codes, Codes, Codes]:
    """Labels, predictions (n, K), group number and row number of the rows that have a group."""
    ids = array(predicted, "predicted")
    p: Labels = class_ids(ids[:, None] if ids.ndim == 1 else ids, "predicted", n_classes)
    y = true_labels(labels, len(p), n_classes)
    masks = group_masks(groups, len(p))
    if (masks.sum(axis=0) > 1).any():
        row = int((masks.sum(axis=0) > 1).argmax())
        raise DataError(
            f"groups must share no row, but row {row} is in {int(masks[:, row].sum())}: "
            "compare the values of one attribute"
        )
    rows = np.flatnonzero(masks.any(axis=0))
    if not rows.size:
        raise DataError(
            f"groups must hold at least one of the {len(p):,} rows, got none: pass their rows"
        )
    group = masks.argmax(axis=0)[rows]
    return y[rows].astype(np.intp), p[rows].astype(np.intp), group, rows


def pairs_as_classes(present: Codes, predicted: Codes, label: Codes) -> tuple[Codes, Codes, int]:
    """Take labels for classes: each pair of an example and a label is of that label, or of none.

    Args:
        present: Whether the label is there, 0 or 1, shape (n,).
        predicted: Whether members say so, shape (n, K).
        label: Which label each pair is about, shape (n,).

    Returns:
        Class ids of the labels, and of members' answers, where one more than the last label is
        none; and the number of labels, so many pairs to an example.

    >>> pairs_as_classes(np.array([1, 0]), np.array([[0], [1]]), np.array([0, 1]))
    (array([0, 2]), array([[2],
           [1]]), 2)
    """
    labels = int(label.max(initial=0)) + 1
    return (
        np.where(present == 1, label, labels), np.where(predicted == 1, label[:, None], labels),
        labels,
    )  # fmt: skip
