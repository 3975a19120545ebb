"""Steps that run ahead of their turn, in a process beside the one whose turn it is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scotoma import stages
from scotoma.config import default_config
from scotoma.errors import DataError
from scotoma.runs import Run, shareable, write_json
from scotoma.stages import AHEAD_VARIABLE, execute
from scotoma.stages.ahead import steps_ahead

pytestmark = pytest.mark.slow

HERE = __name__  # its functions are the steps of these tests


def slices(run: Run) -> list[Path]:
    return _said(run, "slices")


def bias(run: Run) -> list[Path]:
    return _said(run, "bias")


def divergence(run: Run) -> list[Path]:
    return _said(run, "divergence")


def refuses(run: Run) -> list[Path]:
    _said(run, "refuses")
    raise DataError("no")


def waits(run: Run) -> list[Path]:
    _said(run, "waits")
    try:
        time.sleep(60)
    finally:
        _said(run, "cleaned")
    return []


def _said(run: Run, step: str) -> list[Path]:
    with run.path("said").open("a") as file:
        file.write(f"{step} {os.getpid()}\n")
    return []


def said(run: Run) -> dict[str, int]:
    """What was run so far, in that order, to the process in which it was."""
    lines = run.path("said").read_text().split() if run.path("said").exists() else []
    return dict(zip(lines[::2], map(int, lines[1::2]), strict=True))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr("scotoma.stages.ahead.cores", lambda: 2)
    (tmp_path / "config.yaml").write_text(shareable(default_config()))
    (tmp_path / "steps").mkdir()
    return Run.open(str(tmp_path))


def test_other_steps_run_in_one_process_beside_the_block(run: Run) -> None:
    with steps_ahead(run, {"bias": HERE, "divergence": HERE}):
        slices(run)
    found = said(run)
    assert found.keys() == {"slices", "bias", "divergence"}
    assert found["slices"] == os.getpid()
    assert found["bias"] == found["divergence"] != os.getpid()


def test_a_step_with_a_record_is_left_to_its_turn(run: Run) -> None:
    write_json(run.path("steps", "bias.json"), {})
    with steps_ahead(run, {"bias": HERE, "divergence": HERE}):
        pass
    assert said(run).keys() == {"divergence"}


def test_what_goes_wrong_ahead_is_left_to_the_step_itself(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    with steps_ahead(run, {"refuses": HERE, "bias": HERE}):
        pass
    assert said(run).keys() == {"refuses"}
    assert capfd.readouterr() == ("", "")
    assert not run.path("error.json").exists()


def test_a_block_that_fails_ends_what_runs_beside_it(run: Run) -> None:
    def fail_beside_it() -> None:
        with steps_ahead(run, {"waits": HERE, "bias": HERE}):
            while "waits" not in said(run):
                time.sleep(0.02)
            raise DataError("no")

    with pytest.raises(DataError, match="no"):
        fail_beside_it()
    assert said(run).keys() == {"waits", "cleaned"}


def test_what_is_imported_is_shared_while_there_are_no_threads_of_polars(
    run: Run, tmp_path: Path
) -> None:
    """In a process of its own: this one has imported Polars."""
    program = (
        "import sys; from scotoma.runs import Run; from scotoma.stages import ahead;"
        "ahead.cores = lambda: 2; run = Run.open(sys.argv[1]); print('polars' in sys.modules);"
        "block = ahead.steps_ahead(run, {'bias': 'step'}); block.__enter__();"
        "block.__exit__(None, None, None)"
    )
    (tmp_path / "step.py").write_text(
        "import multiprocessing\n"
        "def bias(run):\n"
        "    run.path('said').write_text(multiprocessing.current_process().name)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, run.place],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (found.stdout, found.stderr) == ("False\n", "")
    assert run.path("said").read_text().startswith("ForkProcess")


def test_one_core_does_one_thing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scotoma.stages.ahead.cores", lambda: 1)
    with steps_ahead(run, {"bias": HERE}):
        pass
    assert said(run) == {}


@pytest.mark.parametrize(
    ("where", "expected"),
    [({AHEAD_VARIABLE: "yes"}, ["bias", "divergence", "slices"]), ({}, ["slices"])],
    ids=["one task at a time", "a cluster"],
)
def test_the_first_of_the_steps_that_measure_begins_the_others(
    run: Run, monkeypatch: pytest.MonkeyPatch, where: dict[str, str], expected: list[str]
) -> None:
    monkeypatch.setattr(stages, "STAGES", dict.fromkeys(["slices", "bias", "divergence"], HERE))
    for name, value in where.items():
        monkeypatch.setenv(name, value)
    execute("slices", run.place, str(run.path("pointer.json")))
    assert sorted(said(run)) == expected
