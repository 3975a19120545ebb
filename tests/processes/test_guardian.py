"""A process group ends with who started it, however that ends."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scotoma.config.limits import LIMITS
from scotoma.errors import DataError
from scotoma.processes.guardian import dismiss_guardian, end_group
from scotoma.processes.untrusted import read_apart, table_apart
from scotoma.readers.coco import truth_table

pytestmark = pytest.mark.slow


# Leads a group: one child that can be interrupted, and one that cannot.
LEADER = """
import subprocess, sys, time
from pathlib import Path
from scotoma.processes import guardian
guardian.PATIENCE_S = 0.5
guardian.tie_to_parent(Path(sys.argv[1]))
deaf = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"
children = [["sleep", "60"], [sys.executable, "-c", deaf]]
print(*(subprocess.Popen(child).pid for child in children), flush=True)
time.sleep(60)
"""


def works(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def leader(tmp_path: Path) -> subprocess.Popen[str]:
    (tmp_path / "temporary").mkdir()
    (tmp_path / "temporary" / "file").write_text("left")
    return subprocess.Popen(
        [sys.executable, "-c", LEADER, str(tmp_path / "temporary")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def children_of(leader: subprocess.Popen[str]) -> list[int]:
    assert leader.stdout is not None
    return [int(pid) for pid in leader.stdout.readline().split()]


def gone(pids: list[int], within_s: float = 10) -> bool:
    end = time.monotonic() + within_s
    while any(map(works, pids)) and time.monotonic() < end:
        time.sleep(0.02)
    return not any(map(works, pids))


@pytest.mark.parametrize("killed_first", [False, True])
def test_a_group_ends_with_its_parent_even_if_its_leader_was_killed(
    leader: subprocess.Popen[str], killed_first: bool, tmp_path: Path
) -> None:
    children = children_of(leader)
    assert all(map(works, children))
    if killed_first:
        leader.kill()
        leader.wait()
        assert all(map(works, children))
    assert leader.stdin is not None
    assert leader.stdout is not None
    leader.stdin.close()  # as the system does when the parent has ended
    assert gone(children)
    leader.wait()
    end = time.monotonic() + 10
    while (tmp_path / "temporary").exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not (tmp_path / "temporary").exists()
    leader.stdout.close()


def test_a_group_whose_leader_was_killed_is_ended_by_the_parent(
    leader: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scotoma.processes.guardian.PATIENCE_S", 0.3)
    children = children_of(leader)
    leader.send_signal(signal.SIGKILL)
    end_group(leader.pid, reap=leader.poll)
    assert gone(children)
    leader.communicate()


def test_a_guardian_that_is_dismissed_removes_nothing(
    leader: subprocess.Popen[str], tmp_path: Path
) -> None:
    """Else it would remove what the next audit has begun to write in the folder."""
    children = children_of(leader)
    below = [int(p.name) for p in Path("/proc").glob("[0-9]*") if _parent(p) == leader.pid]
    (guardian,) = set(below) - set(children)
    end_group(leader.pid, reap=leader.poll)
    assert gone(children)
    assert leader.stdin is not None
    dismiss_guardian(leader.stdin.buffer)
    leader.communicate()
    assert gone([guardian])
    assert (tmp_path / "temporary" / "file").read_text() == "left"


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def test_a_group_that_has_ended_is_no_fault() -> None:
    child = subprocess.Popen(["true"], start_new_session=True)
    child.wait()
    end_group(child.pid)
    assert os.getpid()


# --- files are read in another process, which stays in the folder where it was started ------------


def text_of(path: Path) -> str:
    return path.read_text()


def test_a_relative_path_is_that_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = (
        '{"images": [{"id": 1, "width": 9, "height": 9}], "categories": [{"id": 1, "name": "a"}], '
        '"annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 4, 4], '
        '"area": 16, "iscrowd": 0}]}'
    )
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        Path("own.txt").write_text(name)
        Path("truth.json").write_text(truth + " " * 2**20)
        assert read_apart(text_of, Path("own.txt"), path=Path("own.txt"), called="own.txt") == name
        table = table_apart(
            truth_table, Path("truth.json"), "truth", path=Path("truth.json"), called="truth"
        )
        assert len(table) > 0


def read_nowhere(path: Path) -> int:
    return ctypes.string_at(0)[0]


def test_a_library_that_crashes_may_have_lacked_memory(tmp_path: Path) -> None:
    """Without memory one library says so and another ends in an error of its own."""
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n")
    for limits, way in ((None, "make it smaller"), (LIMITS, "raise limits.reader_memory_gib")):
        with pytest.raises(DataError, match=f"a.csv crashed, perhaps for want of memory; .*{way}"):
            read_apart(read_nowhere, path, path=path, called="a.csv", limits=limits)
