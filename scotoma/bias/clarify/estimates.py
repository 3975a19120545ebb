"""The 21 metrics on real examples: one value, a table with intervals, the change by compression."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scotoma.bias.clarify.arguments import Case, merged, missing, read_case, with_flips
from scotoma.bias.clarify.cells import FACETS, RATIOS, Bools, measure, usable_strata
from scotoma.bias.clarify.distances import DISTANCES, distance, upper_bounds
from scotoma.bias.clarify.table import METRICS
from scotoma.errors import DataError
from scotoma.numbers import (
    COMPRESSED,
    DENSE,
    FEW_EVENTS,
    Estimate,
    Number,
    Units,
    check_level,
    cluster_sums,
    few_runs,
    of_variance,
    undefined,
)

Array = npt.NDArray[np.float64]

FEW = 10.0  # fewer examples that carry a metric are marked
TOO_FEW = 5.0  # fewer leave a ratio without an interval
QUOTIENTS = tuple(name for name, ratio in RATIOS.items() if ratio.quotient)
UNBOUNDED = (*QUOTIENTS, "GE")  # the others lie in [-1, 1]
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
        flips = with_flips(case)[0].flips
        return math.nan if flips is None else float(flips.values[0]) * (-1 if slips else 1)
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
    wanted, (brief,) = list(only), merged(case)
    data = replace(brief, p=None)
    apart = _distances([name for name in wanted if name in DISTANCES], case, level, seed)
    return {
        name: apart[name]
        if name in apart
        else _estimate(name, with_flips(case)[0] if name == "FT" else brief, data, level)
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
    cases = merged(before, after)
    return {
        name: _change(name, with_flips(before, after) if name == "FT" else cases, paired, level)
        for name in wanted
    }


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


@dataclass(frozen=True)
class _Scored:
    """A metric as the mean of scores over examples (or clusters) and members.

    Attributes:
        values: The metric on each member, shape (K,), or on all together, shape (1,); nan where
            undefined.
        number: The mean of scores whose columns have their member's value as mean.
        effects: What the other prediction for an example would move, mean over members, times N;
            shape (N,) in rows of the case.
        rows: Which rows of the case enter, shape (N,).
        events: Effective events of the rarest part; nan for the metrics over strata.
        reason: Why values are nan.
        note: What to say beside the values.
    """

    values: Array
    number: Number | None
    effects: Array
    rows: Bools
    events: float
    reason: str = ""
    note: str = ""


def _scored(
    name: str,
    case: Case,
    axis: str = DENSE,
    usable: Bools | None = None,
    *,
    together: bool = False,
) -> _Scored:
    """Score examples by a metric other than the distances.

    Args:
        name: A key of METRICS whose needs the case meets.
        case: Checked arguments.
        axis: Of its members.
        usable: Strata that may enter CDDL and CDDPL, shape (S,); None for all that can.
        together: Count the predictions of all members as if one had made them: the metric is then
            defined where one of them has no denominator. FT has none and is left as it is.
    """

    def mean(influences: Array, values: Array) -> Number | None:
        scores = cluster_sums(influences, case.clusters) * (case.n_clusters / case.n) + values
        if np.isnan(values).any() or np.isnan(scores).any():
            return None
        return Units(len(scores), None, case.times).mean(scores, axis=axis, flip=None)

    flips, everybody = case.flips, np.ones(case.d.shape, bool)
    if name == "FT" and flips is None:
        nothing = np.full(case.members, math.nan)
        return _Scored(nothing, None, nothing, everybody, 0.0, _empty(case))
    if flips is not None:
        share = case.d.mean()
        # On average over a facet: the share of its positive predictions or of its likes' votes.
        effects = np.where(case.d, 1 / share, 1 / (1 - share))
        number = mean(flips.influences, flips.values)
        events = case.effective_events(flips.flips.sum(axis=1))
        return _Scored(flips.values, number, effects, everybody, events)
    cells, index = case.counted
    counted = cells.mean(axis=0, keepdims=True) if together else cells
    measured = measure(name, counted, strata=case.strata_names, usable=usable)
    influence = np.broadcast_to(measured.influence, cells.shape).ravel()
    effect = influence.take(index | 1) - influence.take(index & -2)  # positive less negative
    rows = np.asarray(case.shares[:, _enters(name)].any(axis=1))
    if measured.strata is not None and case.strata is not None:
        rows &= measured.strata[case.strata]
    return _Scored(
        measured.values,
        mean(influence.take(index), measured.values),
        effect.mean(axis=1),
        rows,
        min((case.effective_events(case.shares @ part) for part in _parts(name)), default=math.nan),
        measured.reason,
        measured.note,
    )


def _empty(case: Case) -> str:
    return f"undefined (no examples in the {FACETS[0 if case.d.all() else 1]})"


@cache
def _enters(name: str) -> Bools:
    """Which cells of the facets a metric counts, shape (8,)."""
    one = RATIOS[name].over + RATIOS[name].under > 0 if name in RATIOS else np.ones(4, bool)
    return np.tile(one, 2)


@cache
def _parts(name: str) -> list[Array]:
    """Masks of the kinds of examples that a metric cannot do without, shape (8,) each."""
    if name == "GE":
        return [np.tile([0.0, 1.0, 1.0, 0.0], 2)]
    kinds = RATIOS[name].parts if name in RATIOS else [np.ones(4)] if name == "CI" else []
    return [np.asarray(np.kron(facet, kind), np.float64) for kind in kinds for facet in np.eye(2)]


def _one_more(name: str, case: Case) -> float:
    """What a success and a failure more in each facet add to the variance of a difference."""
    if name not in RATIOS or RATIOS[name].quotient:
        return 0.0
    facets = case.cells.sum(axis=1).mean(axis=0).reshape(2, 4) * (case.n_clusters / case.n)
    s, n = facets @ RATIOS[name].over, facets @ RATIOS[name].under
    with np.errstate(divide="ignore", invalid="ignore"):
        r, more = s / n, (s + 1) / (n + 2)
        return float(np.maximum(more * (1 - more) / (n + 2) - r * (1 - r) / n, 0.0).sum())


def _notes(events: float, *more: str) -> str:
    return "; ".join(filter(None, [FEW_EVENTS if events < FEW else "", *more]))


def _estimate(name: str, case: Case, without_p: Case, level: float) -> Estimate:
    absent, data = missing(name, case), METRICS[name].stage == "pre-training"
    members = 0 if data else case.members
    if absent:
        return _not_computed(absent, case, members, level)
    case = without_p if data else case
    scored = _scored(name, case)
    value, events = float(scored.values.mean()), scored.events
    reason = scored.reason if math.isnan(value) else ""
    if not reason and name in QUOTIENTS and events < TOO_FEW:
        noun = "event" if round(events) == 1 else "events"
        needed = f"{events:.0f} effective {noun}, {TOO_FEW:.0f} are needed"
        reason = f"interval not estimable ({needed})"
    known: dict[str, Any] = {
        "n": case.clusters_among(scored.rows), "members": members, "events": events, "level": level,
        "note": _notes(events, scored.note),
    }  # fmt: skip
    if reason or scored.number is None:
        return undefined(reason or ONE_ADVANTAGED, value=value, **known)
    ratio = METRICS[name].relative
    variance = (scored.number.log() if ratio else scored.number).variance
    variance = replace(variance, total=variance.total + _one_more(name, case))
    return of_variance(value, variance, scale="ratio" if ratio else "identity", **known)


def _not_computed(absent: str, case: Case, members: int, level: float) -> Estimate:
    reason = f"not computed (needs {absent})"
    return undefined(reason, n=case.n_clusters, members=members, level=level)


def _distances(names: Sequence[str], case: Case, level: float, seed: int) -> dict[str, Estimate]:
    """The distances, each with its upper bound."""
    if not names or case.labels is None:
        return dict.fromkeys(names, _not_computed("labels", case, 0, level))
    if not case.both_facets:
        return dict.fromkeys(
            names, undefined(_empty(case), n=case.n_clusters, members=0, level=level)
        )
    counts, cells = case.label_counts
    highs = upper_bounds(names, counts, clusters=case.clusters, cells=cells, level=level, seed=seed)
    n, nan = case.n_clusters, math.nan
    return {
        name: Estimate(
            float(distance(name, counts)), 0.0, high, n, 0, nan, nan, level, note=BOUND_NOTE
        )
        for name, high in highs.items()
    }


def _change(name: str, cases: list[Case], paired: bool, level: float) -> Estimate:
    before, after = cases
    members = min(before.members, after.members)
    if absent := missing(name, before):
        return _not_computed(absent, before, members, level)
    usable = None
    if name == "CDDPL":  # of the same strata on both sides, or its change would be theirs
        usable = usable_strata(name, before.cells) & usable_strata(name, after.cells)

    def sides(*, together: bool) -> tuple[_Scored, _Scored]:
        axis = DENSE if paired else COMPRESSED
        was = _scored(name, before, DENSE, usable, together=together)
        return was, _scored(name, after, axis, usable, together=together)

    dense, compressed = sides(together=False)
    rows = dense.rows | compressed.rows
    n, note, reason = before.clusters_among(rows), dense.note, dense.reason or compressed.reason
    if reason and max(before.members, after.members) > 1:
        inner = reason.removeprefix("undefined (").removesuffix(")")
        note = f"all members counted together: {inner}"
        dense, compressed = sides(together=True)
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
    events = before.effective_events(np.abs(moved) * rows)  # of those that enter
    shared: dict[str, Any] = {"n": n, "members": members, "events": events, "level": level}
    if dense.number is None or compressed.number is None:
        note = _notes(events, note, few_runs(members))
        return undefined(ONE_ADVANTAGED, value=value, note=note, **shared)
    squares = (dense.effects**2 + compressed.effects**2) / 2
    change = replace(compressed.number - dense.number, floor=_floor(before, moved, squares))
    return of_variance(value, change.variance, note=_notes(events, note), **shared)


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
    units, floor = Units(len(moved), case.clusters, case.times), 0.0
    for rows in (facet & (squares > 0) for facet in (case.d, ~case.d)):
        share = units.mean(moved, rows, flip=None)
        if share.rows:
            times = None if case.times is None else case.times[rows]
            square = np.average(squares[rows], weights=times)
            floor += (share.rows / case.n) ** 2 * float(square) * share.floored(1.0).floor
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
        scale = values if METRICS[name].relative else 1.0
        se = np.sqrt(variance) / scale
    return values, np.where(np.isfinite(values) & np.isfinite(se), se, np.nan)


def _flips_of_members(case: Case, inflation: float) -> tuple[Array, Array]:
    """The fliptest, whose influences are those of examples and not of cells."""
    flips = with_flips(case)[0].flips
    if flips is None:
        nothing = np.full(case.members, np.nan)
        return nothing, nothing
    return flips.values, np.sqrt(flips.influences.var(axis=0) * inflation / case.n)
