"""`scotoma pipeline logs`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scotoma.commands.pipeline import options

if TYPE_CHECKING:
    from scotoma.pipelines.progress import Progress

__all__ = ["logs"]


def logs(
    run: options.RunId,
    step: Annotated[
        str | None,
        typer.Option(help="Step to show. Default: every step that failed or has not ended."),
    ] = None,
    endpoint: options.Endpoint = None,
    namespace: options.Namespace = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Print the logs of the steps that failed or have not ended, or of one step.

    For a step that never started, print the command that asks Kubernetes why.
    """
    from scotoma.commands.asking import print_out
    from scotoma.commands.pipeline.connection import Connection
    from scotoma.errors import ConfigError
    from scotoma.pipelines.progress import ORDER
    from scotoma.printable import printable
    from scotoma.run.step_logs import last_tries
    from scotoma.steps.table import named

    if step is not None and step != "begin-scheduled":
        named(step)
    connection = Connection(endpoint, namespace, as_json, quiet)
    cluster = connection.cluster()
    progress = cluster.progress(run)
    _refuse_elsewhere(progress)
    last = last_tries(cluster.tries(progress.run_uri))
    wanted = (
        one.log for one in last
        if one.log.step == step or (step is None and one.state != "SUCCEEDED")
    )  # fmt: skip
    entries = [asdict(log) | {"log": log.read(progress.run_uri)} for log in wanted]
    if not entries:
        absent = step or _first_without_log(
            progress, {(one.log.step, one.log.shard) for one in last}
        )
        if absent is None:
            ordered = sorted({one.log.step for one in last}, key=lambda name: ORDER.get(name, 0))
            steps = ", ".join(ordered) or "none has a log"
            raise ConfigError(f"no step has failed; name one with --step: {steps}")
        labels = f"pipeline/runid={progress.run_id},scotoma/step={absent}"
        where = f"-n {cluster.namespace} " if cluster.namespace else ""
        command = f"kubectl describe pods {where}-l {labels}"
        connection.message(f"{absent} has not printed anything; this command says why:")
        entries = [{"step": absent, "command": command}]
        text = f"{command}\n"
    else:
        text = "".join(
            f"{printable(entry['step'])}.{entry['shard']}: {printable(line)}\n"
            for entry in entries
            for line in entry["log"].splitlines()
        )
    print_out(json.dumps(entries, indent=1) + "\n" if as_json else text, sys.stdout)


def _refuse_elsewhere(progress: Progress) -> None:
    """Refuse a run whose logs this machine cannot read."""
    from scotoma import storage
    from scotoma.errors import ConfigError

    place = progress.run_uri
    if not place:
        raise ConfigError(f"the run {progress.run_id} is no audit, so it has no logs; correct it")
    if not storage.is_remote(place) and not Path(place).is_dir():
        raise ConfigError(
            f"the logs are in {place}/logs, on a volume that this machine does not have; read "
            "them there, or with kubectl logs --tail=-1 -l pipeline/runid="
            f"{progress.run_id},scotoma/step=STEP"
        )


def _first_without_log(progress: Progress, logged: set[tuple[str, int]]) -> str | None:
    """The first step that left no log though it should run; None if there is none."""
    unfinished = [task for task in progress.tasks if task.state not in ("SUCCEEDED", "WAITING")]
    absent = [task.name for task in unfinished if (task.name, task.shard or 0) not in logged]
    names = absent or [task.name for task in unfinished] or ["prepare"]
    return None if progress.state == "SUCCEEDED" else names[0]
