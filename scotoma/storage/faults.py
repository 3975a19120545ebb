"""What can go wrong between this machine and object storage, one sentence each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from scotoma.errors import DataError, UnreachableError
from scotoma.storage.client import ATTEMPTS, endpoint, s3_exceptions
from scotoma.storage.credentials import masked

__all__ = ["storage_sentences"]

CREDENTIALS = (
    "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "TokenRefresh"
)  # fmt: skip
SHUT = (301, 307, 401, 403)  # another region, or other credentials, may be let in


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
        of_content = (of.IncompleteReadError, of.ResponseStreamingError, of.ReadTimeoutError,
                      of.FlexibleChecksumError, of.ParamValidationError)  # fmt: skip
        kind = DataError if isinstance(error, of_content) else UnreachableError
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
    code = _code(response)
    place, bucket = masked(uri), uri.removeprefix("s3://").partition("/")[0]
    if code == "NoSuchBucket":
        return f"{place} cannot be {verb}: the bucket {bucket!r} does not exist; correct its name"
    if code == "NoSuchKey" or status == 404:
        return (
            f"{place} vanished after it was listed; leave the objects in place while they are "
            "read, and repeat the command"
            if listed
            else f"{place} cannot be {verb}: no such object; correct the address or put it there"
        )
    if code in CREDENTIALS:
        return (
            f"{place} cannot be {verb}: the service rejects these credentials ({code}); correct "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        )
    if status == 403:
        return (
            f"{place} cannot be {verb}: access is denied to these credentials ({code}); ask for "
            "s3:ListBucket, s3:GetObject and, to write, s3:PutObject on it"
        )
    if status in (301, 307) or code in ("AuthorizationHeaderMalformed", "PermanentRedirect"):
        return f"{place} cannot be {verb}: its bucket is in another region; set AWS_REGION to it"
    return (
        f"{place} cannot be {verb}: the service answers {code or 'nothing'} (HTTP {status}); "
        "repeat the command, or ask its operator"
    )


def _failed(uri: str, verb: str, error: Exception) -> str:
    """The sentence for what happened before there was an answer, or within its body."""
    of = s3_exceptions()
    place = f"{masked(uri)} cannot be {verb}"
    at = f" at {masked(endpoint())}" if endpoint() else ""
    if isinstance(error, of.NoCredentialsError | of.PartialCredentialsError):
        return (
            f"{place}: there are no credentials, or half of them; set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        )
    if isinstance(
        error,
        of.CredentialRetrievalError | of.ProfileNotFound | of.TokenRetrievalError | of.SSOError,
    ):
        return f"{place}: the credentials cannot be read ({type(error).__name__}); renew them"
    if isinstance(error, of.SSLError):
        return (
            f"{place}: the endpoint{at} shows a certificate that is not trusted; set AWS_CA_BUNDLE"
        )
    if isinstance(error, of.FlexibleChecksumError):
        return f"{place}: its content does not match its checksum; upload it again"
    if isinstance(error, of.IncompleteReadError | of.ResponseStreamingError | of.ReadTimeoutError):
        return f"{place}: its content broke off in {ATTEMPTS} attempts; repeat the command"
    if isinstance(error, of.EndpointResolutionError):
        return _no_address(uri, verb)
    if isinstance(error, of.HTTPClientError | of.ConnectionError):
        return (
            f"{place}: the endpoint{at} does not answer ({type(error).__name__}); check the "
            "network and AWS_ENDPOINT_URL"
        )
    if isinstance(error, of.ParamValidationError):
        return f"{place}: it is not the address of an object; name s3://BUCKET/PREFIX"
    return f"{place}: {type(error).__name__}; see the AWS SDK's settings"
