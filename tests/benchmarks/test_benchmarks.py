"""Do the scripts in benchmarks/ still run? Each with its smallest arguments."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tracking.servers import postgres_programs

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
SMALLEST = {
    "anytime": "--releases 1",
    "comparison_coverage": "--simulations 2",
    "detection": "--images 50",
    "detection_alarms": "--pairs 1 --harm 0",
    "flow": "--seeds 2 --steps 5",
    "logs": "--examples 100",
    "false_alarms": "--audits 1 --members 5",
    "gates": "--releases 1",
    "levels": "--populations 1",
    "mitigation": "--steps 1 --turns 1",
    "paper_scale": "--members 2",
    "repair": "--cases 1",
    "report": "--members 2",
    "retraining": "--years 1 --members 5",
    "robustness": "1",
    "scale": "200x3x4",
    "score_alarms": "--audits 2 --worlds errors",
    "several_labels": "--audits 1",
    "study": "--per-arm 8 --studies 2",
    "tracking": "3",
    "training": "--members 2 --steps 2 --only CPU-1",
    "verdict": "--worlds team --variants int8-1% --members 1 --harms none class-5 --audits 1",
    "verdict_admission": "--audits 1",
    "verdict_coverage": "--members 1 --audits 1",
    "verdict_forecasts": "--worlds team --members 1 --audits 1",
    "verdict_since": "--pairs 1",
}
WITHOUT = {
    "corruptions": "needs a fork of another library in an environment of its own",
    "deterministic": "trains for minutes",
    "gpu": "needs a GPU, or minutes of a processor",
    "gpu_audit": "needs a GPU and CIFAR-10, or minutes of a processor",
    "inference": "needs CIFAR-10 and minutes of training",
    "int8": "needs CIFAR-10 and minutes of training",
    "measure": "needs fairlearn, which nothing else here does",
    "planted": "is read by others",
    "seeds": "is the default audit, which other tests run",
    "slices": "needs Adult and minutes",
    "soak": "is hours of audits",
    "sources": "needs CIFAR-10 and minutes of training",
    "verdict_draws": "is read by others",
    "verdict_worlds": "is read by others",
}


def run(name: str) -> str:
    """What a script prints."""
    if name == "tracking" and postgres_programs() is None:
        pytest.skip("needs PostgreSQL")
    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py", *SMALLEST[name].split()],
        capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_every_script_is_run_here_or_says_why_not() -> None:
    scripts = {path.stem for path in FOLDER.glob("*.py")}
    assert scripts == SMALLEST.keys() | WITHOUT.keys()
    assert not SMALLEST.keys() & WITHOUT.keys()


def test_a_verdict_is_simulated() -> None:
    printed = run("verdict")
    assert "team" in printed
    assert "class-5" in printed


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(SMALLEST.keys() - {"verdict"}))
def test_a_script_runs_with_its_smallest_arguments(name: str) -> None:
    assert run(name)
