"""`scotoma compare` of tables in which every example has the same label."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from scotoma.run import read_json
from tests.helpers.audits import accuracy
from tests.helpers.commands import scotoma

N = 60


@pytest.mark.parametrize("changed", [0, 12])
def test_answers_to_one_label_are_right_or_wrong(tmp_path: Path, changed: int) -> None:
    for name, wrong in (("before", 0), ("after", changed)):
        said = ["dog"] * wrong + ["cat"] * (N - wrong)
        columns = {"id": range(N), "label": ["cat"] * N, "predicted": said}
        pl.DataFrame(columns).write_csv(tmp_path / f"{name}.csv")
    sides, out = (tmp_path / "before.csv", tmp_path / "after.csv"), tmp_path / "run"
    code, _, err = scotoma("compare", *sides, "--out", out, "--quiet")
    assert code == 0, err
    audit = read_json(out / "audit.json")
    assert accuracy(audit, "after")["top1"]["value"] == pytest.approx((N - changed) / N)
    sentences = [note["sentence"] for note in audit["admission"]]
    assert any(one.endswith("was not asked: every label is the same") for one in sentences)


def test_a_comparison_that_is_refused_leaves_no_folder(tmp_path: Path) -> None:
    """Whatever its audit refuses, late or early, the same command can be given again."""
    for name, wrong in (("before", 0), ("after", 12)):
        said = ["dog"] * wrong + ["cat"] * (N - wrong)
        columns = {"id": range(N), "label": ["cat", "dog"] * (N // 2), "predicted": said}
        pl.DataFrame(columns).write_csv(tmp_path / f"{name}.csv")
    rule = "rules:\n- {id: all, metric: error, over: all, max_increase: {absolute: 0.5}}\n"
    (tmp_path / "gate.yaml").write_text("must: [species]\n" + rule)
    sides, out = (tmp_path / "before.csv", tmp_path / "after.csv"), tmp_path / "run"
    asked = ("compare", *sides, "--out", out, "--rules", tmp_path / "gate.yaml", "--quiet")
    code, _, err = scotoma(*asked)
    assert code in (2, 4), err
    assert "species" in err
    assert not out.exists()
    (tmp_path / "gate.yaml").write_text(rule)
    assert scotoma(*asked)[0] in (0, 3)
    assert (out / "gate.json").exists()


WRITTEN: dict[str, tuple[Any, Any]] = {
    "words": ("right", "wrong"), "other words": ("Correct", "Incorrect"), "letters": ("C", "I"),
    "numbers": (1, 0), "floats": (1.0, 0.0), "truths": (True, False), "no answer": ("right", None),
}  # fmt: skip


@pytest.mark.parametrize("harm", [0.0, 0.3])
@pytest.mark.parametrize("written", WRITTEN)
def test_a_notebook_judges_outcomes_as_files_of_them_are(
    tmp_path: Path, written: str, harm: float
) -> None:
    """However right and wrong are written: a column of the right word is the label."""
    import scotoma as notebook

    rng, n = np.random.default_rng(5), 2_000
    group = np.where(rng.random(n) < 0.3, "a", "b")
    before = rng.random(n) < 0.8
    after = before ^ (rng.random(n) < 0.01)
    after &= ~((group == "a") & (rng.random(n) < harm))
    right, wrong = WRITTEN[written]
    sides = {name: [right if one else wrong for one in side]
             for name, side in (("before", before), ("after", after))}  # fmt: skip
    for name, answers in sides.items():
        columns = {"id": range(n), "target": [right] * n, "answer": answers, "g": group}
        pl.DataFrame(columns).write_csv(tmp_path / f"{name}.csv")
    files = (tmp_path / "before.csv", tmp_path / "after.csv")
    code, out, err = scotoma("compare", *files, "--group", "g", "--json", "--quiet")
    assert code == 0, err
    compared = json.loads(out)["gate"]
    pair = notebook.pair([right] * n, *sides.values(), groups={"g": group}, paired=True)
    judged = notebook.judge(pair)
    assert judged.verdict == compared["verdict"] == ("FAIL" if harm else "PASS")
    tests = json.loads(judged.gate.model_dump_json(by_alias=True))["variants"][0]["tests"]
    assert tests == compared["variants"][0]["tests"]


def test_nobody_errs_and_nobody_can_say_how_wrong_is_written() -> None:
    import scotoma as notebook

    judged = notebook.judge(notebook.pair(["right"] * 400, ["right"] * 400, ["right"] * 400))
    assert judged.verdict == "UNSURE"
    assert judged.gate.variants[0].too_small
