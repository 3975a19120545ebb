"""The S3 client of this process, and what can go wrong on the way, one sentence each."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from scotoma.errors import DataError, UnreachableError
from scotoma.extras import needs
from scotoma.storage.credentials import masked

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


CREDENTIALS = (
    "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "TokenRefresh"
)  # fmt: skip
SHUT = (301, 307, 401, 403)  # another region, or other credentials, may be let in


def of_content() -> tuple[type[Exception], ...]:
    """What the SDK raises where the body of an object breaks off, or is not what it should be."""
    of = s3_exceptions()
    return (of.IncompleteReadError, of.ResponseStreamingError, of.ReadTimeoutError,
            of.FlexibleChecksumError)  # fmt: skip


@contextmanager
def storage_sentences(uri: str, verb: str = "read", *, listed: bool = False) -> Iterator[None]:
    """What boto3 raises, as one sentence without credentials or query strings."""
    of = s3_exceptions()
    try:
        yield
    except of.ClientError as error:
        shut = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in SHUT
        kind = UnreachableError if shut or _code(error.response) in CREDENTIALS else DataError
        raise kind(_refused(uri, verb, listed, error.response)) from error
    except of.BotoCoreError as error:
        of_object = (*of_content(), of.ParamValidationError)
        kind = DataError if isinstance(error, of_object) else UnreachableError
        raise kind(_failed(uri, verb, error)) from error
    except ValueError as error:
        no_address = "endpoint" in str(error) or not _is_address(endpoint())
        if isinstance(error, DataError) or not no_address:
            raise
        raise DataError(_no_address(uri, verb)) from error


def _is_address(uri: str) -> bool:
    """Tell whether this is an address of HTTP; an empty one stands for that of AWS.

    >>> [_is_address(uri) for uri in ("", "http://host:9000", "http://[::1", "host:9000")]
    [True, True, False, False]
    """
    try:
        parts = urlsplit(uri)
        return not uri or (parts.scheme in ("http", "https") and bool(parts.hostname or parts.port))
    except ValueError:  # of brackets or of a port
        return False


def _no_address(uri: str, verb: str) -> str:
    return (
        f"{masked(uri)} cannot be {verb}: AWS_ENDPOINT_URL must be an address such as "
        f"http://host:9000, got {masked(endpoint())!r}; correct it"
    )


def _code(response: dict[str, Any]) -> str:
    """What the service calls its refusal."""
    return re.sub(r"[^A-Za-z0-9]", "", str(response.get("Error", {}).get("Code", "")))[:60]


def _refused(uri: str, verb: str, listed: bool, response: dict[str, Any]) -> str:
    """The sentence for what the service answered."""
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    code, bucket = _code(response), uri.removeprefix("s3://").partition("/")[0]
    gone = code == "NoSuchKey" or status == 404
    if gone and listed and code != "NoSuchBucket":
        return (
            f"{masked(uri)} vanished after it was listed; leave the objects in place while they "
            "are read, and repeat the command"
        )
    elsewhere = status in (301, 307) or code in (
        "AuthorizationHeaderMalformed",
        "PermanentRedirect",
    )
    reasons = (
        (code == "NoSuchBucket", f"the bucket {bucket!r} does not exist; correct its name"),
        (gone, "no such object; correct the address or put it there"),
        (
            code in CREDENTIALS,
            f"the service rejects these credentials ({code}); correct AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
        ),
        (
            status == 403,
            f"access is denied to these credentials ({code}); ask for s3:ListBucket, s3:GetObject "
            "and, to write, s3:PutObject on it",
        ),
        (
            elsewhere or status in (301, 307),
            "its bucket is in another region; set AWS_REGION to it",
        ),
        (
            True,
            f"the service answers {code or 'nothing'} (HTTP {status}); repeat the command, or ask "
            "its operator",
        ),
    )
    return f"{masked(uri)} cannot be {verb}: {next(words for holds, words in reasons if holds)}"


def _failed(uri: str, verb: str, error: Exception) -> str:
    """The sentence for what happened before there was an answer, or within its body."""
    of, kind = s3_exceptions(), type(error).__name__
    if isinstance(error, of.EndpointResolutionError):
        return _no_address(uri, verb)
    at = f" at {masked(endpoint())}" if endpoint() else ""
    reasons = (
        (
            (of.NoCredentialsError, of.PartialCredentialsError),
            "there are no credentials, or half of them; set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
        ),
        (
            (of.CredentialRetrievalError, of.ProfileNotFound, of.TokenRetrievalError, of.SSOError),
            f"the credentials cannot be read ({kind}); renew them",
        ),
        (
            of.SSLError,
            f"the endpoint{at} shows a certificate that is not trusted; set AWS_CA_BUNDLE",
        ),
        (
            of.FlexibleChecksumError,
            "its content does not match its checksum; upload it again",
        ),
        (of_content(), f"its content broke off in {ATTEMPTS} attempts; repeat the command"),
        (
            (of.HTTPClientError, of.ConnectionError),
            f"the endpoint{at} does not answer ({kind}); check the network and AWS_ENDPOINT_URL",
        ),
        (
            of.ParamValidationError,
            "it is not the address of an object; name s3://BUCKET/PREFIX",
        ),
        (Exception, f"{kind}; see the AWS SDK's settings"),
    )
    words = next(words for kinds, words in reasons if isinstance(error, kinds))
    return f"{masked(uri)} cannot be {verb}: {words}"
