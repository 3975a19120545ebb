"""Why pods of a run have not started, in Kubernetes' own words, where it may be asked."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["PendingPod", "pending_pods"]

TIMEOUTS_S = (3.0, 5.0)
KUBEFLOW = "kubeflow"  # the namespace of an installation without users
POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True)
class PendingPod:
    """A pod that has not started.

    Attributes:
        name: Its name.
        step: Step of the audit, from its label `scotoma/step`; empty for a driver of Kubeflow.
        reason: Why, such as `ImagePullBackOff`, with Kubernetes' message.
    """

    name: str
    step: str
    reason: str


def pending_pods(run_id: str, namespace: str) -> list[PendingPod]:
    """Ask Kubernetes which pods of a run have not started, and why.

    Args:
        run_id: Id of the run.
        namespace: Of its pods; empty for that of the kubeconfig, of this pod, or `kubeflow`.

    Returns:
        The pods that say why. None where there is neither a kubeconfig nor an account of a pod, or
        Kubernetes does not answer, or may not be asked.
    """
    kubeconfig = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    if not any(Path(path).is_file() for path in kubeconfig.split(os.pathsep)):
        kubeconfig = ""
    if not (kubeconfig or "KUBERNETES_SERVICE_HOST" in os.environ):
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its dependencies
        try:
            return _pending(run_id, namespace, kubeconfig)
        except Exception:  # whatever keeps this user from asking: the usual causes are said then
            return []


def _pending(run_id: str, namespace: str, kubeconfig: str) -> list[PendingPod]:
    from kubernetes import client, config

    settings = client.Configuration()
    if kubeconfig:
        config.load_kube_config(kubeconfig, client_configuration=settings)
        _, current = config.list_kube_config_contexts(kubeconfig)
        own = current["context"].get("namespace", "")
    else:
        config.load_incluster_config(client_configuration=settings)
        own = POD_NAMESPACE.read_text(encoding="utf-8").strip() if POD_NAMESPACE.is_file() else ""
    settings.retries = False
    pods = client.CoreV1Api(client.ApiClient(settings)).list_namespaced_pod(
        namespace or own or KUBEFLOW,
        label_selector=f"pipeline/runid={run_id}",
        field_selector="status.phase=Pending",
        _request_timeout=TIMEOUTS_S,
    )
    found = (
        PendingPod(pod.metadata.name, (pod.metadata.labels or {}).get("scotoma/step", ""), why)
        for pod in pods.items
        if (why := _reason(pod.status))
    )
    return sorted(found, key=lambda pod: pod.name)


def _reason(status: Any) -> str:
    """What keeps a pod from starting: a container's reason, or the scheduler's."""
    containers = [*(status.init_container_statuses or ()), *(status.container_statuses or ())]
    states = [one.state.waiting for one in containers if one.state and one.state.waiting]
    reasons = [
        (one.reason, one.message)
        for one in states
        if one.reason not in ("ContainerCreating", "PodInitializing")
    ]
    reasons += [
        (one.reason, one.message) for one in status.conditions or () if one.status == "False"
        and one.type == "PodScheduled"
    ]  # fmt: skip
    words = [f"{reason}: {message}" if message else reason for reason, message in reasons if reason]
    return " ".join(words[0].split())[:300] if words else ""
