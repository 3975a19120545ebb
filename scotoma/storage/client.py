"""The S3 client of this process."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import lru_cache
from threading import Lock
from typing import Any

from scotoma.extras import needs

__all__ = ["ATTEMPTS", "ATTEMPTS_VARIABLE", "LOG", "endpoint", "s3_client", "s3_exceptions"]

LOG = logging.getLogger("scotoma.storage")  # of what was tried again; a step's is in its log
ATTEMPTS = 4  # of a request, and of a body that breaks off, with growing random pauses between
# Set in steps on Kubeflow, where AWS_MAX_ATTEMPTS would be read by Kubeflow's launcher, too.
ATTEMPTS_VARIABLE = "SCOTOMA_STORAGE_ATTEMPTS"
CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 5, 60
_MAKING = Lock()


def endpoint() -> str:
    """The endpoint that the environment names; empty for AWS, or one of the SDK's own files."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")


def s3_client() -> Any:
    """The S3 client of this process, shared by its threads."""
    settings = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("AWS_") or name == ATTEMPTS_VARIABLE
    }
    with _MAKING:  # making one is not thread-safe, using one is
        return _client_of_process(os.getpid(), tuple(sorted(settings.items())))


@lru_cache(maxsize=1)
def _client_of_process(process: int, settings: tuple[tuple[str, str], ...]) -> Any:
    """A client for one process and one set of the SDK's variables."""
    boto3, config = _sdk("boto3"), _sdk("botocore.config")
    settings_of_client = config.Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        retries=_retries(dict(settings)),
        max_pool_connections=32,
    )
    client = boto3.session.Session().client("s3", config=settings_of_client)
    client.meta.events.register("needs-retry.s3", _say)
    return client


def _retries(settings: Mapping[str, str]) -> dict[str, Any]:
    """How often a request is tried: as the SDK's variables say, else as ours does."""
    attempts = settings.get(ATTEMPTS_VARIABLE, "")
    # The mode `standard` gives up as soon as a few threads wait.
    mode = settings.get("AWS_RETRY_MODE") or ("legacy" if attempts else "standard")
    if settings.get("AWS_MAX_ATTEMPTS"):
        return {"mode": mode}
    usable = attempts.isdecimal() and int(attempts) > 0
    return {"mode": mode, "total_max_attempts": int(attempts) if usable else ATTEMPTS}


def s3_exceptions() -> Any:
    """The module of what the SDK raises.

    Raises:
        MissingExtra: The SDK is not installed.
    """
    return _sdk("botocore.exceptions")


def _sdk(module: str) -> Any:
    needs("boto3", "s3", "an s3:// address")
    return needs(module, "s3", "an s3:// address")


def _say(
    attempts: int, operation: Any, response: Any, caught_exception: Exception | None, **_: Any
) -> None:
    """Log an attempt that failed in a way that another may not."""
    status = response[0].status_code if response else 0
    if caught_exception or status >= 500 or status == 429:
        why = type(caught_exception).__name__ if caught_exception else f"HTTP {status}"
        LOG.warning("object storage: %s failed in attempt %d (%s)", operation.name, attempts, why)
