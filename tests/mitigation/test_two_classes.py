"""Thresholds end to end: members are trained on dim digits, even or odd, and decide by groups."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scotoma.datasets import AuditedExamples
from scotoma.fix.outputs import member_outputs
from scotoma.mitigation import decide
from scotoma.run import Run
from tests.helpers.commands import scotoma
from tests.helpers.steps import steps_in_this_process

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

CONFIG = """\
source: {kind: digits-s, styled: dim, recipe: {steps: 100}}
label: {column: parity, positive: odd}
groups: {style: {column: style}}
cluster: {column: source_id}
variants: [dense, {int8: [static]}]
population: {models: 3, seed: 0}
tracking: {uri: "off"}
"""


def test_thresholds_close_the_gap_of_members_that_were_trained(tmp_path: Path) -> None:
    """True positive rates of dim and plain odd digits: apart before, together after."""
    (tmp_path / "two.yaml").write_text(CONFIG)
    with steps_in_this_process(tmp_path):
        code, _, err = scotoma("audit", "two.yaml", "--out", "runs/two")
        assert code in (0, 1), err
        asked = ("--by", "thresholds", "--variant", "int8-static", "--json")
        code, out, err = scotoma("fix", "runs/two", *asked)
    assert code == 0, err
    content = json.loads(out)
    assert content["needs"]["attributes"] == "each example"
    home = tmp_path / "runs" / "two-int8-static+thresholds"
    run = Run.open(str(tmp_path / "runs" / "two"))
    predictions = pl.read_parquet(home / "predictions.parquet")
    table = AuditedExamples.read(run.examples, images=False, split="test").table
    judged = table.select("example_id", "style", "label").join(predictions, on="example_id")
    gaps = {}
    for variant in ("int8-static", "int8-static+thresholds"):
        odd = judged.filter(variant=variant, label="odd")
        rates = odd.group_by("style").agg((pl.col("predicted") == "odd").mean())
        low, high = sorted(rates["predicted"])
        gaps[variant] = high - low
    assert gaps["int8-static"] > 0.2
    assert gaps["int8-static+thresholds"] < 0.5 * gaps["int8-static"]
    # The rules that were written decide as the predictions that were audited.
    rules = json.loads((home / "rules.json").read_text())
    examples = AuditedExamples.read(run.examples, images=False, split="test")
    names = sorted(set(examples.table["style"]))
    group = np.array([names.index(one) for one in examples.table["style"]])
    kept = examples.table["example_id"].is_in(judged["example_id"].implode()).to_numpy()
    scores = member_outputs(run, "int8-static", features=False)[1][kept]
    rule = decide.read_rule(json.dumps(rules[1]))
    said = np.array(examples.classes)[rule(scores, group[kept])]
    own = predictions.filter(variant="int8-static+thresholds").partition_by("model")[1]
    audited = dict(own.select("example_id", "predicted").iter_rows())
    ids = examples.table["example_id"].to_numpy()[kept]
    assert [audited[one] for one in ids] == said.tolist()
