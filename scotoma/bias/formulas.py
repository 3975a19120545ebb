"""The formulas of the fixed-seed study's metrics, on counts of one class against the rest.

Each gives its value, and the denominators by which it may be undefined, in the order in which they
are named: shape (M, C) and (G, M, C).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scotoma.inputs import Floats

GroupWeights = Literal["examples", "negatives"]


@dataclass(frozen=True)
class ClassConfusion:
    """Counts of one class against the rest, by group: shape (G, M, C) each."""

    tp: Floats
    fp: Floats
    fn: Floats
    tn: Floats


def _rate(over: Floats, under: Floats) -> Floats:
    return np.asarray(np.where(under > 0, over / under, np.nan))


def _largest_pair(rates: Floats) -> Floats:
    return np.asarray(rates.max(axis=0) - rates.min(axis=0))


def _examples_of(c: ClassConfusion) -> Floats:
    return c.tp + c.fp + c.fn + c.tn


def _parity(c: ClassConfusion, weights: GroupWeights) -> tuple[Floats, dict[str, Floats]]:
    n = _examples_of(c)
    return _largest_pair(_rate(c.tp + c.fp, n)), {"examples": n}


def _impact(c: ClassConfusion, weights: GroupWeights) -> tuple[Floats, dict[str, Floats]]:
    """1 - smallest/largest: the formula's min, also where the smaller rate is 0."""
    n = _examples_of(c)
    ppr = _rate(c.tp + c.fp, n)
    value = 1 - _rate(ppr.min(axis=0), ppr.max(axis=0))
    return value, {"examples": n, "predictions": (c.tp + c.fp).sum(axis=0, keepdims=True)}


def _subgroups(rate: Floats, whole: Floats, share: Floats) -> Floats:
    """Weighted mean distance from the rate of all; a group without weight adds nothing."""
    return np.asarray(np.where(share > 0, share * np.abs(whole - rate), 0.0).sum(axis=0))


def _statistical_parity(
    c: ClassConfusion, weights: GroupWeights
) -> tuple[Floats, dict[str, Floats]]:
    n, called = _examples_of(c), c.tp + c.fp
    whole = _rate(called.sum(axis=0), n.sum(axis=0))
    value = _subgroups(_rate(called, n), whole, n / n.sum(axis=0))
    return np.where(n.sum(axis=0) > 0, value, np.nan), {"examples": n.sum(axis=0, keepdims=True)}


def _false_positive(c: ClassConfusion, weights: GroupWeights) -> tuple[Floats, dict[str, Floats]]:
    n, negatives = _examples_of(c), c.fp + c.tn
    whole = _rate(c.fp.sum(axis=0), negatives.sum(axis=0))
    share = (n if weights == "examples" else negatives) / n.sum(axis=0)
    value = _subgroups(_rate(c.fp, negatives), whole, share)
    some = negatives.sum(axis=0) > 0
    value = np.where(some, value, np.nan)
    return value, {"negatives": np.where((share > 0) | ~some, negatives, np.nan)}


def _odds_fp(c: ClassConfusion, weights: GroupWeights) -> tuple[Floats, dict[str, Floats]]:
    return _largest_pair(_rate(c.fp, c.fp + c.tn)), {"negatives": c.fp + c.tn}


def _odds_tp(c: ClassConfusion, weights: GroupWeights) -> tuple[Floats, dict[str, Floats]]:
    return _largest_pair(_rate(c.tp, c.tp + c.fn)), {"positives": c.tp + c.fn}


def _amplification(c: ClassConfusion, weights: GroupWeights) -> tuple[Floats, dict[str, Floats]]:
    positives, called = c.tp + c.fn, c.tp + c.fp
    moved = np.abs(_rate(called, called.sum(axis=0)) - _rate(positives, positives.sum(axis=0)))
    leading = positives == positives.max(axis=0)
    value = np.where(leading, moved, -np.inf).max(axis=0)
    value = np.where(np.isnan(moved).any(axis=0), np.nan, value)
    lacking = {
        "predictions": called.sum(axis=0, keepdims=True),
        "positives": positives.sum(axis=0, keepdims=True),
    }
    return value, lacking


FORMULAS: dict[str, Callable[[ClassConfusion, GroupWeights], tuple[Floats, dict[str, Floats]]]] = {
    "DP": _parity,
    "DI": _impact,
    "SPSF": _statistical_parity,
    "FPSF": _false_positive,
    "EOFP": _odds_fp,
    "EOTP": _odds_tp,
    "BA": _amplification,
}
