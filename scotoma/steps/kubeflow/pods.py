"""Why pods of a run have not started, or have ended, in Kubernetes' own words, if it may be asked.

Kubeflow tells neither: a step whose pod ran out of memory is just FAILED.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scotoma.steps.kubeflow.kubernetes_api import TIMEOUTS_S, kubernetes_api
from scotoma.steps.table import HEAVY

UNEXPLAINED = "ended without saying why"  # what is said of a step where nothing else is known
STARTING = ("ContainerCreating", "PodInitializing")
ORDINARY = ("Completed", "Error")  # of a container: its step says more
# What to raise, by a pattern of the reason; empty where nothing was too small.
LIMITS = {
    r"OOMKilled|Evicted.*\bmemory": "kubeflow.{section}.memory",
    r"Evicted.*(storage|EmptyDir|disk)": "kubeflow.scratch",
    r"DeadlineExceeded": "kubeflow.limits.task_hours",
    r"": "",
}


@dataclass(frozen=True)
class Pod:
    """A pod that has not started, or that has ended in a way that its step cannot tell.

    Attributes:
        name: Its name.
        step: Step of the audit, from its label `scotoma/step`; empty for a driver of Kubeflow.
        began: When it was made, as text that sorts.
        pending: Why it has not started, such as `ImagePullBackOff`, with Kubernetes' message.
        ended: Why it was ended, such as `OOMKilled`.
    """

    name: str
    step: str
    began: str
    pending: str
    ended: str


def why_ended(run_id: str, step: str, namespace: str = "") -> str:
    """Say why Kubernetes ended the last pod of a step, and what to change.

    Args:
        run_id: Id of the run.
        step: The step.
        namespace: As of `pods_of`.

    Returns:
        A sentence; empty if Kubernetes cannot be asked, or knows no more than the step.
    """
    ended = [pod for pod in pods_of(run_id, namespace) if pod.step == step and pod.ended]
    if not ended:
        return ""
    reason = max(ended, key=lambda pod: pod.began).ended
    limit = next(key for pattern, key in LIMITS.items() if re.search(pattern, reason))
    advice = f"scotoma kubeflow submit --resume {run_id} resumes it"
    if limit:  # a retry keeps what the pipeline was compiled with
        limit = limit.format(section="training" if step in HEAVY else "others")
        advice = f"raise {limit}, and send the audit again with the same --out"
    return f"Kubernetes ended the step {step} ({reason}); {advice}"


def pods_of(run_id: str, namespace: str) -> list[Pod]:
    """Ask Kubernetes which pods of a run have not started or were ended, and why.

    Args:
        run_id: Id of the run.
        namespace: Of its pods; empty for that of the kubeconfig, of this pod, or `kubeflow`.

    Returns:
        The pods that say why. None where there is neither a kubeconfig nor an account of a pod, or
        Kubernetes does not answer, or may not be asked.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its dependencies
        try:
            return list(_asked(run_id, namespace))
        except Exception:  # whatever keeps this user from asking: the usual causes are said then
            return []


def _asked(run_id: str, namespace: str) -> Iterator[Pod]:
    api, there = kubernetes_api(namespace)
    from kubernetes import client

    pods = client.CoreV1Api(api).list_namespaced_pod(
        there, label_selector=f"pipeline/runid={run_id}", _request_timeout=TIMEOUTS_S
    )
    for pod in sorted(pods.items, key=lambda pod: str(pod.metadata.name)):
        step = (pod.metadata.labels or {}).get("scotoma/step", "")
        pending = _pending(pod.status) if pod.status.phase == "Pending" else ""
        ended = "" if pod.status.phase == "Succeeded" else _ended(pod)
        if pending or ended:
            yield Pod(pod.metadata.name, step, str(pod.metadata.creation_timestamp), pending, ended)


def _pending(status: Any) -> str:
    """What keeps a pod from starting: a container's reason, or the scheduler's."""
    waiting = [one.state.waiting for one in _containers(status) if one.state and one.state.waiting]
    unscheduled = [
        one for one in status.conditions or () if one.type == "PodScheduled"
        and one.status == "False"
    ]  # fmt: skip
    return _words(*(one for one in waiting if one.reason not in STARTING), *unscheduled)


def _ended(pod: Any) -> str:
    """What ended a pod: the kubelet or the node, the memory of a container, or an eviction."""
    status = pod.status
    ended = [one for one in _containers(status) if one.state and one.state.terminated]
    told = [one for one in ended if one.state.terminated.reason not in ORDINARY]
    limits = {one.name: (one.resources and one.resources.limits) or {} for one in
              (pod.spec and pod.spec.containers) or ()}  # fmt: skip
    for one in told:
        memory = limits.get(one.name, {}).get("memory")
        if one.state.terminated.reason == "OOMKilled" and memory:
            return f"OOMKilled at its limit of {memory}"
    disrupted = [
        one for one in status.conditions or () if one.type == "DisruptionTarget"
        and one.status == "True"
    ]  # fmt: skip
    own = [status] if status.reason else []
    return _words(*own, *(one.state.terminated for one in told), *disrupted)


def _containers(status: Any) -> list[Any]:
    return [*(status.init_container_statuses or ()), *(status.container_statuses or ())]


def _words(*told: Any) -> str:
    """The first reason with its message, on one short line."""
    texts = (f"{one.reason}: {one.message}" if one.message else one.reason for one in told
             if one.reason)  # fmt: skip
    return " ".join(next(texts, "").split())[:300]
