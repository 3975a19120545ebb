"""The command that the chart puts into a pod, run as it stands, lets in whom it should."""

from __future__ import annotations

import base64
import configparser
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.charts.conftest import Objects
from tests.tracking.servers import free_port

HOST = "mlflow.example"
VALUES = f"ingress: {{enabled: true, host: {HOST}, tlsSecret: tls}}"
SERVICE = "audits-scotoma-mlflow"


class Pod:
    """The server's container as a process on this machine.

    Attributes:
        address: Where it answers.
        login: Value of the header Authorization.
        folder: Stands for the container's `/tmp` and `/mlflow`.
    """

    def __init__(self, objects: Objects, folder: Path) -> None:
        """Take the container from the chart's objects; `environment` may still be changed."""
        (deployment,) = (one for one in objects if one["kind"] == "Deployment")
        (secret,) = (one for one in objects if one["kind"] == "Secret")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        words = {key: base64.b64decode(text).decode() for key, text in secret["data"].items()}
        port = free_port()
        self.folder, self.address = folder, f"http://127.0.0.1:{port}"
        pair = base64.b64encode(f"{words['username']}:{words['password']}".encode()).decode()
        self.login = f"Basic {pair}"

        def here(text: str) -> str:
            return (
                text.replace("/tmp/", f"{folder}/")
                .replace("/mlflow/", f"{folder}/")
                .replace("--port 5000", f"--port {port}")
            )

        self.command = [here(word) for word in [*container["command"], *container["args"]]]
        variables = {
            one["name"]: one.get("value") or words[one["valueFrom"]["secretKeyRef"]["key"]]
            for one in container["env"]
        }
        self.environment = os.environ | {name: here(text) for name, text in variables.items()}
        self.environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def ask(
        self, path: str, *, host: str = SERVICE + ":5000", origin: str = "", login: bool = True
    ) -> int:
        """Status of a request; with an origin, one that a page's script would send."""
        request = urllib.request.Request(f"{self.address}{path}", headers={"Host": host})
        if login:
            request.add_header("Authorization", self.login)
        if origin:
            request.add_header("Origin", origin)
            request.add_header("Content-Type", "application/json")
            request.data = b'{"experiment_ids": ["0"], "max_results": 1}'
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code


@pytest.fixture(scope="module")
def pod(
    render: Callable[..., Objects], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Pod, subprocess.Popen[bytes]]]:
    made = Pod(render(VALUES), tmp_path_factory.mktemp("pod"))
    log = made.folder / "log"
    with log.open("wb") as words:
        process = subprocess.Popen(
            made.command, cwd=made.folder, env=made.environment, stdout=words, stderr=words,
            start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while True:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            try:
                if made.ask("/health", host="10.1.2.3:5000", login=False) == 200:
                    break
            except urllib.error.URLError:
                time.sleep(0.1)
        yield made, process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)


EXPERIMENTS = "/api/2.0/mlflow/experiments/search?max_results=1"
RUNS = "/ajax-api/2.0/mlflow/runs/search"  # what the pages ask for


@pytest.mark.thorough
def test_the_probe_needs_neither_name_nor_password(pod: tuple[Pod, object]) -> None:
    assert pod[0].ask("/health", host="10.1.2.3:5000", login=False) == 200


@pytest.mark.thorough
@pytest.mark.parametrize(
    "host",
    [
        f"{SERVICE}:5000",
        f"{SERVICE}.mlops:5000",
        f"{SERVICE}.mlops.svc:5000",
        f"{SERVICE}.mlops.svc.cluster.local:5000",
        "localhost:5000",
        HOST,
    ],
)
def test_the_generated_password_lets_in_under_every_name(
    host: str, pod: tuple[Pod, object]
) -> None:
    assert pod[0].ask(EXPERIMENTS, host=host) == 200
    assert pod[0].ask(EXPERIMENTS, host=host, login=False) == 401


@pytest.mark.thorough
def test_another_name_is_refused(pod: tuple[Pod, object]) -> None:
    assert pod[0].ask(EXPERIMENTS, host="evil.example") == 403


@pytest.mark.thorough
def test_the_pages_behind_the_ingress_may_search_and_other_pages_may_not(
    pod: tuple[Pod, object],
) -> None:
    assert pod[0].ask(RUNS, host=HOST, origin=f"https://{HOST}") == 200
    assert pod[0].ask(RUNS, host=HOST, origin="https://evil.example") == 403


@pytest.mark.thorough
def test_what_is_kept_is_on_the_volume(pod: tuple[Pod, object]) -> None:
    assert {"mlflow.db", "passwords.db"} <= {path.name for path in pod[0].folder.iterdir()}


def test_passwords_are_cached_and_an_address_with_signs_arrives_whole(
    render: Callable[..., Objects], tmp_path: Path
) -> None:
    made = Pod(render(), tmp_path)
    uri = "postgresql+psycopg2://m:p%40$HOME`id`\\'\"@db:5432/passwords"
    script = made.command[-1].partition("exec mlflow")[0]
    subprocess.run(
        [*made.command[:-1], script], env=made.environment | {"PASSWORDS_URI": uri}, check=True
    )
    settings = configparser.ConfigParser()
    settings.read(tmp_path / "basic_auth.ini")
    assert settings["mlflow"]["database_uri"] == uri
    assert settings["mlflow"]["auth_cache_ttl_seconds"] == "60"
    assert (tmp_path / "basic_auth.ini").stat().st_mode & 0o077 == 0


@pytest.mark.thorough
def test_the_kubelet_s_signal_ends_it_within_its_grace(
    pod: tuple[Pod, subprocess.Popen[bytes]],
) -> None:
    pod[1].terminate()
    assert pod[1].wait(60) is not None
