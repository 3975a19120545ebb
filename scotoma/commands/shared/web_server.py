"""How do `study serve` and `review` listen? On this machine, unless HTTPS is seen to."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scotoma.errors import ConfigError
from scotoma.extras import needs
from scotoma.printable import quoted

__all__ = ["Listening", "listen"]

HERE = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Listening:
    """Where a server listens, and how people reach it.

    Attributes:
        host: Address.
        port: Port; 0 takes a free one.
        certificate: PEM file; None for HTTP.
        private_key: PEM file.
        proxy: Origin of a proxy, `https://HOST`; empty for none.
    """

    host: str
    port: int
    certificate: Path | None = None
    private_key: Path | None = None
    proxy: str = ""

    @classmethod
    def of(
        cls, host: str, port: int, certificate: Path | None, private_key: Path | None, proxy: str
    ) -> Listening:
        """Check the options of a server.

        Raises:
            ConfigError: Answers would cross a network in plain text, or a file is missing.
        """
        if (certificate is None) != (private_key is None):
            raise ConfigError("--tls-cert and --tls-key go together; give both or neither")
        for path in (certificate, private_key):
            if path is not None and not path.is_file():
                raise ConfigError(f"{path} is not a file; name a PEM file")
        parts = urlsplit(proxy)
        if proxy and (parts.scheme != "https" or not parts.netloc or parts.path.strip("/")):
            raise ConfigError(
                f"--behind-proxy must be an origin such as https://study.example.org, got "
                f"{quoted(proxy)}"
            )
        if host not in HERE and certificate is None and not proxy:
            raise ConfigError(
                f"--host {host} is reached by others: give --tls-cert and --tls-key, or "
                "--behind-proxy https://HOST"
            )
        return cls(host, port, certificate, private_key, proxy.rstrip("/"))

    @property
    def secure(self) -> bool:
        """Whether people reach it by HTTPS."""
        return bool(self.certificate or self.proxy)

    def names(self, port: int) -> tuple[list[str], list[str]]:
        """Values of the header Host that are its own, and its origins."""
        own = {*HERE, self.host} - {"::1", "0.0.0.0", "::"} | {"[::1]"}
        if self.host in ("0.0.0.0", "::"):
            own.add(socket.gethostname())
        hosts = [f"{name}:{port}" for name in sorted(own)]
        scheme = "https" if self.certificate else "http"
        origins = [f"{scheme}://{host}" for host in hosts]
        if self.proxy:
            hosts.append(urlsplit(self.proxy).netloc)
            origins.append(self.proxy)
        return hosts, origins


def listen(listening: Listening, app_for: Callable[[int], Any], said: Callable[[str], str]) -> None:
    """Serve until interrupted.

    Args:
        listening: Where.
        app_for: Makes the application, given the port.
        said: What to say on stdout once it listens, given its address.

    Raises:
        ConfigError: The port is taken.
        MissingExtra: The extra `study` is not installed.
    """
    uvicorn = needs("uvicorn", "study", "a server")
    from scotoma.study.timed_protocol import TimedProtocol

    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    # With the protocol named, connections send small answers at once (TCP_NODELAY).
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((listening.host, listening.port))
            taken.listen()  # from here on a caller waits instead of being refused
        except OSError as error:
            raise ConfigError(
                f"{listening.host}:{listening.port} cannot be listened on: {error.strerror}; "
                "give another --port"
            ) from error
        port = taken.getsockname()[1]
        server = uvicorn.Server(
            uvicorn.Config(
                app_for(port),
                http=TimedProtocol,
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                timeout_keep_alive=int(TimedProtocol.seconds),
                limit_concurrency=512,
                lifespan="off",
                ws="none",
                h11_max_incomplete_event_size=16_384,
                ssl_certfile=listening.certificate,
                ssl_keyfile=listening.private_key,
            )
        )
        scheme = "https" if listening.certificate else "http"
        name = f"[{listening.host}]" if ":" in listening.host else listening.host
        address = listening.proxy or f"{scheme}://{name}:{port}"
        sys.stdout.write(said(address) + "\n")
        sys.stdout.flush()
        server.run(sockets=[taken])
