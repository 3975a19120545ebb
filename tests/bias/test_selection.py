"""The four-fifths rule in an audit of decisions: predictions alone decide, no label is asked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scotoma.audit import Quantity
from scotoma.bias.four_fifths import standing
from tests.helpers.audits import addresses
from tests.helpers.commands import scotoma
from tests.helpers.steps import steps_in_this_process

pytestmark = pytest.mark.slow

N = 1_200
RNG = np.random.default_rng(9)
SEX = RNG.choice(["f", "m"], N)
LABEL = np.where(RNG.random(N) < 0.5, "yes", "no")
DENSE = np.where(RNG.random(N) < 0.1, np.where(LABEL == "yes", "no", "yes"), LABEL)
INT8 = np.where((SEX == "f") & (RNG.random(N) < 0.5), "no", DENSE)
CONFIG = """\
version: 1
project: decisions
source: {{kind: predictions, files: t.csv, columns: {{dense: dense, int8: int8}}, examples: t.csv,
         key: id{classes}}}
label: {label}
groups: {{sex: {{column: sex}}}}
tracking: {{uri: "off"}}
"""
LABELS = {
    "binary": ("{column: label, positive: 'yes'}", ""),
    "no favourable outcome": ("{column: label}", ""),
    "no labels": ("none", ", classes: ['no', 'yes']"),
}


@pytest.mark.parametrize("kind", LABELS)
def test_the_page_of_binary_decisions_has_the_four_fifths_rule(kind: str, tmp_path: Path) -> None:
    label, classes = LABELS[kind]
    sex = [None if place < 40 else value for place, value in enumerate(SEX.tolist())]
    columns = {"id": np.arange(N), "sex": sex, "label": LABEL, "dense": DENSE, "int8": INT8}
    pl.DataFrame(columns).write_csv(tmp_path / "t.csv")
    (tmp_path / "audit.yaml").write_text(CONFIG.format(label=label, classes=classes))
    with steps_in_this_process(tmp_path):
        code, _, err = scotoma("audit", tmp_path / "audit.yaml", "--out", tmp_path / "run")
    assert code == 0, err
    audit = json.loads((tmp_path / "run" / "audit.json").read_text())
    selection = addresses(audit, "clarify", metric="selected")
    page = (tmp_path / "run" / "report.html").read_text()
    if kind != "binary":
        assert selection == []
        assert "The four-fifths rule" not in page
        return
    known = np.arange(N) >= 40
    for variant, said in (("dense", DENSE), ("int8", INT8)):
        rows = {at["group"]: at for at in selection if at["variant"] == variant}
        assert set(rows) == {"sex=f", "sex=m"}  # unknown values are in no ratio
        shares = {sex: (said == "yes")[known & (sex == SEX)].mean() for sex in ("f", "m")}
        for sex, share in shares.items():
            row = rows[f"sex={sex}"]
            number = row["rate"]["number"]
            assert number["value"] == pytest.approx(share)
            count = (known & (sex == SEX)).sum()
            assert row["examples"]["number"]["value"] == number["n"] == count
            assert row["ratio"]["number"]["value"] == pytest.approx(share / max(shares.values()))
    ratios = [at["ratio"]["number"] for at in selection if at["variant"] == "int8"]
    assert [standing(Quantity.model_validate(own))[0] for own in ratios] == ["below", "highest"]
    assert "The four-fifths rule: who is selected" in page
    assert "below 4/5" in page
