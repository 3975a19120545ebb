"""Which variables may a step's container be given, which Kubeflow's launcher reads before the step?

The launcher's AWS SDK for Go refuses values that boto3 takes. It then ends before our first line:
the step leaves no log and no error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

__all__ = ["launcher_faults"]

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
