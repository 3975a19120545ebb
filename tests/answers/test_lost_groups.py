"""A group none of whose examples has a label is named, and admits no PASS."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import scotoma as notebook
from tests.helpers.commands import ended

N = 4000
CONFIG = """\
project: lost
source: {kind: predictions, files: answers.csv, examples: examples.csv}
label: {column: label}
groups: {region: {column: region}}
tracking: {uri: "off"}
"""


def answers() -> dict[str, Any]:
    """Labels, answers and regions; in d a third of the compressed answers are wrong."""
    rng = np.random.default_rng(7)
    label, region = rng.integers(0, 2, N), np.array(list("abcd"))[rng.integers(0, 4, N)]
    dense = np.where(rng.random(N) < 0.1, 1 - label, label)
    compressed = np.where((region == "d") & (rng.random(N) < 0.3), 1 - label, dense)
    return {"label": label, "dense": dense, "int8": compressed, "region": region}


def lost(of: dict[str, Any], gone: Any) -> list[int | None]:
    """The labels without those of some rows."""
    return [None if lacks else int(one) for one, lacks in zip(of["label"], gone, strict=True)]


def judged(labels: Any, of: dict[str, Any], **groups: Any) -> Any:
    pair = notebook.pair(labels, of["dense"], of["int8"], groups=groups)
    return notebook.judge(pair, margin=0.03)


def test_a_harmed_group_without_labels_admits_no_pass() -> None:
    of = answers()
    found = judged(lost(of, of["region"] == "d"), of, region=of["region"])
    size = int((of["region"] == "d").sum())
    said = f"no example of region=d ({size}) has a label, so nothing is known of it"
    assert found.verdict == "UNSURE"
    assert f"{said}, and no PASS is given" in str(found)


def test_so_does_a_bin_of_numbers() -> None:
    of, age = answers(), np.arange(N) % 80
    found = judged(lost(of, age >= 60), of | {"int8": of["dense"]}, age=age)  # the oldest quarter
    assert found.verdict == "UNSURE"
    assert "no example of age=60 or more (1,000) has a label" in str(found)


def test_a_group_with_one_label_or_too_small_to_be_judged_leaves_the_verdict() -> None:
    of = answers()
    rare = np.where(np.arange(N) < 20, "rare", np.where(of["region"] == "d", "a", of["region"]))
    calm = of | {"int8": of["dense"]}
    found = judged(lost(of, rare == "rare"), calm, region=rare)
    assert found.verdict == "PASS"
    told = [note.sentence for note in found.audit.admission]
    assert "no example of region=rare (20) has a label, so nothing is known of it" in told
    few = judged(lost(of, (of["region"] == "d") & (np.arange(N) > 50)), calm, region=of["region"])
    assert "no example of" not in str([note.sentence for note in few.audit.admission])


def test_an_audit_of_predictions_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    of, ids = answers(), [f"i{place}" for place in range(N)]
    labels = lost(of, of["region"] == "d")
    described = {"example_id": ids, "label": labels, "region": of["region"]}
    pl.DataFrame(described).write_csv("examples.csv")
    pl.concat(
        pl.DataFrame({"example_id": ids, "predicted": of[name]}).with_columns(
            variant=pl.lit(name), model=pl.lit("0")
        )
        for name in ("dense", "int8")
    ).write_csv("answers.csv")
    Path("lost.yaml").write_text(CONFIG)
    out, _ = ended("audit", "lost.yaml", "--out", "run", "--margin", "0.03", "--gate")
    assert "UNSURE  int8: no example of region=d (" in out
    assert json.loads(Path("run/gate.json").read_text())["verdict"] == "UNSURE"
