"""The metrics that are smooth functions of cell counts: values, and influences of each cell.

All of them are functions of `cells[k, s, g, y, p]`: examples of stratum s, facet g (0 advantaged,
1 disadvantaged), label y that member k predicts as p. They are additive over examples. None changes
when every count is doubled, so an example in cell c moves a metric by influence[c] / n, and the
influences of all examples sum to 0. That is all their intervals need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# Masks over a facet's cells [y, p]: rows negative and positive labels, columns predictions.
_TN, _FP, _FN, _TP = (np.eye(4)[i].reshape(2, 2) for i in range(4))
_ALL = np.ones((2, 2))
OUTCOMES = ("negative", "positive")
FACETS = ("advantaged facet", "disadvantaged facet")
MOST_NAMED = 3  # strata that are left out


@dataclass(frozen=True)
class CellRatio:
    """A ratio of two sums of one facet's cells.

    Attributes:
        over: Mask of the cells in the numerator, [y, p].
        under: Mask of the cells in the denominator.
        named: What the denominator counts, for "undefined (no ... in the advantaged facet)".
    """

    over: Array
    under: Array
    named: str

    @property
    def proportion(self) -> bool:
        """Whether the numerator is part of the denominator."""
        return bool((self.over <= self.under).all())

    @property
    def parts(self) -> tuple[Array, Array]:
        """The two kinds of examples without which the rate cannot be estimated."""
        return self.over, self.under - self.over if self.proportion else self.under


RATES = {
    "labelled positive": CellRatio(_FN + _TP, _ALL, "examples"),
    "predicted positive": CellRatio(_FP + _TP, _ALL, "examples"),
    "accuracy": CellRatio(_TN + _TP, _ALL, "examples"),
    "recall": CellRatio(_TP, _FN + _TP, "positive labels"),
    "precision": CellRatio(_TP, _FP + _TP, "positive predictions"),
    "conditional acceptance": CellRatio(_FN + _TP, _FP + _TP, "positive predictions"),
    "specificity": CellRatio(_TN, _TN + _FP, "negative labels"),
    "rejection": CellRatio(_TN, _TN + _FN, "negative predictions"),
    "conditional rejection": CellRatio(_TN + _FP, _TN + _FN, "negative predictions"),
    "treatment": CellRatio(_FN, _FP, "false positives"),
}

# The rate compared, and the sign of the advantaged facet in the difference.
DIFFERENCES = {
    "DPL": ("labelled positive", 1),
    "DPPL": ("predicted positive", 1),
    "AD": ("accuracy", 1),
    "RD": ("recall", 1),
    "DAR": ("precision", 1),
    "DCA": ("conditional acceptance", 1),
    "SD": ("specificity", -1),
    "DRR": ("rejection", -1),
    "DCR": ("conditional rejection", -1),
    "TE": ("treatment", -1),
}


@dataclass(frozen=True)
class Measured:
    """A metric on each member.

    Attributes:
        values: Shape (K,); nan where undefined.
        influence: What an example of each cell moves, times n; the shape of the cells.
        at_risk: Mask of the cells that enter, broadcastable to [facet, label, prediction].
        reason: Why values are nan, `undefined (...)`; empty otherwise.
        strata: Strata that enter, shape (S,); None where strata do not matter.
        note: Strata that do not enter, with their share of the examples; else empty.
    """

    values: Array
    influence: Array
    at_risk: Array
    reason: str = ""
    strata: Bools | None = None
    note: str = ""


def count_cells(
    d: Bools,
    y: Bools,
    p: Bools,
    strata: npt.NDArray[np.intp] | None = None,
    times: Array | None = None,
) -> tuple[Array, npt.NDArray[np.intp]]:
    """Count examples per cell, and find the cell of every example.

    Args:
        d: Disadvantaged or not, shape (N,).
        y: Positive labels, shape (N,).
        p: Positive predictions, shape (N, K).
        strata: Number of each example's stratum from 0, shape (N,); None for a single one.
        times: How many examples each entry stands for, shape (N,); None for one each.

    Returns:
        Counts, shape (K, S, 2, 2, 2) [member, stratum, facet, label, prediction], and the flat
        index into them of each example on each member, shape (N, K).

    >>> import numpy as np
    >>> yes, no = True, False
    >>> d, y, p = np.array([yes, no]), np.array([yes, yes]), np.array([[yes], [no]])
    >>> cells, index = count_cells(d, y, p)
    >>> index.ravel(), np.flatnonzero(cells)
    (array([7, 2]), array([2, 7]))
    """
    s = np.zeros(d.shape, np.intp) if strata is None else strata
    size = 8 * (int(s.max(initial=0)) + 1)
    members = p.shape[1]
    index = ((s * 2 + d) * 2 + y)[:, None] * 2 + p + np.arange(members) * size
    weights = None if times is None else np.repeat(times, members)
    cells = np.bincount(index.ravel(), weights, minlength=members * size).astype(np.float64)
    return cells.reshape(members, -1, 2, 2, 2), index


def measure(
    name: str,
    cells: Array,
    *,
    strata: Sequence[str] = (),
    usable: Bools | None = None,
    slips: bool = False,
) -> Measured:
    """Value and influences of one metric.

    Args:
        name: One of the smooth metrics: CI, DPL, CDDL, DPPL, DI, the eight differences of error
            rates, TE, CDDPL, GE.
        cells: Counts of `count_cells`, shape (K, S, 2, 2, 2); strata matter to CDDL and CDDPL only.
        strata: Names of the strata, for reasons; numbers where it is empty.
        usable: Strata that may enter CDDL and CDDPL, shape (S,); None for `usable_strata`.
        slips: Reproduce the reference implementation: 0/0 = 0 and x/0 = inf, no difference between
            two infinities.

    Returns:
        The metric on each member. Its influences are meant for defined values only.

    >>> import numpy as np
    >>> men, women = [[13900, 84], [3678, 2718]], [[8660, 10], [679, 433]]
    >>> cells = np.array([[[men, women]]])
    >>> measure("DI", cells).values.round(4), measure("TE", cells).values.round(3)
    (array([0.3294]), array([24.114]))
    """
    if name in DIFFERENCES:
        return _difference(*DIFFERENCES[name], cells.sum(axis=1), slips)
    special: dict[str, Callable[[Array, bool], Measured]] = {
        "CI": _class_imbalance,
        "DI": _disparate_impact,
        "GE": _generalised_entropy,
    }
    if name in special:
        return special[name](cells.sum(axis=1), slips)
    if usable is None:
        usable = np.ones(cells.shape[1], bool) if slips else usable_strata(name, cells)
    return _disparity(cells, 4 if name == "CDDL" else 3, strata, usable, slips)


def usable_strata(name: str, cells: Array) -> Bools:
    """Find the strata in which CDDL or CDDPL is defined: on every member both outcomes occur.

    Args:
        name: `CDDL`, whose outcomes are labels, or `CDDPL`, whose outcomes are predictions.
        cells: Counts of `count_cells`, shape (K, S, 2, 2, 2).

    Returns:
        Shape (S,).
    """
    decided = cells.sum(axis=(2, 4 if name == "CDDL" else 3))
    return np.asarray((decided > 0).all(axis=(0, 2)))


def divide(over: Array, under: Array, slips: bool = False) -> Array:
    """Ratio, nan where the denominator is 0; with `slips` 0/0 is 0 and x/0 infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.asarray(over / under)
    if slips:
        return np.where((over == 0) & (under == 0), 0.0, ratio)
    return np.where(under == 0, np.nan, ratio)


