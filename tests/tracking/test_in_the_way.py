"""A store that cannot be logged to is a reason, and never in the way of an audit."""

from __future__ import annotations

import http.server
import logging
import os
import random
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from scotoma.tracking import store
from scotoma.tracking.store import tracking_uri
from tests.faults.faulty import faulty
from tests.tracking.names import short
from tests.tracking.test_store import VARIANTS, AuditOf, Folder, runs_of
from tests.tracking.typed import log_audit


def test_a_closed_port_is_a_reason(
    folder: Folder, audit_of: AuditOf, free_port: Callable[[], int], tmp_path: Path
) -> None:
    run = folder(tmp_path / "run", "dead")
    port = free_port()
    tracked = log_audit(run, audit_of(run), f"http://anna:s3cr/et@127.0.0.1:{port}")
    bare = log_audit(run, audit_of(run), f"http://anna:s3cret@127.0.0.1:{port}")
    assert bare.reason == (
        f"tracking server http://***@127.0.0.1:{port} does not answer (Connection refused); 0 of "
        f"10 runs were logged; once it answers: scotoma audit --resume --step log --out {run.place}"
    )
    assert (bare.runs, bare.link) == ({}, "")
    assert "s3cr" not in str(tracked)


def test_a_server_that_is_slow_in_all_is_not_waited_for(
    sqlite: str, folder: Folder, audit_of: AuditOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = folder(tmp_path / "run", "slow")
    monkeypatch.setattr(store, "PATIENCE_A_RUN_S", 0.0)
    monkeypatch.setattr(store, "PATIENCE_S", 0.0)
    tracked = log_audit(run, audit_of(run), sqlite)
    assert tracked.reason == (
        f"MLflow at {sqlite} failed (TimeoutError: too slow to be waited for); 0 of 10 runs were "
        "logged"
    )
    monkeypatch.undo()
    assert log_audit(run, audit_of(run), sqlite).reason == ""


def test_a_server_that_refuses_is_a_reason_without_credentials(
    folder: Folder, audit_of: AuditOf, tmp_path: Path
) -> None:
    class Refusing(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(403)
            self.end_headers()
            self.wfile.write(b"see http://anna:s3cret@host and wait" + b"!" * 3000)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Refusing) as refusing:
        threading.Thread(target=refusing.serve_forever, args=(0.02,), daemon=True).start()
        run = folder(tmp_path / "run", "refused")
        host = f"127.0.0.1:{refusing.server_port}"
        tracked = log_audit(run, audit_of(run), f"http://anna:s3cret@{host}")
        refusing.shutdown()
    assert tracked.reason.startswith(f"tracking server http://***@{host} refused access (403: ")
    assert "give this user the right" in tracked.reason
    assert "s3cret" not in str(tracked)
    assert len(tracked.reason) < 600


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1])  # each takes ten seconds
def test_a_server_on_a_bad_day_ends_with_every_run_once_or_with_a_reason(
    seed: int,
    mlflow: Any,
    server: str,
    folder: Folder,
    audit_of: AuditOf,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("TIMEOUT", "1"), ("BACKOFF_FACTOR", "0"), ("BACKOFF_JITTER", "0")):
        monkeypatch.setenv(f"MLFLOW_HTTP_REQUEST_{name}", value)
    run = folder(tmp_path / "run", f"bad day {seed}")
    drawn, faults = random.Random(seed), ["silence", "reset", "500", "503", "507", "half", "slow"]

    def fault(*_: object, **__: object) -> str:
        return drawn.choice(faults) if drawn.random() < share else ""

    reasons, share = [], 0.2
    with faulty(server, seed) as (address, mood):
        monkeypatch.setattr(mood, "fault", fault)
        for _ in range(40):
            tracked = log_audit(run, audit_of(run), address)
            if not tracked.reason:
                break
            reasons.append(tracked.reason)
        share = 1.0
        faults[:] = ["reset"]  # it is down
        down = log_audit(run, audit_of(run), address)
    assert not tracked.reason, reasons
    for reason in [*reasons, down.reason]:
        assert re.search(r"; \d+ of 10 runs were logged", reason)
        assert "\n" not in reason
    client = mlflow.MlflowClient(tracking_uri=server)
    assert sorted(short(r.info.run_name) for r in runs_of(client, f"bad day {seed}")) == sorted(
        ["", *VARIANTS]
    )
    assert len(runs_of(client, f"bad day {seed}.models")) == 6
    for models in ("", ".models"):
        runs = runs_of(client, f"bad day {seed}{models}")
        assert {r.info.status for r in runs} == {"FINISHED"}


def test_a_deleted_experiment_is_a_reason(
    mlflow: Any, sqlite: str, folder: Folder, audit_of: AuditOf, tmp_path: Path
) -> None:
    run = folder(tmp_path / "run", "deleted")
    client = mlflow.MlflowClient(tracking_uri=sqlite)
    client.delete_experiment(client.create_experiment("deleted"))
    assert log_audit(run, audit_of(run), sqlite).reason == (
        "MLflow experiment deleted was deleted; restore it, or change `project`"
    )


def test_a_missing_mlflow_is_a_reason(
    folder: Folder, audit_of: AuditOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    run = folder(tmp_path / "run", "missing")
    tracked = log_audit(run, audit_of(run), f"sqlite:///{tmp_path}/mlflow.db")
    assert tracked.reason == "tracking needs mlflow; pip install 'scotoma[tracking]'"
    assert not (tmp_path / "mlflow.db").exists()


def test_a_path_that_a_database_uri_cannot_hold_is_a_reason(
    folder: Folder, audit_of: AuditOf, tmp_path: Path
) -> None:
    run = folder(tmp_path / "50%41" / "run", "per cent")
    tracked = log_audit(run, audit_of(run), str(tracking_uri(run, {})))
    assert "has % in the path" in tracked.reason
    assert sorted(path.name for path in tmp_path.rglob("*.db")) == []


def test_a_call_leaves_the_process_as_it_was(
    sqlite: str, folder: Folder, audit_of: AuditOf, tmp_path: Path
) -> None:
    run = folder(tmp_path / "run", "clean")
    before, disabled = dict(os.environ), logging.root.manager.disable
    log_audit(run, audit_of(run), sqlite)
    assert (dict(os.environ), logging.root.manager.disable) == (before, disabled)


def test_a_new_store_is_made_in_silence_and_without_a_connection(
    silent: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    done, home = silent
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with closing(sqlite3.connect(home / "mlflow.db")) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    reports = (home / "mlartifacts" / "silent").rglob("report.html")
    assert len(list(reports)) == 1


def test_another_server_at_the_address_is_told(
    folder: Folder, audit_of: AuditOf, tmp_path: Path
) -> None:
    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html><title>Grafana</title></html>")

        do_POST = do_GET  # noqa: N815

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, args=(0.02,), daemon=True).start()
        run = folder(tmp_path / "run", "other")
        address = f"http://127.0.0.1:{other.server_port}"
        tracked = log_audit(run, audit_of(run), address)
        other.shutdown()
    assert tracked.reason.startswith(f"what answers at {address} is no MLflow server (")
    assert "correct tracking.uri or MLFLOW_TRACKING_URI" in tracked.reason
