"""The settings of the Kubeflow that runs the pipeline; none of them decides a result."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field, field_validator

from scotoma.config.shared import Frozen
from scotoma.config.sheet import Says
from scotoma.storage.credentials import looks_secret

SWITCH = "true|false"
CHECKSUM = "when_supported|when_required"
# What aws-sdk-go-v2 takes, as its environment's reader has it; the case counts only where it says.
VALUES = {
    "AWS_RETRY_MODE": "standard|adaptive",
    "AWS_MAX_ATTEMPTS": "[1-9][0-9]{0,3}",
    "AWS_DEFAULTS_MODE": "legacy|standard|auto|cross-region|in-region|mobile",
    "AWS_ACCOUNT_ID_ENDPOINT_MODE": "preferred|required|disabled",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE": "IPv4|IPv6",
    "AWS_ENABLE_ENDPOINT_DISCOVERY": "true|false|auto",
    "AWS_REQUEST_CHECKSUM_CALCULATION": CHECKSUM,
    "AWS_RESPONSE_CHECKSUM_VALIDATION": CHECKSUM,
    "AWS_REQUEST_MIN_COMPRESSION_SIZE_BYTES": "[0-9]{1,7}",
    "AWS_DISABLE_REQUEST_COMPRESSION": SWITCH,
    "AWS_EC2_METADATA_V1_DISABLED": SWITCH,
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": SWITCH,
    "AWS_S3_DISABLE_EXPRESS_SESSION_AUTH": SWITCH,
    "AWS_S3_DISABLE_MULTIREGION_ACCESS_POINTS": SWITCH,
    "AWS_S3_USE_ARN_REGION": SWITCH,
    "AWS_USE_DUALSTACK_ENDPOINT": SWITCH,
    "AWS_USE_FIPS_ENDPOINT": SWITCH,
    "AWS_CA_BUNDLE": "/.+",
}
EXACT = ("AWS_RETRY_MODE", "AWS_ACCOUNT_ID_ENDPOINT_MODE")
WORDS = {  # for what a pattern does not spell out
    "AWS_MAX_ATTEMPTS": "a number from 1 to 9999",
    "AWS_REQUEST_MIN_COMPRESSION_SIZE_BYTES": "a number of up to 7 digits",
    "AWS_CA_BUNDLE": "the path of a file in the step's container",
}
NEEDS = {  # one of these beside it
    "AWS_PROFILE": ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"),
    "AWS_WEB_IDENTITY_TOKEN_FILE": ("AWS_ROLE_ARN",),
}
# Kubeflow and Argo set them themselves in every pod.
RESERVED = (
    r"KFP_.*|ARGO_.*|METADATA_GRPC_SERVICE_(HOST|PORT)|ML_PIPELINE_TLS_ENABLED|"
    "TRANSIENT_ERROR_PATTERN|REMOVE_LOCAL_ART_PATH|EXPRESSION_TEMPLATES|WF_DEL_PROPAGATION_POLICY"
)


def launcher_faults(
    environment: Mapping[str, str], secrets: Mapping[str, list[str]]
) -> Iterator[str]:
    """Say which variables would end a step before it begins, a sentence each.

    Args:
        environment: `kubeflow.environment`.
        secrets: `kubeflow.secrets`, whose values nobody knows here.

    >>> list(launcher_faults({"AWS_RETRY_MODE": "standard"}, {}))
    []
    >>> next(launcher_faults({"AWS_RETRY_MODE": "legacy"}, {})).partition(";")[0]
    "kubeflow.environment.AWS_RETRY_MODE must be standard or adaptive, got 'legacy'"
    """
    named = [("environment", name) for name in environment]
    named += [(f"secrets.{secret}", name) for secret in secrets for name in secrets[secret]]
    for where, name in named:
        if re.fullmatch(RESERVED, name):
            yield (
                f"kubeflow.{where} must not name {name}, which Kubeflow sets itself; leave it out"
            )
    for name, value in environment.items():
        wanted = VALUES.get(name)
        if wanted is None or not value:
            continue
        case = re.NOFLAG if name in EXACT else re.IGNORECASE
        if not re.fullmatch(wanted, value, case):
            *others, last = wanted.split("|")
            words = f"{', '.join(others)} or {last}"
            yield (
                f"kubeflow.environment.{name} must be {WORDS.get(name, words)}, got {value!r}; "
                "Kubeflow's launcher ends the step at any other value"
            )
    names = {name for _, name in named}
    for name, beside in NEEDS.items():
        if name in names and names.isdisjoint(beside):
            yield (
                f"kubeflow.environment with {name} needs {' or '.join(beside)} too, got none; "
                "Kubeflow's launcher ends the step without"
            )


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
    pull_secrets: list[Name] = Field(
        default_factory=list, description="Secrets that pull the images."
    )


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

    key: LabelKey | None = Field(None, description="As in Kubernetes.")
    operator: Literal["Equal", "Exists"] = Field("Equal", description="As in Kubernetes")
    value: LabelValue | None = Field(None, description="As in Kubernetes.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        None, description="As in Kubernetes"
    )

    def _misfits(self) -> Iterator[str]:
        if self.operator == "Exists" and self.value is not None:
            yield (
                f"a toleration with operator Exists has no value, got {self.value!r}; leave it out"
            )
        if self.operator == "Equal" and self.key is None:
            yield ("a toleration without key needs operator Exists; name the key")


class Place(Frozen):
    """The nodes that may run a step, and the resources that it gets there."""

    gpu: Gpu | None = Field(None, description="For `training` alone.")
    cpu: Cores | None = Field(
        "2", description="Request and limit, such as 4 or 500m; null for none."
    )
    memory: Quantity | None = Field(
        "8Gi", description="Request and limit, such as 16Gi; null for none."
    )
    node_selector: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, description="Labels that the node must have."
    )
    tolerations: list[Toleration] = Field(
        default_factory=list,
        description="Taints of nodes that are tolerated: key, operator, value, effect.",
    )


class Volume(Frozen):
    """An existing volume claim that every step mounts."""

    claim: Name = Field(description="The claim.")
    mount: Annotated[str, Field(pattern=r"^/[\w./-]*\w$"), Says("be an absolute path")] = Field(
        "/audits", description="Its path in the steps; `--out` lies below it."
    )


class Limits(Frozen):
    """Retries and deadlines."""

    retries: int = Field(3, ge=0, le=10, description="Retries of a task, with growing pauses.")
    pause_s: int = Field(30, ge=1, le=3600, description="Pause before the first retry; it doubles.")
    task_hours: float = Field(24, gt=0, le=1000, description="Deadline of a task.")
    run_hours: float = Field(168, gt=0, le=10000, description="Deadline of a run.")


class Kubeflow(Frozen):
    """A Kubeflow with its pipelines."""

    endpoint: str | None = Field(None, description="Its address; by default KF_PIPELINES_ENDPOINT.")
    namespace: Name | None = Field(None, description="Namespace of your team.")
    experiment: str | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="Experiment in Kubeflow; by default the project.",
    )
    service_account: Name | None = Field(None, description="The account that the steps run as.")
    images: Images = Field(default_factory=Images)
    shards: int = Field(4, ge=1, le=64, description="Number of tasks that share the members.")
    parallelism: int | None = Field(
        None, ge=1, description="Shards that run at a time; empty: all."
    )
    training: Place = Field(
        default_factory=Place, description="For train, prune, predict and robustness."
    )
    others: Place = Field(default_factory=Place, description="For all other steps.")
    volume: Volume | None = Field(None, description="Needed for runs that are not in s3://.")
    scratch: Quantity = Field(
        "20Gi", description="Disk space of each task, for copies and decoded images."
    )
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
