"""What would a paper's tables say about this run? One module for each paper."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from scotoma import published
from scotoma.document import Document, Section
from scotoma.errors import ConfigError, DataError
from scotoma.papers.table import CANNOT, long_table
from scotoma.printable import ONE_OF_THEM, nearest, quoted

if TYPE_CHECKING:
    from scotoma.run import Run

PAPERS = {
    "pie": "pie",
    "cie": "cie",
    "clarify": "clarify",
    "variance": "fairness_variance",
    "autoslicer": "autoslicer",
}  # the file of `published` that each is beside
NOTE = (
    "The run and the paper are of different data and models: the same question asked twice, not "
    "one result repeated."
)


def paper_document(run: Run, paper: str, *, whole: bool = False) -> Document:
    """Put a run into the tables of a paper.

    Args:
        run: A finished audit.
        paper: A name of `PAPERS`.
        whole: One table with a row a cell, not the paper's tables.

    Raises:
        ConfigError: There is no such paper.
        DataError: The run can give none of its tables.
    """
    if paper not in PAPERS:
        raise ConfigError(
            f"paper must be one of {', '.join(PAPERS)}, got {quoted(paper)}"
            f"{nearest(paper, list(PAPERS), ONE_OF_THEM)}"
        )
    from scotoma.predictions.finished import FinishedAudit

    finished = FinishedAudit(run)
    made: list[Section] = importlib.import_module(f"scotoma.papers.{paper}").tables(finished)
    lacking = [one.answer[0] for one in made if one.answer[0].startswith(CANNOT)]
    if len(lacking) == len(made):
        why = lacking[0].removeprefix(CANNOT).removesuffix(".")
        raise DataError(f"{made[0].link} of {paper} cannot be made: {why}")
    source = published.load(PAPERS[paper]).source
    if whole:
        made = [Section("cells", "", parts=[long_table(paper, made)])]
    return Document(f"{finished.audit.project} in the tables of {source}. {NOTE}", sections=made)
