"""The count model: what examples, training runs and chance do to one rate of one group."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, owens_t

from scotoma.errors import DataError
from scotoma.numbers.enough import FEWEST
from scotoma.numbers.inputs import Floats
from scotoma.numbers.tally import MOST_MEMBERS

NODES = 96  # a difficulty_sd of 3 then has its kurtosis to 4 digits


@dataclass(frozen=True, kw_only=True)
class Probit:
    """How errors come about: difficulty of the example, luck of the run, chance.

    Member m errs on example x where su u_x + sr r_m + e_xm exceeds a threshold, u, r, e standard
    normal. All members share the examples' difficulties; what is hard for dense members is hard for
    compressed ones, not quite in the same order.

    Attributes:
        difficulty_sd: su, how much examples differ; 0 makes every error pure chance, 3 lets few
            hard examples carry the rate.
        run_sd: sr, how much training runs differ; beside a difficulty_sd of 1.5 a rate of 1% moves
            by about 15% between runs at .10, by about 40% at .25.
        correlation: Of an example's dense and compressed difficulty, in [0, 1].
        inheritance: Of run and chance of a compressed member and the dense member it derives from,
            in [0, 1]; plays no part where populations are not paired.

    Raises:
        DataError: A number out of range.

    References:
        McCulloch and Searle (2001), Generalized, Linear, and Mixed Models, section 8.4, the
        probit-normal model.

    >>> Probit(run_sd=0.25).correlation
    0.95
    """

    difficulty_sd: float = 1.5
    run_sd: float = 0.10
    correlation: float = 0.95
    inheritance: float = 0.9

    def __post_init__(self) -> None:
        for name in ("difficulty_sd", "run_sd"):
            if not 0 <= (value := getattr(self, name)) < math.inf:
                raise DataError(
                    f"{name} must be a standard deviation of at least 0, got {value}: "
                    "0 means that nothing differs"
                )
        for name in ("correlation", "inheritance"):
            if not 0 <= (value := getattr(self, name)) <= 1:
                raise DataError(
                    f"{name} must lie in [0, 1], got {value}: 0 means nothing in common"
                )

    def run_sd_of(self, members: int) -> float:
        """The run_sd of a population: a population of one member is that model, its run no luck."""
        return self.run_sd if members > 1 else 0.0

    def spread(self, members: int) -> float:
        """Standard deviation of su u + sr r + e, by which thresholds are multiplied."""
        return math.sqrt(1 + self.difficulty_sd**2 + self.run_sd_of(members) ** 2)


@dataclass(frozen=True, kw_only=True)
class Design:
    """An audit of one rate of one group, before its models are trained.

    Attributes:
        group_n: Examples of the group at risk: the negatives for an FPR, the positives for an FNR.
        rate: Rate of the dense population, a fraction in (0, 1).
        members: Dense members K.
        compressed_members: Compressed members K'; None for as many as dense.
        paired: Compressed member m derives from dense member m.
        errors: How errors come about.
        level: Level of the interval that decides, a fraction in (0, 1); with Holm over a family of
            M rules at least 1 - (1 - level)/M.
        limit: Allowed relative increase, a fraction; 0 asks for any increase.
        min_events: `n_effective` below which nothing is decided; the interval of a relative change
            needs 5, a gate asks for 10.

    Raises:
        DataError: A number out of range.

    >>> Design(group_n=2_700, rate=0.011, members=10).sizes
    (10, 10)
    """

    group_n: int
    rate: float
    members: int
    compressed_members: int | None = None
    paired: bool = False
    errors: Probit = Probit()
    level: float = 0.95
    limit: float = 0.0
    min_events: float = FEWEST

    def __post_init__(self) -> None:
        k, k_c = self.sizes
        rules = [
            (self.group_n >= 2, f"group_n must be at least 2 examples, got {self.group_n}: "
             "a variance over examples needs two"),
            (0 < self.rate < 1, f"rate must be a fraction in (0, 1), got {self.rate}: "
             "write 0.01 for 1%"),
            (min(k, k_c) >= 1 and max(k, k_c) <= MOST_MEMBERS,
             f"members must be 1 to {MOST_MEMBERS} in each population, got {k} and {k_c}: "
             "count trained models"),
            (not self.paired or k == k_c, f"paired populations must have as many compressed as "
             f"dense members, got {k_c} and {k}: pass paired=False"),
            (0 < self.level < 1, f"level must be a fraction in (0, 1), got {self.level}: "
             "write 0.95 for 95%"),
            (0 <= self.limit < math.inf, f"limit must be a relative increase of at least 0, got "
             f"{self.limit}: write 0.2 for +20%"),
            (self.min_events >= FEWEST, f"min_events must be at least {FEWEST}, got "
             f"{self.min_events}: below it a relative change has no interval"),
        ]  # fmt: skip
        for holds, sentence in rules:
            if not holds:
                raise DataError(sentence)

    @property
    def sizes(self) -> tuple[int, int]:
        """K and K'."""
        other = self.compressed_members
        return self.members, self.members if other is None else other

    def effective_events(self) -> tuple[float, float]:
        """Effective events of the dense rate (`n_effective`): their mean and sd.

        To second order in 1/n, over test sets; the runs add little.

        >>> design = Design(group_n=170, rate=0.01, members=10)
        >>> [round(value, 1) for value in design.effective_events()]
        [6.0, 2.0]
        """
        nodes, weights = _nodes()
        k, world = self.members, self.errors
        noise = math.hypot(1.0, world.run_sd_of(k))
        chance = ndtr((ndtri(self.rate) * world.spread(k) + world.difficulty_sd * nodes) / noise)
        k1, k2, k3, k4 = _cumulants([(1.0, chance)], k)
        powers = [
            k1,
            k2 + k1**2,
            k3 + 3 * k2 * k1 + k1**3,
            k4 + 4 * k3 * k1 + 3 * k2**2 + 6 * k2 * k1**2 + k1**4,
        ]
        one, two, three, four = (float(weights @ power) for power in powers)
        first = self.group_n * one**2 / two
        c11, c12, c22 = (ratio - 1 for ratio in (two / one**2, three / (one * two), four / two**2))
        spread = first * math.sqrt(max(4 * c11 - 4 * c12 + c22, 0.0) / self.group_n)
        return first * (1 + (c11 - 2 * c12 + c22) / self.group_n), spread


