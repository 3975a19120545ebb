"""End a cancelled run whose exit step hangs: Kubernetes can, where it may be asked."""

from __future__ import annotations

import json
import warnings

from scotoma.errors import ConfigError
from scotoma.steps.kubeflow.kubernetes_api import TIMEOUTS_S, kubernetes_api

WORKFLOWS = "/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflows"
# Argo starts no exit step of such a Workflow, and ends the one that runs.
SHUTDOWN = {"spec": {"shutdown": "Terminate"}}
PATCH = "application/merge-patch+json"  # the one of dicts that Workflows take, as custom resources


def end_at_once(run_id: str, namespace: str) -> None:
    """End the exit step of a run that is being cancelled.

    Args:
        run_id: Id of the run.
        namespace: Of its pods; empty for that of the kubeconfig, of this pod, or `kubeflow`.

    Raises:
        ConfigError: Kubernetes cannot be asked from here, or refuses; the sentence has the command.
            Or it no longer has the run.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its dependencies
            api, there = kubernetes_api(namespace)
            settings = {
                "response_type": "object", "auth_settings": ["BearerToken"],
                "_return_http_data_only": True, "_request_timeout": TIMEOUTS_S,
            }  # fmt: skip
            found = api.call_api(
                WORKFLOWS, "GET", {"namespace": there},
                [("labelSelector", f"pipeline/runid={run_id}")], **settings,
            )  # fmt: skip
            for workflow in found["items"]:
                api.call_api(
                    f"{WORKFLOWS}/{{name}}", "PATCH",
                    {"namespace": there, "name": workflow["metadata"]["name"]},
                    header_params={"Content-Type": PATCH}, body=SHUTDOWN, **settings,
                )  # fmt: skip
    except Exception as error:  # whatever keeps this user from asking
        where = f"-n {namespace} " if namespace else ""
        patch = f"--type merge -p '{json.dumps(SHUTDOWN)}'"
        raise ConfigError(
            f"Kubernetes cannot be asked from here to end the exit step of {run_id} "
            f"({type(error).__name__}); wait half an hour, or run: kubectl get workflows {where}-l "
            f"pipeline/runid={run_id} -o name | xargs kubectl patch {where}{patch}"
        ) from error
    if not found["items"]:
        raise ConfigError(
            f"Kubernetes no longer has the Workflow of {run_id}, so nothing of it runs; send the "
            "audit again with the same --out"
        )
