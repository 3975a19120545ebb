from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from scotoma.errors import DataError
from scotoma.workers import LONGEST_FOLDER, worker_pool


def no_preparation() -> None:
    """What a worker does before its first task."""


def asked(name: str) -> str | None:
    return os.environ.get(name)


def test_a_worker_has_the_environment_of_who_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for value in ("first", "second"):  # both are forked from one process, which saw neither
        monkeypatch.setenv("SCOTOMA_TRIED", value)
        with worker_pool(1, no_preparation) as pool:
            found.append(pool.submit(asked, "SCOTOMA_TRIED").result())
            threads = pool.submit(asked, "OMP_NUM_THREADS").result()
        assert threads == "1"
    assert found == ["first", "second"]


def test_a_folder_of_long_name_for_temporary_files_is_no_hindrance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("n" * LONGEST_FOLDER)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with worker_pool(1, no_preparation) as pool:
        assert pool.submit(os.getpid).result() != os.getpid()


POOL = """
import os, time
from tests.test_workers import no_preparation
from scotoma.workers import worker_pool
if __name__ == "__main__":
    with worker_pool(2, no_preparation) as pool:
        print(*{pool.submit(os.getpid).result() for _ in range(8)}, flush=True)
        time.sleep(60)
"""


def test_workers_end_with_the_pool_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "pool.py").write_text(POOL)
    root = str(Path(__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "pool.py")],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": root},
    ) as process:
        assert process.stdout is not None
        workers = [Path("/proc", pid) for pid in process.stdout.readline().split()]
        assert workers
        assert all(worker.exists() for worker in workers)
        process.kill()
    end = time.monotonic() + 10
    while any(worker.exists() for worker in workers) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(worker.exists() for worker in workers)


def test_a_worker_that_dies_before_it_has_its_work_is_named_as_one() -> None:
    with pytest.raises(DataError, match="a worker process died"), worker_pool(1, int):
        raise BrokenPipeError  # what writing to it ends with
