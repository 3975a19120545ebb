"""`scotoma study invite`."""

from __future__ import annotations

from typing import Annotated

import typer

from scotoma.commands.shared import options
from scotoma.commands.study.check import Study

__all__ = ["invite"]


def invite(
    study: Study,
    annotator: Annotated[
        int | None, typer.Option(help="Number of one annotator. Default: all that are planned.")
    ] = None,
    days: Annotated[int, typer.Option(help="Days until the links expire.", min=1, max=366)] = 30,
    url: Annotated[
        str, typer.Option(help="Where people reach the server.")
    ] = "http://127.0.0.1:8765",
    revoke: Annotated[
        bool, typer.Option("--revoke", help="Withdraw the link of --annotator instead.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Print a link for each annotator; a link that they had before stops working.

    Only a hash of each link is kept: copy the links now.
    """
    from scotoma.commands.study.people import invite_annotators, revoke_annotator

    if revoke:
        revoke_annotator(study, annotator)
    else:
        invite_annotators(study, annotator, days, url, as_json=as_json)
