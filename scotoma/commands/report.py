"""`scotoma report`."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from scotoma.commands.shared import options
from scotoma.errors import ConfigError, ScotomaError

__all__ = ["report"]


def report(
    run: options.FinishedRun,
    no_images: Annotated[bool, typer.Option("--no-images", help="Show no images.")] = False,
    blur: Annotated[
        bool, typer.Option("--blur", help="Reduce images to a few squares, beyond recognition.")
    ] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Draw report.html again from the files of a finished audit."""
    if no_images and blur:
        raise ConfigError("--no-images and --blur exclude each other; choose one")
    from scotoma.commands.shared.finished_run import open_run
    from scotoma.steps.report import draw

    finished = open_run(run, scores=True)
    try:
        page = draw(finished, images=not no_images, blur=blur)
    except OSError as error:
        raise ScotomaError(f"{error}; free the path or the disk, repeat") from error
    place, size = finished.mirror.place(page), page.stat().st_size
    if as_json:
        sys.stdout.write(json.dumps({"version": 1, "report": place, "bytes": size}) + "\n")
    else:
        sys.stdout.write(f"{place}\n")
    if not quiet:
        sys.stderr.write(f"report  {size / 1e6:.1f} MB, works offline\n")
