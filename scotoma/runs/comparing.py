"""How far do identical trainings lie apart, and which sets of runs differ by more than that?

Everything here is about one fixed test set: the tests compare training runs, not examples.

Two protocols, whose tests stand side by side. `published` is that of Qian et al. 2021: a one-sided
Mann-Whitney test whose direction is picked from the same data, so that its 5% is really 10%, and
Levene's test on values divided by their mean. `sound` is the default: two-sided, exact where it can
be, Brown-Forsythe on the values themselves, Benjamini-Hochberg over the family of tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.numbers import Estimate, benjamini_hochberg, check_level, undefined
from scotoma.numbers.inputs import Floats, floats
from scotoma.runs.effects import (
    THIS_TEST_SET,
    bare,
    cohens_d,
    rests_on,
    sigma,
    spread_ratio,
    two_level_mean,
    variance_of,
    welch_difference,
)
from scotoma.runs.finding import RunFinding
from scotoma.runs.table import ACCURACY, RunSets

Name = TypeVar("Name", bound=Hashable)
Kind = TypeVar("Kind")
TestOfMeans = tuple[Literal["two-sided", "less", "greater"], Literal["exact", "asymptotic"]]
FEWEST_TESTED = 3  # runs a side; of two, both lie equally far from their median, and F is endless
NO_POWER_BELOW = 5  # runs a side
NO_POWER = f"fewer than {NO_POWER_BELOW} runs a side: Levene's test has no power"
EXACT_UP_TO = 20  # runs a side; beyond it the normal approximation is good to the third digit
FLIPPED_UP_TO = 16  # pairs: 65,536 ways to flip signs
DRAWS = 100_000
AT_ONCE = 2**20  # differences that are flipped at a time


def spread(runs: npt.ArrayLike, *, level: float = 0.95) -> tuple[dict[str, Estimate], int | None]:
    """Measure how far one value lies apart over identical runs.

    Args:
        runs: Values, shape (R,), or one column per class, shape (R, C); R >= 2. With classes, the
            overall value of a run is the unweighted mean over its classes.
        level: Coverage of the interval of sigma, a fraction in (0, 1).

    Returns:
        `MaxDiff`, the largest minus the smallest value, which grows with the number of runs;
        `STDEV`, ddof=0, as the paper prints it; `sigma`, the standard deviation behind the runs,
        ddof=1, with its chi-square interval, which takes them as normal. With classes the first two
        `of class` of the class that moves most, and its column, the first on ties. A class with a
        nan is left out of that choice; the overall spread is then nan.

    Raises:
        DataError: Fewer than two runs, or an array that is no (R,) or (R, C).

    References:
        Qian et al. 2021, Section 2.5, MaxDiff and STDEV of Tables 2 and 4.

    >>> moved, worst = spread([[0.10, 0.30], [0.12, 0.20], [0.11, 0.26]])
    >>> round(moved["MaxDiff"].value, 3), round(moved["STDEV"].value, 4), worst
    (0.04, 0.0165, 1)
    """
    check_level(level)
    values = floats(runs, "runs")
    if values.ndim not in (1, 2) or values.shape[0] < 2 or values.size == 0:
        raise DataError(
            f"runs must be two or more values, or rows of one value per class, got shape "
            f"{values.shape}: train at least two runs"
        )
    overall, count = values if values.ndim == 1 else values.mean(axis=1), len(values)
    found = {
        "MaxDiff": bare(float(np.ptp(overall)), count),
        "STDEV": bare(float((overall - overall[0]).std()), count),  # of equal runs exactly 0
        "sigma": sigma(overall, level),
    }
    reach = np.ptp(values, axis=0)
    if values.ndim == 1 or np.isnan(reach).all():
        return found, None
    worst = int(np.nanargmax(reach))
    found["MaxDiff of class"] = bare(float(reach[worst]), count)
    found["STDEV of class"] = bare(float(values[:, worst].std()), count)
    return found, worst


def compare_runs(
    pairs: Mapping[Name, tuple[npt.ArrayLike, npt.ArrayLike]], *, level: float = 0.95
) -> dict[Name, dict[str, Estimate]]:
    """Compare one value over two sets of runs, for each of a family of pairs.

    Args:
        pairs: Name of each comparison, and its runs: of the baseline, shape (R,), and of the other
            technique, shape (R',); R and R' >= 2, all finite.
        level: Coverage of the intervals, which are not adjusted, a fraction in (0, 1).

    Returns:
        By name: `difference` of means, other minus base, with Welch's interval; `Cohen's d` with a
        noncentral t interval; `U p`, two-sided Mann-Whitney, exact where there are no ties and both
        sides have at most 20 runs, and `one-sided U p` in the direction of the sample means, by
        normal approximation; `raw Levene p`, median centred, on the values, and `relative Levene
        p`, on values divided by the mean of the values rounded to four digits; `raw spread` and
        `relative spread`, the ratio of these standard deviations, other over base, with an F
        interval that heavy tails widen. `..., adjusted` are adjusted over all pairs by Benjamini
        and Hochberg, each test a family. What cannot be had is nan and says why.

    Raises:
        DataError: Fewer than two runs on a side, or a value that is not finite.

    References:
        Qian et al. 2021, Appendix B.3; Mann and Whitney (1947); Brown and Forsythe (1974);
        Benjamini and Hochberg (1995), JRSS B 57:289-300.

    >>> base = [0.30, 0.31, 0.32, 0.33, 0.34]
    >>> found = compare_runs({"lower": (base, [0.20, 0.21, 0.22, 0.23, 0.25]),
    ...                  "same": (base, [0.295, 0.315, 0.325, 0.335, 0.345])})
    >>> round(found["lower"]["U p"].value, 4), round(found["lower"]["U p, adjusted"].value, 4)
    (0.0079, 0.0159)
    """
    check_level(level)
    sides = [(_runs(base, "base"), _runs(other, "other")) for base, other in pairs.values()]
    found: list[dict[str, Estimate]] = [
        {"difference": welch_difference(*side, level), "Cohen's d": cohens_d(*side, level)}
        for side in sides
    ]
    for test, published in (("U", False), ("one-sided U", True)):
        kinds = [_test_of_means(b, o, published) for b, o in sides]
        tested = _in_batches(_mann_whitney, sides, kinds, untested=1.0)
        _add_p(found, test, tested, [""] * len(sides), sides, adjusted=not published)
    for form, scaled in (
        ("raw", sides),
        ("relative", [(_by_mean(b), _by_mean(o)) for b, o in sides]),
    ):
        unknown = [_no_ratio(*side, *own) for side, own in zip(sides, scaled, strict=True)]
        why = [one or _too_few(b, o) for one, (b, o) in zip(unknown, sides, strict=True)]
        levene = _in_batches(_levene, scaled, [None if w else "Levene" for w in why], math.nan)
        for one, own, reason in zip(found, scaled, unknown, strict=True):
            few = min(map(len, own)) < NO_POWER_BELOW
            note = f"{THIS_TEST_SET}; {NO_POWER}" if few else THIS_TEST_SET
            on = rests_on(*map(len, own), level=level, note=note)
            one[f"{form} spread"] = (
                undefined(f"undefined ({reason})", **on) if reason
                else spread_ratio(*own, level, note)
            )  # fmt: skip
        reasons = [w and f"no test of variances ({w})" for w in why]
        _add_p(found, f"{form} Levene", levene, reasons, sides, adjusted=True)
    return dict(zip(pairs, found, strict=True))


def _add_p(
    found: Sequence[dict[str, Estimate]], test: str, p: Floats, reasons: Sequence[str],
    sides: Sequence[tuple[Floats, Floats]], *, adjusted: bool,
) -> None:  # fmt: skip
    columns = {f"{test} p": p}
    if adjusted and len(p):
        columns[f"{test} p, adjusted"] = benjamini_hochberg(p)
    for name, values in columns.items():
        for one, value, reason, side in zip(found, values, reasons, sides, strict=True):
            one[name] = bare(float(value), *map(len, side), reason=reason)


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


def compare_one_seed(seeds: RunSets, one_seed: RunSets, *, level: float = 0.95) -> list[RunFinding]:
    """Compare runs of different seeds with runs of one seed, of the same techniques.

    Args:
        seeds: Runs of different seeds.
        one_seed: Runs of one seed.
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        Each technique in each metric that all runs define: what `compare_runs` finds of one seed
        against the others, the standard deviation of each, and `variance ratio`, one seed over
        seeds.

    >>> rng = np.random.default_rng(0)
    >>> wide, narrow = ({("a", "DP"): rng.normal(0.3, s, 16)} for s in (0.04, 0.01))
    >>> [one] = compare_one_seed(wide, narrow)
    >>> one["variance ratio"].high < 1
    True
    """
    pairs = {
        key: (values, one_seed[key])
        for key, values in seeds.items()
        if key in one_seed and np.isfinite(np.concatenate([values, one_seed[key]])).all()
    }
    found = []
    for key, numbers in compare_runs(pairs, level=level).items():
        of = numbers["raw spread"]
        ends = (of.value**2, of.low**2, of.high**2)
        numbers["variance ratio"] = Estimate(
            *ends, of.n, of.members, of.events, of.df, of.level, of.reason, of.note
        )
        for name, values in zip(("SD of seeds", "SD of one seed"), pairs[key], strict=True):
            numbers[name] = bare(float(values.std(ddof=1)), len(values))
        found.append(RunFinding(*key, numbers))
    return found


def paired_permutation_p(differences: npt.ArrayLike) -> Floats:
    """Test whether paired differences lie around 0, by flipping their signs.

    Args:
        differences: One a pair, shape (R,), or columns of them, shape (R, cells); R >= 2. Up to 16
            pairs are flipped in every way, more 100,000 times at random.

    Returns:
        Two-sided p-values, shape () or (cells,): the share of flips whose mean lies as far from 0
        as the one observed. nan where a difference is.

    Raises:
        DataError: Fewer than two pairs.

    References:
        Fisher (1935); Phipson and Smyth (2010) for the observed flip counted among random ones.

    >>> float(paired_permutation_p([0.2, 0.1, 0.3, 0.2, 0.1]))
    0.0625
    """
    d = floats(differences, "differences")
    columns = d[:, None] if d.ndim == 1 else d
    if columns.ndim != 2 or len(columns) < 2:
        raise DataError(
            f"differences must be two or more pairs, got shape {d.shape}: pass one number a pair"
        )
    from scipy.stats import permutation_test  # costly to import

    size = np.abs(columns).sum(axis=0)
    scaled = np.divide(columns, size, out=np.zeros_like(columns), where=size > 0)
    flipped = permutation_test(
        (scaled,),
        _distance,
        permutation_type="samples",
        alternative="greater",
        vectorized=True,
        axis=0,
        n_resamples=2 ** len(columns) if len(columns) <= FLIPPED_UP_TO else DRAWS,
        batch=max(1, AT_ONCE // columns.size),
        rng=np.random.Generator(np.random.Philox(key=0)),
    )
    return np.where(np.isnan(size), np.nan, flipped.pvalue).reshape(d.shape[1:])


def _distance(scaled: Floats, axis: int) -> Floats:
    """Distance from 0; sums that differ by rounding alone are the same flip."""
    return np.asarray(np.abs(scaled.sum(axis=axis)).round(12))


def flip_tests(differences: Sequence[Floats]) -> tuple[list[float], list[float]]:
    """Test each row of paired differences, and adjust over them all; rows may differ in length."""
    p = np.full(len(differences), np.nan)
    for size in {len(one) for one in differences}:
        rows = [at for at, one in enumerate(differences) if len(one) == size]
        p[rows] = paired_permutation_p(np.stack([differences[at] for at in rows], axis=1))
    return p.tolist(), (benjamini_hochberg(p).tolist() if len(p) else [])


def compare_paired(
    sets: RunSets, families: Sequence[Sequence[str]], *, level: float = 0.95
) -> list[RunFinding]:
    """Compare techniques that share their runs: other decisions on the same trained models.

    Args:
        sets: Their runs.
        families: Techniques whose run i is the same training, in each family.
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        Every pair of a family in every metric that both have, but accuracy: the paired `difference`
        of means, and `p` of the sign-flip test, adjusted over all of them.

    Raises:
        DataError: Techniques of a family have different numbers of runs.
    """
    keys: list[tuple[str, str, str]] = []
    differences: list[Floats] = []
    for one, other in (pair for family in families for pair in combinations(family, 2)):
        for metric in (m for t, m in sets if t == one and (other, m) in sets and m != ACCURACY):
            values, others = sets[one, metric], sets[other, metric]
            if values.shape != others.shape:
                raise DataError(
                    f"{one} and {other} must have the same runs to be paired, got {values.size} "
                    f"and {others.size}: leave out what is not shared"
                )
            keys.append((one, metric, other))
            differences.append(values - others)
    return [
        RunFinding(
            one, metric,
            {"difference": two_level_mean(own, level=level), "p": bare(p, own.size),
             "p, adjusted": bare(adjusted, own.size)},
            other,
        )
        for (one, metric, other), own, p, adjusted
        in zip(keys, differences, *flip_tests(differences), strict=True)
    ]  # fmt: skip
