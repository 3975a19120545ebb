"""`scotoma repair`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scotoma.commands.shared import options

__all__ = ["repair"]


def repair(
    run: options.FinishedRun,
    variant: Annotated[
        str | None,
        typer.Option(help="int8 variant to repair. Default: the only one, or the only static one."),
    ] = None,
    max_size_increase: Annotated[
        str, typer.Option(help="By how much the int8 file may grow, in per cent.")
    ] = "10%",
    out: Annotated[Path | None, typer.Option(help="New folder. Default: RUN-VARIANT+repair.")] = (
        None
    ),
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Choose ranges, and layers to leave in float32, so that the groups that int8 harms recover.

    Half of the test examples choose; the other half, clusters whole, judges the repaired variant
    beside the others. The new folder holds the repaired ONNX models and an audit of its own; RUN
    stays as it is. Exit code: 0.
    """
    from scotoma.commands.repair.run import run_repair

    run_repair(run, variant, max_size_increase, out=out, as_json=as_json, quiet=quiet)
