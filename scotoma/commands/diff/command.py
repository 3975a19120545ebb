"""`scotoma diff`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scotoma.commands.shared import options

__all__ = ["diff"]


def diff(
    first: Annotated[
        str, typer.Argument(help="The earlier audit: a folder or s3://BUCKET/PREFIX.")
    ],
    second: Annotated[str, typer.Argument(help="The later audit.")],
    html: Annotated[
        Path | None, typer.Option(help="Write both audits side by side as a page into this file.")
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """List which verdicts changed between two audits, and what got better or worse."""
    from scotoma.commands.diff.runs import run_diff

    run_diff(first, second, html=html, as_json=as_json, quiet=quiet)
