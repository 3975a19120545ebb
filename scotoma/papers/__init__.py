"""What would a paper's tables say about my run? One module a paper; `PAPERS` names them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from scotoma.papers.table import Grid, PaperTable

if TYPE_CHECKING:
    from scotoma.papers.finished import FinishedAudit

__all__ = ["PAPERS", "Grid", "PaperTable", "paper_tables"]

PAPERS = ("pie", "cie")


def paper_tables(paper: str) -> Callable[[FinishedAudit], list[PaperTable]]:
    """Return the function that makes a paper's tables.

    Args:
        paper: One of `PAPERS`, which is also the module that holds its function `tables`.
    """
    module = importlib.import_module(f"scotoma.papers.{paper}")
    made: Callable[[FinishedAudit], list[PaperTable]] = module.tables
    return made
