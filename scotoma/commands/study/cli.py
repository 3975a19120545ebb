"""`scotoma study`: people judge the examples that compression changes, without knowing which."""

from __future__ import annotations

import typer

from scotoma.commands.study.new import new
from scotoma.commands.study.result import result

__all__ = ["app"]

app = typer.Typer(
    name="study",
    no_args_is_help=True,
    help="Ask people, blind, whether the examples that compression changes are different.",
)
for command in (new, result):
    app.command()(command)
