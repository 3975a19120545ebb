"""`scotoma study export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scotoma.commands.shared import options
from scotoma.commands.study.check import Study

__all__ = ["export"]


def export(
    study: Study,
    annotator: Annotated[
        int | None, typer.Option(help="Number of the annotator of --single-file.", min=1)
    ] = None,
    single_file: Annotated[
        bool,
        typer.Option(
            "--single-file", help="The page of one annotator as HTML that needs no server."
        ),
    ] = False,
    label_studio: Annotated[
        bool, typer.Option("--label-studio", help="Tasks and interface for Label Studio.")
    ] = False,
    answers: Annotated[
        bool, typer.Option("--answers", help="All answers with comments as CSV, without arms.")
    ] = False,
    backup: Annotated[
        bool,
        typer.Option("--backup", help="A copy of the database of answers, while it is in use."),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the files. Default: STUDY/exports.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write a study for people without a server, for Label Studio, or its answers.

    None of these files says which image is of which arm. What comes back is taken by
    `scotoma study import`.
    """
    from scotoma.commands.study.files import export_study

    wanted = {
        "--single-file": single_file,
        "--label-studio": label_studio,
        "--answers": answers,
        "--backup": backup,
    }
    export_study(study, wanted, annotator, out, as_json=as_json)
