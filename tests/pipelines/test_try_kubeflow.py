"""`docker/try-kubeflow`, as a person runs it, against the stand-in: all but the checks of pods."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import scotoma
from tests.helpers.external_predictions import CONFIG, write
from tests.kfp_server.argo import Fate
from tests.kfp_server.server import KfpServer

SCRIPT = Path(__file__).resolve().parents[2] / "docker" / "try-kubeflow"


@pytest.fixture
def cluster(kfp: KfpServer) -> Iterator[KfpServer]:
    """The stand-in, beside a clock that fires schedules and an MLflow that nobody reaches."""
    store, over = kfp.store, threading.Event()
    store.looks = 4

    def live() -> None:
        while not over.wait(0.05):
            with kfp.lock:
                for run_id, run in list(store.runs.items()):
                    if run["display_name"].startswith("try-unlogged") and run_id not in met:
                        met.add(run_id)
                        store._fates[run_id] = Fate("log-tracking")
                for schedule in list(store.recurring):
                    if len([r for r in store.runs.values() if r.get("recurring_run_id")]) < 2:
                        store.fire(schedule)

    met: set[str] = set()
    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    yield kfp
    over.set()
    thread.join()


def in_this_process(*words: str) -> subprocess.CompletedProcess[str]:
    """A command, as the script runs it: a process for each of some 60 takes minutes."""
    code, out, err = scotoma(*words)
    return subprocess.CompletedProcess(words, code, out, err)


def tried(
    s3: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[str]]:
    """Exit code and lines of the script."""
    options = ("--out", s3.uri("try"), "--no-pods", "--pause", "0.01", "--patience", "60")
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *options])
    script = runpy.run_path(str(SCRIPT))
    script["main"].__globals__["scotoma"] = in_this_process
    code = script["main"]()
    return code, capsys.readouterr().out.splitlines()


def test_every_check_but_those_of_pods_passes(
    cluster: KfpServer,
    s3: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, lines = tried(s3, monkeypatch, capsys)
    assert [line for line in lines if line.startswith("failed")] == []
    left_out = [line for line in lines if line.startswith("left out")]
    passed = [line for line in lines if line.startswith("passed")]
    assert len(left_out) == 4
    assert lines[-1] == f"{len(passed)} passed, 0 failed"
    assert (code, len(lines)) == (0, len(passed) + len(left_out) + 1)


def test_what_a_cluster_does_not_do_is_counted(
    cluster: KfpServer,
    s3: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A Kubeflow that refuses to stop and to retry runs."""
    cluster.fail(403, r"POST .*:(terminate|retry)", times=100)
    code, lines = tried(s3, monkeypatch, capsys)
    failed = [line for line in lines if line.startswith("failed")]
    assert [line.partition(":")[0].removeprefix("failed    ") for line in failed] == [
        "stop ends an audit",
        "submit --resume takes it to its end",
        "submit --resume runs the log step again, and no other step",
    ]
    assert all("ends with" in line for line in failed)
    passed = len([line for line in lines if line.startswith("passed")])
    assert (code, lines[-1]) == (1, f"{passed} passed, 3 failed")


def test_the_script_asks_for_a_cluster() -> None:
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "give --install VERSION, or --out of a Kubeflow that is there" in done.stderr


# Secrets that are planted wherever an audit finds credentials, and looked for in all it leaves.

CANARY = b"c4n4ry-s3cret"
VARIABLES = (
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "MLFLOW_TRACKING_PASSWORD", "SCOTOMA_KFP_TOKEN",
    "SCOTOMA_KFP_COOKIE",
)  # fmt: skip
KUBEFLOW = """\
source: {kind: digits-s}
label: {column: digit}
variants: [dense, {prune: [0.5]}]
kubeflow:
  volume: {claim: audits, mount: /audits}
  secrets: {storage: [AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY]}
"""


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment and the SDK's own file hold canaries."""
    secret = CANARY.decode()
    for name in VARIABLES:
        monkeypatch.setenv(name, f"{secret}-{name.lower()}")
    file = tmp_path / "aws" / "credentials"
    file.parent.mkdir()
    file.write_text(
        f"[default]\naws_access_key_id = AKIA{secret}\naws_secret_access_key = {secret}"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")


def files(*folders: Path) -> Iterator[tuple[str, bytes]]:
    """Every file, its name with it."""
    for folder in folders:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            yield str(path), path.name.encode() + path.read_bytes()


def test_an_audit_in_object_storage_leaves_no_secret_anywhere(
    s3: Any, planted: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    home, cache = write(tmp_path / "home"), tmp_path / "cache"
    monkeypatch.setenv("SCOTOMA_CACHE", str(cache))
    secret = CANARY.decode()
    # Nobody is there: what is said of it names the address.
    address = f"http://auditor:{secret}@127.0.0.1:9/?token={secret}"
    (home / "audit.yaml").write_text(CONFIG.replace('"off"', f'"{address}"'))
    code, out, err = scotoma("audit", home / "audit.yaml", "--out", s3.uri("run"))
    assert code == 0, err
    assert "not logged" in err
    written = dict(files(cache))
    for name in s3.names():
        written[name] = s3.client.get_object(Bucket=s3.bucket, Key=name)["Body"].read()
    written |= {"stdout": out.encode(), "stderr": err.encode()}
    assert {"run/config.yaml", "run/report.html"} <= written.keys()
    assert [name for name in written if name.endswith("logs/pipeline.log")]
    assert [name for name, content in written.items() if CANARY in content] == []


def test_what_goes_to_a_cluster_holds_no_secret(
    kfp: KfpServer, planted: None, tmp_path: Path
) -> None:
    config, out = tmp_path / "audit.yaml", tmp_path / "pipeline.yaml"
    config.write_text(KUBEFLOW)
    kfp.token = os.environ["SCOTOMA_KFP_TOKEN"]
    assert scotoma("kubeflow", "submit", config, "--dry-run", out)[0] == 0
    code, submitted, err = scotoma("kubeflow", "submit", config, "--out", "s3://b-1/run", "--json")
    assert code == 0, err
    kfp.fail(500, "GET .*runs/", times=100)
    _, _, failed = scotoma("kubeflow", "status", json.loads(submitted)["run_id"])
    sent = repr(kfp.store)
    assert "scotoma-audit" in sent
    assert "AWS_SECRET_ACCESS_KEY" in sent  # the name, which Kubernetes fills
    for content in (out.read_text(), submitted, err, failed, sent):
        assert CANARY.decode() not in content
