"""A process group ends with who started it, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scotoma.processes.guardian import dismiss_guardian, end_group

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
