"""`scotoma compare` of tables in which every example has the same label."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from scotoma.run import read_json
from tests.commands import scotoma

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
    assert audit["accuracy"]["after"]["top1"]["value"] == pytest.approx((N - changed) / N)
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
