"""Members that diverged, classes never said, groups of one: undefined stays undefined."""

from __future__ import annotations

import html
import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import load_file, save_file

from scotoma.config import parse_config
from scotoma.predictions import Predictions
from scotoma.run import Run, read_json, write_json
from scotoma.run.shards import shards
from scotoma.steps import verdict as judging
from scotoma.steps.measures.harms import constant_members
from scotoma.steps.predict import predict
from scotoma.steps.prepare import prepare
from scotoma.steps.quantize import quantize
from scotoma.steps.train import train
from scotoma.storage.files import file_digest
from tests.helpers.audits import changes
from tests.helpers.external_predictions import audited

pytestmark = pytest.mark.slow

CLASSES, N, MODELS = np.array(["bird", "cat", "dog"]), 120, 3
PREDICTED = """\
project: wrong
source: {kind: predictions, files: preds.parquet, examples: examples.parquet}
label: {column: label}
groups: {sex: {column: sex}}
tracking: {uri: "off"}
"""
TRAINED = """\
label: {column: digit}
groups: {style: {column: style}}
source: {kind: digits-s, recipe: {epochs: 0.2, learning_rate: RATE}}
variants: [dense, {int8: [static]}, {float16: true}]
population: {models: 2, seed: 3}
keep_scores: true
tracking: {uri: "off"}
"""


def predicted(home: Path, dense: np.ndarray, int8: np.ndarray, **columns: Any) -> dict[str, Any]:
    """audit.json of two tables of class ids, shape (N, MODELS); the page is drawn too."""
    ids = [f"e{row:03d}" for row in range(N)]
    pl.DataFrame({"example_id": ids, **columns}).write_parquet(home / "examples.parquet")
    pl.concat(
        pl.DataFrame(
            {"example_id": ids, "predicted": CLASSES[said[:, model]].tolist()}
        ).with_columns(variant=pl.lit(variant), model=pl.lit(f"{model}"))
        for variant, said in {"dense": dense, "int8": int8}.items()
        for model in range(MODELS)
    ).write_parquet(home / "preds.parquet")
    run = audited(home, PREDICTED)
    page = run.path("report.html").read_text(encoding="utf-8")
    assert not any(f">{word}<" in page for word in ("nan", "NaN", "None", "inf", "-inf", "null"))
    found: dict[str, Any] = read_json(run.path("audit.json"))
    assert list(unexplained(found)) == []
    return found


def unexplained(found: Any, at: str = "") -> Iterator[str]:
    """Places of estimates without a value and without a reason for it."""
    if isinstance(found, dict):
        if {"value", "low", "high", "reason"} <= found.keys() and not found["reason"]:
            yield from (f"{at}.{key}" for key in ("value", "low") if found[key] is None)
        for key, value in found.items():
            yield from unexplained(value, f"{at}.{key}")
    elif isinstance(found, list):
        for place, value in enumerate(found):
            yield from unexplained(value, f"{at}[{place}]")


