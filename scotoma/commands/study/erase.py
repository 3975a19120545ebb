"""`scotoma study erase`."""

from __future__ import annotations

from typing import Annotated

import typer

from scotoma.commands.study.check import Study

__all__ = ["erase"]


def erase(
    study: Study,
    annotator: Annotated[int, typer.Option(help="Number of the annotator.", min=1)],
) -> None:
    """Delete all answers of one annotator; that somebody was erased is kept as a count."""
    from scotoma.commands.study.people import erase_annotator

    erase_annotator(study, annotator)
