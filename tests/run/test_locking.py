"""One audit at a time in a folder."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scotoma.errors import ConfigError
from scotoma.run import lock
from scotoma.run.lock import locked

pytestmark = pytest.mark.slow

HOLD = """
import sys, time
from pathlib import Path
from scotoma.run.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the folder."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_folder_in_use_is_refused_by_name_and_process(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    with pytest.raises(ConfigError) as caught, locked(tmp_path):
        pass
    assert str(caught.value) == (
        f"output folder {tmp_path} is in use by another audit (process {holder.pid}); wait for it, "
        "end it, or choose another --out"
    )


def test_a_folder_is_free_when_its_holder_was_killed(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    holder.kill()
    holder.wait()
    with locked(tmp_path):
        assert (tmp_path / ".lock").read_text() == f"{os.getpid()}"


def test_a_folder_is_free_again_after_use(tmp_path: Path) -> None:
    for _ in range(2):
        with locked(tmp_path):
            pass
    with pytest.raises(KeyError), locked(tmp_path):
        raise KeyError
    with locked(tmp_path):
        pass


HOLD_AND_BEGET = """
import subprocess, sys, time
from pathlib import Path
from scotoma.run.lock import locked
with locked(Path(sys.argv[1])) as descriptor:
    subprocess.Popen(["sleep", sys.argv[2]], pass_fds=(descriptor,), stdout=subprocess.DEVNULL)
    print("held", flush=True)
    time.sleep(60)
"""


def kill_a_holder_whose_child_lives_on(folder: Path, seconds: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_AND_BEGET, str(folder), seconds],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        process.kill()


def test_children_of_a_killed_holder_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_a_holder_whose_child_lives_on(tmp_path, "1.5")
    began = time.monotonic()
    with locked(tmp_path):
        assert time.monotonic() - began > 0.5
    monkeypatch.setattr(lock, "WINDING_UP_S", 0.3)
    kill_a_holder_whose_child_lives_on(tmp_path, "2")
    with pytest.raises(ConfigError, match="is in use by another audit"), locked(tmp_path):
        pass


def test_a_folder_is_free_at_its_end_whoever_has_inherited_the_descriptor(tmp_path: Path) -> None:
    with locked(tmp_path) as descriptor:
        child = subprocess.Popen(["sleep", "30"], pass_fds=(descriptor,))
    with locked(tmp_path):
        child.kill()
    child.wait()
