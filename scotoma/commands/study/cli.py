"""`scotoma study`: people judge the examples that compression changes, without knowing which."""

from __future__ import annotations

import typer

from scotoma.commands.study.check import check
from scotoma.commands.study.erase import erase
from scotoma.commands.study.export import export
from scotoma.commands.study.import_answers import import_
from scotoma.commands.study.invite import invite
from scotoma.commands.study.new import new
from scotoma.commands.study.result import result
from scotoma.commands.study.serve import serve

__all__ = ["app"]

app = typer.Typer(
    name="study",
    no_args_is_help=True,
    help="Ask people, blind, whether the examples that compression changes are different.",
)
for command in (new, check, invite, serve, export, import_, result, erase):
    app.command(command.__name__.rstrip("_"))(command)
