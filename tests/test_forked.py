"""Steps in forked processes end as those that kfp starts: with its own runner as the slow twin."""

import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kfp import dsl
from kfp.local import subprocess_task_handler

from scotoma.pipelines.forked import ForkedSteps, forked_steps

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="steps are forked on Linux alone")


@dsl.component(base_image="python", install_kfp_package=False)
def act(how: str, left: str) -> None:
    import os
    import sys
    import time
    from pathlib import Path

    if how == "refuse":
        raise ValueError(how)
    if how == "die":
        os.kill(os.getpid(), 9)
    if how == "wait":  # for what another step leaves
        while not Path(left).exists():
            time.sleep(0.01)
        return
    there = [name for name in ("polars", "wave") if name in sys.modules]
    Path(left).write_text(os.environ.get("GIVEN", "") + "".join(there))


def command(how: str, left: Path) -> list[str]:
    """What kfp's runner gives to a shell."""
    values = {"inputs": {"parameterValues": {"how": how, "left": str(left)}}}
    values |= {"outputs": {"outputFile": str(left.with_name("output.json"))}}
    given = ["--executor_input", json.dumps(values), "--function_to_execute", "act"]
    container = act.component_spec.implementation.container
    assert container is not None
    return [*container.command, *given]


def by_kfp(full_command: Sequence[str]) -> int:
    python = [word.replace("python3", sys.executable) for word in full_command[:3]]
    return int(
        subprocess_task_handler.run_local_subprocess([*python, *full_command[3:]], {"GIVEN": "x"})
    )


@pytest.fixture(autouse=True)
def _temporary_files_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture(scope="module")
def steps() -> Iterator[ForkedSteps]:
    with forked_steps() as started:
        yield started


@pytest.mark.parametrize("how", ["write", "refuse"])
def test_a_forked_step_ends_as_one_that_kfp_starts(
    steps: ForkedSteps, how: str, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    assert steps.run(command(how, ours), {"GIVEN": "x"}) == by_kfp(command(how, theirs))
    assert ours.exists() == theirs.exists() == (how == "write")
    if how == "write":
        assert ours.read_text() == theirs.read_text() == "x"


def test_a_step_that_is_killed_is_told_by_its_signal(steps: ForkedSteps, tmp_path: Path) -> None:
    assert steps.run(command("die", tmp_path / "left"), {}) == -signal.SIGKILL


def test_steps_run_side_by_side(steps: ForkedSteps, tmp_path: Path) -> None:
    left = tmp_path / "left"
    with ThreadPoolExecutor(2) as pool:
        codes = list(pool.map(lambda how: steps.run(command(how, left), {}), ["wait", "write"]))
    assert codes == [0, 0]


def test_what_is_imported_while_the_first_step_runs_is_there_for_those_after_it(
    tmp_path: Path,
) -> None:
    found = []
    with forked_steps() as steps:
        steps.load("wave", "no.such.module")  # who needs that one says so better
        for name in ("first", "second"):
            assert steps.run(command("write", tmp_path / name), {}) == 0
            found.append((tmp_path / name).read_text())
    assert found == ["", "wave"]


def test_the_end_of_a_step_is_told_while_modules_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = tmp_path / "end"
    (tmp_path / "takes_long.py").write_text(
        f"import pathlib, time\ntime.sleep(5)\npathlib.Path({str(end)!r}).touch()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with forked_steps() as steps:
        steps.load("takes_long")
        assert steps.run(command("write", tmp_path / "left"), {}) == 0
        assert not end.exists()


def test_a_step_fails_when_what_it_was_forked_from_is_killed(tmp_path: Path) -> None:
    with forked_steps() as steps, ThreadPoolExecutor(1) as pool:
        *_, source = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        waiting = pool.submit(steps.run, command("wait", left := tmp_path / "left"), {})
        assert steps.run(command("write", tmp_path / "begun"), {}) == 0
        assert not waiting.done()
        os.kill(int(source), signal.SIGKILL)
        assert waiting.result() == -signal.SIGKILL
        left.touch()
