"""What to say of a run whose pods do not start: Kubernetes' reason, or the usual causes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scotoma.document import show

if TYPE_CHECKING:
    from scotoma.pipelines.cluster import KfpClient
    from scotoma.pipelines.progress import Progress, Task

__all__ = ["PATIENCE_S", "pending_lines", "pending_steps"]

PATIENCE_S = 120.0
CAUSES = (
    "usual causes: an image that cannot be pulled, a missing secret or volume, or no node with the "
    "GPU, CPU or memory that it asks for"
)


def pending_steps(run: Progress) -> list[Task]:
    """The steps, one shard of each, whose pods have not started for two minutes."""
    late = [task for task in run.tasks if (task.pending_s or 0.0) >= PATIENCE_S]
    return list({task.name: task for task in reversed(late)}.values())[::-1]


def pending_lines(run: Progress, cluster: KfpClient) -> list[str]:
    """Say why pods have not started, and the command that tells more.

    Args:
        run: The run.
        cluster: The Kubeflow; its namespace is where the pods are.

    Returns:
        Lines for people; none while everything starts.
    """
    from scotoma.steps.cluster.pods import pods_of

    where = f"-n {cluster.namespace} " if cluster.namespace else ""
    if (run.pending_s or 0.0) >= PATIENCE_S:
        return [
            f"the run has not begun for {show(run.pending_s, 'duration').value}; see "
            f"kubectl describe workflows {where}-l pipeline/runid={run.run_id}"
        ]
    late = pending_steps(run)
    if not late:
        return []
    pods = [pod for pod in pods_of(run.run_id, cluster.namespace) if pod.pending]
    lines = []
    for task in late:
        waits = f"{task.name} has not started for {show(task.pending_s, 'duration').value}"
        step = task.name if task.attempts else ""  # else it may be its driver, a pod of Kubeflow's
        reasons = dict.fromkeys(pod.pending for pod in pods if pod.step in (step, task.name))
        if reasons:
            lines += [f"{waits}: {reason}" for reason in reasons]
            continue
        label = f",scotoma/step={step}" if step else ""
        command = f"kubectl describe pods {where}-l pipeline/runid={run.run_id}{label}"
        lines += [f"{waits}; {CAUSES}", f"this command says which: {command}"]
    return lines
