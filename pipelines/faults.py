"""What can go wrong between this machine and Kubeflow: tried again, or said in one sentence."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from scotoma.errors import ConfigError, ScotomaError
from scotoma.printable import printable

__all__ = ["Conflict", "patiently"]

ATTEMPTS = 5
PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0  # before the second attempt, and at most
PASSING = (408, 425, 429, 500, 502, 503, 504)  # may be gone the next time
_T = TypeVar("_T")


class Conflict(ScotomaError):  # noqa: N818  it reads as what it is: a conflict
    """What is to be made is there already."""


def patiently(
    call: Callable[[], _T], what: str, where: str, *, found: Callable[[], _T | None] | None = None
) -> _T:
    """The answer to a request, asked again a few times where the fault may pass.

    Args:
        call: Asks once.
        what: What is asked for, as the end of "cannot ...".
        where: The address, for the sentence.
        found: Looks for what an earlier attempt made though its answer was lost; asked before a
            request that makes something is repeated, so that nothing is made twice.

    Returns:
        The answer.

    Raises:
        Conflict: It is there already.
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
            if status and status not in PASSING:
                raise _said(status, fault, what, where) from error
            if attempt == ATTEMPTS:
                raise _given_up(status, error, what, where) from error
            time.sleep(_pause(attempt, fault))
        if found is not None and (made := patiently(found, what, where)) is not None:
            return made
    raise AssertionError("unreachable")


def _refusal(error: BaseException) -> Any:
    """What the server answered, also where the client stumbled over it; None for no answer."""
    from kfp_server_api import ApiException

    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, ApiException):
            return chain
        chain = chain.__context__
    return None


def _pause(attempt: int, fault: Any) -> float:
    """Seconds to wait: what the server asks for, or a random share of a growing span."""
    asked = str((getattr(fault, "headers", None) or {}).get("Retry-After", ""))
    if asked.isdigit():
        return min(float(asked), LONGEST_PAUSE_S)
    return random.uniform(0, min(PAUSE_S * 2**attempt, LONGEST_PAUSE_S))


def _said(status: int, fault: Any, what: str, where: str) -> ScotomaError:
    """The sentence for what would be answered again."""
    words = f"Kubeflow at {where} cannot {what}"
    if status == 401 or 300 <= status < 400:  # a proxy sends browsers to a page to log in
        return ConfigError(
            f"{words}: it does not know who asks (HTTP {status}); set SCOTOMA_KFP_TOKEN or "
            "SCOTOMA_KFP_COOKIE, or renew it"
        )
    if status == 403:
        return ConfigError(
            f"{words}: these credentials may not (HTTP 403{_reason(fault)}); ask for the right in "
            "this namespace, or name another with --namespace"
        )
    if status == 404:
        return ConfigError(
            f"{words}: it has no such thing (HTTP 404{_reason(fault)}); correct the id, or the "
            "address with --endpoint"
        )
    if status == 409:
        return Conflict(f"{words}: it is there already (HTTP 409); choose another name")
    return ConfigError(
        f"{words}: it refuses the request (HTTP {status}{_reason(fault)}); correct it, or compare "
        "its version with kfp's on this machine"
    )


def _given_up(status: int, error: Exception, what: str, where: str) -> ScotomaError:
    """The sentence for what did not pass in all attempts."""
    import urllib3.exceptions as of

    words, tried = f"Kubeflow at {where} cannot {what}", f"in {ATTEMPTS} attempts"
    if status == 429:
        return ScotomaError(f"{words}: it is too busy (HTTP 429 {tried}); repeat the command later")
    if status:
        return ScotomaError(f"{words}: it answers HTTP {status} {tried}; repeat the command later")
    if isinstance(error, of.SSLError):
        return ConfigError(
            f"{words}: its certificate is not trusted; name the authority in SSL_CERT_FILE"
        )
    if isinstance(error, of.ProtocolError | of.IncompleteRead):
        return ScotomaError(f"{words}: its answer broke off {tried}; repeat the command later")
    if isinstance(error, of.TimeoutError | of.NewConnectionError | of.HTTPError):
        return ScotomaError(
            f"{words}: it does not answer ({type(error).__name__} {tried}); check the network and "
            "the address"
        )
    return ScotomaError(
        f"{words}: its answer cannot be read ({type(error).__name__} {tried}); correct the address "
        "with --endpoint, or compare its version with kfp's on this machine"
    )


def _reason(fault: Any) -> str:
    """The server's own words, short and on one line."""
    try:
        found = json.loads(fault.body)
        words = str(found.get("message") or found.get("error") or "")
    except (TypeError, ValueError, AttributeError):
        return ""
    return f": {printable(' '.join(words.split()))[:200]}" if words else ""
