"""The `check` command, as the command line takes it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["check"]


def check(
    config: Annotated[
        Path | None,
        typer.Argument(help="YAML file; without one, the embedded digits are checked."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Overrides source.data: a folder or s3:// prefix.")
    ] = None,
    assumed_error: Annotated[
        float, typer.Option(help="Error of the dense members that is assumed, a fraction.")
    ] = 0.05,
    trial: Annotated[
        bool, typer.Option("--trial/--no-trial", help="Time a few real steps, for about 5 s.")
    ] = True,
    allow_code: Annotated[
        bool,
        typer.Option("--allow-code", help="Run the code that source.model names, if it is code."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, unrounded.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Show what an audit will see, what it can find and what it will cost; nothing is trained."""
    from scotoma.commands.forecast import print_forecast

    print_forecast(
        config, data=data, assumed_error=assumed_error, trial=trial, as_json=as_json, quiet=quiet,
        allow_code=allow_code,
    )  # fmt: skip
