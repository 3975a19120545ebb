"""`scotoma pipeline submit --preflight`: say what would fail in hours before an audit is sent."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from scotoma import storage
from scotoma.commands.pipeline import wait as pipeline_wait
from scotoma.commands.pipeline.pending import pending_lines
from scotoma.errors import ConfigError
from scotoma.printable import printable

if TYPE_CHECKING:
    from scotoma.commands.pipeline.connection import Connection
    from scotoma.config import Config, Kubeflow
    from scotoma.pipelines.cluster import KfpClient

__all__ = ["run_preflight"]


def run_preflight(
    config: Config, kubeflow: Kubeflow, out: str, experiment: str, connection: Connection
) -> None:
    """Run a short task in each image, and wait for it.

    Args:
        config: The audit that is to be sent.
        kubeflow: The cluster.
        out: Place of the audit.
        experiment: Experiment in KFP.
        connection: The Kubeflow.

    Raises:
        ConfigError: A pod does not start, or what a step needs is not there. Nothing was sent.
    """
    from scotoma.pipelines.cluster import PREFLIGHT
    from scotoma.pipelines.preflight import compile_preflight, parts_of

    cluster = connection.cluster(kubeflow)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "preflight.yaml")
        compile_preflight(config, path, kubeflow)
        run = cluster.submit(path, out, f"{config.project} preflight", experiment, PREFLIGHT)
    _wait(cluster, run.run_id, connection)
    faults = 0
    for part in parts_of(config, kubeflow):
        for line in _faults(cluster, run.run_id, part, out):
            faults += 1
            connection.message(f"preflight  {part}: {line}")
    if faults:
        raise ConfigError(
            f"the preflight found {faults} fault{'s' * (faults > 1)}, so no audit was sent; "
            f"correct {'them' if faults > 1 else 'it'} and repeat the command"
        )
    connection.message("preflight  images, secrets, storage, MLflow and GPU are as needed")


def _wait(cluster: KfpClient, run_id: str, connection: Connection) -> None:
    """Wait for the end, or until a pod has not started for two minutes."""
    while not (run := cluster.progress(run_id)).ended:
        if lines := pending_lines(run, cluster):
            for line in lines:
                connection.message(f"preflight  {line}")
            cluster.cancel(run_id)
            raise ConfigError(
                "a pod of the preflight does not start, so no audit was sent; remove the cause and "
                "repeat the command"
            )
        time.sleep(pipeline_wait.POLL_S)


def _faults(cluster: KfpClient, run_id: str, part: str, out: str) -> list[str]:
    """What a part found, from its record; without one, whether its task failed."""
    from scotoma.steps.cluster.preflight import record_of

    address = record_of(out, part)
    task = next(t for t in cluster.progress(run_id).tasks if t.name == f"preflight-{part}")
    if task.state == "SUCCEEDED":
        return []
    if storage.is_remote(out) and storage.exists(address):
        record = json.loads(storage.read_bytes(address))
        if record["job"] == run_id:  # and not of an earlier preflight
            return [printable(fault) for fault in record["faults"]]
    where = f"-n {cluster.namespace} " if cluster.namespace else ""
    return [
        "its pod failed and left no record: its image is not Scotoma's, or it cannot write to "
        f"--out; see kubectl logs {where}--tail=-1 -l "
        f"pipeline/runid={run_id},scotoma/step=preflight-{part}"
    ]
