"""What to say of a run whose pods do not start: Kubernetes' reason, or the usual causes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scotoma.document import show

if TYPE_CHECKING:
    from scotoma.pipelines.client import KfpClient
    from scotoma.pipelines.progress import Progress, Task


PATIENCE_S = 120.0
CAUSES = (
    "usual causes: an image that cannot be pulled, a missing secret or volume, or no node with the "
    "GPU, CPU or memory that it asks for"
)


def pending_steps(run: Progress) -> list[Task]:
    """The steps, one shard of each, whose pods have not started for two minutes."""
    late = [task for task in run.tasks if (task.pending_s or 0.0) >= PATIENCE_S]
    return list({task.name: task for task in reversed(late)}.values())[::-1]


def pending_lines(run: Progress, client: KfpClient) -> list[str]:
    """Say why pods have not started, and the command that tells more.

    Args:
        run: The run.
        client: The Kubeflow; its namespace is where the pods are.

    Returns:
        Lines for people; none while everything starts.
    """
    from scotoma.steps.kubeflow.pods import pods_of

    if (run.pending_s or 0.0) >= PATIENCE_S:
        return [
            f"the run has not begun for {show(run.pending_s, 'duration').value}; see "
            + kubectl("describe workflows", client, run.run_id)
        ]
    late = pending_steps(run)
    if not late:
        return []
    pods = [pod for pod in pods_of(run.run_id, client.namespace) if pod.pending]
    lines = []
    for task in late:
        waits = f"{task.name} has not started for {show(task.pending_s, 'duration').value}"
        step = task.name if task.attempts else ""  # else it may be its driver, a pod of Kubeflow's
        reasons = dict.fromkeys(pod.pending for pod in pods if pod.step in (step, task.name))
        if reasons:
            lines += [f"{waits}: {reason}" for reason in reasons]
            continue
        command = kubectl("describe pods", client, run.run_id, step)
        lines += [f"{waits}; {CAUSES}", f"this command says which: {command}"]
    return lines


def kubectl(verb: str, client: KfpClient, run_id: str, step: str = "") -> str:
    """The command that asks Kubernetes about a run, or about the pods of one step."""
    where = f"-n {client.namespace} " if client.namespace else ""
    label = f",scotoma/step={step}" if step else ""
    return f"kubectl {verb} {where}-l pipeline/runid={run_id}{label}"
