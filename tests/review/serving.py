"""A server of the real command, and requests to it that no browser would send."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def content(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    """One caller with its cookie."""

    address: str
    cookie: str = ""

    def ask(
        self, method: str, path: str, content: Any = None, body: bytes | None = None, **headers: str
    ) -> Reply:
        """Send a request as the own page would, but for what `headers` replaces."""
        split = urlsplit(self.address)
        connection = http.client.HTTPConnection(split.hostname, split.port, timeout=30)
        sent = {"Host": split.netloc}
        if method == "POST":
            sent |= {"Content-Type": "application/json", "Origin": self.address}
        if self.cookie:
            sent["Cookie"] = self.cookie
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if content is None else json.dumps(content).encode()
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                connection.putheader(name, value)
            if data is not None and not {"Content-Length", "Transfer-Encoding"} & sent.keys():
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
            got = connection.getresponse()
            return Reply(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())
        finally:
            connection.close()


@contextmanager
def serving(*command: str | Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Address and process of a server, which is interrupted in the end."""
    server = subprocess.Popen(
        [sys.executable, "-m", "scotoma", *map(str, command), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        if not line:
            raise AssertionError(server.communicate()[1])
        yield next(word for word in line.split() if word.startswith("http")), server
    finally:
        if server.poll() is None:
            server.send_signal(signal.SIGINT)
        server.communicate(timeout=60)
