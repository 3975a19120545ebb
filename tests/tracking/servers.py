"""PostgreSQL, and MLflow's server on it with passwords and artifacts in S3."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["ADMIN", "PASSWORD", "Mlflow", "free_port", "postgres", "postgres_programs"]

ADMIN, PASSWORD = "auditor", "a-l0ng-passw0rd"
AUTH = """\
[mlflow]
default_permission = NO_PERMISSIONS
database_uri = {database}/passwords
admin_username = {admin}
admin_password = {password}
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
auth_cache_ttl_seconds = 60
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def postgres_programs() -> Path | None:
    """The folder of initdb and postgres, which Debian keeps off the path; None without them."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else (on_path and Path(on_path).resolve().parent) or None


@contextmanager
def postgres(programs: Path) -> Iterator[str]:
    """A fresh PostgreSQL with the databases `runs` and `passwords`; yields its URI."""
    as_owner = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        if as_owner:  # it refuses to be run by root
            shutil.chown(folder, "postgres")
        data, port = f"{folder}/data", free_port()
        made = [
            *as_owner,
            str(programs / "initdb"),
            "-U",
            "mlflow",
            "-A",
            "trust",
            "-N",
            "-D",
            data,
        ]
        subprocess.run(made, check=True, capture_output=True, cwd=folder)
        command = [
            *as_owner, str(programs / "postgres"), "-D", data, "-k", folder, "-p", str(port),
            "-h", "127.0.0.1", "-F",
        ]  # fmt: skip
        with subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL) as server:
            try:
                address = f"mlflow@127.0.0.1:{port}"
                _wait(lambda: _created(f"postgresql://{address}/postgres"), server)
                yield f"postgresql+psycopg2://{address}"
            finally:
                server.send_signal(signal.SIGTERM)
                subprocess.run(
                    [*as_owner, str(programs / "pg_ctl"), "-D", data, "stop", "-m", "immediate"],
                    check=False, capture_output=True, cwd=folder,
                )  # fmt: skip
                server.wait(20)


@dataclass
class Mlflow:
    """MLflow's server, as docs/operating.md starts it, with passwords.

    Attributes:
        database: URI of PostgreSQL.
        artifacts: `s3://BUCKET/PREFIX`.
        environment: That leads to the S3 service.
        folder: For its settings and its log.
        port: Where it answers.
    """

    database: str
    artifacts: str
    environment: dict[str, str]
    folder: Path
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = self.folder / "basic_auth.ini"
        settings.write_text(AUTH.format(database=self.database, admin=ADMIN, password=PASSWORD))
        command = [
            *(sys.executable, "-m", "mlflow", "server", "--workers", "1"),
            *("--host", "127.0.0.1", "--port", str(self.port), "--app-name", "basic-auth"),
            *("--backend-store-uri", f"{self.database}/runs"),
            *("--artifacts-destination", self.artifacts),
        ]
        environment = os.environ | self.environment | {
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_AUTH_CONFIG_PATH": str(settings),
            "MLFLOW_FLASK_SERVER_SECRET_KEY": "not a secret, a test",
        }  # fmt: skip
        log = (self.folder / "log").open("ab")
        self._process = subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
        log.close()
        _wait(lambda: _answers(f"{self.address}/health"), self._process, self.folder / "log")

    def kill(self) -> None:
        """End it as a power failure would."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(20)
            self._process = None


def _wait(
    ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path | None = None
) -> None:
    deadline = time.monotonic() + 120
    while not ready():
        said = log.read_text(errors="replace")[-2000:] if log else process.args
        assert process.poll() is None, said
        assert time.monotonic() < deadline, said
        time.sleep(0.1)


def _created(uri: str) -> bool:
    """Make the databases; False while the server does not answer yet."""
    import psycopg2

    try:
        connection = psycopg2.connect(uri)
    except psycopg2.OperationalError:
        return False
    connection.autocommit = True
    with connection.cursor() as cursor:
        for name in ("runs", "passwords"):
            cursor.execute(f"CREATE DATABASE {name}")
    connection.close()
    return True


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False
