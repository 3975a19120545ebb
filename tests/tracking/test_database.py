"""The sqlite file of MLflow: whole or not there, whatever happens while it is created."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from scotoma.run import Run, read_json
from scotoma.tracking.connection import FILLED_BY_MIGRATIONS, holds_experiments, prepare_store
from tests.faults.made import audited_here, predictions_made_elsewhere

MLFLOW = """
import sys, mlflow
mlflow.MlflowClient(tracking_uri=sys.argv[1]).search_experiments()
"""


@pytest.fixture(scope="module")
def unlogged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit whose last step is still to be done."""
    home = tmp_path_factory.mktemp("unlogged")
    config = predictions_made_elsewhere(home)
    run = Run.open(audited_here(config, home / "run"))
    run.forget("log")
    text = run.path("config.yaml").read_text()
    run.path("config.yaml").write_text(text.replace("uri: 'off'", "uri: null"))
    return run.root


def logging_of(run: Path) -> subprocess.Popen[str]:
    """The command that logs an audit, at work."""
    return subprocess.Popen(
        [sys.executable, "-m", "scotoma", "audit", "--resume", "--out", str(run), "--step", "log"],
        env={k: v for k, v in os.environ.items() if k not in ("SCOTOMA_TRACKING_URI", "CI")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def size_of_database(home: Path) -> int:
    """Bytes of the file, of what stands beside it, and of one that is being made."""
    size = 0
    for path in home.glob("*mlflow.db*"):
        with contextlib.suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


def grown(home: Path, size: int, processes: list[subprocess.Popen[str]]) -> None:
    """Wait until what is there of a database has a size, of 970 KB, or all processes have ended."""
    while size_of_database(home) < size:
        if all(process.poll() is not None for process in processes):
            return
        time.sleep(0.001)


def logged_runs(database: Path) -> dict[str, int]:
    """Finished runs of each experiment that has any."""
    with closing(sqlite3.connect(database)) as file:
        query = (
            "SELECT experiments.name, count(*) FROM runs JOIN experiments USING (experiment_id) "
            "WHERE status = 'FINISHED' AND runs.lifecycle_stage = 'active' GROUP BY 1"
        )
        return dict(file.execute(query).fetchall())


def half_migrated(home: Path) -> Path:
    """The file of MLflow's own first call, killed half-way."""
    database = home / "mlflow.db"
    command = [sys.executable, "-W", "ignore", "-c", MLFLOW, f"sqlite:///{database}"]
    mlflow = subprocess.Popen(command, stderr=subprocess.DEVNULL, text=True)
    grown(home, 500_000, [mlflow])
    mlflow.kill()
    mlflow.wait()
    return database


@pytest.mark.filterwarnings("ignore")  # of what MLflow imports
def test_a_database_that_mlflow_did_not_finish_is_created_anew(sqlite: str) -> None:
    database = Path(sqlite.removeprefix("sqlite:///"))
    with closing(sqlite3.connect(database)) as file:
        tables = file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        for (name,) in tables:
            if name not in FILLED_BY_MIGRATIONS:
                file.execute(f'DELETE FROM "{name}"')
        file.commit()
    assert not holds_experiments(database)
    assert prepare_store(sqlite) == (
        f"{database} was left unfinished and held no run; it was created anew"
    )
    assert holds_experiments(database)
    assert prepare_store(sqlite) == ""


@pytest.mark.thorough
def test_first_loggings_at_once_that_are_killed_are_logged_when_repeated(
    unlogged: Path, tmp_path: Path
) -> None:
    database = half_migrated(tmp_path)
    runs = [shutil.copytree(unlogged, tmp_path / name) for name in ("first", "second")]
    processes = list(map(logging_of, runs))
    grown(tmp_path, size_of_database(tmp_path) + 400_000, processes)
    for process, number in zip(processes, (signal.SIGKILL, signal.SIGINT), strict=True):
        process.send_signal(number)
        process.communicate(timeout=60)
    assert database.exists()
    processes = list(map(logging_of, runs))
    said = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    assert [read_json(run / "tracking.json")["reason"] for run in runs] == ["", ""]
    mended = f"mlflow  {database} was left unfinished and held no run; it was created anew"
    assert [mended in lines for lines in said].count(True) == 1
    # Both have one result: who came second found the runs of the first, or logged beside them.
    assert logged_runs(database).keys() == {"killed", "killed.models"}
    left = {path.name for path in tmp_path.iterdir()} - {run.name for run in runs}
    assert left <= {"mlflow.db", "mlflow.db-wal", "mlflow.db-shm", "mlartifacts"}


@pytest.mark.thorough
def test_three_audits_that_create_the_database_together_are_all_logged(
    unlogged: Path, tmp_path: Path
) -> None:
    runs = [shutil.copytree(unlogged, tmp_path / name) for name in ("first", "second", "third")]
    said = [process.communicate(timeout=120)[1] for process in map(logging_of, runs)]
    assert [read_json(run / "tracking.json")["reason"] for run in runs] == [""] * 3, said
    assert logged_runs(tmp_path / "mlflow.db").keys() == {"killed", "killed.models"}


@pytest.mark.thorough
def test_a_database_of_something_else_is_never_replaced(unlogged: Path, tmp_path: Path) -> None:
    run = shutil.copytree(unlogged, tmp_path / "run")
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as file:
        file.execute("CREATE TABLE theirs (value TEXT)")
        file.execute("INSERT INTO theirs VALUES ('kept')")
        file.commit()
    command = logging_of(run)
    assert "created anew" not in command.communicate(timeout=60)[1]
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as file:
        assert file.execute("SELECT value FROM theirs").fetchall() == [("kept",)]


@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="no rights to mount a disk")
@pytest.mark.parametrize("size_kb", [2400, 2700])
def test_a_disk_that_fills_during_the_first_logging_is_said_and_made_good(
    unlogged: Path, tmp_path: Path, size_kb: int
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size_kb}k", "none", str(disk)], check=True
    )
    try:
        run = shutil.copytree(unlogged, disk / "run")
        command = logging_of(run)
        err = command.communicate(timeout=60)[1]
        assert "not logged: " in err or "is full" in err
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        command = logging_of(run)
        command.communicate(timeout=60)
        assert read_json(run / "tracking.json")["reason"] == ""
        assert logged_runs(disk / "mlflow.db") == {"killed": 3, "killed.models": 6}
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
