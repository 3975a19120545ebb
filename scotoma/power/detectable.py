"""Which amplification can an audit of this size find?"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import gammaincinv, ndtr, stdtrit

from scotoma.errors import DataError
from scotoma.inputs import Floats
from scotoma.numbers.estimate import FEWEST_RUNS, json_safe
from scotoma.numbers.rates import FEWEST
from scotoma.power.model import Design, Probit, expected_parts

NODES = 16  # a variance component; 24 change the power by less than .001
HIGHEST_RATE = 0.999  # compressed rate beyond which no increase is looked for
STANDARD = Probit()


@dataclass(frozen=True)
class Detectable:
    """The smallest amplification that a design finds.

    Attributes:
        design: The audit.
        power: The share of audits that is to find it, a fraction.
        relative: Smallest relative increase, a fraction: 0.5 for +50%; nan if there is none.
        absolute: The same as compressed minus dense rate, a fraction.
        effective_events: Expected for the dense rate (`n_effective`).
        reason: Why there is none, as a sentence to print; empty otherwise.
    """

    design: Design
    power: float
    relative: float
    absolute: float
    effective_events: float
    reason: str = ""

    def __str__(self) -> str:
        """The amplification as a sentence."""
        audit = _words(self.design)
        if self.reason:
            return f"{audit}: {self.reason}"
        rate = self.design.rate
        limit = self.design.limit
        beyond = f" and beyond the limit of {100 * limit:.3g}%" if limit else ""
        return (
            f"{audit} find an increase of {100 * self.relative:.3g}%, from {100 * rate:.3g}% to "
            f"{100 * (rate + self.absolute):.3g}%{beyond}, in {100 * self.power:.3g}% of audits"
        )

    def as_dict(self) -> dict[str, Any]:
        """Every field, unrounded and safe in JSON: nan is None."""
        return {
            name: value if isinstance(value, dict) else json_safe(value)
            for name, value in asdict(self).items()
        }


def smallest_amplification(
    *,
    group_n: int,
    rate: float,
    members: int,
    compressed_members: int | None = None,
    run_sd: float = STANDARD.run_sd,
    difficulty_sd: float = STANDARD.difficulty_sd,
    correlation: float = STANDARD.correlation,
    inheritance: float = STANDARD.inheritance,
    paired: bool = False,
    level: float = 0.95,
    power: float = 0.8,
    limit: float = 0.0,
    min_events: float = FEWEST,
) -> Detectable:
    """The smallest increase of a group's rate that an audit finds with the requested power.

    Found means: the interval of the relative change (Satterthwaite's t on the log scale, over
    examples and training runs, crossed) lies above the limit.

    Args:
        group_n: Examples of the group at risk: the negatives for an FPR, the positives for an FNR,
            all for the error.
        rate: Rate of the dense population, a fraction in (0, 1).
        members: Dense members.
        compressed_members: Compressed members; None for as many.
        run_sd: How much training runs differ, on the probit scale (`Probit`).
        difficulty_sd: How much examples differ, on the probit scale.
        correlation: Of an example's dense and compressed difficulty.
        inheritance: What a paired compressed member keeps of its dense member's run and chance.
        paired: Compressed members derive from the dense members.
        level: Level of the interval; for a gate over M rules 1 - (1 - level)/M (Bonferroni).
        power: Share of audits that is to find it, a fraction between (1 - level)/2 and 1.
        limit: A gate's limit on the relative increase, a fraction: 0.2 for +20%.
        min_events: `n_effective` below which nothing is decided: 5, in a gate 10.

    Returns:
        The increase, or why there is none. Simulated audits find it as often as promised to .04
        where 15 examples or more carry the rate; with fewer they find it more often (.80 promised,
        .88 found with 10).

    Raises:
        DataError: A number out of range.

    >>> smallest = smallest_amplification(group_n=2_700, rate=0.011, members=10)
    >>> round(smallest.relative, 2), round(smallest.absolute, 4)
    (0.35, 0.0038)
    >>> print(smallest)  # doctest: +NORMALIZE_WHITESPACE
    2,700 examples and 10 + 10 members find an increase of 34.6%, from 1.1% to 1.48%,
    in 80% of audits
    >>> none = smallest_amplification(group_n=50, rate=0.01, members=30)
    >>> print(none)  # doctest: +NORMALIZE_WHITESPACE
    50 examples and 30 + 30 members: no increase is found in 80% of audits, since only
    5.6% have the 5 examples that must carry the rate
    """
    errors = Probit(
        difficulty_sd=difficulty_sd, run_sd=run_sd, correlation=correlation, inheritance=inheritance
    )
    design = Design(
        group_n=group_n, rate=rate, members=members, compressed_members=compressed_members,
        paired=paired, errors=errors, level=level, limit=limit, min_events=min_events,
    )  # fmt: skip
    if not (1 - level) / 2 < power < 1:
        raise DataError(
            f"power must be a fraction between {(1 - level) / 2:g} and 1, got {power}: "
            "write 0.8 for 80%"
        )
    effective_events = design.effective_events()[0]
    if (decidable := _decidable(design)) <= power:
        return _none(
            design, power, effective_events,
            f"no increase is found in {100 * power:.3g}% of audits, since only "
            f"{100 * decidable:.2g}% have the {min_events:g} examples that must carry the rate",
        )  # fmt: skip

    def missing(log_ratio: float) -> float:
        return promised_power(design, math.expm1(log_ratio)) - power

    low, highest, step = math.log1p(limit), math.log(HIGHEST_RATE / rate), 0.01
    while low < highest:
        high = min(low + step, highest)
        if missing(high) >= 0:
            from scipy.optimize import brentq  # costly to import, and only needed here

            relative = math.expm1(brentq(missing, low, high, xtol=1e-9))
            return Detectable(design, power, relative, relative * rate, effective_events)
        low, step = high, 1.5 * step
    return _none(
        design, power, effective_events,
        f"no increase is found in {100 * power:.3g}% of audits, not even up to a rate of "
        f"{100 * HIGHEST_RATE:g}%",
    )  # fmt: skip


def promised_power(design: Design, relative: float) -> float:
    """Share of audits of this design that find this increase: the count model's formula.

    With the parts of the variance as independent multiples of chi-square, the estimate normal
    around the truth, it is the mean of Phi[(log(1+d) - log(1+r) - t(df) s)/sigma] over the parts'
    quantiles, s and df as an audit computes them; times the chance that enough examples carry the
    dense rate.

    Populations of fewer than five members are judged as they are: their runs move the estimate and
    are no part of its interval.

    Args:
        design: The audit.
        relative: True relative increase d, a fraction above -1, compressed rate below 1.

    Returns:
        Fraction in [0, 1].

    Raises:
        DataError: A compressed rate outside (0, 1).

    >>> design = Design(group_n=2_700, rate=0.011, members=10)
    >>> round(promised_power(design, 0.5), 2)
    0.97
    """
    _check_relative(design, relative)
    examples, excess, n, parts = expected_parts(design, relative)
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    places = (nodes + 1) / 2
    sigma = math.sqrt(_total(examples, parts))
    distance = math.log1p(relative) - math.log1p(design.limit)
    if sigma == 0:  # pairs that err alike to the last example
        return float(distance > 0) * _decidable(design)
    freedom = 2 * n / float(excess) if excess > 0 else math.inf
    of_examples = examples * _chi_square(places, freedom)
    parts = [part for part in parts if part[2] >= FEWEST_RUNS]
    of_members = [part * _chi_square(places, size - 1) for part, _, size in parts]
    grids = np.meshgrid(of_examples, *of_members, indexing="ij", sparse=True)
    residual = sum(float(part) for _, part, _ in parts)
    members = sum(grids[1:], start=np.zeros(1))
    total = np.maximum(np.maximum(grids[0] + members - residual, grids[0]), members)
    spread = grids[0] ** 2 / freedom
    for grid, (_, _, size) in zip(grids[1:], parts, strict=True):
        spread = spread + grid**2 / (size - 1)
    with np.errstate(divide="ignore"):
        reach = stdtrit(total**2 / spread, (1 + design.level) / 2) * np.sqrt(total)
    power = ndtr((distance - reach) / sigma)
    for _ in grids:
        power = power @ (weights / 2)
    return float(power) * _decidable(design)


def _total(examples: Floats, parts: list[tuple[Floats, Floats, int]]) -> float:
    """The variance of the estimate over examples and runs, those of few members among them."""
    members, residual = (float(sum(part[place] for part in parts)) for place in (0, 1))
    return max(float(examples) + members - residual, float(examples), members)


def _decidable(design: Design) -> float:
    """Chance of at least `min_events` effective events in the dense population."""
    mean, spread = design.effective_events()
    # The effective events of one member are a whole number, many members' nearly continuous.
    least = design.min_events - 0.5 / design.members
    return float(ndtr((mean - least) / spread)) if spread > 0 else float(mean >= least)


def _chi_square(places: Floats, freedom: float) -> Floats:
    """Quantiles of chi-square divided by its degrees of freedom."""
    if math.isinf(freedom):
        return np.ones_like(places)
    return np.asarray(gammaincinv(freedom / 2, places) * 2 / freedom)


def _check_relative(design: Design, relative: float) -> None:
    if not 0 < (compressed := design.rate * (1 + relative)) < 1:
        raise DataError(
            f"relative must leave the compressed rate in (0, 1), got {relative:g}, a rate of "
            f"{compressed:g}: write 0.5 for +50%"
        )


def _none(design: Design, power: float, effective_events: float, reason: str) -> Detectable:
    return Detectable(design, power, math.nan, math.nan, effective_events, reason)


def _words(design: Design) -> str:
    k, k_c = design.sizes
    who = f"{k} pairs of members" if design.paired else f"{k} + {k_c} members"
    return f"{design.group_n:,} examples and {who}"
