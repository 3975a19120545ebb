"""`scotoma selftest`."""

from __future__ import annotations

from typing import Annotated

import typer

from scotoma.commands.shared import options

__all__ = ["selftest"]


def selftest(
    seed: Annotated[int, typer.Option(help="Seed of the simulated predictions.", min=0)] = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Plant harm of known size, audit it, and compare the result with what was planted."""
    from scotoma.commands.selftest.audit import run_selftest

    run_selftest(seed=seed, as_json=as_json, quiet=quiet)
