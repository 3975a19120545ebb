"""The metrics that are functions of cell counts: values, and influences of each cell.

All of them are functions of `cells[k, s, g, y, p]`: examples of stratum s, facet g (0 advantaged,
1 disadvantaged), label y that member k predicts as p. They are additive over examples. None changes
when every count is doubled, so an example in cell c moves a metric by influence[c] / n, and the
influences of all examples sum to 0. That is all their intervals need.
"""

from __future__ import annotations

from collections.abc import Sequence
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


# The rate that a metric compares, and whether it is that of a less that of d, or the reverse.
_PREDICTED = CellRatio(_FP + _TP, _ALL, "examples")
DIFFERENCES = {
    "DPL": (CellRatio(_FN + _TP, _ALL, "examples"), "a - d"),
    "DPPL": (_PREDICTED, "a - d"),
    "DI": (_PREDICTED, "d / a"),
    "AD": (CellRatio(_TN + _TP, _ALL, "examples"), "a - d"),
    "RD": (CellRatio(_TP, _FN + _TP, "positive labels"), "a - d"),
    "DAR": (CellRatio(_TP, _FP + _TP, "positive predictions"), "a - d"),
    "DCA": (CellRatio(_FN + _TP, _FP + _TP, "positive predictions"), "a - d"),
    "SD": (CellRatio(_TN, _TN + _FP, "negative labels"), "d - a"),
    "DRR": (CellRatio(_TN, _TN + _FN, "negative predictions"), "d - a"),
    "DCR": (CellRatio(_TN + _FP, _TN + _FN, "negative predictions"), "d - a"),
    "TE": (CellRatio(_FN, _FP, "false positives"), "d - a"),
}


@dataclass(frozen=True, eq=False)
class Function:
    """A function of the counts: its value, and what an example more in a cell adds to it.

    Attributes:
        value: By member and stratum, shape (K, S); of all strata together (K, 1).
        slope: Shape [member, stratum, facet, label, prediction], or what broadcasts to it.
        slips: Divide as the reference implementation: 0/0 is 0, x/0 infinite, and two infinities
            do not differ.
    """

    value: Array
    slope: Array
    slips: bool = False

    def __sub__(self, other: Function) -> Function:
        """Difference."""
        with np.errstate(invalid="ignore"):
            value = self.value - other.value
        if self.slips:
            value = np.where(np.isinf(self.value) & np.isinf(other.value), 0.0, value)
        return Function(value, self.slope - other.slope, self.slips)

    def __mul__(self, other: Function) -> Function:
        """Product."""
        slope = _wide(other.value) * self.slope + _wide(self.value) * other.slope
        return Function(self.value * other.value, slope, self.slips)

    def __truediv__(self, other: Function) -> Function:
        """Quotient; nan where the divisor is 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.asarray(self.value / other.value)
            slope = (self.slope - _wide(value) * other.slope) / _wide(other.value)
        none = other.value == 0
        if self.slips:
            value = np.where(none & (self.value == 0), 0.0, value)
        else:
            value = np.where(none, np.nan, value)
        return Function(value, slope, self.slips)

    def over(self, strata: Bools) -> Function:
        """Sum over these strata, shape (S,)."""
        value = np.where(strata, self.value, 0.0).sum(axis=1, keepdims=True)
        return Function(value, np.where(_wide(strata), self.slope, 0.0), self.slips)


def _wide(values: Array | Bools) -> Array | Bools:
    return values[..., None, None, None]


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
    conditional = name in ("CDDL", "CDDPL")
    counted = cells if conditional else cells.sum(axis=1, keepdims=True)
    divided = slips and name not in ("CI", "GE")

    def count(mask: Array, facet: int | None = None) -> Function:
        whole = np.zeros((2, 2, 2))
        whole[slice(None) if facet is None else facet] = mask
        return Function(np.einsum("ksgyp,gyp->ks", counted, whole), whole[None, None], divided)

    at_risk, reason, note, entering = _ALL, "", "", None
    if conditional:
        entering = np.ones(cells.shape[1], bool) if slips else usable_strata(name, cells)
        entering = entering if usable is None else usable
        positive = _FN + _TP if name == "CDDL" else _FP + _TP
        negative = _ALL - positive
        gap = count(negative, 1) / count(negative) - count(positive, 1) / count(positive)
        size = count(_ALL)
        found = (size * gap).over(entering) / size.over(entering)
        note = _left_out(name, cells, entering, strata)
        if not size.over(entering).value.any():
            reason, note = f"undefined ({note or 'no examples'})", ""
    elif name == "CI":
        found = (count(_ALL, 0) - count(_ALL, 1)) / count(_ALL)
        reason = "" if cells.any() else "undefined (no examples)"
    elif name == "GE":
        benefit = np.array([[1.0, 2.0], [0.0, 1.0]])
        mean, square = count(benefit) / count(_ALL), count(benefit**2 / 2) / count(_ALL)
        found = square / (mean * mean)
        found = Function(found.value - 0.5, found.slope)
        if not cells.any():
            reason = "undefined (no examples)"
        elif (mean.value == 0).any():
            reason = "undefined (every example is a missed positive)"
    else:
        rate, compared = DIFFERENCES[name]
        under = [count(rate.under, facet) for facet in (0, 1)]
        a, d = (count(rate.over, facet) / under[facet] for facet in (0, 1))
        found = d / a if compared == "d / a" else a - d if compared == "a - d" else d - a
        reason = _empty_facet(np.hstack([one.value for one in under]), rate.named)
        if compared == "d / a" and not reason:
            reason = _empty_facet(count(rate.over, 0).value, "positive predictions")
        at_risk = (rate.over + rate.under > 0).astype(np.float64)
    n = cells.sum(axis=(1, 2, 3, 4))
    with np.errstate(invalid="ignore"):
        influence = _wide(n[:, None]) * found.slope
    return Measured(found.value[:, 0], influence, at_risk, reason, entering, note)


def usable_strata(name: str, cells: Array) -> Bools:
    """Find the strata in which CDDL or CDDPL is defined: on every member both outcomes occur.

    Args:
        name: `CDDL`, whose outcomes are labels, or `CDDPL`, whose outcomes are predictions.
        cells: Counts of `count_cells`, shape (K, S, 2, 2, 2).

    Returns:
        Shape (S,).
    """
    return np.asarray((_decided(name, cells) > 0).all(axis=(0, 2)))


def _decided(name: str, cells: Array) -> Array:
    """Examples of each member and stratum with a negative and a positive outcome, (K, S, 2)."""
    return np.asarray(cells.sum(axis=(2, 4 if name == "CDDL" else 3)))


def _empty_facet(under: Array, named: str) -> str:
    """Name the facet and the number of members without a denominator, shape (K, 2)."""
    empty = (under == 0).sum(axis=0)
    if not empty.any():
        return ""
    facet = int(empty.argmax())
    members = "" if under.shape[0] == 1 else f" for {empty[facet]} of {under.shape[0]} members"
    return f"undefined (no {named} in the {FACETS[facet]}{members})"


def _left_out(name: str, cells: Array, usable: Bools, strata: Sequence[str]) -> str:
    """Say which strata have no disparity and why; empty where all have one."""
    decided, kind = _decided(name, cells), "labels" if name == "CDDL" else "predictions"
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
