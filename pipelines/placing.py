"""The settings of a step on Kubeflow: image, GPU, memory, volume, secrets, retries, timeouts."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from kfp import dsl

from scotoma import storage
from scotoma.config import Config, Kubeflow
from scotoma.config.newest import SCHEME
from scotoma.config.own_code import is_code
from scotoma.errors import ConfigError
from scotoma.processes.machine import GPUS_VARIABLE
from scotoma.steps.table import HEAVY, STEPS
from scotoma.storage.credentials import looks_secret, masked
from scotoma.tracking.connection import AUTHENTICATION, CREDENTIALS

CORE = (
    "gather-shards", "score-divergence", "report-bias", "find-slices", "decide-verdict",
    "paired-verdict", "write-report",
)  # fmt: skip
STEP_LABEL = "scotoma/step"  # of pods, by which kubectl finds those of a step
STEP_OF = {step.component.replace("_", "-"): step.name for step in STEPS.values()}
SCRATCH = "/scratch"  # the images' root file system is read-only
HOUR_S = 3600
# Its pod runs after a cancellation, too: one whose image cannot be pulled must end soon.
EXIT, EXIT_HOURS = "record-failure", 0.5
# Services that are restarted are waited for, some two to six minutes: a stock Kubeflow does not run
# a step again that ended with 1. None of these may be a variable that Kubeflow's launcher reads.
PATIENCE = {
    storage.ATTEMPTS_VARIABLE: "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "7",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "2",
}


def place(task: Any, name: str, kubeflow: Kubeflow, *, trains: bool = True) -> Any:
    """Give a task its settings on Kubeflow.

    A step that uses a GPU gets one, and fails in a pod that sees none. All others get none, nor the
    nodes that have them.

    Args:
        task: A task of the pipeline.
        name: Of its component.
        kubeflow: The Kubeflow.
        trains: Whether models are trained; external ones run in ONNX Runtime on processors.

    Returns:
        The task.
    """
    from kfp import kubernetes

    kubernetes.add_pod_label(task, STEP_LABEL, STEP_OF.get(name, name))
    images, limits = kubeflow.images, kubeflow.limits
    if name == EXIT:
        hours = min(EXIT_HOURS, limits.task_hours)
        limits = limits.model_copy(update={"retries": 0, "task_hours": hours})
    if image := images.core if name in CORE else images.full:
        task.set_container_image(image)
    if images.pull_secrets:
        kubernetes.set_image_pull_secrets(task, images.pull_secrets)
    node = kubeflow.training if STEP_OF.get(name) in HEAVY else kubeflow.others
    if node.cpu:
        task.set_cpu_request(node.cpu).set_cpu_limit(node.cpu)
    if node.memory:
        task.set_memory_request(node.memory).set_memory_limit(node.memory)
    if node.gpu and trains:
        task.set_accelerator_type(node.gpu.type).set_accelerator_limit(node.gpu.count)
        task.set_env_variable(GPUS_VARIABLE, str(node.gpu.count))
    if trains or not node.gpu:
        for key, value in node.node_selector.items():
            kubernetes.add_node_selector(task, key, value)
        for toleration in node.tolerations:
            kubernetes.add_toleration(task, **toleration.model_dump(exclude_none=True))
    if kubeflow.volume:
        kubernetes.mount_pvc(task, kubeflow.volume.claim, kubeflow.volume.mount)
    kubernetes.empty_dir_mount(task, "scratch", SCRATCH, size_limit=kubeflow.scratch)
    for variable, value in {
        "TMPDIR": SCRATCH,
        "SCOTOMA_CACHE": f"{SCRATCH}/scotoma",
        **PATIENCE,
        **kubeflow.environment,
    }.items():
        task.set_env_variable(variable, value)
    for secret, variables in kubeflow.secrets.items():
        kubernetes.use_secret_as_env(task, secret, {variable: variable for variable in variables})
    task_s = round(limits.task_hours * HOUR_S)
    if limits.retries:
        pauses_s = limits.pause_s * (2**limits.retries - 1)
        task.set_retry(
            limits.retries,
            backoff_duration=f"{limits.pause_s}s",
            backoff_factor=2.0,
            # Argo counts it from the first try, and retries nothing that ends later.
            backoff_max_duration=f"{(limits.retries + 1) * task_s + pauses_s}s",
        )
    kubernetes.set_security_context(task, run_as_non_root=True)  # as the images' own user
    kubernetes.set_timeout(task, task_s)
    return task


def pipeline_config(kubeflow: Kubeflow | None) -> dsl.PipelineConfig:
    """The deadline of a whole run; none on this machine."""
    if kubeflow is None:
        return dsl.PipelineConfig()
    return dsl.PipelineConfig(active_deadline_seconds=round(kubeflow.limits.run_hours * HOUR_S))


def with_tracking_server(kubeflow: Kubeflow, uri: str | None) -> Kubeflow:
    """Name the tracking server in the steps' environment, if they have what proves who they are.

    A step sends a password, or the token of its account, only to the host in MLFLOW_TRACKING_URI.
    """
    variables = {variable for names in kubeflow.secrets.values() for variable in names}
    proof = {*variables, *kubeflow.environment} & {*CREDENTIALS, AUTHENTICATION}
    if not uri or not uri.startswith("http") or not proof:
        return kubeflow
    environment = {"MLFLOW_TRACKING_URI": uri, **kubeflow.environment}
    return kubeflow.model_copy(update={"environment": environment})


def places_read(config: Config) -> dict[str, str]:
    """List what an audit reads from outside: key of the configuration to path or URI."""
    places: dict[str, str | None] = {
        f"source.{key}": place for key, place in config.source.places.items()
    }
    if (asked := config.robustness) is not None:
        places |= {"robustness.files": asked.files, "robustness.frost": asked.frost}
        places |= {f"robustness.sets {one.name}": one.folder for one in asked.sets}
        places |= {f"robustness.sets {one.name} classes": one.classes for one in asked.sets}
    return {key: str(place) for key, place in places.items() if place is not None}


def check_for_kubeflow(config: Config, kubeflow: Kubeflow) -> None:
    """Refuse a configuration that cannot run on Kubeflow, before anything is sent.

    Raises:
        ConfigError: Data are on this machine, the network is code that the images do not hold, or
            the pipeline would show a password.
    """
    mount = PurePosixPath(kubeflow.volume.mount) if kubeflow.volume else None
    for key, place in places_read(config).items():
        if place.startswith(SCHEME) or storage.is_remote(place):
            continue
        if mount is None or not PurePosixPath(place).is_relative_to(mount):
            raise ConfigError(
                f"{key} is on this machine ({place}), which the steps on Kubeflow cannot read; "
                "name an s3:// address, or a folder below kubeflow.volume.mount"
            )
    if is_code(model := config.source.network):
        raise ConfigError(
            f"source.model {model!r} is code of your own, which the container images do not hold; "
            "train on this machine, or name one of Scotoma's networks"
        )
    uri = config.tracking.uri or ""
    if looks_secret("", uri):
        raise ConfigError(
            f"tracking.uri {masked(uri)} holds credentials, which everyone could read in the "
            "pipeline; leave them out, and name a secret of Kubernetes with "
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD in kubeflow.secrets"
        )
