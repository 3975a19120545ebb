"""One number of populations that were scored on the same examples, and what moves it.

Every estimate here is a smooth function of means over the same units: examples, or clusters of
examples that belong together. A number carries its value and the influence of every unit on every
member; arithmetic carries both along by the chain rule. Members that derive from others share their
axis, so that pairing is addition. Its interval is read off at the end, on the scale that is wanted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.inputs import Codes, Flags, Floats, cluster_ids, floats
from scotoma.numbers.clusters import cluster_sums
from scotoma.numbers.crossed import Variance, combine, flip_floor, n_effective, of_variance
from scotoma.numbers.estimate import Estimate, undefined
from scotoma.numbers.influences import Influences
from scotoma.numbers.rates import FEW, FEW_EVENTS, Words, rate_estimate

__all__ = ["COMPRESSED", "DENSE", "Number", "Units"]

DUST = 1e-14  # what rounding leaves of an event that always happens
DENSE, COMPRESSED = "dense", "compressed"  # axes of members; paired ones share that of the dense


@dataclass(frozen=True, eq=False)
class Units:
    """The examples that numbers are about, and which of them are one unit.

    Attributes:
        rows: Number of examples N.
        clusters: Number of each example's cluster, shape (N,); None where every one is its own.
    """

    rows: int
    clusters: Codes | None = None

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
        e = floats(events, "events")
        e = e[:, None] if e.ndim == 1 else e
        if e.ndim != 2 or len(e) != self.rows or not e.shape[1]:
            raise DataError(
                f"events must be a table of {self.rows:,} examples by members, got shape "
                f"{e.shape}: pass at least one member as a column"
            )
        if not (finite := np.isfinite(e).all(axis=1)).all():
            raise DataError(
                f"events must be finite numbers, got {e[finite.argmin()].tolist()} in row "
                f"{int(finite.argmin())}: leave out the examples that have no score"
            )
        if at_risk is None:
            below = np.ones(self.rows)
        else:
            below = floats(at_risk, "at_risk")
            e = e * below[:, None]
        above, below = cluster_sums(e, self.clusters), cluster_sums(below, self.clusters)
        whole, members = float(below.sum()), e.shape[1]
        value = float(above.sum() / (whole * members)) if whole else math.nan
        if abs(value - 1) < DUST:
            value = 1.0
        moves = (above - value * below[:, None]) / whole if whole else np.zeros(above.shape)
        events_seen = n_effective(above.sum(axis=1)) if flip is not None and whole else math.nan
        return Number(value, {axis: moves}, below > 0, events_seen, flip, rows=whole)


@dataclass(frozen=True, eq=False)
class Number:
    """A value, and the influence of every unit on it.

    Attributes:
        value: nan where it is undefined.
        moves: Axis of members to what each unit adds to each member's value, shape (units, K).
        at_risk: Units that enter, shape (units,).
        events: Effective events (`n_effective`); of two numbers the fewer.
        flip: Influence of a unit whose event flips in every member; None where flips are no
            measure, as of scores, and where two numbers that have it are joined.
        floor: Variance that flips which were not seen may still bring (`flip_floor`).
        rows: Examples at risk.

    >>> units = Units.of(4)
    >>> was, now = units.mean([0, 0, 0, 1]), units.mean([0, 1, 0, 1])
    >>> now.since(was).value, round(now.since(was).estimate().high, 2)
    (0.25, 0.94)
    """

    value: float
    moves: Mapping[str, Floats]
    at_risk: Flags
    events: float
    flip: float | None = None
    floor: float = 0.0
    rows: float = math.nan

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
        psi, parts = self._crossed()
        floor = float(flip_floor(*parts[0].of_examples(psi), self.n, unit))
        return replace(self, floor=self.floor + floor)

    @property
    def changed(self) -> float:
        """Effective number of units that move it otherwise than most do.

        >>> units = Units.of(4)
        >>> units.mean([0, 1, 0, 1]).since(units.mean([0, 0, 0, 1])).changed
        1.0
        """
        psi = self._crossed()[0]
        # Units that do not change have the one influence that is the mean's negative.
        moved = np.abs(psi - np.median(psi))
        return n_effective(np.where(moved > 1e-12, moved, 0.0))

    @property
    def n(self) -> int:
        """Units that enter."""
        return int(self.at_risk.sum())

    @property
    def members(self) -> int:
        """Members of the smallest population."""
        return int(min(own.shape[1] for own in self.moves.values()))

    @property
    def variance(self) -> Variance:
        """Its variance over units and members, crossed, with its floor."""
        psi, parts = self._crossed()
        members = [one.of_members for one in parts]
        seen = combine(*parts[0].of_examples(psi), self.n, members)
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
            scale: `log` for 100 (ratio - 1) of a ratio, whose interval is that of its logarithm.
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
            100 * (self.value - 1) if scale == "log" else self.value, own.variance, n=self.n,
            members=size, events=self.events, level=level, scale=scale, note=note,
        )  # fmt: skip

    def _crossed(self) -> tuple[Floats, list[Influences]]:
        """Mean influences over members of the units that enter, and those of each population."""
        n, kept = self.n, self.at_risk
        parts = [Influences.of(n * own[kept]) for own in self.moves.values()]
        return np.sum([one.means for one in parts], axis=0), parts

    def _mapped(self, value: float, slope: float) -> Number:
        return replace(
            self, value=value, moves={axis: slope * own for axis, own in self.moves.items()},
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
        moves = {axis: a * own for axis, own in self.moves.items()}
        for axis, own in other.moves.items():
            if axis in moves and moves[axis].shape != own.shape:
                raise DataError(
                    f"paired populations need as many compressed as dense members, got "
                    f"{own.shape[1]} and {moves[axis].shape[1]}: drop the members without a "
                    "partner, or pass paired=False"
                )
            moves[axis] = moves[axis] + b * own if axis in moves else b * own
        flips = [s * one.flip for s, one in ((a, self), (b, other)) if one.flip is not None]
        return Number(
            of(self.value, other.value),
            moves,
            self.at_risk | other.at_risk,
            float(np.fmin(self.events, other.events)),
            flips[0] if len(flips) == 1 else None,
            a**2 * self.floor + b**2 * other.floor,
            self.rows,
        )
