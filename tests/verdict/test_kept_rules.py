"""A run keeps the rules that it was judged by, until others are asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.commands import scotoma

pytestmark = pytest.mark.slow

RULES = "rules: [{id: strict, metric: error, max_increase: {absolute: 0.01}}]\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tables in which the error of one group rises by 4 points, from 30%."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "strict.yaml").write_text(RULES)
    for name, lost in (("before", 0), ("after", 80)):
        rows = [
            {
                "id": f"{group}{place}",
                "label": "A",
                "predicted": "A" if place >= 600 + (lost if group == "z" else 0) else "B",
                "lang": group,
            }
            for group in "xyz"
            for place in range(2000)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


ASKED = {"a margin": ("--margin", "0.01"), "a gate file": ("--rules", "strict.yaml")}
COMPARED = ("compare", "before.jsonl", "after.jsonl", "--group", "lang", "--gate", "--out", "run")


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("asked", ASKED)
def test_a_run_that_failed_does_not_pass_when_it_is_only_judged_again(asked: str) -> None:
    assert scotoma(*COMPARED, *ASKED[asked])[0] == 1
    code, _, said = scotoma("gate", "run")
    assert code == 1
    rules = "built-in, margin 0.01" if asked == "a margin" else "'strict'"
    assert f"rules   those that the run was last judged by: {rules}; --rules built-in" in said
    assert Path("run/summary.md").read_text().startswith("# Gate: FAIL\n")
    code, _, said = scotoma("audit", "--resume", "--out", "run", "--gate")
    assert code == 1, said
    assert scotoma("audit", "run/config.yaml", "--step", "verdict", "--out", "run")[0] == 0
    assert scotoma("gate", "run")[0] == 1
    code, _, said = scotoma("gate", "run", "--rules", "built-in")  # and this is the way back
    assert (code, "rules   built-in\n" in said) == (0, True)
    assert scotoma("gate", "run")[0] == 0


@pytest.mark.usefixtures("home")
def test_rules_of_a_later_verdict_are_kept_too() -> None:
    assert scotoma(*COMPARED)[0] == 0
    assert scotoma("gate", "run", "--rules", "strict.yaml")[0] == 1
    Path("strict.yaml").unlink()
    assert scotoma("gate", "run")[0] == 1
    code, _, said = scotoma("gate", "run", "--margin", "0.2")
    assert (code, "rules   built-in, margin 0.2\n" in said) == (0, True)
    assert scotoma("gate", "run")[0] == 0
    assert scotoma("verify", "run")[0] == 0


@pytest.mark.usefixtures("home")
def test_rules_that_cannot_be_used_are_not_kept() -> None:
    assert scotoma(*COMPARED, "--margin", "0.01")[0] == 1
    Path("unfit.yaml").write_text(f"{RULES}must: ['lang=nobody']\n")
    assert scotoma("gate", "run", "--rules", "unfit.yaml")[0] == 4
    assert scotoma("gate", "run", "--variant", "nobody", "--margin", "0.5")[0] == 2
    assert scotoma("gate", "run")[0] == 1