def expected_parts(
    design: Design, relative: float
) -> tuple[Floats, Floats, int, list[tuple[Floats, Floats, int]]]:
    """What `combine` adds up to the variance that an audit of this design finds on average.

    It is that of log(compressed rate / dense rate), to first order. Let v, c, a be the covariances
    of two events, each divided by its rate: of one event with itself, of two members on one
    example, of one member on two examples. Then, exactly, for one population of K members

        V_ex = [v + (K-1)c - a]/(nK),  V_mod = [v + (n-1)a - c]/(nK),  V_res = [v - c - a]/(nK),

    unpaired populations add, less 2c/n for the examples that they share; pairs are one population
    of the differences of their events. Every covariance is a bivariate normal probability. The
    kurtosis, for Satterthwaite's degrees of freedom at these parts, is by quadrature.

    Args:
        design: The audit.
        relative: True relative increase, a fraction above -1; the compressed rate is below 1.

    Returns:
        V_ex, kurtosis of psi less 1, n, and per independent population V_mod, V_res, members.

    References:
        Owen (1956), Annals of Mathematical Statistics 27:1075-1090, bivariate normal
        probabilities; McCulloch and Searle (2001), section 8.4.

    >>> from scotoma.numbers.crossed import combine
    >>> pure = Probit(difficulty_sd=0, run_sd=0)
    >>> design = Design(group_n=1_000, rate=0.1, members=2, errors=pure)
    >>> round(combine(*expected_parts(design, 0.0)).total, 9)  # of two binomials: 2 (0.9/0.1)/2000
    0.009
    """
    n, (k, k_c) = design.group_n, design.sizes
    dense, compressed, between = _covariances(design, relative)
    if design.paired:
        populations, shared = [(dense + compressed - 2 * between, k)], 0.0
    else:
        populations, shared = [(dense, k), (compressed, k_c)], 2 * between[1] / n
    examples, parts = -shared, []
    for (v, c, a), size in populations:
        examples += (v + (size - 1) * c - a) / (n * size)
        alone = size == 1  # no other run to compare with, so that neither part is measured
        of_members, residual = (0.0, 0.0) if alone else (v + (n - 1) * a - c, v - c - a)
        parts.append((np.asarray(of_members / (n * size)), np.asarray(residual / (n * size)), size))
    excess = np.asarray(min(_kurtosis(design, relative), n) - 1)  # no n numbers have more than n
    return np.asarray(max(examples, 0.0)), excess, n, parts


