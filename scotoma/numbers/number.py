"""One number of populations that were scored on the same examples, and what moves it.

Every estimate here is a smooth function of means over the same units: examples, or clusters of
examples that belong together. A number carries its value and its derivatives by these means;
arithmetic carries both along by the chain rule. Members that derive from others share their axis,
so that pairing is addition. Its interval is read off at the end, on the scale that is wanted: only
then the influences of units on members are summed up, a block of units at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.numbers.clusters import cluster_sums
from scotoma.numbers.crossed import Variance, combine, flip_floor, n_effective, of_variance
from scotoma.numbers.enough import FEW, FEW_EVENTS, FEWEST_RUNS
from scotoma.numbers.estimate import Estimate, undefined
from scotoma.numbers.influences import example_variance, member_variance
from scotoma.numbers.inputs import Codes, Flags, Floats, cluster_ids, floats
from scotoma.numbers.rates import Words, rate_estimate

DUST = 1e-14  # what rounding leaves of an event that always happens
BLOCK = 1 << 17  # influences that are held at once: as many as fit a core's cache
DENSE, COMPRESSED = "dense", "compressed"  # axes of members; paired ones share that of the dense


@dataclass(frozen=True, eq=False)
class Units:
    """The examples that numbers are about, and which of them are one unit.

    Attributes:
        rows: Number of examples N.
        clusters: Number of each example's cluster, shape (N,); None where every one is its own.
        times: How many examples that agree each row stands for, shape (N,), where there are no
            clusters; None for one each.
    """

    rows: int
    clusters: Codes | None = None
    times: Floats | None = None

    @classmethod
    def of(cls, rows: int, clusters: npt.ArrayLike | None = None) -> Units:
        """Number the clusters.

        >>> Units.of(3, ["a", "b", "a"]).clusters.tolist()
        [0, 1, 0]
        """
        return cls(rows, cluster_ids(clusters, rows))

    def mean(
        self,
        events: npt.ArrayLike,
        at_risk: npt.ArrayLike | None = None,
        *,
        axis: str = DENSE,
        flip: float | None = 1.0,
    ) -> Number:
        """Mean of events, or of scores, over members and the examples at risk.

        With e the sums of a cluster and r its examples at risk, its influence on a member's mean is
        (e - p r) / mean(r): that of a ratio whose denominator varies between clusters.

        Args:
            events: Shape (N,) or (N, K).
            at_risk: Who counts, or how much, shape (N,); None for all.
            axis: The members' axis; those on one axis derive from each other, one by one.
            flip: What one example moves that flips in every member; None where that says nothing.

        References:
            Cochran (1977), Sampling Techniques, 3rd edition, section 6.3, the ratio estimator.

        >>> Units.of(4).mean([[1, 0], [1, 1], [0, 0], [0, 1]], [1, 1, 1, 0]).value
        0.5
        """
        whole = isinstance(events, np.ndarray) and events.dtype.kind in "bui"  # and needs no copy
        e = np.asarray(events) if whole else floats(events, "events")
        e = e[:, None] if e.ndim == 1 else e
        if e.ndim != 2 or len(e) != self.rows or not e.shape[1]:
            raise DataError(
                f"events must be a table of {self.rows:,} examples by members, got shape "
                f"{e.shape}: pass at least one member as a column"
            )
        if e.dtype.kind == "f" and not (finite := np.isfinite(e).all(axis=1)).all():
            raise DataError(
                f"events must be finite numbers, got {e[finite.argmin()].tolist()} in row "
                f"{int(finite.argmin())}: leave out the examples that have no score"
            )
        weights = None if at_risk is None else floats(at_risk, "at_risk")
        mean = _Mean.of(e, weights, self.clusters, self.times)
        seen = (
            n_effective(mean.row_sums, self.times) if flip is not None and mean.whole else math.nan
        )
        return Number(
            mean.value, {axis: ((1.0, mean),)}, mean.below > 0, seen, flip, rows=mean.whole,
            times=self.times,
        )  # fmt: skip

    def partners(
        self, events: npt.ArrayLike, at_risk: npt.ArrayLike | None = None, *, axis: str
    ) -> Number:
        """What members of a second population move of a mean that counts their events already.

        A share of pairs of members is a mean over those of one population. What each of the other
        has part in adds to its variance, and nothing to its value nor to what an example moves.

        Args:
            events: As for `mean`, of the second population.
            at_risk: As for `mean`.
            axis: Its members' axis.

        >>> units = Units.of(3)
        >>> units.partners([[1, 0], [1, 1], [0, 0]], axis=COMPRESSED).value
        0.0
        """
        number = self.mean(events, at_risk, axis=axis, flip=None)
        ((_, mean),) = number.terms[axis]
        mean = replace(mean, row_sums=np.zeros(len(mean.row_sums)))
        return replace(number, value=0.0 if mean.whole else math.nan, terms={axis: ((1.0, mean),)})


@dataclass(frozen=True, eq=False)
class _Mean:
    """Events of units, and how much each unit counts.

    Attributes:
        events: Shape (units, K).
        weights: What a unit's events are multiplied by, shape (units,); None for 1.
        below: What a unit adds to the denominator, shape (units,).
        row_sums: Weighted events of each unit, shape (units,).
        column_sums: Weighted events of each member, shape (K,).
        times: As for `Units`.
    """

    events: npt.NDArray[Any]
    weights: Floats | None
    below: Floats
    row_sums: Floats
    column_sums: Floats
    times: Floats | None = None

    @classmethod
    def of(
        cls,
        events: npt.NDArray[Any],
        weights: Floats | None,
        clusters: Codes | None,
        times: Floats | None = None,
    ) -> _Mean:
        below = np.ones(len(events)) if weights is None else weights
        if clusters is not None:
            whole = events if weights is None else events * weights[:, None]
            events, weights = cluster_sums(whole, clusters), None
            below = cluster_sums(below, clusters)
        rows = np.asarray(events.sum(axis=1), np.float64)
        each = weights if times is None else below * times
        if each is None:
            columns = np.asarray(events.sum(axis=0), np.float64)
        else:
            columns = np.asarray(sum(each[b] @ events[b] for b in _blocks(events.shape)))
        return cls(
            events, weights, below, rows if weights is None else rows * weights, columns, times
        )

    @property
    def whole(self) -> float:
        return float(self.below.sum() if self.times is None else self.below @ self.times)

    @cached_property
    def value(self) -> float:
        whole = self.whole
        if not whole:
            return math.nan
        total = self.row_sums.sum() if self.times is None else self.row_sums @ self.times
        value = float(total / (whole * self.events.shape[1]))
        return 1.0 if abs(value - 1) < DUST else value


@dataclass(frozen=True, eq=False)
class Number:
    """A value, and how it depends on means over units and members.

    Attributes:
        value: nan where it is undefined.
        terms: Axis of members to the means that it is a function of, each with its derivative.
        at_risk: Units that enter, shape (units,).
        events: Effective events (`n_effective`); of two numbers the fewer.
        flip: Influence of a unit whose event flips in every member; None where flips are no
            measure, as of scores, and where two numbers that have it are joined.
        floor: Variance that flips which were not seen may still bring (`flip_floor`).
        rows: Examples at risk.
        times: As for `Units`.

    >>> units = Units.of(4)
    >>> was, now = units.mean([0, 0, 0, 1]), units.mean([0, 1, 0, 1])
    >>> now.since(was).value, round(now.since(was).estimate().high, 2)
    (0.25, 0.94)
    """

    value: float
    terms: Mapping[str, tuple[tuple[float, _Mean], ...]]
    at_risk: Flags
    events: float
    flip: float | None = None
    floor: float = 0.0
    rows: float = math.nan
    times: Floats | None = None

    def __add__(self, other: Number | float) -> Number:
        """Sum of numbers on the same units; their floors add up."""
        return self._joined(other, 1.0, 1.0, lambda a, b: a + b)

    def __sub__(self, other: Number | float) -> Number:
        """Difference."""
        return self._joined(other, 1.0, -1.0, lambda a, b: a - b)

    def __mul__(self, other: Number | float) -> Number:
        """Product."""
        by = other.value if isinstance(other, Number) else other
        return self._joined(other, by, self.value, lambda a, b: a * b)

    def __truediv__(self, other: Number | float) -> Number:
        """Quotient; nan where the divisor is 0."""
        by = other.value if isinstance(other, Number) else other
        if by == 0:
            return self._joined(other, math.nan, math.nan, lambda a, b: math.nan)
        return self._joined(other, 1 / by, -self.value / by**2, lambda a, b: a / b)

    def __rsub__(self, other: float) -> Number:
        """Difference from a constant."""
        return self._mapped(other - self.value, -1.0)

    def __rmul__(self, other: float) -> Number:
        """Product with a constant."""
        return self * other

    def log(self) -> Number:
        """Natural logarithm of a number above 0."""
        return self._mapped(math.log(self.value), 1 / self.value)

    def logit(self) -> Number:
        """Log-odds of a rate that is neither 0 nor 1."""
        p = self.value
        return self._mapped(math.log(p / (1 - p)), 1 / (p * (1 - p)))

    def since(self, before: Number) -> Number:
        """The change of one number from population to population, with the floor of its flips.

        >>> units = Units.of(96)
        >>> units.mean([0] * 96).since(units.mean([0] * 96)).floor
        0.0004
        """
        change = self - before
        if self.flip is None or before.flip is None:
            return change
        return change.floored(math.sqrt(abs(self.flip * before.flip)))

    def floored(self, unit: float) -> Number:
        """The number with the floor of flips that were not seen and move it by this much each."""
        if math.isnan(self.value):
            return self
        floor = float(flip_floor(*self._of_examples, self.n, unit))
        return replace(self, floor=self.floor + floor)

    @property
    def changed(self) -> float:
        """Effective number of units that move it otherwise than most do.

        >>> units = Units.of(4)
        >>> units.mean([0, 1, 0, 1]).since(units.mean([0, 0, 0, 1])).changed
        1.0
        """
        # Units that do not change have the one influence that is the mean's negative.
        psi = self._psi
        if self.times is not None:
            psi = np.repeat(psi, self.times[self.at_risk].astype(np.intp))
        moved = np.abs(psi - np.median(psi))
        # What lies this close to the median did not move, but was rounded.
        return n_effective(np.where(moved > 1e-12, moved, 0.0))

    @property
    def n(self) -> int:
        """Units that enter."""
        return int(self.at_risk.sum() if self.times is None else self.at_risk @ self.times)

    @property
    def members(self) -> int:
        """Members of the smallest population."""
        return min(len(terms[0][1].column_sums) for terms in self.terms.values())

    @cached_property
    def variance(self) -> Variance:
        """Its variance over units and members, crossed, with its floor."""
        members = [self._of_members(terms) for terms in self.terms.values()]
        seen = combine(*self._of_examples, self.n, members)
        return seen.floored(self.floor) if self.floor else seen

    def rate(
        self, words: Words | str, *, members: int | None = None, level: float = 0.95, note: str = ""
    ) -> Estimate:
        """A rate with its interval on the logit scale, within 3/n of 0 or 1 where nobody differs.

        Args:
            words: Why there is no value, where there is none.
            members: Size of the smaller population, where the columns are not its members.
            level: Coverage of the interval, a fraction in (0, 1).
            note: What to say beside it; few events are always said.

        >>> words = Words("error", "examples", "group 'men'")
        >>> Units.of(150).mean([0] * 150).rate(words).high
        0.02
        """
        return rate_estimate(
            self.value, self.variance if self.n else None, words, n=self.n,
            members=self.members if members is None else members, events=self.events, level=level,
            note=note,
        )  # fmt: skip

    def estimate(
        self,
        scale: Literal["identity", "logit", "log", "ratio"] = "identity",
        *,
        reason: str = "undefined (no examples)",
        members: int | None = None,
        level: float = 0.95,
        note: str = "",
    ) -> Estimate:
        """The number with its interval, symmetric on a scale.

        Args:
            scale: `log` for ratio - 1 of a ratio, whose interval is that of its logarithm.
            reason: Why there is no value, where there is none.
            members: As for `rate`.
            level: Coverage of the interval, a fraction in (0, 1).
            note: What to say beside it; few events are always said.
        """
        size = self.members if members is None else members
        note = "; ".join(filter(None, [note, FEW_EVENTS if self.events < FEW else ""]))
        if math.isnan(self.value):
            return undefined(
                reason, n=self.n, members=size, events=self.events, level=level,
                note=note if self.n else "",
            )  # fmt: skip
        slopes = {"logit": Number.logit, "log": Number.log, "ratio": Number.log}
        own = slopes[scale](self) if scale in slopes else self
        return of_variance(
            self.value - 1 if scale == "log" else self.value, own.variance, n=self.n,
            members=size, events=self.events, level=level, scale=scale, note=note,
        )  # fmt: skip

    @cached_property
    def _psi(self) -> Floats:
        """Influences of the units that enter, means over members."""
        psi = np.zeros(len(self.at_risk))
        for slope, mean in (term for terms in self.terms.values() for term in terms):
            if mean.whole:
                shares = mean.row_sums / mean.events.shape[1] - mean.value * mean.below
                psi += slope * self.n / mean.whole * shares
        return np.asarray(psi[self.at_risk])

    @property
    def _of_examples(self) -> tuple[Floats, Floats]:
        times = None if self.times is None else self.times[self.at_risk]
        return example_variance(self._psi, self.n, times)

    def _of_members(self, terms: Sequence[tuple[float, _Mean]]) -> tuple[Floats, Floats, int]:
        """V_mod, V_res and K of one population.

        What a unit adds to the denominator is the same for every member, and drops out.
        """
        n, k = self.n, terms[0][1].events.shape[1]
        if k < FEWEST_RUNS or n < 2:  # is taken as it is
            return np.zeros(()), np.zeros(()), k
        terms = [(slope / mean.whole, mean) for slope, mean in terms if mean.whole]
        nothing = np.zeros(k)
        moves = sum((s * (m.column_sums - m.column_sums.mean()) for s, m in terms), nothing)
        sse = 0.0
        for block in _blocks((len(self.at_risk), k)):
            kept = self.at_risk[block]
            whole = bool(kept.all())
            influence = np.zeros((int(kept.sum()), k))
            for slope, mean in terms:
                events, weights = mean.events[block], mean.weights
                own = slope if weights is None else slope * weights[block, None]
                added = own * events
                influence += added if whole else added[kept]
            influence *= n
            influence -= influence.mean(axis=1, keepdims=True)
            influence -= moves
            if self.times is None:
                sse += float(np.vdot(influence, influence))
            else:
                sse += float(np.square(influence).sum(axis=1) @ self.times[block][kept])
        return member_variance(moves), np.asarray(sse / ((n - 1) * (k - 1) * n * k)), k

    def _mapped(self, value: float, slope: float) -> Number:
        return replace(
            self, value=value, terms={axis: _times(slope, own) for axis, own in self.terms.items()},
            flip=None if self.flip is None else slope * self.flip, floor=slope**2 * self.floor,
        )  # fmt: skip

    def _joined(
        self, other: Number | float, a: float, b: float, of: Callable[[float, float], float]
    ) -> Number:
        """A function of two numbers with these derivatives."""
        if not isinstance(other, Number):
            return self._mapped(of(self.value, other), a)
        if len(self.at_risk) != len(other.at_risk):
            raise DataError(
                f"numbers must be about the same units, got {len(self.at_risk):,} and "
                f"{len(other.at_risk):,}: score both on one test set"
            )
        terms = {axis: _times(a, own) for axis, own in self.terms.items()}
        for axis, own in other.terms.items():
            size = own[0][1].events.shape[1]
            if axis in terms and (partners := terms[axis][0][1].events.shape[1]) != size:
                raise DataError(
                    f"paired populations need as many compressed as dense members, got {size} and "
                    f"{partners}: drop the members without a partner, or pass paired=False"
                )
            terms[axis] = (*terms.get(axis, ()), *_times(b, own))
        flips = [s * one.flip for s, one in ((a, self), (b, other)) if one.flip is not None]
        return Number(
            of(self.value, other.value),
            terms,
            self.at_risk | other.at_risk,
            float(np.fmin(self.events, other.events)),
            flips[0] if len(flips) == 1 else None,
            a**2 * self.floor + b**2 * other.floor,
            self.rows,
            self.times,
        )


def _blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Rows of a table of units by members, a block after another."""
    step = max(1, BLOCK // shape[1])
    return (slice(start, start + step) for start in range(0, shape[0], step))


def _times(slope: float, terms: Sequence[tuple[float, _Mean]]) -> tuple[tuple[float, _Mean], ...]:
    return tuple((slope * own, mean) for own, mean in terms)
