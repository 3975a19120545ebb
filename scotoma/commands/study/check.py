"""`scotoma study check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scotoma.commands.shared import options

__all__ = ["Study", "check"]

Study = Annotated[Path, typer.Argument(help="Folder of a study that scotoma study new made.")]


def check(
    study: Study,
    leaky: Annotated[
        bool, typer.Option("--leaky", help="Go on although a machine can tell the arms apart.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Measure whether a machine could tell the arms apart from all that is shown but pixels.

    Above an AUC of 0.60 it is refused (exit status 4) without --leaky, here or in the plan.
    """
    import json
    import sys

    from scotoma.commands.study.leaks import leaks_of, refuse_leaks
    from scotoma.commands.study.text import leak_lines
    from scotoma.study.plan import StudyFolder

    folder = StudyFolder(study)
    plan = folder.plan()
    leaks = leaks_of(folder, plan)
    if as_json:
        rows = {name: one.model_dump() for name, one in leaks.items()}
        sys.stdout.write(json.dumps({"version": 1, "leak": rows}, indent=1) + "\n")
    else:
        sys.stdout.write("\n".join(leak_lines(leaks, plan.labels)) + "\n")
    refuse_leaks(leaks, allowed=leaky or plan.leaky)
