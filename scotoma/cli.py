"""The `scotoma` command: data on stdout, progress and messages on stderr, no logic."""

from __future__ import annotations

import functools
import signal
import sys
import traceback
from collections.abc import Callable
from copy import copy
from typing import Annotated, Any

import typer
from typer.main import get_command

from scotoma._version import __version__
from scotoma.commands.audit.command import audit
from scotoma.commands.bias.command import bias
from scotoma.commands.check.command import check
from scotoma.commands.compare.command import compare
from scotoma.commands.corrupt import corrupt
from scotoma.commands.diff.command import diff
from scotoma.commands.evidence.command import evidence
from scotoma.commands.examples.command import examples
from scotoma.commands.gate import gate
from scotoma.commands.init.command import init
from scotoma.commands.mitigate.command import mitigate
from scotoma.commands.pipeline import cli as pipeline_cli
from scotoma.commands.repair.command import repair
from scotoma.commands.report import report
from scotoma.commands.review.command import review
from scotoma.commands.schema import schema
from scotoma.commands.selftest.command import selftest
from scotoma.commands.slices.command import slices
from scotoma.commands.study import cli as study_cli
from scotoma.commands.tables.command import tables
from scotoma.commands.tidy import tidy
from scotoma.commands.tournament.command import tournament
from scotoma.commands.trend import trend
from scotoma.commands.variance.command import variance
from scotoma.commands.verify import verify
from scotoma.errors import ScotomaError
from scotoma.printable import printable
from scotoma.storage.credentials import masked

COMMANDS: tuple[Callable[..., None], ...] = (  # in the order in which --help lists them
    audit, compare, check, gate, schema, bias, slices, variance, corrupt, report, review, init,
    examples, diff, mitigate, repair, evidence, selftest, tables, tidy, tournament, trend, verify,
)  # fmt: skip

app = typer.Typer(
    name="scotoma",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Find the blind spots that pruning and int8 quantization open in a model.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"scotoma {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Find the blind spots that pruning and int8 quantization open in a model."""


def _guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Keep click from ending an EOFError with 1, which is a verdict, and an interrupt silently."""

    @functools.wraps(command)
    def guarded(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except EOFError as error:
            raise RuntimeError("a file or a pipe ended too early") from error
        except KeyboardInterrupt as error:
            sys.stderr.write("scotoma: interrupted; repeat the command to resume\n")
            raise typer.Exit(130) from error

    return guarded


for command in COMMANDS:
    app.command()(_guarded(command))
app.add_typer(pipeline_cli.app)
app.add_typer(study_cli.app)


@functools.cache
def _commands(asked: str) -> Callable[[], Any]:
    """The command that is asked for, or all: they take as long to build as many of them to run."""
    for info in app.registered_commands:
        if info.callback is not None and info.callback.__name__ == asked:
            own = copy(app)
            own.registered_commands, own.registered_groups = [info], []
            return get_command(own)
    return get_command(app)


def main() -> None:
    """Run the command; print an expected error as one sentence on stderr and exit with its code."""
    for number in (signal.SIGTERM, signal.SIGHUP):  # a closed terminal interrupts, too
        signal.signal(number, signal.default_int_handler)
    try:
        _commands(sys.argv[1] if len(sys.argv) > 1 else "")()
    except ScotomaError as error:
        sys.stderr.write(f"scotoma: {printable(masked(str(error)))}\n")
        sys.exit(error.exit_code)
    except OSError as error:
        message = printable(masked(str(error)))
        sys.stderr.write(f"scotoma: {message}; free the path or the disk, repeat\n")
        sys.exit(5)
    except Exception:  # Python would exit with 1, which is a verdict of the gate
        sys.stderr.write(masked(traceback.format_exc()))
        sys.exit(5)


if __name__ == "__main__":
    main()
