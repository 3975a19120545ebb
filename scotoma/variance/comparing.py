"""Runs against runs: how far one value moves between identical trainings, and what moves it.

Everything here is about one fixed test set: the tests compare training runs, not examples.

Two protocols. `published` is that of Qian et al. 2021: a one-sided Mann-Whitney test whose
direction is picked from the same data, so that its 5% is really 10%, and Levene's test on values
divided by their mean. `sound` is the default: two-sided, exact where it can be, Brown-Forsythe on
the values themselves, Benjamini-Hochberg over the family of tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.inputs import Floats, StatisticsProtocol, floats
from scotoma.numbers import Estimate, benjamini_hochberg, undefined
from scotoma.variance.effects import (
    THIS_TEST_SET,
    cohens_d,
    sawilowsky,
    sigma,
    spread_ratio,
    variance_of,
    welch_difference,
)

Name = TypeVar("Name")
Kind = TypeVar("Kind")
TestOfMeans = tuple[Literal["two-sided", "less", "greater"], Literal["exact", "asymptotic"]]
FEWEST_TESTED = 3  # runs a side; of two, both lie equally far from their median, and F is endless
NO_POWER_BELOW = 5  # runs a side
NO_POWER = f"fewer than {NO_POWER_BELOW} runs a side: Levene's test has no power"
EXACT_UP_TO = 20  # runs a side; beyond it the normal approximation is good to the third digit


@dataclass(frozen=True)
class RunSpread:
    """How far the values of identical runs lie apart, in the unit of the values.

    Attributes:
        max_diff: Largest minus smallest value over the runs; grows with their number, so that it
            compares only with as many runs.
        std: Standard deviation over the runs, ddof=0, as the paper prints it.
        sigma: The standard deviation behind the runs, ddof=1, with its chi-square interval, which
            takes the runs as normal.
        runs: Number of runs.
        class_max_diff: max_diff of the class that moves most (first on ties); nan without classes.
        class_std: std of that class; nan without classes.
        worst_class: That class as column number; None without classes.
    """

    max_diff: float
    std: float
    sigma: Estimate
    runs: int
    class_max_diff: float = math.nan
    class_std: float = math.nan
    worst_class: int | None = None


@dataclass(frozen=True)
class RunComparison:
    """Two sets of runs side by side.

    Attributes:
        difference: Mean of `other` minus mean of `base`, with Welch's interval.
        cohens_d: The same in standard deviations, with a noncentral t interval.
        effect: Name of the size of cohens_d on Sawilowsky's scale.
        u_p: P-value of the Mann-Whitney test.
        levene_p: P-value of the Levene (Brown-Forsythe) test of unequal variances; nan with fewer
            than 3 runs on a side.
        u_p_adjusted: u_p after Benjamini-Hochberg over the family; u_p itself under `published`,
            nan outside a family.
        levene_p_adjusted: The same for levene_p.
        spread_ratio: Standard deviation of `other` over that of `base`, each divided by its own
            mean under `published`, with an F interval that heavy tails widen.
        protocol: `sound` or `published`.
        reason: Why a test is nan; empty otherwise.
    """

    difference: Estimate
    cohens_d: Estimate
    effect: str
    u_p: float
    levene_p: float
    spread_ratio: Estimate
    protocol: StatisticsProtocol
    reason: str = ""
    u_p_adjusted: float = math.nan
    levene_p_adjusted: float = math.nan

    def mean_moves(self, alpha: float = 0.05) -> str:
        """`+` where `other` lies significantly higher than `base`, `-` lower, `NS` otherwise.

        Args:
            alpha: Largest p-value called significant; the adjusted one inside a family.

        >>> compare_run_sets([0.30, 0.31, 0.32, 0.33], [0.20, 0.21, 0.22, 0.23]).mean_moves()
        '-'
        """
        return _mark(self.u_p_adjusted, self.u_p, self.difference.value, alpha)

    def variance_moves(self, alpha: float = 0.05) -> str:
        """`+` where `other` varies significantly more than `base`, `-` less, `NS` otherwise.

        Args:
            alpha: Largest p-value called significant; the adjusted one inside a family.

        >>> compare_run_sets([0.30, 0.31, 0.32, 0.33], [0.20, 0.21, 0.22, 0.23]).variance_moves()
        'NS'
        """
        return _mark(self.levene_p_adjusted, self.levene_p, self.spread_ratio.value - 1.0, alpha)


def spread(runs: npt.ArrayLike, *, level: float = 0.95) -> RunSpread:
    """Largest difference and standard deviation of one value over identical runs.

    Args:
        runs: Values, shape (R,), or one column per class, shape (R, C); R >= 2. With classes, the
            overall value of a run is the unweighted mean over its classes.
        level: Coverage of the interval of sigma, a fraction in (0, 1).

    Returns:
        The spread overall and, with classes, of the class whose values lie furthest apart. A class
        with a nan is left out of that choice; the overall spread is then nan.

    Raises:
        DataError: Fewer than two runs, or an array that is no (R,) or (R, C).

    References:
        Qian et al. 2021, Section 2.5, MaxDiff and STDEV of Tables 2 and 4.

    >>> moved = spread([[0.10, 0.30], [0.12, 0.20], [0.11, 0.26]])
    >>> round(moved.max_diff, 3), round(moved.std, 4), moved.worst_class
    (0.04, 0.0165, 1)
    """
    values = floats(runs, "runs")
    if values.ndim not in (1, 2) or values.shape[0] < 2 or values.size == 0:
        raise DataError(
            f"runs must be two or more values, or rows of one value per class, got shape "
            f"{values.shape}: train at least two runs"
        )
    overall = values if values.ndim == 1 else values.mean(axis=1)
    shown = RunSpread(
        max_diff=float(np.ptp(overall)),
        std=float(overall.std()),
        sigma=sigma(overall, level),
        runs=values.shape[0],
    )
    if values.ndim == 1:
        return shown
    reach = np.ptp(values, axis=0)
    if np.isnan(reach).all():
        return shown
    worst = int(np.nanargmax(reach))
    return replace(
        shown,
        class_max_diff=float(reach[worst]),
        class_std=float(values[:, worst].std()),
        worst_class=worst,
    )


def compare_run_sets(
    base: npt.ArrayLike,
    other: npt.ArrayLike,
    *,
    protocol: StatisticsProtocol = "sound",
    level: float = 0.95,
) -> RunComparison:
    """Compare one value over two sets of runs: its mean, its variance, the size of the effect.

    Args:
        base: Values of the baseline's runs, shape (R,), R >= 2, finite.
        other: Values of the other technique's runs, shape (R',), R' >= 2, finite.
        protocol: `sound`: two-sided Mann-Whitney, exact where there are no ties and both sides have
            at most 20 runs; Brown-Forsythe on the values. `published`: one-sided in the direction
            of the sample means, normal approximation with continuity and tie correction; Levene,
            median centred, on values divided by the mean of the values rounded to four digits.
        level: Coverage of both intervals, a fraction in (0, 1).

    Returns:
        The tests, and the effects with intervals. A test or an effect that cannot be had, such as
        Cohen's d of runs that do not vary, is nan and says why.

    Raises:
        DataError: Fewer than two runs on a side, a value that is not finite, or an unknown
            protocol.

    References:
        Qian et al. 2021, Appendix B.3; Mann and Whitney (1947); Brown and Forsythe (1974);
        Sawilowsky (2009), Journal of Modern Applied Statistical Methods 8:597-599.

    >>> seen = compare_run_sets([0.30, 0.31, 0.32, 0.33, 0.34], [0.20, 0.21, 0.22, 0.23, 0.25])
    >>> round(seen.u_p, 4), round(seen.difference.value, 3), seen.effect
    (0.0079, -0.098, 'huge')
    >>> compare_run_sets([0.30, 0.31, 0.32], [0.31, 0.31, 0.35], protocol="published").mean_moves()
    'NS'
    """
    return _compared([(base, other)], protocol, level)[0]


def compare_family(
    pairs: Mapping[Name, tuple[npt.ArrayLike, npt.ArrayLike]],
    *,
    protocol: StatisticsProtocol = "sound",
    level: float = 0.95,
) -> dict[Name, RunComparison]:
    """Compare many pairs of runs and correct for how many were compared.

    Args:
        pairs: Name of each comparison and its (base, other) runs, as for `compare`.
        protocol: As for `compare`; `published` corrects for nothing.
        level: Coverage of the intervals, which are not adjusted, a fraction in (0, 1).

    Returns:
        The comparisons under their names, with p-values adjusted by Benjamini-Hochberg; the tests
        of means are one family, those of variances another.

    References:
        Benjamini and Hochberg (1995), JRSS B 57:289-300.

    >>> base = [0.30, 0.31, 0.32, 0.33, 0.34]
    >>> family = compare_family({"lower": (base, [0.20, 0.21, 0.22, 0.23, 0.25]),
    ...                          "same": (base, [0.295, 0.315, 0.325, 0.335, 0.345])})
    >>> round(family["lower"].u_p_adjusted, 4)
    0.0159
    """
    shown = dict(zip(pairs, _compared(list(pairs.values()), protocol, level), strict=True))
    u = np.array([one.u_p for one in shown.values()])
    levene = np.array([one.levene_p for one in shown.values()])
    if protocol == "sound" and shown:
        u, levene = benjamini_hochberg(u), benjamini_hochberg(levene)
    return {
        name: replace(one, u_p_adjusted=float(pu), levene_p_adjusted=float(pl))
        for (name, one), pu, pl in zip(shown.items(), u, levene, strict=True)
    }


def _compared(
    pairs: Sequence[tuple[npt.ArrayLike, npt.ArrayLike]],
    protocol: StatisticsProtocol,
    level: float,
) -> list[RunComparison]:
    if protocol not in ("sound", "published"):
        raise DataError(
            f"protocol must be 'sound' or 'published', got {protocol!r}: name one of the two"
        )
    published = protocol == "published"
    sides = [(_runs(base, "base"), _runs(other, "other")) for base, other in pairs]
    scaled = [(_by_mean(b), _by_mean(o)) for b, o in sides] if published else sides
    unknown = [_no_ratio(*side, *own) for side, own in zip(sides, scaled, strict=True)]
    untested = [why or _too_few(b, o) for why, (b, o) in zip(unknown, sides, strict=True)]
    means = [_test_of_means(b, o, published) for b, o in sides]
    u = _in_batches(_mann_whitney, sides, means, untested=1.0)
    variances = [None if why else "Levene" for why in untested]
    levene = _in_batches(_levene, scaled, variances, untested=math.nan)
    compared = []
    for at, (b, o) in enumerate(sides):
        fewest = min(b.size, o.size)
        note = f"{THIS_TEST_SET}; {NO_POWER}" if fewest < NO_POWER_BELOW else THIS_TEST_SET
        if unknown[at]:
            reason = f"undefined ({unknown[at]})"
            ratio = undefined(reason, n=b.size + o.size, members=fewest, level=level, note=note)
        else:
            ratio = replace(spread_ratio(*scaled[at], level), note=note)
        effect = cohens_d(b, o, level)
        compared.append(
            RunComparison(
                difference=welch_difference(b, o, level),
                cohens_d=effect,
                effect=sawilowsky(effect.value),
                u_p=float(u[at]),
                levene_p=float(levene[at]),
                spread_ratio=ratio,
                protocol=protocol,
                reason=f"no test of variances ({untested[at]})" if untested[at] else "",
            )
        )
    return compared


def _no_ratio(b: Floats, o: Floats, scaled_b: Floats, scaled_o: Floats) -> str:
    """Why the spreads cannot be compared; empty where they can."""
    if not (variance_of(b) > 0 or variance_of(o) > 0):
        return f"nothing varies over {b.size + o.size} runs"
    finite = np.isfinite(scaled_b).all() and np.isfinite(scaled_o).all()
    return "" if finite else "a mean of 0 cannot be divided by"


def _too_few(b: Floats, o: Floats) -> str:
    fewest = min(b.size, o.size)
    if fewest >= FEWEST_TESTED:
        return ""
    return f"{fewest} runs on a side, {FEWEST_TESTED} are needed"


def _runs(values: npt.ArrayLike, name: str) -> Floats:
    runs = floats(values, name)
    if runs.ndim != 1 or runs.size < 2:
        raise DataError(
            f"{name} must hold the values of two or more runs, got shape {runs.shape}: "
            "pass one number per run"
        )
    if not np.isfinite(runs).all():
        bad = int(np.isfinite(runs).argmin())
        raise DataError(
            f"{name} must be finite, got {runs[bad]} for run {bad}: "
            "leave out the classes or metrics that are undefined in a run"
        )
    return runs


def _by_mean(values: Floats) -> Floats:
    """Values over their mean, taken as the study took it: of values cut to four digits."""
    size = np.floor(np.log10(np.abs(values), where=values != 0, out=np.zeros_like(values)))
    scale = 10.0 ** (3.0 - size)
    with np.errstate(divide="ignore", invalid="ignore"):  # a mean of 0 is refused by the caller
        return np.asarray(values / (np.round(values * scale) / scale).mean())


def _in_batches(
    test: Callable[[Floats, Floats, Kind], Floats],
    sides: Sequence[tuple[Floats, Floats]],
    kinds: Sequence[Kind | None],
    untested: float,
) -> Floats:
    """P-values of all pairs, those of as many runs and of one kind of test in one call.

    A thousand calls of SciPy's tests take seconds, one call with a thousand rows milliseconds. A
    pair without a kind is not tested.
    """
    p = np.full(len(sides), untested)
    batches: dict[tuple[Kind, int, int], list[int]] = {}
    for at, ((b, o), kind) in enumerate(zip(sides, kinds, strict=True)):
        if kind is not None:
            batches.setdefault((kind, b.size, o.size), []).append(at)
    for (kind, _, _), rows in batches.items():
        base, other = (np.stack([sides[at][side] for at in rows]) for side in (0, 1))
        p[rows] = test(base, other, kind)
    return p


def _test_of_means(b: Floats, o: Floats, published: bool) -> TestOfMeans | None:
    """The Mann-Whitney test of a pair; None where all values tie: no arrangement is extreme."""
    values = np.concatenate([b, o])
    if np.ptp(values) == 0:
        return None
    if published:
        return "less" if b.mean() < o.mean() else "greater", "asymptotic"
    exact = np.unique(values).size == values.size and max(b.size, o.size) <= EXACT_UP_TO
    return "two-sided", "exact" if exact else "asymptotic"


def _mann_whitney(b: Floats, o: Floats, kind: TestOfMeans) -> Floats:
    from scipy.stats import mannwhitneyu  # costly to import, and only needed here

    alternative, method = kind
    tested = mannwhitneyu(b, o, alternative=alternative, method=method, axis=1)
    return np.asarray(tested.pvalue, np.float64)


def _levene(b: Floats, o: Floats, kind: str) -> Floats:
    from scipy.stats import levene

    with np.errstate(divide="ignore", invalid="ignore"):  # spread within neither side: F is inf
        return np.asarray(levene(b, o, center="median", axis=1).pvalue, np.float64)


def _mark(adjusted: float, raw: float, direction: float, alpha: float) -> str:
    p = raw if math.isnan(adjusted) else adjusted
    if not p <= alpha:
        return "NS"
    return "+" if direction > 0 else "-"
