"""Kubeflow's own runs in MLflow: its plugin makes one for a pipeline's run, and one for each task.

The runs of an audit stay beside them and not below: children leave MLflow's charts empty.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any

from scotoma.audit import Audit, GateResult
from scotoma.tracking.records import escape_markdown
from scotoma.tracking.run_record import NOTE, TEXT_LENGTH, RunRecord
from scotoma.tracking.scalars import scalar_metrics

__all__ = ["ROOT", "describe_root", "point_to_root", "root_run"]

ROOT = "scotoma.kfp_root_run"
PARENT = "mlflow.parentRunId"
KUBEFLOW_RUN, KUBEFLOW_PAGE = "kfp.pipeline_run_id", "kfp.pipeline_run_url"  # tags of the plugin
MOST_LEVELS = 8  # the plugin nests at most 6


def root_run(mlflow: Any, client: Any, uri: str) -> Any | None:
    """Find the run that Kubeflow's plugin made for the pipeline's run that this process is part of.

    Args:
        mlflow: The module.
        client: Its client.
        uri: Where the audit is logged.

    Returns:
        None outside a task of such a run, and where the audit is logged elsewhere.
    """
    run_id, given = os.environ.get("MLFLOW_RUN_ID"), os.environ.get("MLFLOW_TRACKING_URI", "")
    if not run_id or given.rstrip("/") != uri.rstrip("/"):
        return None
    for _ in range(MOST_LEVELS):
        try:
            run = client.get_run(run_id)
        except mlflow.exceptions.MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return None
            raise
        run_id = run.data.tags.get(PARENT)
        if not run_id:
            return run if KUBEFLOW_RUN in run.data.tags else None
    return None


def point_to_root(records: Iterable[RunRecord], root: Any) -> None:
    """Give records the id of Kubeflow's root run, and links to it and to Kubeflow's page."""
    info = root.info
    link = f"[the run of its tasks](#/experiments/{info.experiment_id}/runs/{info.run_id})"
    page = root.data.tags.get(KUBEFLOW_PAGE, "")
    if page.startswith(("http://", "https://")):
        link += f", [its page](<{page}>)"
    for record in records:
        record.tags[ROOT] = info.run_id
        note = record.tags.get(NOTE, "")
        record.tags[NOTE] = f"{note}\n- Kubeflow: {link}".lstrip("\n")


def describe_root(
    mlflow: Any, client: Any, root: Any, audit: Audit, gate: GateResult, comparison: str
) -> None:
    """Give Kubeflow's root run the verdict, its numbers, and a link to the runs of the variants.

    Args:
        mlflow: The module.
        client: Its client.
        root: See `root_run`.
        audit: The audit.
        gate: The verdict on it.
        comparison: MLflow's page of the variants, from the root of its pages.
    """
    each = [f"- {variant.verdict} {escape_markdown(variant.name)}" for variant in gate.variants]
    note = "\n".join([f"**{gate.verdict}**", "", *each, f"- [the variants]({comparison})"])
    tags = {"scotoma.verdict": gate.verdict, NOTE: note[:TEXT_LENGTH]}
    now = int(time.time() * 1000)
    client.log_batch(
        root.info.run_id,
        [mlflow.entities.Metric(k, v, now, 0) for k, v in scalar_metrics(audit, gate).items()],
        tags=[mlflow.entities.RunTag(name, text) for name, text in tags.items()],
    )
