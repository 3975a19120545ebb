"""The audit of a user's own images: a folder, a CSV, a positive class, few members."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from scotoma.predictions import Predictions
from tests.helpers.audits import changes, rates
from tests.helpers.commands import scotoma
from tests.helpers.steps import steps_in_this_process

pytestmark = pytest.mark.slow

CONFIG = """\
version: 1
project: own images
source:
  kind: image_folder
  images: images
  attributes: attributes.csv
  split: {column: partition, train: train, test: test}
  recipe: {steps: 40, batch_size: 32}
label: {column: blond, positive: 1}
groups:
  sex: {column: male, names: {"1": male, "0": female}}
  age: {column: young, names: {"1": young, "0": old}}
  intersections: [[sex, age]]
cluster: {column: identity}
variants: [dense, {prune: [0.9]}, {int8: [dynamic]}]
population: {models: 2, seed: 0}
tracking: {uri: "off"}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("own")
    rng = np.random.default_rng(0)
    rows = []
    (home / "images").mkdir()
    for index in range(300):
        blond, male, young = rng.random(3) < (0.4, 0.5, 0.6)
        pixels = rng.integers(0, 200, (12, 12, 3))
        pixels[..., 0] += 6 * blond + 3 * male
        Image.fromarray(pixels.astype(np.uint8)).save(home / "images" / f"{index}.png")
        rows.append(
            {
                "image": f"{index}.png",
                "partition": "train" if index < 200 else "test",
                "blond": int(blond),
                "male": int(male),
                "young": None if index % 17 == 0 else int(young),
                "identity": index // 2,
            }
        )
    pl.DataFrame(rows).write_csv(home / "attributes.csv")
    (home / "own.yaml").write_text(CONFIG)
    with steps_in_this_process(home):
        code, said, err = scotoma("audit", "own.yaml", "--out", "run")
    assert code == 0, err
    assert "CIE counts are unstable" in said
    return home / "run"


def test_false_positive_rates_are_those_of_a_slow_twin(run: Path) -> None:
    found = json.loads((run / "audit.json").read_text())
    table = pl.read_parquet(run / "examples.parquet").filter(pl.col("split") == "test")
    predictions = Predictions.read(run / "predictions" / "prune-0.9.parquet")
    positive = predictions.classes.index("1")
    rows = {
        (row["group"], row["metric"]): row["compressed"]
        for row in rates(found, "prune-0.9")
        if row["class"] is None
    }
    for sex, age in (("male", "young"), ("female", "old")):
        shares = []
        for member in range(2):
            predicted = predictions.predicted[:, member] == positive
            at_risk = hit = 0
            for row, says_blond in zip(table.iter_rows(named=True), predicted, strict=True):
                if (row["sex"], row["age"], row["label"]) == (sex, age, "0"):
                    at_risk, hit = at_risk + 1, hit + int(says_blond)
            shares.append(hit / at_risk)
        assert rows[f"sex={sex},age={age}", "fpr"]["value"] == pytest.approx(np.mean(shares))


def test_rows_without_an_attribute_are_a_group_of_their_own(run: Path) -> None:
    found = json.loads((run / "audit.json").read_text())
    sizes = {group["name"]: group["n"] for group in found["groups"]}
    assert sizes["(missing)"] == len([i for i in range(200, 300) if i % 17 == 0])
    assert sizes["young"] + sizes["old"] + sizes["(missing)"] == sizes["all"] == 100


def test_two_members_give_an_excess_at_one_vote(run: Path) -> None:
    found = json.loads((run / "audit.json").read_text())
    cie = changes(found, "prune-0.9")["cie"]
    assert cie["votes"] == 1
    rise = cie["disagreement"]["value"] - cie["floor"]["value"]
    assert cie["excess"]["value"] == pytest.approx(rise)
    assert cie["excess"]["low"] < cie["excess"]["value"] < cie["excess"]["high"]
