"""Faults between this machine and Kubeflow: a request is repeated, or refused in one sentence."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

from scotoma.errors import ConfigError, ScotomaError
from scotoma.printable import printable

ATTEMPTS = 5
TIMEOUTS_S = (10.0, 60.0)  # to connect, and between two pieces of an answer
PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0  # before the second attempt, and at most
PASSING = (408, 425, 429, 500, 502, 503, 504)  # may be gone the next time
ALREADY_EXISTS, NOT_FOUND = 6, 5  # gRPC's codes; 409 is also what cannot be done now
# What a server that speaks TLS answers to HTTP: Go's, nginx and Envoy, Apache.
SPEAKS_TLS = ("HTTP request to an HTTPS server", "sent to HTTPS port", "speaking plain HTTP")
_T = TypeVar("_T")


class Conflict(ScotomaError):  # noqa: N818  it reads as what it is: a conflict
    """The server already has what a request would make."""


class NotThere(ConfigError):  # noqa: N818  it reads as what it is
    """The server does not have what a request names."""


class NoKubeflow(NotThere):
    """Something else answers, or a gateway that has lost its way to the server."""


class Unknown(ConfigError):  # noqa: N818  it reads as what it is
    """The server does not know who asks."""


class Foreign(Exception):  # noqa: N818  it reads as what it is
    """An answer without any of the fields that KFP's have."""


class Away(ScotomaError):  # noqa: N818  it reads as what it is
    """The server gives no answer that can be read; it may a little later."""


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
        Unknown: The server does not know who asks.
        ConfigError: The server refuses it, or is no Kubeflow, and would be so again.
        Away: It does not answer, or not in a way that can be read.
    """
    from kfp_server_api import ApiException

    for attempt in range(1, ATTEMPTS + 1):
        try:
            return call()
        except ScotomaError:
            raise
        except Exception as error:  # the client raises what it meets, in parsing too
            fault = _within(error, ApiException)
            status = getattr(fault, "status", None) or 0
            refusal = _wrong_address(error, fault, what, where)
            if refusal and (attempt > 1 or not isinstance(refusal, NoKubeflow)):  # may pass
                raise refusal from error
            if status and (status not in PASSING or _workflow_gone(fault)):
                raise _refused(status, fault, what, where) from error
            if attempt == ATTEMPTS:
                raise _given_up(status, error, what, where) from error
            time.sleep(_pause(attempt, fault))
        if lookup is not None and (existing := patiently(lookup, what, where)) is not None:
            return existing
    raise AssertionError("unreachable")


def _within(error: BaseException, kind: type[BaseException]) -> Any:
    """What an error was made from, such as the server's refusal; None if nothing of that kind."""
    chain: BaseException | None = error
    while chain is not None and not isinstance(chain, kind):
        chain = chain.__context__
    return chain


def _wrong_address(error: Exception, fault: Any, what: str, where: str) -> ScotomaError | None:
    """The sentence for an address that will never do: TLS or not, certificates, a page."""
    from urllib3 import exceptions

    words = f"Kubeflow at {where} cannot {what}"
    if (tls := _within(error, exceptions.SSLError)) is not None:
        reason = str(tls)
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            why = re.search(r"verify failed: ([^(]+?) ?\(", reason)
            return ConfigError(
                f"{words}: its certificate is not trusted ({why[1] if why else 'unknown'}); name "
                "the authority in SSL_CERT_FILE, or correct the host's name"
            )
        if any(word in reason for word in ("WRONG_VERSION_NUMBER", "RECORD_LAYER", "HTTP_REQUEST")):
            return ConfigError(
                f"{words}: it speaks no TLS; write http:// for https:// in the address"
            )
    body = str(getattr(fault, "body", "") or "")
    if any(sentence in body for sentence in SPEAKS_TLS):
        return ConfigError(f"{words}: it speaks TLS; write https:// for http:// in the address")
    if isinstance(error, Foreign):
        return _no_kubeflow(what, where, "an answer without the fields of KFP")
    page = _within(error, json.JSONDecodeError)
    if page is not None and page.doc.lstrip()[:1] == "<":
        return _no_kubeflow(what, where, "a web page")
    return None


def _no_kubeflow(what: str, where: str, found: str) -> NoKubeflow:
    return NoKubeflow(
        f"Kubeflow at {where} cannot {what}: what answers there is no Kubeflow Pipelines "
        f"({found}); correct the address with --endpoint, which often ends in /pipeline"
    )


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
        return Unknown(
            f"{words}: it does not know you (HTTP {status}); set SCOTOMA_KFP_TOKEN or "
            "SCOTOMA_KFP_COOKIE, or renew it"
        )
    if status == 403:
        return ConfigError(
            f"{words}: your credentials do not allow it (HTTP 403{reason}); ask for the right in "
            "this namespace, or name another with --namespace"
        )
    if status == 404 and body.get("code") != NOT_FOUND:  # of KFP itself, not of a gateway
        return _no_kubeflow(what, where, "HTTP 404")
    if status == 404:
        return NotThere(
            f"{words}: it does not have it (HTTP 404{reason}); correct the id, or the address with "
            "--endpoint"
        )
    if status == 409 and body.get("code") == ALREADY_EXISTS:
        return Conflict(f"{words}: the name is taken (HTTP 409{reason}); choose another name")
    if status == 409:
        return ConfigError(
            f"{words}: it is in no state for that (HTTP 409{reason}); see scotoma kubeflow status"
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
        return Away(f"{words}: it is too busy (HTTP 429 {tried}); repeat the command later")
    if status:
        return Away(f"{words}: it answers HTTP {status} {tried}; repeat the command later")
    if isinstance(error, exceptions.ProtocolError | exceptions.IncompleteRead):
        tls = ", or write https:// if it speaks TLS" * where.startswith("http://")
        return Away(f"{words}: its answer broke off {tried}; repeat the command later{tls}")
    if isinstance(error, exceptions.HTTPError):
        return Away(f"{words}: {_no_way(error)} ({tried})")
    return Away(
        f"{words}: its answer cannot be read ({type(error).__name__} {tried}); correct the address "
        "with --endpoint, or compare its version with kfp's on this machine"
    )


def _no_way(error: Exception) -> str:
    """Why no connection came about, and what to look at."""
    from urllib3 import exceptions

    system = _within(error, OSError)
    if isinstance(error, exceptions.ProxyError):
        return "the proxy on the way does not answer; correct HTTPS_PROXY, or NO_PROXY"
    if isinstance(error, exceptions.NameResolutionError):
        return "its host's name is not known; correct the address, or check DNS and VPN"
    if isinstance(system, ConnectionRefusedError):
        return "nothing listens there; correct the host and the port, or start it"
    if isinstance(error, exceptions.NewConnectionError):
        return "there is no route to it from this machine; check the network, VPN and proxy"
    return "it does not answer in time; check the network, firewall and VPN"


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