def both_below(a: npt.ArrayLike, b: npt.ArrayLike, correlation: float) -> Floats:
    """Chance that two standard normal variables lie below a and below b.

    Args:
        a: Finite numbers.
        b: Finite numbers that broadcast with a.
        correlation: Of the two variables, in [0, 1].

    References:
        Owen (1956), Annals of Mathematical Statistics 27:1075-1090, equation 2.1.

    >>> both_below(0.0, 0.0, 0.5).round(12)  # 1/4 + arcsin(0.5) / (2 pi)
    np.float64(0.333333333333)
    """
    pair = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(b, np.float64))
    x, y = (np.where(np.abs(end) < 1e-100, 0.0, end) for end in pair)  # quotients keep their bits
    if correlation >= 1:
        return np.asarray(ndtr(np.minimum(x, y)))
    root = math.sqrt(1 - correlation**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = [(u - correlation * w) / (w * root) for u, w in ((y, x), (x, y))]
    # At w = 0 the slope is infinite with the sign of u, or, where u = 0 too, the limit along u = w.
    at_zero = math.sqrt((1 - correlation) / (1 + correlation))
    slopes = [
        np.where(w == 0, np.where(u == 0, at_zero, np.copysign(np.inf, u)), slope)
        for slope, (u, w) in zip(slopes, ((y, x), (x, y)), strict=True)
    ]
    opposite = (x * y < 0) | ((x * y == 0) & (x + y < 0))
    half = 0.5 * (ndtr(x) + ndtr(y)) - 0.5 * opposite
    return np.asarray(half - owens_t(x, slopes[0]) - owens_t(y, slopes[1]))


def _thresholds(design: Design, relative: float) -> tuple[float, float]:
    """Standard normal quantiles of the two rates."""
    return float(ndtri(design.rate)), float(ndtri(design.rate * (1 + relative)))


def _covariances(design: Design, relative: float) -> tuple[Floats, Floats, Floats]:
    """(v, c, a) within dense, within compressed, and between dense and compressed."""
    world, (d, c) = design.errors, _thresholds(design, relative)
    spreads = [world.spread(size) for size in design.sizes]
    runs = [world.run_sd_of(size) for size in design.sizes]
    hard = world.difficulty_sd
    kept = world.inheritance if design.paired else 0.0

    def relative_covariances(
        x: float, y: float, scale: float, example: float, run: float, own: float
    ) -> Floats:
        correlations = (example + run + own, example, run)
        joint = np.array([both_below(x, y, r / scale) for r in correlations])
        return joint / (ndtr(x) * ndtr(y)) - 1

    within = [
        relative_covariances(x, x, spread**2, hard**2, run**2, 1.0)
        for x, spread, run in zip((d, c), spreads, runs, strict=True)
    ]
    between = relative_covariances(
        d, c, spreads[0] * spreads[1], world.correlation * hard**2, kept * runs[0] * runs[1], kept
    )  # fmt: skip
    return within[0], within[1], between


def _kurtosis(design: Design, relative: float) -> float:
    """Kurtosis of psi = compressed mean / its rate - dense mean / its rate over examples.

    Given its difficulty, an example's members err independently, so that cumulants add: quadrature
    over the two difficulties gives the rest.
    """
    world, (k, k_c) = design.errors, design.sizes
    nodes, weights = _nodes()
    follow = math.sqrt(1 - world.correlation**2)
    u, u_c = nodes[:, None], world.correlation * nodes[:, None] + follow * nodes
    cutoffs = []
    for x, size, z in zip(_thresholds(design, relative), (k, k_c), (u, u_c), strict=True):
        noise = math.hypot(1.0, world.run_sd_of(size))
        cutoffs.append((x * world.spread(size) + world.difficulty_sd * z) / noise)
    g, g_c = (float(1 / ndtr(x)) for x in _thresholds(design, relative))
    p, p_c = (ndtr(cutoff) for cutoff in cutoffs)
    if design.paired:
        both = both_below(cutoffs[0], cutoffs[1], world.inheritance)
        outcomes = [(-g, p - both), (g_c, p_c - both), (g_c - g, both)]
        cumulants = _cumulants(outcomes, k)
    else:
        cumulants = [
            of_c + of_d
            for of_c, of_d in zip(
                _cumulants([(g_c, p_c)], k_c), _cumulants([(-g, p)], k), strict=True
            )
        ]
    first, second, third, fourth = cumulants
    squares = weights @ (second + first**2) @ weights
    fourths = fourth + 4 * third * first + 3 * second**2 + 6 * second * first**2 + first**4
    return float(weights @ fourths @ weights / squares**2) if squares > 0 else 1.0


@cache
def _nodes() -> tuple[Floats, Floats]:
    """Gauss-Hermite nodes and weights of the standard normal distribution."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    return nodes, weights / weights.sum()


def _cumulants(outcomes: list[tuple[float, Floats]], members: int) -> list[Floats]:
    """First four cumulants of the mean over members of a number with these outcomes, else 0."""
    one, two, three, four = (sum(p * value**i for value, p in outcomes) for i in range(1, 5))
    own = [
        one,
        two - one**2,
        three - 3 * one * two + 2 * one**3,
        four - 4 * one * three - 3 * two**2 + 12 * one**2 * two - 6 * one**4,
    ]
    return [np.asarray(cumulant / members**i) for i, cumulant in enumerate(own)]
