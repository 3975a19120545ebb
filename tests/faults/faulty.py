"""A service as a bad day shows it: a proxy that spoils some answers, in an order by seed."""

from __future__ import annotations

import base64
import hashlib
import http.client
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["FAULTS", "Faulty", "faulty"]

FAULTS = ("silence", "reset", "half", "flipped", "flipped on its way", "500", "503", "stale")
CODES = {"500": "InternalError", "503": "SlowDown", "507": "InsufficientStorage"}


class Faulty:
    """What a proxy does to the requests that pass it.

    Attributes:
        share: Of requests that are spoiled.
        counts: How often each fault was met.
    """

    def __init__(self, behind: str, seed: int) -> None:
        self.behind = behind
        self.share = 0.0
        self.counts: Counter[str] = Counter()
        self.written: set[str] = set()
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self.closing = threading.Event()

    def fault(self, method: str, path: str, *, body: bool) -> str:
        """What befalls a request; empty for nothing."""
        possible = {"silence", "reset", "500", "503"}
        if method == "GET":
            possible |= {"half", "flipped"}
        if method in ("GET", "HEAD") and path in self.written:
            possible.add("stale")
        if method == "PUT" and body:
            possible.add("flipped on its way")
        with self._lock:
            if self._random.random() >= self.share:
                return ""
            chosen = self._random.choice(sorted(possible))
            self.counts[chosen] += 1
            return chosen


def _flipped(content: bytes) -> bytes:
    """The same with one bit turned."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@contextmanager
def faulty(behind: str, seed: int) -> Iterator[tuple[str, Faulty]]:
    """A proxy in front of a service at `http://HOST:PORT`; yields its address and its mood."""
    mood = Faulty(behind.removeprefix("http://"), seed)

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else every answer waits 40 ms for an acknowledgement

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path = self.path.partition("?")[0]
            fault = mood.fault(self.command, path, body=bool(body))
            if fault == "silence":
                mood.closing.wait(3)
            if fault in ("silence", "reset"):
                self.close_connection = True
                return
            if fault in CODES or fault == "stale":
                self.refuse(int(fault) if fault in CODES else 404, CODES.get(fault, "NoSuchKey"))
                return
            if fault == "slow":
                mood.closing.wait(0.3)
            if fault == "flipped on its way":
                body = _flipped(body)
            promised = self.headers.get("x-amz-checksum-sha256")
            if promised and base64.b64encode(hashlib.sha256(body).digest()).decode() != promised:
                self.refuse(400, "BadDigest")  # as S3 does, and the service behind does not
                return
            self.answer(*self.ask(body), fault)
            if self.command == "PUT":
                mood.written.add(path)

        def ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            connection = http.client.HTTPConnection(mood.behind, timeout=30)
            try:
                connection.request(self.command, self.path, body, dict(self.headers))
                answer = connection.getresponse()
                return answer.status, answer.getheaders(), answer.read()
            finally:
                connection.close()

        def answer(
            self, status: int, headers: list[tuple[str, str]], content: bytes, fault: str
        ) -> None:
            if fault == "flipped" and content:
                content = _flipped(content)
            self.send_response(status)
            for name, value in headers:
                if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, value)
            self.end_headers()
            if fault == "half":
                content, self.close_connection = content[: len(content) // 2], True
            self.wfile.write(content)

        def refuse(self, status: int, code: str) -> None:
            body = f"<Error><Code>{code}</Code></Error>".encode()
            content = b"" if self.command == "HEAD" else body
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    for method in ("GET", "PUT", "HEAD", "POST", "PATCH", "DELETE"):
        setattr(Proxy, f"do_{method}", Proxy.pass_on)
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", mood
        finally:
            mood.closing.set()
            server.shutdown()
