"""Do the scripts in benchmarks/ still run? Each with its smallest arguments."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tracking.servers import postgres_programs

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
SMALLEST = {
    "alarms audits": "--audits 1 --members 5",
    "alarms detectors": "--pairs 1 --harm 0",
    "alarms parts": "--audits 1",
    "alarms scores": "--audits 2 --worlds errors",
    "alarms years": "--years 1 --members 5",
    "fixes flow": "--seeds 2 --steps 5",
    "fixes layers": "--cases 1",
    "fixes techniques": "--steps 1 --turns 1",
    "intervals admission": "--audits 1",
    "intervals comparison": "--simulations 2",
    "intervals robustness": "--audits 1",
    "intervals small": "--members 1 --audits 1",
    "levels": "--populations 1",
    "paper_scale": "--members 2",
    "releases gates": "--releases 1",
    "releases looks": "--releases 1",
    "scale": "200x3x4",
    "speed boxes": "--images 50",
    "speed logs": "--examples 100",
    "speed mlflow": "--members 3",
    "speed page": "--members 2",
    "speed study": "--per-arm 8 --studies 2",
    "training speed": "--members 2 --steps 2 --only CPU-1",
    "verdict forecasts": "--worlds team --members 1 --audits 1",
    "verdict gate": "--worlds team --variants int8-1% --members 1 --harms none class-5 --audits 1",
    "verdict since": "--pairs 1",
}
WITHOUT = {
    "audits seeds": "is the default audit, which other tests run",
    "audits soak": "is hours of audits",
    "audits sources": "needs CIFAR-10 and minutes of training",
    "cases": "is read by others",
    "corruptions": "needs a fork of another library in an environment of its own",
    "gpu_audit": "needs a GPU and CIFAR-10, or minutes of a processor",
    "inference": "needs CIFAR-10 and minutes of training",
    "int8": "needs CIFAR-10 and minutes of training",
    "measure": "needs fairlearn, which nothing else here does",
    "slices": "needs Adult and minutes",
    "training deterministic": "trains for minutes",
    "worlds": "is read by others",
}


def run(name: str) -> str:
    """What a case of a script prints."""
    script, *case = name.split()
    if name == "speed mlflow" and postgres_programs() is None:
        pytest.skip("needs PostgreSQL")
    done = subprocess.run(
        [sys.executable, FOLDER / f"{script}.py", *case, *SMALLEST[name].split()],
        capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_every_case_is_run_here_or_says_why_not() -> None:
    cases = set()
    for path in FOLDER.glob("*.py"):
        named = re.search(r"^    run\(__doc__, (.*)\)$", path.read_text(), re.M)
        cases |= {f"{path.stem} {case}" for case in named[1].split(", ")} if named else {path.stem}
    assert cases == SMALLEST.keys() | WITHOUT.keys()
    assert not SMALLEST.keys() & WITHOUT.keys()


def test_every_command_that_a_page_quotes_is_one() -> None:
    known = {name.replace(" ", ".py ") if " " in name else f"{name}.py"
             for name in SMALLEST.keys() | WITHOUT.keys()}  # fmt: skip
    pages = [FOLDER / "RESULTS.md", FOLDER.parent / "Makefile", *FOLDER.parent.glob("docs/**/*.md")]
    quoted = {
        " ".join(filter(None, found))
        for page in pages
        for found in re.findall(r"benchmarks/(\w+\.py)(?: ([a-z]\w*))?", page.read_text())
    }
    assert len(quoted) > 20
    assert {one for one in quoted if one not in known and one.split()[0] not in known} == set()


def test_a_verdict_is_simulated() -> None:
    printed = run("verdict gate")
    assert "team" in printed
    assert "class-5" in printed


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(SMALLEST.keys() - {"verdict gate"}))
def test_a_script_runs_with_its_smallest_arguments(name: str) -> None:
    assert run(name)
