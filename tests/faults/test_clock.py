"""An audit whose clock jumps, passes midnight or changes to summer time while it runs."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.faults.harness import Undisturbed, audit, compare
from tests.faults.made import audited_here, predictions_made_elsewhere

YEAR = 365 * 86400
DAY = datetime.date.today().isoformat()  # which gate.json names


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Predictions to audit, and a library that shifts the clock of whoever loads it."""
    home = tmp_path_factory.mktemp("clock")
    predictions_made_elsewhere(home)
    source = Path(__file__).with_name("clock.c")
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", home / "clock.so", source, "-ldl"]
    subprocess.run(command, check=True)
    return home


@pytest.fixture(scope="module")
def whole(home: Path) -> Undisturbed:
    """The audit with a clock that is right."""
    config = home / "audit.yaml"
    return Undisturbed(audited_here(config, home / "run"), config, {})


def clock(home: Path, *shifts: int, zone: str = "UTC") -> dict[str, str]:
    """Environment of a process whose clock is shifted, a second each."""
    texts = ",".join(map(str, shifts))
    return {"LD_PRELOAD": str(home / "clock.so"), "CLOCK_SHIFTS": texts, "TZ": zone}


def until(moment: str) -> int:
    """Seconds from now to a moment, so that an audit begins with it."""
    return int(datetime.datetime.fromisoformat(moment).timestamp() - time.time())


def made(run: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (run / "steps").iterdir()}


@pytest.mark.thorough
def test_a_clock_that_jumps_changes_nothing_and_hides_nothing(
    home: Path, whole: Undisturbed, tmp_path: Path
) -> None:
    wrong = clock(home, 0, 10 * YEAR, -YEAR)
    years = {
        subprocess.run(
            ["date", "+%Y"], env=os.environ | clock(home, shift), capture_output=True, text=True
        ).stdout
        for shift in (0, 10 * YEAR, -YEAR)
    }
    assert len(years) == 3, "the library does not shift the clock"
    for name in ("preds", "examples.csv", "audit.yaml"):
        copy = shutil.copytree if (home / name).is_dir() else shutil.copy2
        copy(home / name, tmp_path / name)
    config, out = tmp_path / "audit.yaml", tmp_path / "run"
    done = audit(config, out, "--as-of", DAY, **wrong)
    assert done.returncode in (0, 1, 3), done.stderr
    compare(whole.folder, out)
    for record in (out / "steps").iterdir():
        assert 0 <= json.loads(record.read_text())["time_s"] < 3600, record.name

    before = made(out)
    table = tmp_path / "examples.csv"
    kept = table.stat()
    table.write_text(table.read_text().replace(",m", ",x").replace(",f", ",m").replace(",x", ",f"))
    os.utime(table, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    done = audit(config, out, "--as-of", DAY, **clock(home, -YEAR))
    assert "note    source.examples (examples.csv) changed since the last audit" in done.stderr
    after = made(out)
    again = {name for name in after if after[name] != before[name]}
    assert again >= {"prepare.json", "bias.json", "verdict.json", "report.json"}
    assert "train-000.json" not in again

    done = audit(config, out, "--as-of", DAY, **clock(home, 10 * YEAR))
    assert done.returncode in (0, 1, 3), done.stderr
    assert made(out) == after


@pytest.mark.thorough
@pytest.mark.parametrize(
    "moment",
    ["2026-12-31T22:59:58+00:00", "2027-03-28T00:59:58+00:00", "2026-10-25T00:59:58+00:00"],
    ids=["midnight of a year", "to summer time", "to winter time"],
)
def test_an_audit_across_midnight_and_a_change_of_time_is_the_same(
    moment: str, home: Path, whole: Undisturbed, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    now = clock(home, until(moment), zone="Europe/Berlin")
    done = audit(whole.config, out, "--as-of", DAY, **now)
    assert done.returncode in (0, 1, 3), done.stderr
    compare(whole.folder, out)
    before = made(out)
    assert audit(whole.config, out, "--as-of", DAY, **now).returncode == done.returncode
    assert made(out) == before
