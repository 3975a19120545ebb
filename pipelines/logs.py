"""What the steps of a run printed, from its place; or the command that asks why nothing."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from scotoma import storage
from scotoma.errors import ConfigError
from scotoma.pipelines.client import KfpClient
from scotoma.pipelines.pending import kubectl
from scotoma.pipelines.progress import ORDER, Progress
from scotoma.run.step_logs import last_tries
from scotoma.steps.table import named


def logs_of(client: KfpClient, run_id: str, step: str | None) -> list[dict[str, Any]]:
    """Read the logs of steps that failed or have not ended, or of one step.

    Args:
        client: The Kubeflow.
        run_id: Id of the run.
        step: The step; None for every step that has not succeeded.

    Returns:
        Of each shard's last try its `step`, `shard`, `attempt`, `path` and `log`. Where nothing was
        printed, one entry of the `step` and the `command` that asks Kubernetes why.

    Raises:
        ConfigError: The run is no audit, this machine cannot read its place, or no step failed.
    """
    if step is not None and step != "begin-scheduled":
        named(step)
    run = client.progress(run_id)
    place = run.run_uri
    if not storage.is_remote(place) and not Path(place).is_dir():
        raise ConfigError(
            f"the logs are in {place}/logs, on a volume that this machine does not have; read "
            f"them there, or with {kubectl('logs --tail=-1', client, run.run_id, 'STEP')}"
        )
    last = last_tries(client.tries(place))
    wanted = (
        one.log for one in last
        if one.log.step == step or (step is None and one.state != "SUCCEEDED")
    )  # fmt: skip
    if entries := [asdict(log) | {"log": log.read(place)} for log in wanted]:
        return entries
    absent = step or _first_without_log(run, {(one.log.step, one.log.shard) for one in last})
    if absent is None:
        ordered = sorted({one.log.step for one in last}, key=lambda name: ORDER.get(name, 0))
        steps = ", ".join(ordered) or "none has a log"
        raise ConfigError(f"no step has failed; name one with --step: {steps}")
    return [{"step": absent, "command": kubectl("describe pods", client, run.run_id, absent)}]


def _first_without_log(progress: Progress, logged: set[tuple[str, int]]) -> str | None:
    """The first step that left no log though it should run; None if there is none."""
    unfinished = [task for task in progress.tasks if task.state not in ("SUCCEEDED", "WAITING")]
    absent = [task.name for task in unfinished if (task.name, task.shard or 0) not in logged]
    names = absent or [task.name for task in unfinished] or ["prepare"]
    return None if progress.state == "SUCCEEDED" else names[0]
