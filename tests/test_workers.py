from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

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
