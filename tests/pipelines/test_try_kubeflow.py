"""`docker/try-kubeflow`, as a person runs it, against the stand-in: all but the checks of pods."""

from __future__ import annotations

import runpy
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import scotoma
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
