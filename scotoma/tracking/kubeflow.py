"""Kubeflow and MLflow: the run that its plugin makes, and the numbers that its page compares."""

from __future__ import annotations

import math
import os
import time
from typing import TYPE_CHECKING, Any

from scotoma.audit import Audit, GateResult, Quantity
from scotoma.extras import needs
from scotoma.impact.worst_change import worst_change, worst_mean
from scotoma.storage.credentials import masked
from scotoma.tracking.connection import passing_over
from scotoma.tracking.records import (
    NOTE,
    POINTS,
    TEXT_LENGTH,
    VERDICTS,
    escape_markdown,
    metric_names,
)

if TYPE_CHECKING:
    from scotoma.config import Config

PARENT = "mlflow.parentRunId"
RUN_ID, PAGE = "kfp.pipeline_run_id", "kfp.pipeline_run_url"  # tags of the plugin's run
POD = "KFP_POD_NAME"  # set by Kubeflow in each pod, not where a pipeline runs on this machine
MOST_LEVELS = 8  # the plugin nests at most 6


class KubeflowRun:
    """The run of a pipeline that this process is a step of.

    Attributes:
        job: Its id in Kubeflow; empty outside a pipeline.
        page: Its page in Kubeflow; empty where its address is not known.
        root: The run that Kubeflow's plugin made for it in MLflow; None for none.
    """

    def __init__(self, config: Config, job: str, root: Any | None) -> None:
        tags = root.data.tags if root is not None else {}
        self.root = root
        self.job = job or str(tags.get(RUN_ID, ""))
        endpoint = config.kubeflow.endpoint if config.kubeflow else None
        page = str(tags.get(PAGE, ""))
        if not page and self.job and endpoint:
            page = f"{masked(endpoint).rstrip('/')}/#/runs/details/{self.job}"
        self.page = page if page.startswith(("http://", "https://")) else ""

    def tags(self) -> dict[str, str]:
        """What each run of the audit is told of it."""
        return {"kfp.run_id": self.job} if self.job else {}

    def links(self) -> list[str]:
        """Lines for a description, with links to Kubeflow's page and to the plugin's run."""
        lines = []
        if self.job:
            shown = escape_markdown(self.job)
            target = f"[{shown}](<{self.page}>)" if self.page else shown
            lines.append(f"- Kubeflow run: {target}")
        if self.root is not None:
            info = self.root.info
            link = f"#/experiments/{info.experiment_id}/runs/{info.run_id}"
            lines.append(f"- [its tasks]({link})")
        return lines


def kubeflow_run(client: Any, config: Config, job: str = "") -> KubeflowRun:
    """Find the run of the pipeline that this process is part of.

    Args:
        client: Of MLflow, where the audit is logged.
        config: It may name Kubeflow's address.
        job: Id of the run in Kubeflow; empty outside a pipeline, of no account outside a pod.
    """
    in_pod = POD in os.environ
    return KubeflowRun(config, job if in_pod else "", _root(client))


def _root(client: Any) -> Any | None:
    """The plugin's run; None outside such a run, and where the audit is logged elsewhere."""
    run_id, given = os.environ.get("MLFLOW_RUN_ID"), os.environ.get("MLFLOW_TRACKING_URI", "")
    if not run_id or given.rstrip("/") != client.tracking_uri.rstrip("/"):
        return None
    with passing_over("RESOURCE_DOES_NOT_EXIST"):
        for _ in range(MOST_LEVELS):
            run = client.get_run(run_id)
            run_id = run.data.tags.get(PARENT)
            if not run_id:
                return run if RUN_ID in run.data.tags else None
    return None


def describe_root(client: Any, root: Any, audit: Audit, gate: GateResult, comparison: str) -> None:
    """Give Kubeflow's root run the verdict, its numbers, and a link to the runs of the variants.

    Args:
        client: Of MLflow.
        root: See `KubeflowRun`.
        audit: The audit.
        gate: The verdict on it.
        comparison: MLflow's page of the variants, from the root of its pages.
    """
    each = [f"- {variant.verdict} {escape_markdown(variant.name)}" for variant in gate.variants]
    note = "\n".join([f"**{gate.verdict}**", "", *each, f"- [the variants]({comparison})"])
    tags = {"scotoma.verdict": gate.verdict, NOTE: note[:TEXT_LENGTH]}
    entities, now = needs("mlflow.entities", "tracking", "tracking"), int(time.time() * 1000)
    client.log_batch(
        root.info.run_id,
        [entities.Metric(k, v, now, 0) for k, v in scalar_metrics(audit, gate).items()],
        tags=[entities.RunTag(name, text) for name, text in tags.items()],
    )


def scalar_metrics(audit: Audit, gate: GateResult) -> dict[str, float]:
    """Name the numbers that Kubeflow's page for comparing runs shows.

    Args:
        audit: The audit.
        gate: The verdict on it.

    Returns:
        `verdict` and, of every variant, `VARIANT/top1` (share), `VARIANT/cie_excess_points` (CIEs
        beyond the noise floor), `VARIANT/worst_group_points` (the change that the summary calls
        worst; without groups there is none) and `VARIANT/verdict`; of an audit of scores
        `VARIANT/worse_relative` and `VARIANT/worst_group_relative`, how much worse the mean gets.
        A verdict is 0 for PASS, 1 for UNSURE, 2 for FAIL. A number that is undefined is left out.
    """
    named = metric_names((variant.name,) for variant in audit.variants)
    values: dict[str, float | None] = {"verdict": VERDICTS.index(gate.verdict)}
    for variant in audit.variants:
        if (top1 := audit.number("accuracy", variant.name, "top1")) is not None:
            values[f"{named[variant.name,]}/top1"] = top1.value
    for judged in gate.variants:
        name = named[judged.name,]
        values[f"{name}/verdict"] = VERDICTS.index(judged.verdict)
        if audit.scores is not None:
            everyone, *_ = audit.at("scores", judged.name, "means.")
            worst = worst_mean(audit, judged.name) or {}
            values[f"{name}/worse_relative"] = everyone["relative"].number.value
            if "relative" in worst:
                values[f"{name}/worst_group_relative"] = worst["relative"].number.value
            continue
        change = worst_change(audit, judged.name)
        excess = audit.number("divergence", judged.name, "cie.excess")
        values[f"{name}/cie_excess_points"] = _points(excess)
        rise = change["absolute"].number if change and len(audit.groups) > 1 else None
        values[f"{name}/worst_group_points"] = _points(rise)
    return {name: v for name, v in values.items() if v is not None and math.isfinite(v)}


def _points(share: Quantity | None) -> float | None:
    return None if share is None or share.value is None else POINTS * share.value
