"""How is Kubernetes asked from here: by a kubeconfig, or by the account of this pod?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from scotoma.errors import ConfigError

TIMEOUTS_S = (3.0, 5.0)
KUBEFLOW = "kubeflow"  # the namespace of an installation without users
POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def kubernetes_api(namespace: str) -> tuple[Any, str]:
    """Make a client of Kubernetes; nothing is sent yet.

    Args:
        namespace: Of the pods; empty for that of the kubeconfig, of this pod, or `kubeflow`.

    Returns:
        The client, and the namespace.

    Raises:
        ConfigError: There is neither a kubeconfig nor an account of a pod.
    """
    kubeconfig = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    if not any(Path(path).is_file() for path in kubeconfig.split(os.pathsep)):
        kubeconfig = ""
    if not (kubeconfig or "KUBERNETES_SERVICE_HOST" in os.environ):
        raise ConfigError("Kubernetes cannot be asked: there is no kubeconfig; set KUBECONFIG")
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
    return client.ApiClient(settings), namespace or own or KUBEFLOW
