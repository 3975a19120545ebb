"""The `scotoma` command: data on stdout, progress and messages on stderr, no logic."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from scotoma._version import __version__
from scotoma.errors import ScotomaError

app = typer.Typer(
    name="scotoma",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Find the blind spots that pruning and int8 quantization open in a model.",
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"scotoma {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print and exit."),
    ] = False,
) -> None:
    """Find the blind spots that pruning and int8 quantization open in a model."""


@app.command()
def audit(
    config: Annotated[
        Path | None,
        typer.Argument(help="YAML file; without one, the embedded digits are audited."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the run; by default runs/PROJECT-DIGEST."),
    ] = None,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Same config, same machine: the same bytes.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="Overrides population.seed.", min=0, max=2**32 - 1)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print audit.json instead of the summary.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no messages.")] = False,
) -> None:
    """Train, compress, predict, compare and report: the whole pipeline.

    A run that was interrupted, or has ended, is taken up where it stands: repeat the command.
    """
    from scotoma.commands.audit import run_audit

    run_audit(config, out, deterministic=deterministic, seed=seed, as_json=as_json, quiet=quiet)


def main() -> None:
    """Run the command; an expected error is one sentence on stderr and its exit code."""
    try:
        app()
    except ScotomaError as error:
        sys.stderr.write(f"scotoma: {error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
