"""The metrics that are functions of cell counts: values, and influences of each cell.

All of them are functions of `cells[k, s, g, y, p]`: examples of stratum s, facet g (0 advantaged,
1 disadvantaged), label y that member k predicts as p. They are additive over examples. None changes
when every count is doubled, so an example in cell c moves a metric by influence[c] / n, and the
influences of all examples sum to 0. That is all their intervals need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scotoma.bias.clarify.table import METRICS

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

CELLS = ("TN", "FP", "FN", "TP")  # of a facet: [label, prediction], flat
OUTCOMES = ("negative", "positive")
FACETS = ("advantaged facet", "disadvantaged facet")
MOST_NAMED = 3  # strata that are left out
STEP = 1e-100  # of an imaginary example: its square is nothing, so that slopes are exact
STEPS = 1j * STEP * np.eye(8)[:, None, None]  # one more in each cell of the facets


def _mask(names: str) -> Array:
    """Which of a facet's cells are counted, shape (4,)."""
    return np.array([cell in names.split() for cell in CELLS], np.float64)


@dataclass(frozen=True)
class CellRatio:
    """A ratio of two sums of one facet's cells, which a metric compares between the facets.

    Attributes:
        over: Mask of the cells in the numerator, shape (4,).
        under: Mask of the cells in the denominator.
        named: What the denominator counts, for "undefined (no ... in the advantaged facet)".
        compared: How that of facet a is compared with that of facet d.
    """

    over: Array
    under: Array
    named: str
    compared: str

    @property
    def proportion(self) -> bool:
        """Whether the numerator is part of the denominator."""
        return bool((self.over <= self.under).all())

    @property
    def quotient(self) -> bool:
        """Whether a few examples in a denominator move the metric far."""
        return not self.proportion or self.compared == "d / a"

    @property
    def parts(self) -> tuple[Array, Array]:
        """The two kinds of examples without which the rate cannot be estimated."""
        return self.over, self.under - self.over if self.proportion else self.under


RATIOS = {
    name: CellRatio(_mask(own["over"]), _mask(own["under"]), own["named"], own["compared"])
    for name, metric in METRICS.items()
    if (own := metric.ratio)
}
POSITIVE = {"CDDL": _mask("FN TP"), "CDDPL": _mask("FP TP")}  # outcomes compared within strata
BENEFIT = np.array([1.0, 2.0, 0.0, 1.0])  # prediction - label + 1


@dataclass(frozen=True)
class Measured:
    """A metric on each member.

    Attributes:
        values: Shape (K,); nan where undefined.
        influence: What an example of each cell moves, times n; the shape of the cells.
        reason: Why values are nan, `undefined (...)`; empty otherwise.
        strata: Strata that enter, shape (S,); None where strata do not matter.
        note: Strata that do not enter, with their share of the examples; else empty.
    """

    values: Array
    influence: Array
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

    >>> men, women = [[13900, 84], [3678, 2718]], [[8660, 10], [679, 433]]
    >>> cells = np.array([[[men, women]]])
    >>> measure("DI", cells).values.round(4), measure("TE", cells).values.round(3)
    (array([0.3294]), array([24.114]))
    """
    entering, counted = usable, cells.reshape(*cells.shape[:2], 8)
    if name not in POSITIVE:
        entering, counted = None, counted.sum(axis=1, keepdims=True)
    elif usable is None:
        entering = np.ones(cells.shape[1], bool) if slips else usable_strata(name, cells)
    more = counted + STEPS
    with np.errstate(divide="ignore", invalid="ignore"):
        over, under = _fraction(name, counted, entering, slips=slips)
        whole = under.sum(axis=1)
        values = over.sum(axis=1) / whole
        up, down = (part.imag / STEP for part in _fraction(name, more, entering, slips=slips))
        slope = (up - values[:, None] * down) * (counted.sum(axis=(1, 2)) / whole)[:, None]
    reason, note = _reason(name, cells, entering, strata)
    influence = slope.transpose(1, 2, 0).reshape(*slope.shape[1:], 2, 2, 2)
    return Measured(values, influence, reason, entering, note)


def _fraction(
    name: str, counts: npt.NDArray[Any], entering: Bools | None, *, slips: bool
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Numbers of shape (..., K, S) from counts of shape (..., K, S, 8).

    The metric is the ratio of their sums over strata.
    """

    def ratio(over: npt.NDArray[Any], under: npt.NDArray[Any]) -> npt.NDArray[Any]:
        none = (under == 0) & (over == 0) if slips else under == 0
        return np.where(none, 0.0 if slips else np.nan, over / under)

    a, d = counts[..., :4], counts[..., 4:]
    both = a + d
    n = both.sum(axis=-1)
    if entering is not None:
        kinds = 1 - POSITIVE[name], POSITIVE[name]
        negative, positive = (ratio(d @ kind, both @ kind) for kind in kinds)
        return (np.where(entering, n * (negative - positive), 0.0), np.where(entering, n, 0.0))
    if name == "CI":
        value = (a - d).sum(axis=-1) / n
    elif name == "GE":
        mean = both @ BENEFIT / n
        value = np.where(mean == 0, np.nan, both @ BENEFIT**2 / 2 / n / (mean * mean) - 0.5)
    else:
        rate = RATIOS[name]
        of_a, of_d = (ratio(facet @ rate.over, facet @ rate.under) for facet in (a, d))
        signed = {"a - d": of_a - of_d, "d - a": of_d - of_a}
        if rate.compared == "d / a":
            value = ratio(of_d, of_a)
        else:  # two infinities do not differ in the reference implementation
            value = np.where(np.isinf(of_a) & np.isinf(of_d), 0.0, signed[rate.compared])
    return value, np.ones_like(value)


def _reason(
    name: str, cells: Array, entering: Bools | None, strata: Sequence[str]
) -> tuple[str, str]:
    """Why a metric is undefined for a member, and what to say beside it."""
    if entering is not None:
        note = _left_out(name, cells, entering, strata)
        nobody = not cells[:, entering].any()
        return (f"undefined ({note or 'no examples'})", "") if nobody else ("", note)
    facets = cells.sum(axis=1).reshape(-1, 2, 4)
    if name in RATIOS:
        rate = RATIOS[name]
        reason = _empty_facet(facets @ rate.under, rate.named)
        if rate.compared == "d / a" and not reason:
            reason = _empty_facet(facets[:, :1] @ rate.over, "positive predictions")
        return reason, ""
    if not cells.any():
        return "undefined (no examples)", ""
    missed = name == "GE" and (facets.sum(axis=1) @ BENEFIT == 0).any()
    return "undefined (every example is a missed positive)" if missed else "", ""


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
