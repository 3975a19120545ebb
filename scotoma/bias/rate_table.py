"""The rates of all groups and classes as columns: what their intervals are computed from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from scotoma.bias.counting import RateMetric
from scotoma.bias.results import GroupChange
from scotoma.bias.subgroup import change_at
from scotoma.numbers import ChangeEvidence, RateEvidence, Variance
from scotoma.numbers.rates import FEWEST

__all__ = ["COLUMNS", "rate_columns", "read_changes"]

Columns = dict[str, npt.NDArray[Any]]
PARTS = tuple(field.name for field in fields(Variance))
SIDES = ("dense", "compressed")
CHANGES = ("absolute", "relative")
COUNTS = ("examples", "n", "dense_members", "compressed_members")
INTERVALS = (
    *("absolute", "absolute_low", "absolute_high"),
    *("relative", "relative_low", "relative_high"),
)
# Every column of numbers, in order; counts are integers, all others fractions, nan if undefined.
COLUMNS = (
    *COUNTS,
    *SIDES,
    *INTERVALS,
    *(f"{side}_events" for side in SIDES),
    *(f"{what}_variance_{part}" for what in SIDES + CHANGES for part in PARTS),
)


def rate_columns(known: ChangeEvidence, *, level: float = 0.95) -> Columns:
    """Lay out the evidence on every rate of every group, one entry a rate.

    Args:
        known: Evidence of shape (G, E).
        level: Coverage of the intervals of the changes, a fraction in (0, 1).

    Returns:
        The columns of `COLUMNS`, shape (G E,), group by group. Rates and `absolute` are fractions,
        `relative` is in per cent and nan below 5 effective events, as in `GroupChange`.
    """
    from scipy.special import stdtrit

    sides = dict(zip(SIDES, (known.dense, known.compressed), strict=True))
    variances = {
        "dense": known.dense.variance,
        "compressed": known.compressed.variance,
        "absolute": known.difference,
        "relative": known.log_ratio,
    }
    shape = known.dense.value.shape
    columns: Columns = {
        "examples": known.dense.rows,
        "n": known.dense.n,
    }
    for side, rate in sides.items():
        columns[side] = rate.value
        columns[f"{side}_events"] = rate.effective_events
        columns[f"{side}_members"] = np.full(shape, rate.members)
    for what, variance in variances.items():
        for part in PARTS:
            columns[f"{what}_variance_{part}"] = np.broadcast_to(getattr(variance, part), shape)
    absolute = known.compressed.value - known.dense.value
    events = np.minimum(known.dense.effective_events, known.compressed.effective_events)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        halves = [
            stdtrit(variance.df, (1 + level) / 2) * np.sqrt(variance.total)
            for variance in (known.difference, known.log_ratio)
        ]
        ratio = np.where(events >= FEWEST, known.compressed.value / known.dense.value, np.nan)
        for sign, end in ((0.0, ""), (-1.0, "_low"), (1.0, "_high")):
            off = (0.0, 0.0) if not sign else tuple(sign * half for half in halves)
            columns[f"absolute{end}"] = absolute + off[0]
            columns[f"relative{end}"] = 100 * np.expm1(np.log(ratio) + off[1])
    return {name: np.ravel(columns[name]) for name in COLUMNS}


def read_changes(
    columns: Mapping[str, npt.NDArray[Any]],
    groups: Sequence[str],
    kinds: Sequence[RateMetric],
    *,
    level: float = 0.95,
) -> Iterator[GroupChange]:
    """Give rows of `rate_columns` as the numbers of an audit.

    Args:
        columns: Some of its entries, all of one comparison.
        groups: Name of the group of each.
        kinds: Metric of each.
        level: Coverage of the intervals, a fraction in (0, 1).

    Yields:
        What `amplification` gives for the group and metric.
    """

    def variance(what: str) -> Variance:
        return Variance(**{part: columns[f"{what}_variance_{part}"] for part in PARTS})

    if not len(groups):
        return
    dense, compressed = (
        RateEvidence(
            rows=columns["examples"],
            n=columns["n"],
            members=int(columns[f"{side}_members"][0]),
            value=columns[side],
            effective_events=columns[f"{side}_events"],
            variance=variance(side),
        )
        for side in SIDES
    )
    known = ChangeEvidence(
        dense, compressed, difference=variance("absolute"), log_ratio=variance("relative")
    )
    for place, (group, kind) in enumerate(zip(groups, kinds, strict=True)):
        yield change_at(known, (place,), group, kind, level)
