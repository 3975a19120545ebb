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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.commands import scotoma


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
    last_headers: dict[str, str] = field(default_factory=dict)

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
            if data is not None and "Content-Length" not in sent:
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
            got = connection.getresponse()
            return Reply(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())
        finally:
            connection.close()

    def enter(self, token: str) -> Reply:
        """Consent and keep the cookie."""
        reply = self.ask("POST", "/session", {"token": token, "consent": True})
        self.cookie = reply.headers.get("set-cookie", "").partition(";")[0]
        return reply


def invite(folder: Path, *options: str, url: str = "http://x") -> dict[str, str]:
    """Token of each annotator."""
    code, out, err = scotoma("study", "invite", folder, "--json", "--url", url, *options)
    assert code == 0, err
    return {number: link.partition("#")[2] for number, link in json.loads(out)["links"].items()}


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
