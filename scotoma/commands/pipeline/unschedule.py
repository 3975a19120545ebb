"""`scotoma pipeline unschedule`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from scotoma.commands.pipeline import options

__all__ = ["unschedule"]


def unschedule(
    schedule: Annotated[
        str,
        typer.Argument(metavar="CONFIG|NAME", help="Configuration (YAML) or name of the schedule."),
    ],
    endpoint: options.Endpoint = None,
    namespace: options.Namespace = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Remove a schedule; its audits stay, and a running audit continues."""
    from scotoma.commands.asking import print_out
    from scotoma.commands.pipeline.connection import Connection
    from scotoma.config import load_config
    from scotoma.pipelines.schedules import Schedules

    name, kubeflow = schedule, None
    if Path(schedule).suffix in (".yaml", ".yml"):
        config = load_config(Path(schedule))
        name, kubeflow = config.project, config.kubeflow
    connection = Connection(endpoint, namespace, as_json, quiet)
    count = Schedules(connection.cluster(kubeflow)).remove(name)
    connection.message(f"removed   {name}" if count else f"unchanged no schedule is called {name}")
    if as_json:
        print_out(json.dumps({"name": name, "removed": count}, indent=1) + "\n", sys.stdout)
