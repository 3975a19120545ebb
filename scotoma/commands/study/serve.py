"""`scotoma study serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scotoma.commands.study.check import Study

__all__ = ["BehindProxy", "Certificate", "Host", "PrivateKey", "serve"]

Host = Annotated[str, typer.Option(help="Address to listen on.")]
Certificate = Annotated[
    Path | None, typer.Option("--tls-cert", help="Certificate (PEM), needed for another --host.")
]
PrivateKey = Annotated[Path | None, typer.Option("--tls-key", help="Its private key (PEM).")]
BehindProxy = Annotated[
    str,
    typer.Option(
        "--behind-proxy",
        help="Origin of a proxy that people reach by HTTPS, such as https://study.example.org.",
    ),
]


def serve(
    study: Study,
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65535)] = 8765,
    tls_cert: Certificate = None,
    tls_key: PrivateKey = None,
    behind_proxy: BehindProxy = "",
) -> None:
    """Serve a study to its annotators until interrupted. The key of the arms is never opened."""
    from scotoma.commands.shared.web_server import Listening
    from scotoma.commands.study.people import serve_study

    serve_study(study, Listening.of(host, port, tls_cert, tls_key, behind_proxy))
