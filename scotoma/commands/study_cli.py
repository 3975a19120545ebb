"""`scotoma study`: people judge the examples that compression changes, without knowing which."""

from __future__ import annotations

import typer

from scotoma.commands.study_check import check
from scotoma.commands.study_erase import erase
from scotoma.commands.study_export import export
from scotoma.commands.study_import import import_
from scotoma.commands.study_invite import invite
from scotoma.commands.study_new import new
from scotoma.commands.study_result import result
from scotoma.commands.study_serve import serve

__all__ = ["app"]

app = typer.Typer(
    name="study",
    no_args_is_help=True,
    help="Ask people, blind, whether the examples that compression changes are different.",
)
for command in (new, check, invite, serve, export, import_, result, erase):
    app.command(command.__name__.rstrip("_"))(command)
