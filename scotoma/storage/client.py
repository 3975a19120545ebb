"""The S3 client of this process."""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from threading import Lock
from typing import Any

from scotoma.extras import needs

__all__ = ["ATTEMPTS", "LOG", "endpoint", "s3_client", "s3_exceptions"]

LOG = logging.getLogger("scotoma.storage")  # of what was tried again; a step's is in its log
ATTEMPTS = 4  # of a request, and of a body that breaks off, with growing random pauses between
CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 5, 60
_MAKING = Lock()


def endpoint() -> str:
    """The endpoint that the environment names; empty for AWS, or one of the SDK's own files."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")


def s3_client() -> Any:
    """The S3 client of this process, shared by its threads."""
    settings = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    with _MAKING:  # making one is not thread-safe, using one is
        return _client_of_process(os.getpid(), tuple(sorted(settings.items())))


@lru_cache(maxsize=1)
def _client_of_process(process: int, settings: tuple[tuple[str, str], ...]) -> Any:
    """A client for one process and one set of the SDK's variables."""
    boto3, config = _sdk("boto3"), _sdk("botocore.config")
    retries: dict[str, Any] = {"mode": dict(settings).get("AWS_RETRY_MODE", "standard")}
    if "AWS_MAX_ATTEMPTS" not in dict(settings):
        retries["total_max_attempts"] = ATTEMPTS
    settings_of_client = config.Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        retries=retries,
        max_pool_connections=32,
    )
    client = boto3.session.Session().client("s3", config=settings_of_client)
    client.meta.events.register("needs-retry.s3", _say)
    return client


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
