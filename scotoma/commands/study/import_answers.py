"""`scotoma study import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scotoma.commands.study.check import Study

__all__ = ["import_"]


def import_(
    study: Study,
    files: Annotated[
        list[Path], typer.Argument(help="Files that annotators downloaded from their page.")
    ],
    label_studio: Annotated[
        bool,
        typer.Option("--label-studio", help="The files are exports (JSON) of Label Studio."),
    ] = False,
) -> None:
    """Take in answers that were given without the server. A file is taken whole or not at all."""
    from scotoma.commands.study.files import import_answers

    import_answers(study, files, label_studio=label_studio)
