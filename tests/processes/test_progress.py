from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scotoma.processes import progress

pytestmark = pytest.mark.slow

WORKER = """
import sys
from scotoma.processes import progress
for _ in range(200):
    progress.advance("train, worker " + sys.argv[1] * 40)
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "progress"
    monkeypatch.setenv(progress.PROGRESS_VARIABLE, str(path))
    return path


def test_events_are_read_in_the_order_they_happened(file: Path) -> None:
    progress.start("train", 3)
    progress.advance("train")
    progress.advance("train", 2)
    events, offset = progress.read_events(file, 0)
    assert events == [
        {"task": "train", "total": 3},
        {"task": "train", "done": 1},
        {"task": "train", "done": 2},
    ]
    assert offset == file.stat().st_size


def test_events_are_read_once(file: Path) -> None:
    progress.start("train", 3)
    _, offset = progress.read_events(file, 0)
    assert progress.read_events(file, offset) == ([], offset)
    progress.advance("train")
    assert progress.read_events(file, offset)[0] == [{"task": "train", "done": 1}]


def test_without_the_variable_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(progress.PROGRESS_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    progress.start("train", 3)
    progress.advance("train")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_there_yet_has_no_events(tmp_path: Path) -> None:
    assert progress.read_events(tmp_path / "progress", 0) == ([], 0)


def test_names_of_tasks_may_hold_anything(file: Path) -> None:
    progress.start('a\n"b"\u2028é', 1)
    assert progress.read_events(file, 0)[0] == [{"task": 'a\n"b"\u2028é', "total": 1}]


def test_processes_that_write_at_once_leave_whole_lines(file: Path) -> None:
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, name]) for name in "abc"]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    events, _ = progress.read_events(file, 0)
    assert len(events) == 600
    assert {event["task"] for event in events} == {f"train, worker {name * 40}" for name in "abc"}


@given(
    names=st.lists(st.text(max_size=8), min_size=1, max_size=6),
    cuts=st.lists(st.integers(0, 400), max_size=6),
)
def test_reading_a_growing_file_gives_every_event_once(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], cuts: list[int]
) -> None:
    path = tmp_path_factory.getbasetemp() / "growing"
    expected = [{"task": name, "done": 1} for name in names]
    content = "".join(json.dumps(event) + "\n" for event in expected).encode()
    found: list[dict[str, object]] = []
    offset = 0
    for cut in [*sorted(cuts), len(content)]:  # lines may be cut anywhere, even inside a letter
        path.write_bytes(content[:cut])
        events, offset = progress.read_events(path, offset)
        found += events
    assert found == expected
