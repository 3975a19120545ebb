"""A version in a real registry gets its verdict: by hand, and from MLflow's own webhook."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scotoma.run import Run, read_json
from tests.conftest import ROOT
from tests.helpers.commands import scotoma
from tests.tracking.conftest import serving
from tests.tracking.servers import free_port

SECRET = "a secret of the receiver"


@pytest.fixture(scope="module")
def listening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that may call receivers on this machine, over http."""
    home = tmp_path_factory.mktemp("webhooks")
    variables = {
        "MLFLOW_WEBHOOK_ALLOWED_SCHEMES": "http",
        "MLFLOW_WEBHOOK_ALLOW_PRIVATE_IPS": "true",
        "MLFLOW_WEBHOOK_CACHE_TTL": "1",
    }
    with serving(home, home / "runs.db", variables=variables) as server:
        yield server.address


@pytest.fixture
def client(mlflow: Any, listening: str) -> Any:
    return mlflow.MlflowClient(tracking_uri=listening, registry_uri=listening)


@pytest.fixture
def run(folder: Callable[..., Run], tmp_path: Path) -> Path:
    """A finished audit that the built-in rules do not pass, and a margin does."""
    return folder(tmp_path / "run", "faces").root


def registered(client: Any, name: str, versions: int = 1) -> None:
    client.create_registered_model(name)
    for _ in range(versions):
        client.create_model_version(name, f"s3://bucket/{name}")
    client.set_registered_model_alias(name, "candidate", str(versions))


def gate(run: Path, *asked: str) -> tuple[int, str]:
    code, _, err = scotoma("gate", str(run), *asked)
    return code, err


def test_a_pass_moves_the_alias_and_nothing_else_does(
    client: Any, listening: str, run: Path
) -> None:
    registered(client, "faces", 2)
    client.set_registered_model_alias("faces", "audited", "1")
    asked = ("--promote", "models:/faces@candidate", "--tracking", listening)
    code, err = gate(run, *asked)
    verdict = read_json(run / "gate.json")["verdict"]
    assert verdict in ("FAIL", "UNSURE")
    assert "audited stays where it is" in err
    version = client.get_model_version("faces", "2")
    assert version.tags["scotoma.verdict"] == verdict
    assert version.tags["scotoma.place"] == str(run)
    assert version.tags["scotoma.worst"]
    assert client.get_model_version_by_alias("faces", "audited").version == "1"
    lenient(run)
    code, err = gate(run, *asked, "--rules", str(run / "lenient.yaml"))
    assert (code, "is tagged PASS, and is audited" in err) == (0, True), err
    assert client.get_model_version_by_alias("faces", "audited").version == "2"
    assert client.get_model_version("faces", "2").tags["scotoma.verdict"] == "PASS"
    assert "scotoma.verdict" not in client.get_model_version("faces", "1").tags


def lenient(run: Path) -> None:
    """Rules that this audit passes."""
    (run / "lenient.yaml").write_text(
        "coarsest: 0.9\n"
        "rules: [{id: all, metric: error, over: all, max_increase: {absolute: 0.9}}]\n"
    )


@pytest.mark.parametrize(
    ("promote", "code", "said"),
    [
        ("models:/nobody@candidate", 4, "--promote must be in MLflow's registry"),
        ("models:/nobody/1", 4, "--promote"),
        ("faces", 2, "--promote must be models:/NAME@ALIAS or models:/NAME/VERSION"),
        ("models:/", 2, "--promote must be models:/NAME@ALIAS or models:/NAME/VERSION"),
    ],
)
def test_what_is_not_there_is_said(
    listening: str, run: Path, promote: str, code: int, said: str
) -> None:
    found, err = gate(run, "--promote", promote, "--tracking", listening)
    assert (found, said in err) == (code, True), err


def test_without_an_address_the_command_says_which_to_give(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    code, err = gate(run, "--promote", "models:/faces@candidate")
    assert (code, "give --tracking or MLFLOW_TRACKING_URI" in err) == (2, True)


def test_the_receiver_of_the_documents_audits_a_candidate(
    client: Any, listening: str, run: Path, tmp_path: Path
) -> None:
    from mlflow.entities.webhook import WebhookAction, WebhookEntity, WebhookEvent

    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(# receiver.py\n.*?)^```", page, re.M | re.S)
    (tmp_path / "receiver.py").write_text(code)
    lenient(run)
    command = f"{sys.executable} -m scotoma gate {run} --rules {run}/lenient.yaml"
    command += ' --promote "models:/$1/$2"'
    (tmp_path / "audit.sh").write_text(f"{command} > audit.log 2>&1\n")
    port = free_port()
    environment = os.environ | {
        "WEBHOOK_SECRET": SECRET, "PORT": str(port), "MLFLOW_TRACKING_URI": listening,
    }  # fmt: skip
    client.create_webhook(
        "audits", f"http://127.0.0.1:{port}/", secret=SECRET,
        events=[WebhookEvent(WebhookEntity.MODEL_VERSION_ALIAS, WebhookAction.CREATED)],
    )  # fmt: skip
    receiver = subprocess.Popen(
        [sys.executable, "receiver.py"], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL
    )
    try:
        time.sleep(1.5)  # the server reads its webhooks anew each second
        registered(client, "called")
        deadline = time.monotonic() + 60
        while "audited" not in client.get_registered_model("called").aliases:
            log = tmp_path / "audit.log"
            assert time.monotonic() < deadline, log.read_text() if log.exists() else "not called"
            time.sleep(0.2)
        assert client.get_model_version("called", "1").tags["scotoma.verdict"] == "PASS"
        # A stranger's call is refused, and starts nothing.
        (tmp_path / "audit.log").unlink()
        body = json.dumps({"data": {"name": "called", "version": "1", "alias": "candidate"}})
        refused = subprocess.run(
            ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-d", body,
             f"http://127.0.0.1:{port}/"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert refused.stdout == "401"
        assert not (tmp_path / "audit.log").exists()
    finally:
        receiver.terminate()
        receiver.wait(10)
