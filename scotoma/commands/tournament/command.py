"""`scotoma tournament`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scotoma.commands.shared import options

__all__ = ["tournament"]


def tournament(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Configuration (YAML) with a section tournament, which is trained; or finished "
            "audits, one a technique: FOLDER or TECHNIQUE=FOLDER."
        ),
    ] = None,
    raw: Annotated[
        Path | None,
        typer.Option(
            help="Raw values instead: a long table (technique, run, metric, value) or a folder "
            "of .yaml, .npz and table files."
        ),
    ] = None,
    base: Annotated[
        list[str] | None,
        typer.Option(help="Baseline; once a task. Default: techniques called base or TASK-Base."),
    ] = None,
    shared: Annotated[
        list[str] | None,
        typer.Option(
            help="Techniques that share their runs, as a pattern (S-DD*): compared in pairs."
        ),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(help="Variant of finished audits to compare. Default: the dense one."),
    ] = None,
    attribute: Annotated[
        str | None, typer.Option(help="Attribute of finished audits, if they have several.")
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="sound, or published to repeat the study's own tests.")
    ] = "sound",
    level: options.ConfidenceLevel = 0.95,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--runs", help="Folder of the audits that CONFIG asks for. Default: runs/PROJECT."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Page to write.")] = Path("tournament.html"),
    as_json: options.Json = False,
    csv: Annotated[
        bool, typer.Option("--csv", help="Print CSV, unrounded, one row per cell.")
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown, every cell with its intervals.")
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare bias mitigation techniques: which are fairer, at what cost, and after compression."""
    from scotoma.commands.tournament.compare import TournamentQuestion, run_tournament

    question = TournamentQuestion(
        runs=tuple(runs or ()), raw=raw, bases=tuple(base or ()), shared=tuple(shared or ()),
        variant=variant, attribute=attribute, protocol=protocol, level=level,
        folder=folder, quiet=quiet,
    )  # fmt: skip
    formats = [
        name for name, wanted in (("json", as_json), ("csv", csv), ("markdown", markdown)) if wanted
    ]
    run_tournament(question, out, formats)
