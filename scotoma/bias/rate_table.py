"""The rates of all groups and classes as columns: every estimate of them, at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import polars as pl

from scotoma.bias.counting import RateMetric
from scotoma.inputs import Flags
from scotoma.numbers import ChangeEvidence, Variance
from scotoma.numbers.crossed import no_interval
from scotoma.numbers.enough import FEW, FEW_EVENTS, FEWEST
from scotoma.numbers.estimate import IntervalScale, few_runs, inverse_link, link
from scotoma.numbers.rates import relative_reason

__all__ = ["WHATS", "rate_columns"]

WHATS = ("dense", "compressed", "relative", "absolute")
SCALES: tuple[IntervalScale, ...] = ("logit", "logit", "log", "identity")
PARTS = tuple(field.name for field in fields(Variance))
Table = dict[str, Any]


def rate_columns(
    known: ChangeEvidence, groups: Sequence[str], kinds: Sequence[RateMetric], *, level: float
) -> Table:
    """Lay out every rate of every group, as `change_at` gives it for one, four entries a rate.

    Args:
        known: Evidence of shape (G, E).
        groups: Names of the groups.
        kinds: The metrics.
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        Columns of shape (4 G E,), rate by rate in the order of `WHATS`: the fields of `Estimate`,
        and `variance_PART` of the two changes, nan beside the rates.
    """
    from scipy.special import stdtrit

    sides, shape = (known.dense, known.compressed), known.dense.value.shape
    n = np.broadcast_to(known.dense.n.ravel(), (4, known.dense.n.size))
    members = np.array([one.members for one in sides] + [min(one.members for one in sides)] * 2)
    rate = np.array([one.value.ravel() for one in sides])
    events = np.array([one.effective_events.ravel() for one in sides])
    events = np.concatenate([events, np.repeat(events.min(axis=0)[None], 2, axis=0)])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = 100.0 * (rate[1] - rate[0]) / rate[0]
    value = np.array([*rate, ratio, rate[1] - rate[0]])
    variances = (*(one.variance for one in sides), known.log_ratio, known.difference)
    parts = {
        part: np.array([np.broadcast_to(getattr(own, part), shape).ravel() for own in variances])
        for part in PARTS
    }
    undefined = n == 0
    undefined[2] |= ~(events[2] >= FEWEST)
    value = np.where(undefined, np.nan, value)
    unseen = ~undefined & ((parts["total"] == 0) | (value == 0.0) | (value == 1.0))
    unseen[2:] = False
    gradient = np.array([1 / (p * (1 - p)) if 0 < p < 1 else math.nan for p in value[:2].flat])
    slope = np.ones_like(value)
    slope[:2] = np.array([one**2 for one in gradient]).reshape(2, -1)
    with np.errstate(invalid="ignore"):
        se = np.sqrt(parts["total"] * slope)
    known_se = ~undefined & ~unseen & (se > 0)
    half = np.where(known_se, stdtrit(parts["df"], (1 + level) / 2) * se, np.nan)
    low, high = np.full_like(value, np.nan), np.full_like(value, np.nan)
    for own, scale in enumerate(SCALES):
        places = np.flatnonzero(known_se[own])
        centre = np.array([link(one, scale) for one in value[own, places].tolist()])
        for ends, end in ((low, centre - half[own, places]), (high, centre + half[own, places])):
            ends[own, places] = [inverse_link(one, scale) for one in end.tolist()]
    reach = 3.0 * math.log1p(-level) / math.log1p(-0.95) / np.maximum(n, 1)
    low = np.where(unseen, np.maximum(0.0, value - reach), low)
    high = np.where(unseen, np.minimum(1.0, value + reach), high)
    scales = np.where(known_se, np.arange(4)[:, None], 3)
    scales[unseen] = 4
    notes = [few_runs(of) for of in members]
    notes += ["; ".join(filter(None, [FEW_EVENTS, own])) for own in notes]
    note = np.where(events < FEW, np.arange(4, 8)[:, None], np.arange(4)[:, None])
    note[n == 0] = len(notes)
    columns: Table = {
        "value": value, "low": low, "high": high, "n": n,
        "models": np.broadcast_to(members[:, None], n.shape), "effective_events": events,
        "reason": _reasons(known, groups, kinds, undefined, undefined | unseen | known_se),
        "note": pl.Series([*notes, ""])[note.T.ravel()],
        "se": np.where(known_se, se, np.nan), "df": np.where(known_se, parts["df"], np.nan),
        "scale": pl.Series([*SCALES, "rule of three"])[scales.T.ravel()],
    }  # fmt: skip
    for part in PARTS:
        columns[f"variance_{part}"] = np.where(np.arange(4)[:, None] < 2, np.nan, parts[part])
    return {
        name: column if isinstance(column, pl.Series) else column.T.ravel()
        for name, column in columns.items()
    }


def _reasons(
    known: ChangeEvidence,
    groups: Sequence[str],
    kinds: Sequence[RateMetric],
    undefined: Flags,
    settled: Flags,
) -> Any:
    """Say why an estimate is undefined or, where it is not settled, has no interval."""
    reasons = np.full(undefined.shape, "", dtype=object)
    n, rows = known.dense.n.ravel().tolist(), known.dense.rows.ravel().tolist()
    few = np.minimum(known.dense.effective_events, known.compressed.effective_events).ravel()
    for cell in np.flatnonzero(undefined[2]).tolist():
        words = kinds[cell % len(kinds)].words(groups[cell // len(kinds)])
        if n[cell]:
            reasons[2, cell] = relative_reason(float(few[cell]), rows[cell], words)
        else:
            reasons[:, cell] = words.nobody
    for own, cell in zip(*(places.tolist() for places in np.nonzero(~settled)), strict=True):
        reasons[own, cell] = no_interval(n[cell])
    return reasons