def _rate(rate: CellRatio, cells: Array, slips: bool) -> tuple[Array, Array, str]:
    """Rate (K, 2), its influences (K, 2, 2, 2) within each facet, and why it is nan."""
    over = np.einsum("kgyp,yp->kg", cells, rate.over)
    under = np.einsum("kgyp,yp->kg", cells, rate.under)
    value = divide(over, under, slips)
    n = cells.sum(axis=(1, 2, 3))[:, None, None, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = n * (rate.over - value[..., None, None] * rate.under) / under[..., None, None]
    return value, moved, _empty_facet(under, rate.named)


def _empty_facet(under: Array, named: str) -> str:
    """Name the facet and the number of members without a denominator, shape (K, 2)."""
    empty = (under == 0).sum(axis=0)
    if not empty.any():
        return ""
    facet = int(empty.argmax())
    members = "" if under.shape[0] == 1 else f" for {empty[facet]} of {under.shape[0]} members"
    return f"undefined (no {named} in the {FACETS[facet]}{members})"


def _difference(which: str, sign: int, cells: Array, slips: bool) -> Measured:
    rate = RATES[which]
    value, moved, reason = _rate(rate, cells, slips)
    with np.errstate(invalid="ignore"):
        values = sign * (value[:, 0] - value[:, 1])
    if slips:
        values = np.where(np.isinf(value).all(axis=1), 0.0, values)
    signs = np.array([sign, -sign])[:, None, None]
    mask = (rate.over + rate.under > 0).astype(np.float64)
    return Measured(values, (moved * signs)[:, None], mask, reason)


def _disparate_impact(cells: Array, slips: bool) -> Measured:
    value, moved, reason = _rate(RATES["predicted positive"], cells, slips)
    values = divide(value[:, 1], value[:, 0], slips)
    accepted = cells[..., 1].sum(axis=2)
    if not reason and (accepted[:, 0] == 0).any():
        reason = _empty_facet(accepted[:, :1], "positive predictions")
    with np.errstate(divide="ignore", invalid="ignore"):
        towards_a = -moved[:, 0] * (values / value[:, 0])[:, None, None]
        towards_d = moved[:, 1] / value[:, 0, None, None]
    return Measured(values, np.stack([towards_a, towards_d], axis=1)[:, None], _ALL, reason)


def _class_imbalance(cells: Array, slips: bool) -> Measured:
    sizes = cells.sum(axis=(2, 3))
    values = divide(sizes[:, 0] - sizes[:, 1], sizes.sum(axis=1))
    signs = np.array([1.0, -1.0])[None, :, None, None]
    moved = np.broadcast_to(signs - values[:, None, None, None], cells.shape)
    reason = "" if sizes.any() else "undefined (no examples)"
    return Measured(values, moved[:, None], _ALL, reason)


def _generalised_entropy(cells: Array, slips: bool) -> Measured:
    """Half the mean of (b/mu)^2 - 1; b is 2 for a false alarm, 0 for a missed positive, else 1."""
    benefit = np.array([[1.0, 2.0], [0.0, 1.0]])
    n = cells.sum(axis=(1, 2, 3))
    mean = divide(np.einsum("kgyp,yp->k", cells, benefit), n)
    square = divide(np.einsum("kgyp,yp->k", cells, benefit**2), n)
    values = divide(square / 2, mean**2) - 0.5
    mu, m2 = mean[:, None, None], square[:, None, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = (benefit**2 - m2) / (2 * mu**2) - m2 * (benefit - mu) / mu**3
    if not n.any():
        reason = "undefined (no examples)"
    else:
        reason = "undefined (every example is a missed positive)" if (mean == 0).any() else ""
    return Measured(
        values, np.broadcast_to(moved[:, None, None], (len(n), 1, 2, 2, 2)), _ALL, reason
    )


def _disparity(
    cells: Array, axis: int, strata: Sequence[str], usable: Bools, slips: bool
) -> Measured:
    """CDDL (predictions summed out, axis 4) and CDDPL (labels summed out, axis 3).

    Strata without one of the outcomes have no disparity: the others are combined by their sizes.
    """
    outcomes = cells.sum(axis=axis)
    decided = outcomes.sum(axis=2)
    share = divide(outcomes[:, :, 1], decided, slips)
    sizes = np.where(usable, decided.sum(axis=2), 0.0)
    n, total = sizes.sum(axis=1, keepdims=True), decided.sum(axis=(1, 2))[:, None]
    gaps = np.where(sizes == 0, 0.0, share[..., 0] - share[..., 1])
    values = divide((sizes * gaps).sum(axis=1), n[:, 0], slips)
    facet = np.array([0.0, 1.0])[:, None]
    signs = np.array([1.0, -1.0])
    with np.errstate(divide="ignore", invalid="ignore"):
        per_outcome = signs * (facet - share[:, :, None]) / decided[:, :, None]
        moved = (gaps - values[:, None])[..., None, None] + sizes[..., None, None] * per_outcome
        moved = np.where(usable[:, None, None], moved * (total / n)[..., None, None], 0.0)
    kind = "labels" if axis == 4 else "predictions"
    left = _left_out(decided, usable, strata, kind)
    reason, note = ("", left) if n.any() else (f"undefined ({left or 'no examples'})", "")
    return Measured(values, np.expand_dims(moved, axis), _ALL, reason, usable, note)


def _left_out(decided: Array, usable: Bools, strata: Sequence[str], kind: str) -> str:
    """Say which strata have no disparity and why; empty where all have one."""
    sizes = decided.sum(axis=(0, 2))
    left = np.flatnonzero(~usable & (sizes > 0))
    if not left.size:
        return ""
    named = [repr(strata[place]) if strata else str(place) for place in left[:MOST_NAMED]]
    if decided.shape[1] == 1:
        empty = int((decided == 0).any(axis=0)[0].argmax())
        return f"no {OUTCOMES[empty]} {kind} in stratum {named[0]}"
    if left.size == np.count_nonzero(sizes):
        return f"no stratum holds both positive and negative {kind}"
    more = f" and {left.size - MOST_NAMED:,} more" if left.size > MOST_NAMED else ""
    noun = "stratum" if left.size == 1 else "strata"
    share = 100 * sizes[left].sum() / sizes.sum()
    return (
        f"without {noun} {', '.join(named)}{more}, {share:.2g}% of the examples, where all "
        f"{kind} are alike"
    )
