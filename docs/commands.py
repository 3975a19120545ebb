"""The page of all commands: `python docs/commands.py` writes docs/commands.md.

A test holds the page to what this prints.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from scotoma.cli import application
from scotoma.commands import COMMANDS, GROUPS

PAGE = Path(__file__).with_name("commands.md")
SHARED = ("--json", "--csv", "--markdown", "--html", "--quiet")  # the same wherever they are
HEAD = """\
# Which commands are there, and what do they take?

`scotoma COMMAND --help` shows it; *`python docs/commands.py` writes this page*.

```sh
scotoma --help
scotoma compare --help
```

[Exit codes](promises.md#what-stays-the-same) are the same everywhere. Commands that print a result
take `--json` or `--csv` (every number unrounded), `--markdown`, some `--html`, and `--quiet`, which
prints no progress. `...` marks what can be repeated. Results go to stdout, messages to stderr.
"""
BOUNDS = re.compile(
    r" (At least|At most|Above|Below) [^ ]+(, (at most|below|above) [^ ]+)?\.(?= |$)"
)
SEVERAL = """\
## What several commands take
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """All commands as Markdown."""
    known = list(commands())
    told = ", ".join(f"[{name}](#scotoma-{name})" for name in COMMANDS if " " not in name)
    told += "".join(f", `{name} ...`" for name in GROUPS) + "."
    common = shared([command for _, command in known])
    parts = [section(name, command, common) for name, command in known]
    return "\n".join([HEAD, told, "", SEVERAL, *common, "", *parts])


def shared(known: list[Any]) -> list[str]:
    """The lines that stand in three commands or more, in the order in which they first come."""
    lines = Counter(row(one) for command in known for one in options(command))
    return [line for line, count in lines.items() if count >= 3]


def commands() -> Iterator[tuple[str, Any]]:
    """Name and definition of each command, those of a group after its name."""
    root: Any = typer.main.get_command(application(whole=True))
    for name, command in sorted(root.commands.items()):
        inner = getattr(command, "commands", None)
        if inner is None:
            yield f"scotoma {name}", command
        else:
            yield from ((f"scotoma {name} {part}", one) for part, one in sorted(inner.items()))


def options(command: Any) -> list[Any]:
    """The arguments of a command, then its options, without those of all commands."""
    shown = [one for one in command.params if not one.hidden]
    shown = [one for one in shown if not {*SHARED, "--help"} & {*one.opts}]
    return sorted(shown, key=lambda one: one.param_type_name != "argument")


def section(name: str, command: Any, common: list[str]) -> str:
    """One command: how it is called, what it does, what it takes."""
    shown = options(command)
    arguments = [argument(one) for one in shown if one.param_type_name == "argument"]
    usage = " ".join([name, *arguments, "[OPTIONS]"])
    rows = {one: row(one) for one in shown}
    lines = [line for line in rows.values() if line not in common]
    if also := [
        f"`{one.opts[0]}`" for one in shown if rows[one] in common and one.opts[0][0] == "-"
    ]:
        lines.append(f"- And {', '.join(also)}.")
    return "\n".join(
        [f"## {name}", "", f"`{usage}`", "", inspect.cleandoc(command.help or ""), "", *lines, ""]
    )


def argument(one: Any) -> str:
    """An argument as it is written, in brackets where it may be left out."""
    name = one.name.upper().replace("_", "-") + ("..." if one.nargs != 1 else "")
    return name if one.required else f"[{name}]"


def option(one: Any) -> str:
    """An option with all its spellings, and the name of its value."""
    spellings = ", ".join([*one.opts, *one.secondary_opts])
    return (
        spellings if one.is_flag else f"{spellings}={one.name.upper().strip('_').replace('_', '-')}"
    )


def row(one: Any) -> str:
    """A line of the list; no default is shown where it says nothing."""
    text = BOUNDS.sub("", " ".join((one.help or "").split()))
    several = " ..." * (" Can be repeated" in text)
    text = text.replace(" Can be repeated.", "")
    if one.required and one.param_type_name == "option":
        text += " Required."
    elif one.default not in (None, False, (), [], "") and "Default" not in text:
        text += f" Default: {one.default}."
    named = argument(one) if one.param_type_name == "argument" else option(one)
    return f"- `{named}{several}`: {text}"


if __name__ == "__main__":
    main()
