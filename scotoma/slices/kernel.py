"""The sums over the rows of slices as compiled loops; only searches that gain by it import this."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from scotoma.slices.tally import PANEL

FEW = 4  # draws whose scatter shows of most cells that they are not significant


def _compiled(loop: Callable[..., None]) -> Any:
    """Compiled when first called, for all later processes too where a folder for that is found."""
    try:
        return njit(nogil=True, error_model="numpy", cache=True)(loop)
    except RuntimeError:
        return njit(nogil=True, error_model="numpy")(loop)


@intrinsic
def _add_panel(typing: Any, sums: Any, at: Any, lanes: Any, start: Any) -> Any:
    """sums[at : at + PANEL] += lanes[start : start + PANEL], in the vectors of the processor.

    Of a loop the compiler makes none: it cannot know that the two arrays never overlap.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args[::2]
        panels = []
        for kind, array, place in zip(kinds, arguments[::2], arguments[1::2], strict=True):
            data = cgutils.create_struct_proxy(kind)(context, builder, array).data
            vector = ir.VectorType(data.type.pointee, PANEL)
            panels.append(builder.bitcast(builder.gep(data, [place]), vector.as_pointer()))
        align = sums.dtype.bitwidth // 8
        added = builder.add(*(builder.load(panel, align=align) for panel in panels))
        builder.store(added, panels[0], align=align)
        return context.get_dummy_value()

    return types.void(sums, at, lanes, start), generate


@_compiled
def tally(
    shared: Any, codes: Any, first: int, last: int, rows: Any, lanes: Any, start: int, sums: Any
) -> None:
    """Add PANEL lanes of some rows to the cells of subsets that share all but their last feature.

    Args:
        shared: What the shared features add to the cell of each row, shape (N,), int32.
        codes: What each last feature adds to it, shape (N, F), unsigned.
        first: First of the last features.
        last: Past the last of them.
        rows: Rows that are added, shape (n,), intp.
        lanes: Integers of each row that is added, shape (n, W).
        start: First lane.
        sums: What they are added to, shape (cells, PANEL), of the type of the lanes.
    """
    given, kept, width = lanes.reshape(-1), sums.reshape(-1), lanes.shape[1]
    for place in range(rows.size):
        row = np.uint64(rows[place])
        base, own = np.int64(shared[row]), codes[row]
        for feature in range(first, last):
            cell = base + np.int64(own[np.uint64(feature)])
            _add_panel(kept, cell * PANEL, given, place * width + start)


@_compiled
def count(shared: Any, codes: Any, first: int, last: int, rows: Any, counts: Any) -> None:
    """Count some rows in the cells of subsets that share all but their last feature.

    Args:
        shared: As of `tally`, and so are the others.
        codes: The same.
        first: The same.
        last: The same.
        rows: The same.
        counts: What is counted up, shape (cells,).
    """
    for place in range(rows.size):
        row = np.uint64(rows[place])
        base, own = np.int64(shared[row]), codes[row]
        for feature in range(first, last):
            counts[np.uint64(base + np.int64(own[np.uint64(feature)]))] += 1


@_compiled
def screen(
    model: Any, baseline: Any, whole: Any, size: Any, needs: Any, side: int, limit: float,
    defined: Any, effect: Any, looked: Any,
) -> Any:  # fmt: skip
    """Which cells have a metric, its effect there, and which may be significant.

    Args:
        model: Numerators and denominators of every cell, then of every draw, shape (cells, W) each.
        baseline: The same of what the model is compared with on the same cell; None: the whole.
        whole: Metric of all rows, then of every draw, shape (B + 1,).
        size: Rows of every cell, shape (cells,).
        needs: Rows that a cell must hold, at least 1, and what its denominators must add up to.
        side: 1 for effects above 0, -1 for those below, 0 for both.
        limit: Least square of an effect over the sum of the squares of its draws about their mean.
        defined: Filled with the cells that have the metric, shape (cells,).
        effect: Filled with their effects, shape (cells,).
        looked: Filled with the places in `defined` of those that may be significant.

    Returns:
        How many have the metric, and how many may be significant.
    """
    draws, found, kept = whole.size - 1, 0, 0
    for cell in range(size.size):
        below = model[1][cell, 0]
        if size[cell] < needs[0] or below <= 0 or below < needs[1]:
            continue
        value = model[0][cell, 0] / below
        if baseline is None:
            value -= whole[0]
        else:
            below = baseline[1][cell, 0]
            if below <= 0 or below < needs[1]:
                continue
            value -= baseline[0][cell, 0] / below
        defined[found], effect[found] = cell, value
        found += 1
        if value * side < 0 or value == 0:
            continue
        total = squares = 0.0
        drawn = 0
        for draw in range(1, draws + 1):
            if model[1][cell, draw] > 0:
                one = model[0][cell, draw] / model[1][cell, draw]
                if baseline is None:
                    one -= whole[draw]
                elif baseline[1][cell, draw] > 0:
                    one -= baseline[0][cell, draw] / baseline[1][cell, draw]
                else:
                    continue
                drawn += 1
                total += one
                squares += one * one
            if drawn >= FEW and value * value * drawn < limit * (squares * drawn - total * total):
                break  # more draws only add squares
        else:
            looked[kept] = found - 1
            kept += 1
    return found, kept
