"""`scotoma check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scotoma.commands.shared import options

__all__ = ["check"]


def check(
    config: Annotated[
        Path | None,
        typer.Argument(help="Configuration (YAML). Default: an audit of the built-in digits."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Replace source.data: a folder or s3:// prefix.")
    ] = None,
    assumed_error: Annotated[
        float | None,
        typer.Option(
            help="Error rate to assume for the dense models, between 0 and 1. Default: that of the "
            "predictions, where they are audited, else 0.05."
        ),
    ] = None,
    trial: Annotated[
        bool, typer.Option("--trial/--no-trial", help="Time a few training steps, for about 5 s.")
    ] = True,
    allow_code: options.AllowCode = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show which examples an audit would use, what it could detect, and what it would cost."""
    from scotoma.commands.check.forecast import print_forecast

    print_forecast(
        config, data=data, assumed_error=assumed_error, trial=trial, as_json=as_json, quiet=quiet,
        allow_code=allow_code,
    )  # fmt: skip
