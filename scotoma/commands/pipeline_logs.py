"""`scotoma pipeline logs`."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from scotoma.commands import pipeline_options as options

__all__ = ["logs"]


def logs(
    run: options.RunId,
    step: Annotated[
        str | None, typer.Option(help="Step to show. Default: all steps that failed.")
    ] = None,
    endpoint: options.Endpoint = None,
    namespace: options.Namespace = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Print the logs of the steps that failed, or of one step."""
    from scotoma.commands.gate import print_out
    from scotoma.commands.pipeline_connection import Connection
    from scotoma.errors import ConfigError
    from scotoma.printable import printable

    cluster = Connection(endpoint, namespace, as_json, quiet).cluster()
    tasks = [task for task in cluster.progress(run).tasks if task.attempts]
    chosen = [task for task in tasks if (task.name == step if step else task.state == "FAILED")]
    if not chosen:
        names = ", ".join(dict.fromkeys(task.name for task in tasks)) or "none"
        raise ConfigError(
            f"no step with a log is called {step!r}; choose from {names}"
            if step
            else f"no step has failed; name one with --step: {names}"
        )
    entries = [{"step": task.name, "log": cluster.logs(run, task.name)} for task in chosen]
    if as_json:
        print_out(json.dumps(entries, indent=1) + "\n", sys.stdout)
        return
    for entry in entries:
        lines = [f"{entry['step']}: {printable(line)}\n" for line in entry["log"].splitlines()]
        print_out("".join(lines), sys.stdout)
