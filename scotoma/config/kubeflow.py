"""The settings of the Kubeflow that runs the pipeline; none of them decides a result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, field_validator

from scotoma.config.pod_environment import launcher_faults
from scotoma.config.shared import Frozen
from scotoma.config.sheet import Says
from scotoma.storage.credentials import looks_secret

__all__ = ["Gpu", "Images", "Kubeflow", "Limits", "Place", "Toleration", "Volume"]

# As Kubernetes writes them. Its API server would refuse others long after the submission.
KUBERNETES = Says("be a name as Kubernetes allows it")
Quantity = Annotated[
    str, Field(pattern=r"^[1-9]\d*(\.\d+)?(Ki|Mi|Gi|Ti|K|M|G|T)$"), Says("be a size such as 16Gi")
]
Cores = Annotated[
    str,
    Field(pattern=r"^([1-9]\d*m?|0?\.\d+|[1-9]\d*\.\d+)$"),
    Says("be cores, such as 4 or 500m"),
]
Name = Annotated[
    str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", max_length=253), KUBERNETES
]
LabelKey = Annotated[
    str, Field(pattern=r"^([a-z0-9.-]+/)?[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?$"), KUBERNETES
]
LabelValue = Annotated[
    str, Field(pattern=r"^([A-Za-z0-9]([\w.-]*[A-Za-z0-9])?)?$", max_length=63), KUBERNETES
]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"), KUBERNETES]
Image = Annotated[str, Field(pattern=r"^[\w][\w.:/@+-]*$"), Says("be the name of an image")]


class Images(Frozen):
    """The images of the steps; by default those in SCOTOMA_IMAGE and SCOTOMA_CORE_IMAGE."""

    full: Image | None = Field(None, description="For the steps that need torch or MLflow.")
    core: Image | None = Field(None, description="For the steps that measure.")
    pull_secrets: list[Name] = Field(default_factory=list)


class Gpu(Frozen):
    """The GPUs of one task."""

    type: Annotated[
        str,
        Field(pattern=r"^[a-z0-9.-]+/[a-z0-9.-]+$"),
        Says("be a resource such as nvidia.com/gpu"),
    ] = Field(
        "nvidia.com/gpu", description="Kubernetes resource; choose a model of GPU by node_selector."
    )
    count: Literal[1] = Field(1, description="1: a step uses one; more shards use more.")


class Toleration(Frozen):
    """A taint of nodes that the steps tolerate."""

    key: LabelKey | None = None
    operator: Literal["Equal", "Exists"] = "Equal"
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None

    def _misfits(self) -> Iterator[str]:
        if self.operator == "Exists" and self.value is not None:
            yield (
                f"a toleration with operator Exists has no value, got {self.value!r}; leave it out"
            )
        if self.operator == "Equal" and self.key is None:
            yield ("a toleration without key needs operator Exists; name the key")


class Place(Frozen):
    """The nodes that may run a step, and the resources that it gets there."""

    gpu: Gpu | None = None
    cpu: Cores | None = Field(
        "2", description="Request and limit, such as 4 or 500m; null for none."
    )
    memory: Quantity | None = Field(
        "8Gi", description="Request and limit, such as 16Gi; null for none."
    )
    node_selector: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    tolerations: list[Toleration] = Field(default_factory=list)


class Volume(Frozen):
    """An existing volume claim that every step mounts."""

    claim: Name
    mount: Annotated[str, Field(pattern=r"^/[\w./-]*\w$"), Says("be an absolute path")] = "/audits"


class Limits(Frozen):
    """Retries and deadlines."""

    retries: int = Field(3, ge=0, le=10, description="Retries of a task, with growing pauses.")
    pause_s: int = Field(30, ge=1, le=3600, description="Pause before the first retry; it doubles.")
    task_hours: float = Field(24, gt=0, le=1000, description="Deadline of a task.")
    run_hours: float = Field(168, gt=0, le=10000, description="Deadline of a run.")


class Kubeflow(Frozen):
    """A Kubeflow with its pipelines."""

    endpoint: str | None = Field(None, description="Its address; by default KF_PIPELINES_ENDPOINT.")
    namespace: Name | None = None
    experiment: str | None = Field(
        None, min_length=1, max_length=100, description="Experiment in KFP."
    )
    service_account: Name | None = Field(None, description="The account that the steps run as.")
    images: Images = Field(default_factory=Images)
    shards: int = Field(4, ge=1, le=64, description="Number of tasks that share the members.")
    parallelism: int | None = Field(
        None, ge=1, description="Shards that run at a time; empty: all."
    )
    training: Place = Field(default_factory=Place, description="For train, prune and predict.")
    others: Place = Field(default_factory=Place, description="For all other steps.")
    volume: Volume | None = Field(None, description="Needed for runs that are not in s3://.")
    scratch: Quantity = Field("20Gi", description="Disk space of each task.")
    environment: dict[Variable, str] = Field(
        default_factory=dict,
        description="Variables of every step; no secrets, everyone can see them.",
    )
    secrets: dict[Name, list[Variable]] = Field(
        default_factory=dict, description="Keys of each Kubernetes secret that become variables."
    )
    limits: Limits = Field(default_factory=Limits)

    @field_validator("others")
    @classmethod
    def _others_use_no_gpu(cls, others: Place) -> Place:
        if others.gpu is not None:
            raise ValueError(
                "the steps of kubeflow.others use no GPU, got gpu; name it in kubeflow.training"
            )
        return others

    def _misfits(self) -> Iterator[str]:
        yield from launcher_faults(self.environment, self.secrets)
        for name, value in self.environment.items():
            if looks_secret(name, value):
                yield (
                    f"kubeflow.environment.{name} looks secret, and everyone could read it in the "
                    "pipeline; put it into a Kubernetes secret and name that in kubeflow.secrets"
                )
        if self.endpoint is not None and looks_secret("", self.endpoint):
            yield (
                "kubeflow.endpoint has credentials in its address; leave them out and set "
                "SCOTOMA_KFP_TOKEN"
            )
