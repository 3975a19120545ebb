"""What would a paper's tables say about my run? One module a paper; `PAPERS` names them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from scotoma import published
from scotoma.papers.table import Grid, PaperTable
from scotoma.published.records import Paper

if TYPE_CHECKING:
    from scotoma.predictions.finished import FinishedAudit

__all__ = ["PAPERS", "Grid", "PaperTable", "paper_tables"]

PAPERS: dict[str, Callable[[], Paper]] = {
    "pie": published.pie,
    "cie": published.cie,
    "clarify": published.clarify,
    "variance": published.fairness_variance,
    "autoslicer": published.autoslicer,
}


def paper_tables(paper: str, finished: FinishedAudit) -> list[PaperTable]:
    """Make the tables of a paper from a run.

    Args:
        paper: One of `PAPERS`; the module of that name has a function `tables`.
        finished: The run.

    Raises:
        DataError: A file of the run is missing or was changed.
    """
    make: Callable[[FinishedAudit], list[PaperTable]]
    make = importlib.import_module(f"scotoma.papers.{paper}").tables
    return make(finished)
