"""What a step of a pipeline prints is kept in its run, however it ends, without passwords."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from scotoma.run import step_logs as step_logs_module
from scotoma.run.step_logs import MOST_BYTES, StepLog, Try, step_logs, tries_of
from scotoma.storage import read_bytes
from tests.pipelines.test_client import CONFIG

# A task as KFP runs it, with a step `prepare` of the test's own.
TASK = """
import os, subprocess, sys, time, types
from scotoma.errors import DataError
from scotoma.run import step_logs
from scotoma.steps.runner import execute
from scotoma.steps.table import STEPS, Step

step_logs.COPY_S = 0.2

def prepare(run):
    {step}
    return []

module = types.ModuleType("made_up")
module.prepare = prepare
sys.modules["made_up"] = module
STEPS["prepare"] = Step("prepare", "", "", module="made_up")
execute("prepare", sys.argv[1], sys.argv[2], begin=({config!r}, ""))
"""


def task(place: str, tmp_path: Path, step: str) -> subprocess.Popen[str]:
    environment = os.environ | {
        "SCOTOMA_CACHE": str(tmp_path / f"cache-{time.monotonic_ns()}"),
        "MLFLOW_TRACKING_PASSWORD": "a-l0ng-passw0rd",
    }
    script = TASK.format(step=step, config=CONFIG)
    return subprocess.Popen(
        [sys.executable, "-c", script, place, str(tmp_path / "pointer.json")],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def log(place: str, attempt: int = 1) -> str:
    return StepLog("prepare", 0, attempt).read(place)


def state(place: str, attempt: int = 1) -> tuple[str, str]:
    """What a log tells of its try: how it ended, and why it failed."""
    one = Try.read(StepLog("prepare", 0, attempt), log(place, attempt))
    assert one.began
    assert (one.ended is None) == (one.state == "RUNNING")
    return one.state, one.reason


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, s3: Any, tmp_path: Path) -> str:
    return str(tmp_path / "run") if request.param == "folder" else str(s3.uri("run"))


def test_the_log_of_every_try_is_kept_without_passwords(place: str, tmp_path: Path) -> None:
    step = (
        "print('reads https://u:s3cret@host/x?token=abc'); os.write(2, b'below Python\\n');"
        "subprocess.run(['echo', 'a child says', os.environ['MLFLOW_TRACKING_PASSWORD']])"
    )
    printed, _ = task(place, tmp_path, step).communicate()
    assert "below Python" in printed  # where a pod's log is read
    first, *lines, last = log(place).splitlines()
    assert first.endswith(" prepare begins, attempt 1")
    assert lines == ["reads https://***@host/x?***", "below Python", "a child says ***"]
    assert " prepare ended after " in last
    assert state(place) == ("SUCCEEDED", "")

    failing = task(place, tmp_path, "raise DataError('source.data is empty; fill it')")
    assert failing.wait() == 1
    assert step_logs(place) == [StepLog("prepare", 0, 1), StepLog("prepare", 0, 2)]
    assert state(place, 2) == ("FAILED", "source.data is empty; fill it")
    failing.communicate()

    failing = task(place, tmp_path, "1 / 0")
    failing.communicate()
    assert "ZeroDivisionError" in log(place, 3)
    assert state(place, 3) == ("FAILED", "")


def test_a_first_step_that_is_refused_leaves_its_log_and_can_be_tried_again(
    place: str, tmp_path: Path
) -> None:
    """The log comes before config.yaml, and must not keep the run from its place."""
    broken = CONFIG.replace("kind: digits-s", "kind: parquet, data: s3://{newest}/{newest}")
    script = TASK.format(step="pass", config=broken)
    command = [sys.executable, "-c", script, place, str(tmp_path / "pointer.json")]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "prepare failed: " in log(place), refused.stderr
    printed, _ = task(place, tmp_path, "pass").communicate()
    assert state(place, 2) == ("SUCCEEDED", ""), printed


def test_a_step_that_is_told_to_end_says_so_in_its_log(s3: Any, tmp_path: Path) -> None:
    place = str(s3.uri("run"))
    process = task(place, tmp_path, "print('at work', flush=True); time.sleep(60)")
    assert process.stdout is not None
    while "at work" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 128 + signal.SIGTERM
    lines = log(place).splitlines()
    assert lines[1] == "at work"
    assert lines[2].endswith("prepare is stopped by SIGTERM")
    assert state(place) == ("FAILED", "")
    process.communicate()


def test_a_step_that_is_killed_leaves_what_it_printed_before(s3: Any, tmp_path: Path) -> None:
    """As by the kernel for want of memory: the log is copied while the step runs."""
    place = str(s3.uri("run"))
    process = task(place, tmp_path, "print('at work', flush=True); time.sleep(60)")
    deadline = time.monotonic() + 40
    while "at work" not in "".join(one.read(place) for one in step_logs(place)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.kill()
    process.communicate()
    assert state(place) == ("RUNNING", "")


def test_a_log_says_at_once_that_its_step_has_begun(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is read once by who looks again and again."""
    place, known = str(s3.uri("run")), dict[Any, Any]()
    monkeypatch.setattr(step_logs_module, "COPY_S", 3600.0)
    with step_logs_module.step_log(place, "prepare"):
        deadline = time.monotonic() + 40
        while not tries_of(place, known):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert state(place) == ("RUNNING", "")
        (one,) = known
        reads: list[str] = []
        monkeypatch.setattr(StepLog, "read", lambda log, place: reads.append(log.name) or "")
        assert [one.state for one in tries_of(place, known)] == ["RUNNING"]
        assert (list(known), reads) == ([one], [])


def test_only_the_last_mebibyte_is_kept(tmp_path: Path) -> None:
    place = str(tmp_path / "run")
    step = "[print(f'{n:07d} ' + 91 * 'x') for n in range(20_000)]"  # 2 MB
    task(place, tmp_path, step).communicate()
    text = read_bytes(f"{place}/logs/prepare.0.1.log").decode()
    first, second, *_, before, last = text.splitlines()
    assert MOST_BYTES - 200 < len(text) - len(first) - 1 <= MOST_BYTES
    assert first.endswith(" prepare begins, attempt 1")
    assert len(second) == 99  # no half of a line, which may be half of a password
    assert before.startswith("0019999")
    assert " prepare ended after " in last
    assert state(place)[0] == "SUCCEEDED"
