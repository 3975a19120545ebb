"""What Kubeflow's own pages show of an audit: its page, its verdict, and numbers to compare."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, MutableMapping

from scotoma.audit import GateResult, read_audit, read_part
from scotoma.run import Run
from scotoma.tracking.kubeflow import scalar_metrics


def show(
    run: Run, files: Mapping[str, str], metrics: MutableMapping[str, float] | None = None
) -> None:
    """Put files of a run, and its metrics, where Kubeflow looks for them.

    Args:
        run: The run.
        files: Name of each file in the run's folder to the path of its copy.
        metrics: Gets the numbers of `scalar_metrics`; None for none.
    """
    for name, copy in files.items():
        run.fetch(run.path(name))
        shutil.copyfile(run.path(name), copy)
    if metrics is not None:
        audit, gate = run.path("audit.json"), run.section("verdict")
        run.fetch(audit, gate)
        metrics.update(scalar_metrics(read_audit(audit), read_part(gate, GateResult)))
