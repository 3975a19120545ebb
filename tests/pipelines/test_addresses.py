"""What stands at the address of Kubeflow, a sentence each: TLS or not, another server, nothing."""

from __future__ import annotations

import datetime
import errno
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from urllib3.util import connection

from tests.helpers.commands import scotoma, stderr_of
from tests.kfp_server.server import KfpServer

RUN = "e9f4efdc-d34f-493b-8804-abd065736026"
COMMANDS = [
    ("status",),
    ("status", RUN),
    ("status", RUN, "--wait"),
    ("submit", "--resume", RUN),
    ("unschedule", "m"),
]
GO = "Client sent an HTTP request to an HTTPS server.\n"
NGINX = "<html><h1>400 Bad Request</h1>The plain HTTP request was sent to HTTPS port</html>"
ENDPOINT = "correct the address with --endpoint, which often ends in /pipeline"
Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Some other server, and its address."""
    servers = []

    def start(status: int, body: str, *, tls: ssl.SSLContext | None = None) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *words: object) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def own_certificate(tmp_path: Path) -> ssl.SSLContext:
    """A server's certificate that nobody else has signed."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kubeflow")])
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(7).not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1)).sign(key, hashes.SHA256())
    )  # fmt: skip
    pem = serialization.Encoding.PEM
    path = tmp_path / "server.pem"
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + certificate.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


def refused(command: tuple[str, ...], address: str, sentence: str, code: int = 2) -> None:
    ended, out, err = scotoma("kubeflow", *command, "--endpoint", address)
    assert (ended, out, err.count("\n")) == (code, "", 1)
    what = "list the schedules" if command[0] == "unschedule" else "show the run"
    what = "list the audits" if command == ("status",) else what
    assert err == f"scotoma: Kubeflow at {address} cannot {what}: {sentence}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_https_before_a_server_that_speaks_http(kfp: KfpServer, command: tuple[str, ...]) -> None:
    address = kfp.address.replace("http://", "https://")
    refused(command, address, "it speaks no TLS; write http:// for https:// in the address")
    assert kfp.requests == []


@pytest.mark.parametrize("body", [GO, NGINX])
@pytest.mark.parametrize("command", COMMANDS)
def test_http_before_a_server_that_speaks_tls(
    kfp: KfpServer, serve: Serve, command: tuple[str, ...], body: str
) -> None:
    address = serve(400, body)
    refused(command, address, "it speaks TLS; write https:// for http:// in the address")


def test_http_before_a_server_that_hangs_up_on_it(
    kfp: KfpServer, serve: Serve, own_certificate: ssl.SSLContext
) -> None:
    address = serve(200, "{}", tls=own_certificate).replace("https://", "http://")
    sentence = (
        "its answer broke off in 5 attempts; repeat the command later, or write https:// if it "
        "speaks TLS"
    )
    refused(("status",), address, sentence, code=5)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_certificate_that_nobody_signed(
    kfp: KfpServer, serve: Serve, own_certificate: ssl.SSLContext, command: tuple[str, ...]
) -> None:
    address = serve(200, "{}", tls=own_certificate)
    refused(
        command,
        address,
        "its certificate is not trusted (self-signed certificate); name the authority in "
        "SSL_CERT_FILE, or correct the host's name",
    )


@pytest.mark.parametrize(
    ("status", "body", "found"),
    [
        (200, "<!doctype html><title>Kubeflow Central Dashboard</title>", "a web page"),
        (200, "\n <html>MLflow</html>", "a web page"),
        (200, '{"hello": "from another API"}', "an answer without the fields of KFP"),
        (404, "<html>404 page not found</html>", "HTTP 404"),
        (404, "default backend - 404", "HTTP 404"),
        (404, '{"detail": "Not Found"}', "HTTP 404"),
    ],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_server_that_is_no_kubeflow(
    kfp: KfpServer, serve: Serve, command: tuple[str, ...], status: int, body: str, found: str
) -> None:
    address = serve(status, body)
    code, out, err = scotoma("kubeflow", *command, "--endpoint", address)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f": what answers there is no Kubeflow Pipelines ({found}); {ENDPOINT}\n" in err


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (401, "it does not know you (HTTP 401); set SCOTOMA_KFP_TOKEN or SCOTOMA_KFP_COOKIE, or "
         "renew it"),
        (302, "it does not know you (HTTP 302); set SCOTOMA_KFP_TOKEN or SCOTOMA_KFP_COOKIE, or "
         "renew it"),
        (403, "your credentials do not allow it (HTTP 403: made to fail with 403); ask for the "
         "right in this namespace, or name another with --namespace"),
    ],
)  # fmt: skip
def test_who_is_not_let_in(
    kfp: KfpServer, command: tuple[str, ...], status: int, sentence: str
) -> None:
    kfp.fail(status, times=9)
    refused(command, kfp.address, sentence)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_port_where_nobody_listens(kfp: KfpServer, command: tuple[str, ...]) -> None:
    kfp.close()
    sentence = "nothing listens there; correct the host and the port, or start it (in 5 attempts)"
    refused(command, kfp.address, sentence, code=5)


def test_a_name_that_nobody_knows(kfp: KfpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    sentence = "its host's name is not known; correct the address, or check DNS and VPN"
    refused(("status",), "http://kubeflow.invalid", f"{sentence} (in 5 attempts)", code=5)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (OSError(errno.EHOSTUNREACH, "No route to host"), "there is no route to it from this"),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), "there is no route to it from this"),
        (TimeoutError("timed out"), "it does not answer in time; check the network, firewall"),
    ],
)
def test_a_network_without_a_way(
    kfp: KfpServer, monkeypatch: pytest.MonkeyPatch, fault: OSError, sentence: str
) -> None:
    """As the kernel tells it; which of them it tells is a matter of this machine's network."""

    def connect(*_words: object, **_more: object) -> None:
        raise fault

    monkeypatch.setattr(connection, "create_connection", connect)
    code, out, err = scotoma("kubeflow", "status")
    assert (code, out, err.count("\n")) == (5, "", 1)
    assert f"cannot list the audits: {sentence}" in err


def test_a_proxy_that_is_away(kfp: KfpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    kfp.close()
    monkeypatch.setenv("http_proxy", kfp.address)
    err = stderr_of("kubeflow", "status", "--endpoint", "http://kubeflow.example", code=5)
    assert "the proxy on the way does not answer; correct HTTPS_PROXY, or NO_PROXY" in err
