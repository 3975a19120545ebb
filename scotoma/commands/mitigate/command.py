"""`scotoma mitigate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scotoma.commands.shared import options

__all__ = ["mitigate"]


def mitigate(
    run: options.FinishedRun,
    technique: Annotated[str, typer.Option(help="dfr, thresholds, offsets or ensemble.")],
    variant: Annotated[
        str | None,
        typer.Option(help="Variant to mitigate. Default: the first of the worst verdict."),
    ] = None,
    attribute: Annotated[
        str | None,
        typer.Option(help="Attribute whose groups count, several joined by commas."),
    ] = None,
    together: Annotated[int, typer.Option(help="ensemble: members that decide together.")] = 2,
    out: Annotated[
        Path | None, typer.Option(help="New folder. Default: RUN-VARIANT+TECHNIQUE.")
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Mitigate a variant without training it again, and judge it beside the others.

    Half of the test examples fit the technique's rules; the other half, clusters whole, judges.
    The new folder holds the rules and an audit of its own; RUN stays as it is. Exit code: 0.
    """
    from scotoma.commands.mitigate.run import run_mitigate

    run_mitigate(
        run,
        technique,
        variant,
        attribute,
        together=together,
        out=out,
        as_json=as_json,
        quiet=quiet,
    )
