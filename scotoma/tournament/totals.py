"""How many cells are better, and at what cost?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scotoma.tournament.cells import ACCURACY_DOWN, ACCURACY_SPREAD_UP, BIAS_SPREAD_UP, Cell

__all__ = ["Totals", "count_totals"]


@dataclass(frozen=True)
class Totals:
    """Counts of cells, one technique in one metric each.

    Attributes:
        cells: All of them.
        lower: Bias is significantly lower.
        higher: Bias is significantly higher.
        undecided: Neither.
        huge: Of `lower`: Cohen's d is huge, 2 or more.
        with_cost: Of `lower`: at one cost or more.
        accuracy_down: Of `lower`: accuracy is lower.
        accuracy_spread_up: Of `lower`: accuracy varies more from run to run.
        bias_spread_up: Of `lower`: bias varies more from run to run.
        all_three: Of `lower`: at all three costs.
        without_accuracy: Cells whose accuracy is not known; it costs them nothing here.
    """

    cells: int
    lower: int
    higher: int
    undecided: int
    huge: int
    with_cost: int
    accuracy_down: int
    accuracy_spread_up: int
    bias_spread_up: int
    all_three: int
    without_accuracy: int = 0


def count_totals(cells: Iterable[Cell]) -> Totals:
    """Count cells as Qian et al. 2021 do in Findings 3 and 4: costs overlap."""
    every = list(cells)
    lower = [cell for cell in every if cell.mean_moves == "-"]

    def costing(cost: str) -> int:
        return sum(cost in cell.costs for cell in lower)

    return Totals(
        cells=len(every),
        lower=len(lower),
        higher=sum(cell.mean_moves == "+" for cell in every),
        undecided=sum(cell.mean_moves == "NS" for cell in every),
        huge=sum(cell.tests.effect == "huge" for cell in lower),
        with_cost=sum(bool(cell.costs) for cell in lower),
        accuracy_down=costing(ACCURACY_DOWN),
        accuracy_spread_up=costing(ACCURACY_SPREAD_UP),
        bias_spread_up=costing(BIAS_SPREAD_UP),
        all_three=sum(len(cell.costs) == 3 for cell in lower),
        without_accuracy=sum(not cell.accuracy_known for cell in every),
    )
