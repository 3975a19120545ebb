"""`scotoma study result`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scotoma.commands.shared import options

__all__ = ["result"]


def result(
    study: Annotated[Path, typer.Argument(help="Folder of a study that scotoma study new made.")],
    files: Annotated[
        list[Path],
        typer.Argument(help="Answers that came back, all of them: of the page or Label Studio."),
    ],
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Open the key, analyse the answers as planned, and write result.json and answers.csv.

    FILES are what annotators downloaded from their page, and JSON exports of Label Studio; leave a
    person out by leaving out their file. `scotoma show RUN` shows a study in RUN/studies.
    """
    from scotoma.commands.study.analyse import analyse_study

    analyse_study(study, files, as_json=as_json, quiet=quiet)