def votes(seed: int, labels: np.ndarray, rate: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    wrong = rng.random((N, MODELS)) < rate
    return np.where(wrong, (labels[:, None] + rng.integers(1, 3, (N, MODELS))) % 3, labels[:, None])


LABELS = np.arange(N) % 3
SEX = ["m", "f"] * (N // 2)
GOOD, WORSE = votes(1, LABELS, 0.1), votes(2, LABELS, 0.3)
ONE = GOOD.copy()
ONE[:, 1] = 2
CASES: dict[str, dict[str, Any]] = {
    "one member says one class": {"dense": ONE, "int8": WORSE},
    "a class that nobody predicts": {"dense": GOOD % 2, "int8": WORSE % 2},
    "a group of one": {"dense": GOOD, "int8": WORSE, "sex": ["f", *["m"] * (N - 1)]},
    "all members identical": {"dense": GOOD[:, [0] * MODELS], "int8": GOOD[:, [0] * MODELS]},
    "all examples are CIEs": {"dense": GOOD, "int8": (GOOD + 1) % 3},
    "all say one class": {"dense": 0 * GOOD, "int8": 0 * GOOD},
    "a class of one example": {
        "dense": GOOD,
        "int8": WORSE,
        "labels": np.r_[2, np.arange(N - 1) % 2],
    },
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_undefined_has_a_reason_up_to_the_page(case: str, tmp_path: Path) -> None:
    given = CASES[case]
    labels = CLASSES[given.get("labels", LABELS)].tolist()
    audit = predicted(
        tmp_path, given["dense"], given["int8"], label=labels, sex=given.get("sex", SEX)
    )
    constant = (given["dense"] == given["dense"][0]).all(axis=0).sum()
    lines = audit.get("collapsed", [])
    assert sum("member" in line and "of dense predicts" in line for line in lines) == constant
    assert ("collapsed" in audit) == bool(lines)
    cie = changes(audit, "int8")["cie"]
    if case == "all examples are CIEs":
        flagged = (np.array([np.bincount(row, minlength=3).argmax() for row in given["dense"]]) != [
            np.bincount(row, minlength=3).argmax() for row in given["int8"]]).sum()  # fmt: skip
        assert cie["cie"]["count"] == flagged > 0.9 * N
    if case == "all members identical":
        assert cie["cie"]["count"] == 0


def test_the_verdict_warns_of_a_member_that_collapsed(tmp_path: Path) -> None:
    predicted(tmp_path, ONE, WORSE, label=CLASSES[LABELS].tolist(), sex=SEX)
    right = 100 * (LABELS[:, None] == ONE).mean(axis=0)
    line = (
        "member 1 of dense predicts 'dog' for every example and is kept: mean top-1 is "
        f"{right.mean():.1f}% with it, {right[[0, 2]].mean():.1f}% without"
    )
    run = tmp_path / "run"
    assert read_json(run / "gate.json")["warnings"] == [line]
    assert line in (run / "summary.md").read_text(encoding="utf-8")
    page = (run / "report.html").read_text(encoding="utf-8")
    assert html.unescape(page).count(line) == 1


def test_the_verdict_reads_sections_and_no_predictions(tmp_path: Path) -> None:
    audit = predicted(tmp_path, ONE, WORSE, label=CLASSES[LABELS].tolist(), sex=SEX)
    run = Run.open(tmp_path / "run")
    for path in (run.path("audit.json"), run.path("divergence.parquet")):
        path.unlink()
    shutil.rmtree(run.path("predictions"))
    judging.verdict(run)
    assert read_json(run.path("audit.json")) == audit


def trained(home: Path, rate: float) -> Run:
    run = Run.create(home / "run", parse_config(TRAINED.replace("RATE", f"{rate:.3f}"), "test"))
    prepare(run)
    (shard,) = shards(2, 1)
    train(run, shard)
    return run


def test_a_loss_that_is_no_number_stands_as_none(tmp_path: Path) -> None:
    run = trained(tmp_path, 1e30)
    for member in (0, 1):
        losses = read_json(run.member("dense", member).with_suffix(".json"))["loss"]
        assert losses[-1] is None
        assert all(loss is None or math.isfinite(loss) for loss in losses)


def test_a_member_that_diverged_stays_and_says_the_first_class(tmp_path: Path) -> None:
    diverged = 0  # of which ONNX Runtime's opinion would be asked
    run = trained(tmp_path, 0.02)
    path = run.member("dense", diverged)
    save_file({n: torch.full_like(v, torch.nan) if v.is_floating_point() else v
               for n, v in load_file(path).items()}, path)  # fmt: skip
    record = path.with_suffix(".json")
    write_json(record, read_json(record) | {"sha256": file_digest(path)})
    (shard,) = shards(2, 1)
    quantize(run, shard)
    predict(run, shard)
    labels = np.arange(len(Predictions.read(run.predictions("dense", 0)).example_ids)) % 10
    for variant in ("dense", "int8-static", "float16"):
        found = Predictions.read(run.predictions(variant, 0))
        assert (found.predicted[:, diverged] == 0).all()
        assert len(np.unique(found.predicted[:, 1 - diverged])) > 3
        assert np.isnan(found.scores[:, diverged]).all()
        (note,) = constant_members(found, labels)
        assert note.startswith(f"member {diverged} of {variant} predicts '0' for every example")
        if variant != "dense":
            facts = json.loads(run.member(variant, diverged).with_suffix(".json").read_text())
            assert facts["export"]["largest_difference"] is None
