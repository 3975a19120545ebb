"""The `scotoma` command: data on stdout, progress and messages on stderr, no logic."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable
from typing import Annotated, Any

import typer

from scotoma._version import __version__
from scotoma.commands import audit_cli, check, more_cli, pipeline_cli, slices, tables_cli
from scotoma.commands import gate as gate_command
from scotoma.errors import ScotomaError
from scotoma.printable import printable

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


def _whole(command: Callable[..., None]) -> Callable[..., None]:
    """The command; click ends an EOFError, such as a dead worker's, with 1, which is a verdict.

    And an interrupt in silence.
    """

    @functools.wraps(command)
    def called(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except EOFError as error:
            raise RuntimeError("a file or a pipe ended too early") from error
        except KeyboardInterrupt as error:
            sys.stderr.write("scotoma: interrupted; repeat the command to go on from here\n")
            raise typer.Exit(130) from error

    return called


for command in (
    audit_cli.audit,
    check.check,
    gate_command.gate,
    audit_cli.schema,
    tables_cli.bias,
    slices.slices,
    tables_cli.variance,
    more_cli.report,
    more_cli.init,
    more_cli.examples,
    more_cli.diff,
    more_cli.selftest,
    more_cli.tidy,
    more_cli.trend,
    more_cli.verify,
):
    app.command()(_whole(command))
app.add_typer(pipeline_cli.app)


def main() -> None:
    """Run the command; an expected error is one sentence on stderr and its exit code."""
    try:
        app()
    except ScotomaError as error:
        sys.stderr.write(f"scotoma: {printable(str(error))}\n")
        sys.exit(error.exit_code)
    except OSError as error:
        sys.stderr.write(f"scotoma: {printable(str(error))}; free the path or the disk, repeat\n")
        sys.exit(5)
    except Exception:  # left alone it would end with 1, which is a verdict of the gate
        traceback.print_exc()
        sys.exit(5)


if __name__ == "__main__":
    main()
