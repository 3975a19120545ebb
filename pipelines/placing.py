"""Which node of a cluster runs a step: image, GPU, memory, volume, secrets, retries, timeouts."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from kfp import dsl

from scotoma import storage
from scotoma.config import Config, Kubeflow
from scotoma.config.reading import LOCATIONS
from scotoma.config.registered import SCHEME
from scotoma.errors import ConfigError
from scotoma.files import redact
from scotoma.own_code import is_code

__all__ = ["CORE", "TRAINING", "check_for_cluster", "pipeline_config", "place"]

TRAINING = ("train-dense", "prune-magnitude", "predict-batch")  # what a GPU makes faster
CORE = (
    "gather-shards", "score-divergence", "report-bias", "find-slices", "decide-verdict",
    "write-report",
)  # fmt: skip
SCRATCH = "/scratch"  # the images' root file system cannot be written
LONGEST_PAUSE_S = 600
HOUR_S, DAY_S = 3600, 86400


def place(task: Any, name: str, kubeflow: Kubeflow) -> Any:
    """Settle where a task runs and with what.

    Args:
        task: A task of the pipeline.
        name: Of its component.
        kubeflow: The cluster.

    Returns:
        The task.
    """
    from kfp import kubernetes

    images, limits = kubeflow.images, kubeflow.limits
    if image := images.core if name in CORE else images.full:
        task.set_container_image(image)
    if images.pull_secrets:
        kubernetes.set_image_pull_secrets(task, images.pull_secrets)
    where = kubeflow.training if name in TRAINING else kubeflow.others
    if where.cpu:
        task.set_cpu_request(where.cpu).set_cpu_limit(where.cpu)
    if where.memory:
        task.set_memory_request(where.memory).set_memory_limit(where.memory)
    if where.gpu:
        task.set_accelerator_type(where.gpu.type).set_accelerator_limit(where.gpu.count)
    for key, value in where.node_selector.items():
        kubernetes.add_node_selector(task, key, value)
    for toleration in where.tolerations:
        kubernetes.add_toleration(task, **toleration.model_dump(exclude_none=True))
    if kubeflow.volume:
        kubernetes.mount_pvc(task, kubeflow.volume.claim, kubeflow.volume.mount)
    kubernetes.empty_dir_mount(task, "scratch", SCRATCH, size_limit=kubeflow.scratch)
    for variable, value in {
        "TMPDIR": SCRATCH,
        "SCOTOMA_CACHE": f"{SCRATCH}/scotoma",
        **kubeflow.environment,
    }.items():
        task.set_env_variable(variable, value)
    for secret, variables in kubeflow.secrets.items():
        kubernetes.use_secret_as_env(task, secret, {variable: variable for variable in variables})
    if limits.retries:
        task.set_retry(
            limits.retries,
            backoff_duration=f"{limits.pause_s}s",
            backoff_factor=2.0,
            backoff_max_duration=f"{max(limits.pause_s, LONGEST_PAUSE_S)}s",
        )
    kubernetes.set_timeout(task, round(limits.task_hours * HOUR_S))
    return task


def pipeline_config(kubeflow: Kubeflow | None) -> dsl.PipelineConfig:
    """When a whole run is given up, and how long its pods stay; nothing on this machine."""
    if kubeflow is None:
        return dsl.PipelineConfig()
    return dsl.PipelineConfig(
        active_deadline_seconds=round(kubeflow.limits.run_hours * HOUR_S),
        ttl_seconds_after_finished=round(kubeflow.limits.keep_days * DAY_S),
    )


def check_for_cluster(config: Config, kubeflow: Kubeflow) -> None:
    """Refuse what a step on a cluster could not have, before anything is sent.

    Raises:
        ConfigError: Data are on this machine, the network is code that the image has not, or the
            pipeline would show a password.
    """
    mount = PurePosixPath(kubeflow.volume.mount) if kubeflow.volume else None
    for key in LOCATIONS:
        found = getattr(config.source, key, None)
        if found is None or storage.is_remote(str(found)) or str(found).startswith(SCHEME):
            continue
        if mount is None or not PurePosixPath(str(found)).is_relative_to(mount):
            raise ConfigError(
                f"source.{key} is on this machine ({found}), which the steps on a cluster cannot "
                "read; name an s3:// address, or a folder below kubeflow.volume.mount"
            )
    if is_code(model := str(getattr(config.source, "model", ""))):
        raise ConfigError(
            f"source.model {model!r} is code of your own, which the images do not hold; train on "
            "this machine, or name a network that Scotoma has"
        )
    uri = config.tracking.uri or ""
    if redact(uri) != uri:
        raise ConfigError(
            f"tracking.uri {redact(uri)} holds credentials, which everyone could read in the "
            "pipeline; leave them out, and name a secret of Kubernetes with "
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD in kubeflow.secrets"
        )
