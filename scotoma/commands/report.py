"""The report command: the page of a finished audit, drawn again."""

from __future__ import annotations

import json
import sys

from scotoma.commands.examples import open_run
from scotoma.errors import ConfigError, ScotomaError
from scotoma.stages.report import draw

__all__ = ["run_report"]


def run_report(place: str, *, no_images: bool, blur: bool, as_json: bool, quiet: bool) -> None:
    """Draw report.html again and print where it is.

    Args:
        place: Folder of a finished audit, or its `s3://BUCKET/PREFIX`.
        no_images: Show no image.
        blur: Show images as a few squares.
        as_json: Print JSON.
        quiet: No messages.

    Raises:
        ScotomaError: The run cannot be used, or the page not be written.
    """
    if no_images and blur:
        raise ConfigError("--no-images and --blur are both asked for; choose one")
    run = open_run(place)
    try:
        page = draw(run, images=not no_images, blur=blur)
    except OSError as error:
        raise ScotomaError(f"{error}; free the path or the disk, repeat") from error
    shown, size = run.mirror.place(page), page.stat().st_size
    if as_json:
        sys.stdout.write(json.dumps({"version": 1, "report": shown, "bytes": size}) + "\n")
    else:
        sys.stdout.write(f"{shown}\n")
    if not quiet:
        sys.stderr.write(f"report  {size / 1e6:.1f} MB, works offline\n")
