"""The `scotoma` command: data on stdout, progress and messages on stderr, no logic."""

from __future__ import annotations

import functools
import signal
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_command

from scotoma._version import __version__
from scotoma.commands import COMMANDS, GROUPS, RENAMED
from scotoma.errors import ConfigError, ScotomaError
from scotoma.printable import printable
from scotoma.storage.credentials import masked

HELP = "Find the blind spots that pruning and int8 quantization open in a model."


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"scotoma {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Find the blind spots that pruning and int8 quantization open in a model."""


def application(*arguments: str, whole: bool = False) -> typer.Typer:
    """All commands; those that the arguments do not ask for are a name and a line of help.

    Args:
        arguments: What is typed after `scotoma`.
        whole: Build every command with its options.
    """
    app = typer.Typer(
        name="scotoma", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
        help=HELP,
    )  # fmt: skip
    app.callback()(_root)
    groups = {
        name: typer.Typer(name=name, no_args_is_help=True, help=text)
        for name, text in GROUPS.items()
    }
    asked = " ".join(arguments[: 1 + (arguments[:1] in [(group,) for group in groups])])
    for name, text in COMMANDS.items():
        group, _, last = name.rpartition(" ")
        place = groups[group] if group else app
        if whole or name == asked:
            place.command(last)(_guarded(_built(name)))
        else:
            place.command(last, help=text)(_nothing)
    for inner in groups.values():
        app.add_typer(inner)
    return app


def _built(name: str) -> Callable[..., None]:
    """The command of a name, with its options: a function of its module, called as it is."""
    from scotoma.commands.asking import typed_command

    module = import_module(f"scotoma.commands.{name.replace(' ', '.')}")
    return typed_command(getattr(module, name.rpartition(" ")[2]))


def _nothing() -> None:
    """Stand for a command that is not asked for: pydantic takes as long as all of `--help`."""


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


def _refuse_old_name(arguments: list[str]) -> None:
    """Say what a command is called now."""
    for words in (2, 1):
        name = " ".join(arguments[:words])
        if RENAMED.get(name, "").startswith("python "):
            raise ConfigError(f"scotoma {name} is a script now; run {RENAMED[name]} in a checkout")
        if name in RENAMED:
            raise ConfigError(
                f"scotoma {name} is called scotoma {RENAMED[name]} now; see scotoma "
                f"{RENAMED[name].split(' ')[0]} --help"
            )


def main() -> None:
    """Run the command; print an expected error as one sentence on stderr and exit with its code."""
    for number in (signal.SIGTERM, signal.SIGHUP):  # a closed terminal interrupts, too
        signal.signal(number, signal.default_int_handler)
    try:
        _refuse_old_name(sys.argv[1:])
        get_command(application(*sys.argv[1:]))()
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
