"""Faults between this machine and Kubeflow: a request is repeated, or refused in one sentence."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from scotoma.errors import ConfigError, ScotomaError
from scotoma.printable import printable

__all__ = ["TIMEOUTS_S", "Conflict", "NotThere", "patiently"]

ATTEMPTS = 5
TIMEOUTS_S = (10.0, 60.0)  # to connect, and between two pieces of an answer
PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0  # before the second attempt, and at most
PASSING = (408, 425, 429, 500, 502, 503, 504)  # may be gone the next time
ALREADY_EXISTS = 6  # gRPC's code; 409 is also the status of what cannot be done now
_T = TypeVar("_T")


class Conflict(ScotomaError):  # noqa: N818  it reads as what it is: a conflict
    """The server already has what a request would make."""


class NotThere(ConfigError):  # noqa: N818  it reads as what it is
    """The server does not have what a request names."""


def patiently(
    call: Callable[[], _T], what: str, where: str, *, lookup: Callable[[], _T | None] | None = None
) -> _T:
    """Send a request, and repeat it a few times if the fault may pass.

    Args:
        call: Sends it once.
        what: Its purpose, as the end of "cannot ...".
        where: The address, for the sentence.
        lookup: Looks for what an attempt made whose answer was lost. It is called before the
            request is repeated, so that nothing is made twice.

    Returns:
        The answer.

    Raises:
        Conflict: The server has it already.
        NotThere: The server does not have it.
        ConfigError: The server refuses it, and would again.
        ScotomaError: It does not answer, or not in a way that can be read.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return call()
        except ScotomaError:
            raise
        except Exception as error:  # the client raises what it meets, in parsing too
            fault = _refusal(error)
            status = getattr(fault, "status", None) or 0
            if status and (status not in PASSING or _workflow_gone(fault)):
                raise _refused(status, fault, what, where) from error
            if attempt == ATTEMPTS:
                raise _given_up(status, error, what, where) from error
            time.sleep(_pause(attempt, fault))
        if lookup is not None and (existing := patiently(lookup, what, where)) is not None:
            return existing
    raise AssertionError("unreachable")


def _refusal(error: BaseException) -> Any:
    """The server's answer, even if the client could not read it; None if there was none."""
    from kfp_server_api import ApiException

    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, ApiException):
            return chain
        chain = chain.__context__
    return None


def _pause(attempt: int, fault: Any) -> float:
    """Seconds to wait: what the server asks for, or a random share of a growing span."""
    retry_after = str((getattr(fault, "headers", None) or {}).get("Retry-After", ""))
    if retry_after.isdigit():
        return min(float(retry_after), LONGEST_PAUSE_S)
    return random.uniform(0, min(PAUSE_S * 2**attempt, LONGEST_PAUSE_S))


def _refused(status: int, fault: Any, what: str, where: str) -> ScotomaError:
    """The sentence for a refusal that would come again."""
    words, body = f"Kubeflow at {where} cannot {what}", _body(fault)
    reason = _reason(body)
    if status == 401 or 300 <= status < 400:  # a proxy sends browsers to a page to log in
        return ConfigError(
            f"{words}: it does not know you (HTTP {status}); set SCOTOMA_KFP_TOKEN or "
            "SCOTOMA_KFP_COOKIE, or renew it"
        )
    if status == 403:
        return ConfigError(
            f"{words}: your credentials do not allow it (HTTP 403{reason}); ask for the right in "
            "this namespace, or name another with --namespace"
        )
    if status == 404:
        return NotThere(
            f"{words}: it does not have it (HTTP 404{reason}); correct the id, or the address with "
            "--endpoint"
        )
    if status == 409 and body.get("code") == ALREADY_EXISTS:
        return Conflict(f"{words}: the name is taken (HTTP 409{reason}); choose another name")
    if status == 409:
        return ConfigError(
            f"{words}: it is in no state for that (HTTP 409{reason}); see scotoma pipeline status"
        )
    if _workflow_gone(fault):
        return ConfigError(
            f"{words}: Kubernetes no longer has its Workflow, so nothing of it runs; send the "
            "audit again with the same --out"
        )
    if "empty namespace" in reason:
        return ConfigError(
            f"{words}: its users have namespaces (HTTP {status}{reason}); name yours with "
            "--namespace or kubeflow.namespace"
        )
    return ConfigError(
        f"{words}: it refuses the request (HTTP {status}{reason}); correct it, or compare its "
        "version with kfp's on this machine"
    )


def _given_up(status: int, error: Exception, what: str, where: str) -> ScotomaError:
    """The sentence for a fault that stayed in all attempts."""
    from urllib3 import exceptions

    words, tried = f"Kubeflow at {where} cannot {what}", f"in {ATTEMPTS} attempts"
    if status == 429:
        return ScotomaError(f"{words}: it is too busy (HTTP 429 {tried}); repeat the command later")
    if status:
        return ScotomaError(f"{words}: it answers HTTP {status} {tried}; repeat the command later")
    if isinstance(error, exceptions.SSLError):
        return ConfigError(
            f"{words}: its certificate is not trusted; name the authority in SSL_CERT_FILE"
        )
    if isinstance(error, exceptions.ProtocolError | exceptions.IncompleteRead):
        return ScotomaError(f"{words}: its answer broke off {tried}; repeat the command later")
    if isinstance(error, exceptions.HTTPError):
        return ScotomaError(
            f"{words}: it does not answer ({type(error).__name__} {tried}); check the network and "
            "the address"
        )
    return ScotomaError(
        f"{words}: its answer cannot be read ({type(error).__name__} {tried}); correct the address "
        "with --endpoint, or compare its version with kfp's on this machine"
    )


def _body(fault: Any) -> dict[str, Any]:
    """What the server answered with a refusal; empty if it is no JSON."""
    try:
        body = json.loads(fault.body)
    except (TypeError, ValueError, AttributeError):
        return {}
    return body if isinstance(body, dict) else {}


def _reason(body: dict[str, Any]) -> str:
    """The server's sentence for its readers, short and on one line."""
    details = body.get("details") or [{}]
    detail = details[0] if isinstance(details, list) and isinstance(details[0], dict) else {}
    words = str(detail.get("message") or body.get("message") or body.get("error") or "")
    return f": {printable(' '.join(words.split()))[:200]}" if words else ""


def _workflow_gone(fault: Any) -> bool:
    """Whether the server could not find the Workflow of a run, which it answers with 500."""
    message = str(_body(fault).get("message") or "")
    return "workflows.argoproj.io" in message and message.endswith("not found")
