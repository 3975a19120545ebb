"""What does a server refuse before it looks at a request? Other hosts, other origins, too much."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

__all__ = ["Guard", "RateLimit"]

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

MOST_BYTES = 4096
OF_SESSION = (60, 20)  # requests at once, and a second after that
OF_ADDRESS = (600, 400)  # the same of all who share an address: 20 annotators in one room
POLICY = (
    "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class RateLimit:
    """A bucket a name: so many at once, and so many a second after that.

    >>> limit = RateLimit(burst=2, per_s=0.001)
    >>> [limit.allows("a"), limit.allows("a"), limit.allows("a"), limit.allows("b")]
    [True, True, False, True]
    """

    def __init__(self, burst: float, per_s: float) -> None:
        self._burst, self._per_s = burst, per_s
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, name: str, *, take: bool = True) -> bool:
        """Whether one more is allowed now; it counts if `take`."""
        now = time.monotonic()
        level, since = self._buckets.get(name, (self._burst, now))
        level = min(self._burst, level + (now - since) * self._per_s)
        allowed = level >= 1
        self._buckets[name] = (level - (take and allowed), now)
        self._buckets.move_to_end(name)
        while len(self._buckets) > 10_000:
            self._buckets.popitem(last=False)
        return allowed


class Guard:
    """Pass on what the own page may ask for, and answer everything else in one line.

    Host must be one of the own (a foreign name that resolves to this address is refused). GET
    changes nothing; POST must be JSON of at most 4 KiB from the own origin.
    """

    def __init__(
        self, app: App, hosts: Iterable[str], origins: Iterable[str], *, proxied: bool = False
    ) -> None:
        """Wrap an application.

        Args:
            app: What answers.
            hosts: Values of the header Host that are its own.
            origins: Its own origins.
            proxied: Callers come through a proxy, which appends their address to X-Forwarded-For.
        """
        self._app, self._proxied = app, proxied
        self._hosts, self._origins = set(hosts), set(origins)
        self._sessions, self._addresses = RateLimit(*OF_SESSION), RateLimit(*OF_ADDRESS)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value for name, value in scope["headers"]}
        get = {name: value.decode("latin-1") for name, value in headers.items()}.get
        address = str((scope.get("client") or ("", 0))[0])
        if self._proxied:  # what the proxy itself has seen comes last
            address = get("x-forwarded-for", "").rpartition(",")[2].strip() or address
            scope = {**scope, "client": (address, 0)}
        refused = self._refusal(scope["method"], get)
        # A forged cookie has a bucket of its own, and the one of its address.
        if not self._addresses.allows(address) or (
            refused is None and not self._sessions.allows(get("cookie", "") or address)
        ):
            refused = 429, "too many requests"
        if refused is None and scope["method"] == "POST":
            body = await _body(receive)
            if body is None:
                refused = 413, f"at most {MOST_BYTES:,} bytes"
            else:
                receive = _replayed(body, receive)
        if refused is not None:
            await _answer(send, *refused)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        await self._app(scope, receive, with_headers)

    def _refusal(self, method: str, get: Callable[..., Any]) -> tuple[int, str] | None:
        if get("host", "") not in self._hosts:
            return 421, "this server does not answer for that host"
        if method not in ("GET", "POST"):
            return 405, "only GET and POST"
        if method == "GET":
            return None
        if get("content-type", "").partition(";")[0].strip() != "application/json":
            return 415, "only application/json"
        if get("origin", "") not in self._origins:
            return 403, "only from its own page"
        if get("sec-fetch-site", "same-origin") != "same-origin":
            return 403, "only from its own page"
        length = get("content-length", "0")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            return 413, f"at most {MOST_BYTES:,} bytes"
        return None


async def _body(receive: Receive) -> bytes | None:
    """The body of a request; None where it is too long."""
    body: bytes = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        body += bytes(message.get("body", b""))
        if len(body) > MOST_BYTES:
            return None
        if not message.get("more_body"):
            return body


def _replayed(body: bytes, rest: Receive) -> Receive:
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if sent:
            return await rest()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _answer(send: Send, status: int, text: str) -> None:
    body = json.dumps({"error": text}).encode()
    headers = [(b"content-type", b"application/json"), *HEADERS]
    if status == 429:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
