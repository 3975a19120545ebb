"""The page of all commands: `python docs/commands.py` writes docs/commands.md.

A test holds the page to what this prints.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from scotoma.cli import application
from scotoma.commands import COMMANDS, GROUPS

PAGE = Path(__file__).with_name("commands.md")
HEAD = """\
# Commands

Every command with its arguments and options, as `scotoma COMMAND --help` shows them.
`python docs/commands.py` writes this page. `--json` prints JSON on stdout; messages go to stderr.

Exit codes: 0 done, or PASS; 1 FAIL; 2 the command line or the configuration; 3 UNSURE, where the
gate file makes that a failure; 4 the data; 5 an internal error; 6 valid evidence whose verdict is
FAIL (`verify`); 7 a whole audit that MLflow does not have (`kubeflow status --wait`,
`audit --resume --step log`); 130 interrupted.
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """All commands as Markdown."""
    told = [f"| `{name}` | {text} |" for name, text in COMMANDS.items() if " " not in name]
    told += [f"| `{name} ...` | {text} |" for name, text in GROUPS.items()]
    overview = "\n".join(["| command | what it does |", "|---|---|", *told, ""])
    return "\n".join([HEAD, overview, *(section(name, one) for name, one in commands())])


def commands() -> Iterator[tuple[str, Any]]:
    """Name and definition of each command, those of a group after its name."""
    root: Any = typer.main.get_command(application(whole=True))
    for name, command in sorted(root.commands.items()):
        inner = getattr(command, "commands", None)
        if inner is None:
            yield f"scotoma {name}", command
        else:
            yield from ((f"scotoma {name} {part}", one) for part, one in sorted(inner.items()))


def section(name: str, command: Any) -> str:
    """One command: how it is called, what it does, what it takes."""
    shown = [one for one in command.params if not one.hidden and "--help" not in one.opts]
    arguments = [one for one in shown if one.param_type_name == "argument"]
    usage = " ".join([name, *map(argument, arguments), "[OPTIONS]"])
    rows = [row(argument(one), one) for one in arguments]
    rows += [row(option(one), one) for one in shown if one not in arguments]
    table = ["| argument or option | what it does | default |", "|---|---|---|", *rows]
    return "\n".join(
        [f"## {name}", "", f"`{usage}`", "", inspect.cleandoc(command.help or ""), "", *table, ""]
    )


def argument(one: Any) -> str:
    """An argument as it is written, in brackets where it may be left out."""
    name = one.name.upper().replace("_", "-") + ("..." if one.nargs != 1 else "")
    return name if one.required else f"[{name}]"


def option(one: Any) -> str:
    """An option with all its spellings and the name of its value."""
    spellings = ", ".join([*one.opts, *one.secondary_opts])
    return spellings if one.is_flag else f"{spellings} {one.name.upper().replace('_', '-')}"


def row(spelling: str, one: Any) -> str:
    """A line of the table; no default is shown where it says nothing."""
    default = "" if one.default in (None, False, (), [], "") else f"`{one.default}`"
    if one.required and one.param_type_name == "option":
        default = "required"
    cells = (f"`{spelling}`", one.help or "", default)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


if __name__ == "__main__":
    main()
