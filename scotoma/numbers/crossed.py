"""The variance of an estimate over examples and training runs, crossed.

`numbers.enough` says what its floor is for, and what events are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scotoma.numbers.enough import DOUBTED, ENOUGH_CHANGED, FEWEST_RUNS
from scotoma.numbers.estimate import (
    Estimate,
    few_runs,
    json_safe,
    undefined,
)
from scotoma.numbers.inputs import Floats, floats


@dataclass(frozen=True)
class Variance:
    """A variance, its parts and its degrees of freedom; floats, or arrays of one shape.

    Attributes:
        total: max(examples + members - residual, examples, members) + floor.
        examples: What another test set would change.
        members: What other training runs would change; 0 below `FEWEST_RUNS` members.
        residual: Chance of one member on one example, counted in both of the above.
        df: Satterthwaite's degrees of freedom of `total`; inf where nothing varies.
        floor: What examples that did not change here may still change (`flip_floor`); 0 for a
            number that is no change.

    >>> Variance(4.0, 3.0, 2.0, 1.0, 9.0).scaled(10.0).total
    400.0
    """

    total: Any
    examples: Any
    members: Any
    residual: Any
    df: Any
    floor: Any = 0.0

    def at(self, index: tuple[int, ...]) -> Variance:
        """The variance at one place of the arrays, as floats."""
        return Variance(**{name: float(np.asarray(part)[index]) for name, part in self._parts()})

    def scaled(self, gradient: float) -> Variance:
        """The variance on a scale with this gradient; the degrees of freedom stay."""
        parts = {name: part * gradient**2 for name, part in self._parts() if name != "df"}
        return Variance(**parts, df=self.df)

    def floored(self, floor: npt.ArrayLike) -> Variance:
        """The variance with this floor instead of its own, and the degrees of freedom of both.

        >>> round(float(Variance(4.0, 3.0, 2.0, 1.0, 9.0).floored(1.0).df), 2)
        14.06
        """
        before, added = np.asarray(self.total), np.asarray(floor)
        total = before - self.floor + added
        with np.errstate(divide="ignore", invalid="ignore"):
            df = np.where(before > 0, self.df * (total / before) ** 2, np.inf)
        df = np.where(np.isnan(total), np.nan, df)
        new = Variance(total, self.examples, self.members, self.residual, df, added)
        return new if total.ndim else new.at(())

    def as_dict(self) -> dict[str, float | int | str | None]:
        """Every part of a variance of floats, safe in JSON: nan is None, infinity its name.

        >>> Variance(0.0, 0.0, 0.0, 0.0, math.inf).as_dict()["df"]
        'inf'
        """
        return {name: json_safe(float(part)) for name, part in self._parts()}

    def _parts(self) -> list[tuple[str, Any]]:
        return [(field.name, getattr(self, field.name)) for field in fields(self)]


def flip_floor(
    examples: npt.ArrayLike, excess: npt.ArrayLike, n: npt.ArrayLike, unit: npt.ArrayLike = 1.0
) -> Floats:
    """Variance of a change that examples which did not change here may still bring.

    A change is carried by the examples whose prediction flips. Where none flips, its variance over
    examples is 0 on paper and a change is known exactly, which it is not. As Agresti and Coull add
    four examples to a proportion, four flips are added here: 4 m2/(n + 4)^2, where m2 is the mean
    squared influence of a changed example. It is taken over those that changed, S = sum psi^2 of
    n' = S^2/sum psi^4 effective ones, and w = 2 (1 - n'/10) that flip in every member, 0 from
    n' = 10: (S + w unit^2)/(n' + w).

    Args:
        examples: V_ex, the variance of the change over examples, shape (...).
        excess: Kurtosis of the examples' influences minus 1; 0 where they do not vary.
        n: Examples (or clusters) at risk.
        unit: Influence of an example that flips in every member.

    Returns:
        Shape (...); 0 where n is 0.

    References:
        Agresti and Coull (1998), The American Statistician 52:119-126.

    >>> float(flip_floor(0.0, 0.0, 96))  # nothing flipped among 96 examples
    0.0004
    """
    v, kurtosis = np.asarray(examples, np.float64), np.asarray(excess, np.float64) + 1
    number = np.asarray(n, np.float64)
    squares = np.where(v > 0, v * number * (number - 1), 0.0)
    # One flip in one of 255 members is more; less is what rounding leaves of influences that agree.
    changed = np.where(squares > 1e-9 * np.square(unit), number / kurtosis, 0.0)
    doubted = DOUBTED * np.maximum(1 - changed / ENOUGH_CHANGED, 0.0)
    m2 = (squares + doubted * np.square(unit)) / (changed + doubted)
    # Four flips more among four examples more, or no flips would mean no variance.
    return np.asarray(4 * m2 / (number + 4) ** 2)


def combine(
    examples: Floats,
    excess: Floats,
    n: npt.ArrayLike,
    parts: list[tuple[Floats, Floats, int]],
    unit: npt.ArrayLike | None = None,
) -> Variance:
    """Put the parts together: V and its degrees of freedom.

    With psi the influences of n examples, means over members, K and K' members, a the means over
    members and p_m the means over examples of one population, in a difference of two:

        V_ex  = var(psi)/n
        V_mod = var_m(p_m)/K + var_m(p'_m)/K'     paired: var_m(p'_m - p_m)/K
        V_res = SSE/((n-1)(K-1) n K), summed      SSE = sum (e_xm - a_x - p_m + p)^2
        V     = max(V_ex + V_mod - V_res, V_ex, V_mod) + floor
        df    = V^2 / (V_ex^2/f + sum V_pop^2/(K-1)),  f = 2n/(kurtosis(psi) - 1)

    A population of fewer than `FEWEST_RUNS` members is taken as it is: it adds to neither V_mod nor
    V_res. The floor (`flip_floor`) is that of a change; a single mean has none.

    Args:
        examples: V_ex.
        excess: Kurtosis of psi minus 1; 0 where psi does not vary.
        n: Number of examples.
        parts: Per independent population V_mod, V_res and its number of members.
        unit: For the floor of a change (`flip_floor`); None for none.

    References:
        Cornfield and Tukey (1956), Annals of Mathematical Statistics 27:907-949, crossed random
        factors; Satterthwaite (1946), Biometrics Bulletin 2:110-114.

    >>> parts = [(np.float64(2.0), np.float64(1.0), 5)]
    >>> combine(np.float64(4.0), np.float64(2.0), 50, parts).total
    5.0
    """
    runs = [part for part in parts if part[2] >= FEWEST_RUNS]
    members = sum((part[0] for part in runs), start=np.zeros_like(examples))
    residual = sum((part[1] for part in runs), start=np.zeros_like(examples))
    floor = np.zeros_like(examples) if unit is None else flip_floor(examples, excess, n, unit)
    total = np.maximum(np.maximum(examples + members - residual, examples), members) + floor
    spread = examples**2 * excess / (2 * np.asarray(n, float))
    for own, _, k in runs:
        spread = spread + own**2 / (k - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        df = np.where(spread > 0, total**2 / spread, np.where(np.isnan(total), np.nan, np.inf))
    # Where the whole is undefined, infinity is what a division by no example left of a part.
    examples, members, residual, floor = (
        np.where(np.isnan(total) & np.isinf(part), np.nan, part)
        for part in (examples, members, residual, floor)
    )
    fields = (total, examples, members, residual, df, floor)
    if np.ndim(total) == 0:
        return Variance(*(float(value) for value in fields))
    return Variance(*fields)


def satterthwaite(parts: Iterable[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Sum up variances of independent parts, and find the degrees of freedom of the sum.

    Args:
        parts: Variance and degrees of freedom of each, possibly inf; numbers or arrays.

    Returns:
        The whole variance, and its degrees of freedom; inf where nothing varies.

    References:
        Satterthwaite (1946), Biometrics Bulletin 2:110-114.

    >>> satterthwaite([(1.0, 4.0), (1.0, 4.0)])
    (2.0, 8.0)
    """
    known = list(parts)
    total = sum(variance for variance, _ in known)
    spread = sum(variance**2 / df for variance, df in known)
    if np.ndim(spread) == 0:
        return total, total**2 / spread if spread > 0 else math.inf
    with np.errstate(divide="ignore"):
        return total, np.divide(total**2, spread)


def n_effective(s: npt.ArrayLike, times: npt.ArrayLike | None = None) -> float:
    """Effective events of a rate: (sum s)^2 / sum s^2.

    Args:
        s: Members with the event on each example, shape (n,), at least 0.
        times: How many examples each entry stands for, shape (n,); None for one each.

    Returns:
        Between 1 and the number of examples with an event; 0 without events.

    >>> n_effective([0, 0, 5, 5, 5, 1])
    3.36...
    >>> n_effective([0, 5, 1], times=[2, 3, 1])
    3.36...
    """
    counts = floats(s, "s")
    carried = counts if times is None else counts * np.asarray(times, float)
    total = float(carried.sum())
    return total**2 / float(np.dot(carried, counts)) if total else 0.0


def of_variance(
    value: float,
    variance: Variance,
    *,
    n: int,
    members: int,
    events: float = math.nan,
    level: float = 0.95,
    scale: Literal["identity", "logit", "log", "ratio"] = "identity",
    note: str = "",
) -> Estimate:
    """The estimate value -+ t(df) sqrt(V) on `scale`, or why there is no interval.

    Args:
        value: The number as it is shown.
        variance: Its variance on `scale`, floats.
        n: Examples at risk.
        members: Size of the smaller population.
        events: Effective events (`n_effective`).
        level: Coverage, a fraction in (0, 1).
        scale: The scale on which the interval is symmetric.
        note: What to say beside the number; populations of few members add theirs.

    >>> of_variance(0.1, Variance(0.0, 0.0, 0.0, 0.0, float("inf")), n=50, members=5).reason
    'interval not estimable (nothing varies over 50 examples)'
    """
    note = "; ".join(filter(None, [note, few_runs(members)]))
    shown = Estimate.on_scale(
        value, math.sqrt(variance.total) if variance.total >= 0 else math.nan, variance.df,
        n=n, members=members, events=events, level=level, scale=scale, note=note,
    )  # fmt: skip
    if shown.se > 0:
        return shown
    return undefined(
        no_interval(n), value=value, n=n, members=members, events=events, level=level, note=note
    )


def no_interval(n: int) -> str:
    """Say why a number of n examples that do not vary has no interval.

    >>> no_interval(1)
    'interval not estimable (one example)'
    """
    if n == 0:
        return "undefined (no examples)"
    if n == 1:
        return "interval not estimable (one example)"
    return f"interval not estimable (nothing varies over {n:,} examples)"
