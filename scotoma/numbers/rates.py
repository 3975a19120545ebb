"""Rates and their change between two populations, and when they cannot be estimated.

`numbers.enough` says what is a floor, what are events, and how many are too few.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scotoma.numbers.crossed import Variance, no_interval, of_variance
from scotoma.numbers.enough import FEW, FEW_EVENTS, FEWEST
from scotoma.numbers.estimate import Estimate, check_level, few_runs, none_seen, undefined
from scotoma.numbers.inputs import Floats, Ints
from scotoma.numbers.tally import Tally

UNKNOWN_VARIANCE = Variance(math.nan, math.nan, math.nan, math.nan, math.nan)
LINKS: dict[str, tuple[Callable[[Floats], Any], Callable[[Floats], Any]]] = {
    "identity": (lambda value: value, lambda value: value),
    "logit": (lambda p: np.log(p) - np.log1p(-p), lambda x: 0.5 * (1 + np.tanh(0.5 * x))),
    "log": (np.log1p, np.expm1),
}  # to the scale on which an interval is symmetric, and back


@dataclass(frozen=True)
class Words:
    """Words for the reason why a rate cannot be estimated.

    Attributes:
        event: What is counted, singular: "false positive".
        at_risk: The examples it is counted among, after a number: "negatives".
        where: The population, after "in": "group 'men'".
    """

    event: str
    at_risk: str
    where: str

    @property
    def nobody(self) -> str:
        """Why a rate is undefined that nobody is at risk of."""
        return f"undefined (no {self.at_risk} in {self.where})"


@dataclass(frozen=True)
class RateColumns:
    """Estimates of one number at many places.

    Attributes:
        fields: Each field of an estimate but `level`, shape (n,).
        variance: Their variances, shape (n,) each.
        level: Coverage of the intervals, a fraction in (0, 1).
    """

    fields: dict[str, npt.NDArray[Any]]
    variance: Variance
    level: float

    def estimates(self) -> list[Estimate]:
        """The same, one by one."""
        rows = zip(*(column.tolist() for column in self.fields.values()), strict=True)
        return [
            Estimate(**dict(zip(self.fields, row, strict=True)), level=self.level) for row in rows
        ]

    def variances(self) -> list[Variance]:
        """Their variances, one by one."""
        parts = [getattr(self.variance, field.name).tolist() for field in fields(Variance)]
        return [Variance(*row) for row in zip(*parts, strict=True)]


@dataclass(frozen=True)
class RateEvidence:
    """Evidence on one rate of one population; arrays of one shape.

    Attributes:
        rows: Examples at risk.
        n: The same in clusters, where every row is its own without any.
        members: Members of the population.
        value: The mean rate; nan without examples.
        effective_events: Those of the rate (`n_effective`).
        variance: Its variance.
    """

    rows: Ints
    n: Ints
    members: int
    value: Floats
    effective_events: Floats
    variance: Variance

    @classmethod
    def of_tally(cls, moments: Tally) -> RateEvidence:
        """The evidence on the dense members in additive moments.

        >>> float(RateEvidence.of_tally(Tally.of([[1, 0], [1, 1]])).value)
        0.75
        """
        return cls(
            rows=moments.rows,
            n=moments.n,
            members=moments.dense.shape[-1],
            value=moments.rates()[0],
            effective_events=moments.effective_events()[0],
            variance=moments.variance(1.0, None),
        )

    def columns(self, words: Callable[[int], Words], *, level: float = 0.95) -> RateColumns:
        """The rates, their intervals on the logit scale, place by place.

        Args:
            words: For the reason of a missing value, by the number of the place.
            level: Coverage, a fraction in (0, 1).

        Returns:
            Undefined without examples at risk, within 3/n of 0 or 1 where no example or every
            example has the event.

        >>> alone = RateEvidence.of_tally(Tally.of([[0, 0]] * 150))
        >>> (rate,) = alone.columns(lambda place: Words("error", "examples", "all")).estimates()
        >>> rate.high
        0.02
        """
        own = self.value, self.variance, self.members, self.effective_events
        return _columns(self, *own, "logit", words, level)


@dataclass(frozen=True)
class ChangeEvidence:
    """Evidence on one rate in two populations; arrays of one shape.

    Attributes:
        dense: The rate of the dense members.
        compressed: The rate of the compressed members.
        difference: Variance of the compressed rate minus the dense rate.
        log_ratio: Variance of log(compressed rate / dense rate); nan where either is 0.
    """

    dense: RateEvidence
    compressed: RateEvidence
    difference: Variance
    log_ratio: Variance

    @classmethod
    def of_tally(cls, moments: Tally) -> ChangeEvidence:
        """The evidence in additive moments.

        >>> float(ChangeEvidence.of_tally(Tally.of([[1, 0], [1, 1]], [[1], [0]])).dense.value)
        0.75
        """
        dense, compressed = moments.rates()
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ratio = moments.variance(1 / dense, 1 / compressed)
        return cls(
            dense=RateEvidence.of_tally(moments),
            compressed=RateEvidence.of_tally(moments.compressed_only()),
            difference=moments.variance(),
            log_ratio=log_ratio,
        )

    def columns(
        self, words: Callable[[int], Words], *, level: float = 0.95
    ) -> dict[str, RateColumns]:
        """Both rates and their change, place by place.

        Args:
            words: For the reason of a missing value, by the number of the place.
            level: Coverage, a fraction in (0, 1).

        Returns:
            `dense` and `compressed`, as `RateEvidence.columns` gives them; `relative`, which is
            compressed / dense - 1 with its interval on the log scale, nan without
            an event in one population, or fewer than 5 effective events; and `absolute`, compressed
            minus dense, whose interval is that of the variance floor (`flip_floor`) where no
            example differs. All are undefined without examples at risk.

        >>> evidence = ChangeEvidence.of_tally(Tally.of([[1]] + [[0]] * 169, [[0]] * 170))
        >>> columns = evidence.columns(lambda place: Words("error", "examples", "group 'men'"))
        >>> columns["relative"].estimates()[0].reason
        'relative change not estimable (no error among 170 examples)'
        """
        before, after = self.dense, self.compressed
        known = (
            min(before.members, after.members),
            np.minimum(before.effective_events, after.effective_events),
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (after.value - before.value) / before.value
        change = after.value - before.value
        return {
            "dense": before.columns(words, level=level),
            "compressed": after.columns(words, level=level),
            "relative": _columns(before, ratio, self.log_ratio, *known, "log", words, level),
            "absolute": _columns(before, change, self.difference, *known, "identity", words, level),
        }


def _columns(
    at: RateEvidence,
    value: Floats,
    variance: Variance,
    members: int,
    events: Floats,
    scale: Literal["identity", "logit", "log"],
    words: Callable[[int], Words],
    level: float,
) -> RateColumns:
    """Estimates among the same examples, of a rate or of a change."""
    from scipy.special import stdtrit  # costly to import; who only reads numbers needs it not

    check_level(level)
    value, events, n = np.ravel(value), np.ravel(events), np.ravel(at.n)
    parts = {
        field.name: np.broadcast_to(np.ravel(getattr(variance, field.name)), value.shape)
        for field in fields(Variance)
    }
    nobody, few = n == 0, events < FEW
    undefined = nobody | ((events < FEWEST) if scale == "log" else False)
    value = np.where(undefined, np.nan, value)
    unseen = ~undefined & ((parts["total"] == 0) | (value == 0) | (value == 1))
    unseen &= scale == "logit"
    slope, (link, inverse) = np.ones(value.shape), LINKS[scale]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if scale == "logit":
            slope = 1 / (value * (1 - value))
        se = np.sqrt(parts["total"] * slope**2)
        seen = ~undefined & ~unseen & (se > 0)
        se = np.where(seen, se, np.nan)
        half, centre = stdtrit(parts["df"], (1 + level) / 2) * se, link(value)
        low, high = inverse(centre - half), inverse(centre + half)
    # Rule of three, as for a single number.
    reach = 3.0 * math.log1p(-level) / math.log1p(-0.95) / np.maximum(n, 1)
    reasons = np.full(value.shape, "", dtype=object)
    rows = np.ravel(at.rows)
    for place in np.flatnonzero(~seen & ~unseen).tolist():
        if nobody[place]:
            reasons[place] = words(place).nobody
        elif undefined[place]:
            reasons[place] = relative_reason(float(events[place]), int(rows[place]), words(place))
        else:
            reasons[place] = no_interval(int(n[place]))
    runs = few_runs(members)
    noted = np.where(few, "; ".join(filter(None, [FEW_EVENTS, runs])), runs)
    return RateColumns(
        {
            "value": value,
            "low": np.where(unseen, np.maximum(0.0, value - reach), low),
            "high": np.where(unseen, np.minimum(1.0, value + reach), high),
            "n": n,
            "members": np.full(n.shape, members),
            "events": events,
            "df": np.where(seen, parts["df"], np.nan),
            "reason": reasons,
            "note": np.where(nobody, "", noted),
            "se": se,
            "scale": np.where(unseen, "rule of three", np.where(seen, scale, "identity")),
        },
        Variance(**parts),
        level,
    )


def relative_reason(events: float, rows: int, words: Words) -> str:
    """Say why a rate of fewer than 5 effective events has no ratio.

    >>> relative_reason(4.2, 900, Words("error", "examples", "group 'men'"))
    'relative change not estimable (4 effective events, 5 are needed)'
    """
    cause = f"no {words.event} among {rows:,} {words.at_risk}"
    if events:
        whole = int(events)
        cause = f"{whole} effective event{'s' if whole > 1 else ''}, {FEWEST} are needed"
    return f"relative change not estimable ({cause})"


def rate_estimate(
    value: float,
    variance: Variance | None,
    words: Words | str,
    *,
    n: int,
    members: int,
    events: float,
    level: float,
    note: str = "",
) -> Estimate:
    """One rate with its interval on the logit scale; `RateEvidence.columns` says what it gives."""
    known: dict[str, Any] = {"n": n, "members": members, "events": events, "level": level}
    note = "; ".join(filter(None, [note, FEW_EVENTS if events < FEW else ""]))
    whole = "; ".join(filter(None, [note, few_runs(members)]))
    if n == 0 or variance is None:
        reason = words if isinstance(words, str) else words.nobody
        return undefined(reason, note=whole if n else "", **known)
    if variance.total == 0 or value in (0.0, 1.0):
        return none_seen(value, lowest=0.0, highest=1.0, note=whole, **known)
    variance = variance.scaled(1 / (value * (1 - value)))
    return of_variance(value, variance, scale="logit", note=note, **known)
