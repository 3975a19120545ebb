"""The 21 metrics on real examples: one value, a table with intervals, the change by compression."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scotoma.bias.clarify.arguments import Case, merged, missing, read_case
from scotoma.bias.clarify.cells import FACETS, measure, usable_strata
from scotoma.bias.clarify.distances import DISTANCES, distance, upper_bounds
from scotoma.bias.clarify.scores import metric_scores
from scotoma.bias.clarify.table import METRICS
from scotoma.errors import DataError
from scotoma.numbers import (
    COMPRESSED,
    DENSE,
    FEW_EVENTS,
    Estimate,
    check_level,
    cluster_sums,
    few_runs,
    flip_floor,
    of_variance,
    ratio_influence,
    undefined,
)
from scotoma.numbers.influences import example_variance

Array = npt.NDArray[np.float64]

FEW = 10.0  # fewer examples that carry a metric are marked
TOO_FEW = 5.0  # fewer leave a ratio without an interval
RATIOS = ("DI", "DCA", "DCR", "TE")  # not bounded: a few examples in a denominator move them far
UNBOUNDED = (*RATIOS, "GE")  # the others lie in [-1, 1]
POST_TRAINING = tuple(name for name, row in METRICS.items() if row.stage == "post-training")
ONE_ADVANTAGED = f"interval not estimable (one example in the {FACETS[0]})"
BOUND_NOTE = "upper bound only: a distance is never negative, so no interval around it can hold 0"


def metric(
    name: str,
    *,
    d: npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    p: npt.ArrayLike | None = None,
    strata: npt.ArrayLike | None = None,
    features: npt.ArrayLike | None = None,
    labels: npt.ArrayLike | None = None,
    compat: Literal["smclarify"] | None = None,
) -> float:
    """One of the 21 bias metrics of SageMaker Clarify, on one model.

    Args:
        name: A key of METRICS, which says what it asks, what its sign means and what it needs.
        d: Whether each example belongs to the disadvantaged facet, booleans of shape (N,).
        y: Whether its label is positive, booleans of shape (N,).
        p: Whether its prediction is positive, booleans of shape (N,).
        strata: The stratum of each example, any values, shape (N,); for CDDL and CDDPL.
        features: Numbers by which examples are alike, shape (N, F), on one scale; for FT.
        labels: Class of each label, any values, shape (N,), for KL, JS, LP, TVD and KS; y if None.
        compat: `smclarify` reproduces the slips of the public reference implementation, and only
            them: labels absent from one facet are dropped, so that KL can be negative; the sign of
            FT is turned; 0/0 is 0 and x/0 infinite.

    Returns:
        The metric; nan where it is undefined (`all_metrics` says why), infinite for KL where only
        the advantaged facet has a label.

    Raises:
        DataError: An unknown name, an argument that is missing, not boolean or of another length.

    References:
        SageMaker Clarify documentation, "Measure pre-training bias" and "Measure post-training
        data and model bias"; formulas in METRICS.

    >>> women, men = [True] * 5, [False] * 5
    >>> hired = [True, False, False, False, False, True, True, False, False, False]
    >>> metric("DPPL", d=women + men, p=hired), metric("DI", d=women + men, p=hired)
    (0.2, 0.5)
    """
    if compat not in (None, "smclarify"):
        raise DataError(f"compat must be None or 'smclarify', got {compat!r}: leave it out")
    slips = compat is not None
    case = read_case(d=d, y=y, p=p, strata=strata, features=features, labels=labels)
    if case.members > 1:
        raise DataError(
            f"metric takes the predictions of one model, got {case.members} columns: "
            "use all_metrics for a population"
        )
    if absent := missing(name, case):
        raise DataError(f"{name} needs {absent}, got none: pass it, or choose another metric")
    if name in DISTANCES:
        return float(distance(name, case.label_counts[0], slips=slips))
    if name == "FT":
        sign = -1.0 if slips else 1.0
        return sign * float(case.flips.values[0]) if case.both_facets else math.nan
    return float(measure(name, case.cells, slips=slips).values[0])


def all_metrics(
    *,
    d: npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    p: npt.ArrayLike | None = None,
    strata: npt.ArrayLike | None = None,
    features: npt.ArrayLike | None = None,
    labels: npt.ArrayLike | None = None,
    clusters: npt.ArrayLike | None = None,
    level: float = 0.95,
    seed: int = 0,
    only: Iterable[str] = tuple(METRICS),
) -> dict[str, Estimate]:
    """All 21 metrics with intervals, of one model or averaged over a population.

    Intervals come from the influence of each example on the metric: with one model they speak of
    another test set; with several, examples and members are crossed and they speak of another
    training run as well. Distances between label distributions get an upper bound from a bootstrap
    instead. DI, a ratio, has its interval on the log scale, and `se` is that of log DI. Differences
    of proportions count one example more on each side of each proportion in their variance, so that
    a facet without errors does not pass for certain.

    Args:
        d: As for `metric`.
        y: As for `metric`.
        p: Positive predictions, shape (N,), or (N, K), one column per member.
        strata: As for `metric`.
        features: As for `metric`.
        labels: As for `metric`.
        clusters: Id of each example's cluster, shape (N,), such as the person whom several
            photographs show; None where every example is its own.
        level: Coverage, a fraction in (0, 1).
        seed: Of the bootstrap behind the upper bounds; same seed, same bounds.
        only: The metrics wanted.

    Returns:
        Metric name to its estimate, in the order asked for. Where an argument is missing or a rate
        has no denominator the value is nan and the reason says so. `n` counts the examples (or
        clusters) that enter, `events` the effective events of the rarest part of the metric; data
        metrics have 0 members.

    Raises:
        DataError: As for `metric`, or a level that is no fraction.

    References:
        Agresti and Caffo (2000), The American Statistician 54:280-288, one example more.

    >>> women, men = [True] * 50, [False] * 50
    >>> hired = [True] * 10 + [False] * 40 + [True] * 20 + [False] * 30
    >>> table = all_metrics(d=women + men, p=hired)
    >>> round(table["DI"].value, 3), round(table["DI"].low, 3), round(table["DI"].high, 3)
    (0.5, 0.257, 0.971)
    >>> table["RD"].reason
    'not computed (needs y)'
    """
    check_level(level)
    case = read_case(
        d=d, y=y, p=p, strata=strata, features=features, labels=labels, clusters=clusters
    )
    wanted = list(only)
    brief = merged(case)[0]
    bounds = _bounds(wanted, case, level, seed)
    return {
        name: _bounded(name, case, bounds[name], level)
        if name in bounds
        else _estimate(name, case if name == "FT" else brief, level)
        for name in wanted
    }


def metric_changes(
    *,
    d: npt.ArrayLike,
    dense: npt.ArrayLike,
    compressed: npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    strata: npt.ArrayLike | None = None,
    features: npt.ArrayLike | None = None,
    clusters: npt.ArrayLike | None = None,
    paired: bool = False,
    level: float = 0.95,
    only: Iterable[str] = POST_TRAINING,
) -> dict[str, Estimate]:
    """What compression does to each post-training metric: compressed minus dense.

    Data metrics are left out: compression does not change the data.

    Args:
        d: As for `metric`.
        dense: Positive predictions of the dense members, shape (N,) or (N, K).
        compressed: Positive predictions of the compressed members, shape (N,) or (N, K').
        y: As for `metric`.
        strata: As for `metric`.
        features: As for `metric`.
        clusters: As for `all_metrics`.
        paired: Member m of `compressed` derives from member m of `dense`; then K = K'.
        level: Coverage, a fraction in (0, 1).
        only: The post-training metrics wanted.

    Returns:
        Metric name to the absolute difference of the metric's means, with an interval over examples
        and members, crossed. Where no prediction that enters changes, it is that of the variance
        floor (`flip_floor`). Where a member has no denominator, the difference is that of all
        members' predictions counted together, and the note says so. Where there is none even so,
        the value is nan and the interval all that the change can be: [-2, 2], or unbounded.

    Raises:
        DataError: As for `metric`, or populations that do not fit together.

    >>> women, men = [True] * 50, [False] * 50
    >>> dense = [True] * 20 + [False] * 30 + [True] * 20 + [False] * 30
    >>> pruned = [True] * 10 + [False] * 40 + [True] * 20 + [False] * 30
    >>> moved = metric_changes(d=women + men, dense=dense, compressed=pruned)["DPPL"]
    >>> round(moved.value, 3), round(moved.low, 3), round(moved.high, 3)
    (0.2, 0.055, 0.345)
    """

    def case(p: npt.ArrayLike) -> Case:
        if p is None:
            raise DataError("dense and compressed must both be predictions, got None: pass both")
        return read_case(d=d, y=y, p=p, strata=strata, features=features, clusters=clusters)

    check_level(level)
    before, after = case(dense), case(compressed)
    wanted = list(only)
    if data := [name for name in wanted if name in METRICS and name not in POST_TRAINING]:
        raise DataError(
            f"{data[0]} describes the data, which compression does not change: "
            f"choose among {', '.join(POST_TRAINING)}"
        )
    brief = merged(before, after)
    answer = {}
    for name in wanted:
        was, now = (before, after) if name == "FT" else brief
        answer[name] = _change(name, was, now, paired, level)
    return answer


def member_metrics(
    *,
    d: npt.ArrayLike,
    p: npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    strata: npt.ArrayLike | None = None,
    features: npt.ArrayLike | None = None,
    clusters: npt.ArrayLike | None = None,
    only: Iterable[str] = POST_TRAINING,
) -> dict[str, tuple[Array, Array]]:
    """Measure each metric on every member, with its standard error over examples.

    Args:
        d: Whether each example belongs to the disadvantaged facet, booleans of shape (N,).
        p: Positive predictions, shape (N,), or (N, K), one column per member.
        y: Positive labels, shape (N,).
        strata: The stratum of each example, shape (N,); for CDDPL.
        features: Numbers by which examples are alike, shape (N, F), on one scale; for FT.
        clusters: Id of each example's cluster, shape (N,). Its examples are taken for one that
            stands for all of them, so that standard errors are too large rather than too small.
        only: The metrics wanted, of those of predictions.

    Returns:
        Metric name to values and standard errors, of DI those of log DI, shape (K,) each; nan where
        undefined. Proportions count one example more on each side (Agresti and Caffo 2000), so that
        a facet without errors is not known for certain. A metric whose arguments are missing is
        left out.

    Raises:
        DataError: As for `metric`.

    >>> women, men = [True] * 50, [False] * 50
    >>> hired = [[True, True]] * 10 + [[False, True]] * 40 + [[True, False]] * 20
    >>> values, se = member_metrics(d=women + men, p=hired + [[False, False]] * 30)["DPPL"]
    >>> values.round(2).tolist(), se.round(3).tolist()
    ([0.2, -1.0], [0.089, 0.027])
    """
    whole = read_case(d=d, y=y, p=p, strata=strata, features=features, clusters=clusters)
    brief, inflation = merged(whole)[0], rows_per_cluster(whole.clusters)
    return {
        name: _flips_of_members(whole, inflation)
        if name == "FT"
        else _of_members(name, brief, inflation)
        for name in only
        if not missing(name, whole)
    }


def rows_per_cluster(clusters: npt.NDArray[np.intp] | None) -> float:
    """Compute the rows of the cluster of a row, on average: by it variances grow at most.

    >>> import numpy as np
    >>> rows_per_cluster(np.array([0, 0, 0, 1])), rows_per_cluster(None)
    (2.5, 1.0)
    """
    if clusters is None or not clusters.size:
        return 1.0
    sizes = np.bincount(clusters).astype(float)
    return float((sizes**2).sum() / sizes.sum())


def _estimate(name: str, case: Case, level: float) -> Estimate:
    absent = missing(name, case)
    data = METRICS[name].stage == "pre-training"
    members = 0 if data else case.members
    if absent:
        return _not_computed(absent, case, members, level)
    scored = metric_scores(name, replace(case, p=None) if data else case)
    value = float(scored.values.mean())
    note = "; ".join(filter(None, [FEW_EVENTS if scored.events < FEW else "", scored.note]))
    reason = scored.reason if math.isnan(value) else ""
    if not reason and name in RATIOS and scored.events < TOO_FEW:
        noun = "event" if round(scored.events) == 1 else "events"
        reason = f"{scored.events:.0f} effective {noun}, {TOO_FEW:.0f} are needed"
        reason = f"interval not estimable ({reason})"
    if not reason and np.isnan(scored.scores).any():
        reason = ONE_ADVANTAGED
    known: dict[str, Any] = {
        "n": scored.n, "members": members, "events": scored.events, "level": level, "note": note,
    }  # fmt: skip
    if reason:
        return undefined(reason, value=value, **known)
    ratio, number = name == "DI", scored.number()
    variance = (number.log() if ratio else number).variance
    variance = replace(variance, total=variance.total + scored.extra)
    return of_variance(value, variance, scale="ratio" if ratio else "identity", **known)


def _not_computed(absent: str, case: Case, members: int, level: float) -> Estimate:
    reason = f"not computed (needs {absent})"
    return undefined(reason, n=case.n_clusters, members=members, level=level)


def _bounds(names: Sequence[str], case: Case, level: float, seed: int) -> dict[str, float]:
    """Upper bounds of the distances among these; nan without labels or facets."""
    wanted = [name for name in names if name in DISTANCES]
    if not wanted or case.labels is None or not case.both_facets:
        return dict.fromkeys(wanted, math.nan)
    counts, cells = case.label_counts
    return upper_bounds(wanted, counts, clusters=case.clusters, cells=cells, level=level, seed=seed)


def _bounded(name: str, case: Case, high: float, level: float) -> Estimate:
    if absent := missing(name, case):
        return _not_computed(absent, case, 0, level)
    counts = case.label_counts[0]
    value = float(distance(name, counts))
    if math.isnan(value):
        facet = FACETS[int(counts.sum(axis=1).argmin())]
        reason = f"undefined (no examples in the {facet})"
        return undefined(reason, n=case.n_clusters, members=0, level=level)
    nan = math.nan
    return Estimate(value, 0.0, high, case.n_clusters, 0, nan, nan, level, note=BOUND_NOTE)


def _change(name: str, before: Case, after: Case, paired: bool, level: float) -> Estimate:
    members = min(before.members, after.members)
    if absent := missing(name, before):
        return _not_computed(absent, before, members, level)
    usable = None
    if name == "CDDPL":  # of the same strata on both sides, or its change would be theirs
        usable = usable_strata(name, before.cells) & usable_strata(name, after.cells)
    dense, compressed = (metric_scores(name, case, usable) for case in (before, after))
    n, note = max(dense.n, compressed.n), dense.note
    reason = dense.reason or compressed.reason
    if reason and max(before.members, after.members) > 1:
        dense, compressed = (
            metric_scores(name, case, usable, together=True) for case in (before, after)
        )
        inner = reason.removeprefix("undefined (").removesuffix(")")
        note = f"all members counted together: {inner}"
        reason = dense.reason or compressed.reason
    value = float(compressed.values.mean() - dense.values.mean())
    if math.isnan(value):
        most = math.inf if name in UNBOUNDED else 2.0
        known = "may be anything" if name in UNBOUNDED else "lies within [-2, 2]"
        return undefined(
            f"{reason}, so that its change {known}", n=n, members=members, level=level, low=-most,
            high=most,
        )  # fmt: skip
    moved = after.positive - before.positive
    events = before.effective_events(np.abs(moved))
    shared: dict[str, Any] = {
        "n": n, "members": members, "events": events, "level": level,
        "note": "; ".join(filter(None, [FEW_EVENTS if events < FEW else "", note])),
    }  # fmt: skip
    if np.isnan(dense.scores).any():
        shared["note"] = "; ".join(filter(None, [shared["note"], few_runs(members)]))
        return undefined(ONE_ADVANTAGED, value=value, **shared)
    change = compressed.number(DENSE if paired else COMPRESSED) - dense.number()
    squares = (dense.effects**2 + compressed.effects**2) / 2
    variance = replace(change, floor=_floor(before, moved, squares)).variance
    return of_variance(value, variance, **shared)


def _floor(case: Case, moved: Array, squares: Array) -> float:
    """The variance floor of a metric's change.

    The metric moves with the share of predictions that flip in either facet: the floor is that of
    these shares (`flip_floor`) times their squared gradients, where the flip of an example at risk
    has its effect on the metric in root mean square.

    Args:
        case: Of the dense members.
        moved: By how much the share of members that predict each row positive changes, (N,).
        squares: Squared effect of the other prediction for each row, (N,).
    """
    times = np.ones(case.d.shape) if case.times is None else case.times
    floor = 0.0
    for rows in (facet & (squares > 0) for facet in (case.d, ~case.d)):
        if not rows.any():
            continue
        change, n, each = moved[rows], times[rows].sum(), times[rows]
        if case.clusters is not None:
            ids = case.clusters[rows]
            sums = cluster_sums(change, ids)[:, None], cluster_sums(np.ones(ids.shape), ids)
            change = ratio_influence(*sums)[:, 0]
            n, each = len(change), np.ones(change.shape)
        share = times[rows].sum() / case.n
        square = np.average(squares[rows], weights=times[rows])
        floor += float(share**2 * square * flip_floor(*example_variance(change, n, each), n))
    return floor


def _of_members(name: str, case: Case, inflation: float) -> tuple[Array, Array]:
    # With one success and one failure more in every facet: in its largest stratum, so that the
    # weights of strata hardly move.
    cells = case.cells
    values = measure(name, cells).values
    largest = int(cells.sum(axis=(0, 2, 3, 4)).argmax())
    more = cells.copy()
    more[:, largest] += 0.5
    moved = measure(name, more)
    influence = np.broadcast_to(moved.influence, cells.shape)
    n = more.sum(axis=(1, 2, 3, 4))
    with np.errstate(invalid="ignore", divide="ignore"):
        squares = np.where(more > 0, more * influence**2, 0.0)
        variance = squares.sum(axis=(1, 2, 3, 4)) * inflation / n**2
        scale = values if name == "DI" else 1.0
        se = np.sqrt(variance) / scale
    return values, np.where(np.isfinite(values) & np.isfinite(se), se, np.nan)


def _flips_of_members(case: Case, inflation: float) -> tuple[Array, Array]:
    """The fliptest, whose influences are those of examples and not of cells."""
    if not case.both_facets:
        nothing = np.full(case.members, np.nan)
        return nothing, nothing
    flips = case.flips
    return flips.values, np.sqrt(flips.influences.var(axis=0) * inflation / case.n)
