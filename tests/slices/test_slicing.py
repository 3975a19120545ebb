"""Slices in the audit: of attributes, of classes, and of what images look like."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from scotoma.config import parse_config
from scotoma.config.sections import SliceSettings
from scotoma.datasets import AuditedExamples
from scotoma.datasets.select_examples import examples_from_source
from scotoma.predictions import Predictions
from scotoma.run import Run, read_json
from scotoma.slices import SearchSettings
from scotoma.slices.features import conditions_together
from scotoma.steps import slices as slicing
from tests.slices.searching import find_slices

CONFIG = """
source:
  kind: image_folder
  images: .
  attributes: table.csv
  split: {column: split, train: train, test: test}
label: {column: animal}
groups: {sex: {column: sex}}
variants: [dense, {prune: [0.9]}]
population: {models: 5}
"""
ROWS = 600


def picture(rng: np.random.Generator, light: float) -> dict[str, Any]:
    pixels = np.clip(rng.normal(light, 20, (6, 6)), 0, 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return {"bytes": buffer.getvalue(), "path": ""}


def audited(folder: Path, *, images: bool, harm: str, section: str = "") -> Run:
    """A run whose pruned members fail on dark pictures, or on female cats."""
    rng = np.random.default_rng(0)
    light = rng.uniform(40, 200, ROWS)
    table = pl.DataFrame(
        {
            "example_id": [f"e{row}" for row in range(ROWS)],
            "split": ["train"] * 20 + ["test"] * (ROWS - 20),
            "animal": rng.choice(["cat", "dog"], ROWS),
            "sex": rng.choice(["female", "male"], ROWS),
            "age": [str(row % 7) for row in range(ROWS)],
            "image": [picture(rng, level) for level in light],
        }
    )
    run = Run.create(folder, parse_config(CONFIG + section, "audit.yaml"))
    found = examples_from_source(table, run.config, "table.csv")
    bad = light < 60 if harm == "dark" else (
        (table["animal"] == "cat") & (table["sex"] == "female")
    ).to_numpy()  # fmt: skip
    if not images:
        found = replace(found, table=found.table.drop("image"))
    found.write(run.examples)
    found = found.split("test")
    run.path("predictions").mkdir()
    for variant, more in (("dense", 0.0), ("prune-0.9", 0.5)):
        wrong = rng.random((ROWS - 20, 5)) < 0.06 + more * bad[20:, None]
        predicted = (found.labels[:, None] + wrong) % 2
        Predictions(
            variant, predicted.astype(np.uint8), tuple(found.ids), tuple(range(5)), found.classes
        ).write(run.predictions(variant))
    return run


def test_a_slice_of_dark_pictures_is_found_and_said_to_be_about_the_image(tmp_path):
    run = audited(tmp_path / "run", images=True, harm="dark")
    section, table = slicing.slices(run)
    found = read_json(section)["slices"]["prune-0.9"]
    first, rows = found["slices"][0], read_json(section)["rows"]
    assert first["text"].startswith("image brightness < ")
    assert first["about_images"] == {"image brightness": "mean of the grey levels, 0 to 255"}
    (effect, *_) = (row["number"] for row in rows if row["what"] == "slices.effect")
    assert effect["low"] < 0.5 < effect["high"] + 0.1
    assert effect["members"] == 5
    (p, *_) = (row["number"] for row in rows if row["what"] == "slices.confirmation.p")
    assert p["value"] < 0.05
    assert 0 < p["n"] < ROWS - 20  # the half that did not propose it
    assert found["null"]["permutations"] == slicing.SHUFFLED
    # All images have one size, which is left out.
    looks = {"image brightness", "image contrast", "image sharpness"}
    assert set(found["features"]) == {"sex", "class", *looks}
    assert pl.read_parquet(table)["image width"].unique().to_list() == [6]
    assert len(found["lattice"]["text"]) == len(found["lattice"]["effect"]) <= slicing.POINTS
    assert found["lattice"]["reported"][0]
    before = section.read_bytes(), section.stat().st_mtime_ns
    slicing.slices(run)  # what is done is not done again
    assert (section.read_bytes(), section.stat().st_mtime_ns) == before


def test_an_audit_without_images_has_slices_of_attributes_and_classes(tmp_path):
    run = audited(tmp_path / "run", images=False, harm="female cats")
    (section,) = slicing.slices(run)
    found = read_json(section)["slices"]["prune-0.9"]
    assert found["features"] == ["sex", "class"]
    assert found["slices"][0]["text"] == "sex = female and class = cat"
    assert found["slices"][0]["about_images"] == {}
    json.dumps(found, allow_nan=False)


def test_a_note_on_all_examples_is_in_points_and_names_the_dense_variant(tmp_path):
    run = audited(tmp_path, images=False, harm="cats")
    slicing.slices(run)
    content = read_json(run.section("slices"))
    (note,) = content["slices"]["prune-0.9"]["notes"]
    (change,) = (row["number"] for row in content["rows"] if row["what"] == "change")
    value, low, high = (f"{100 * change[end]:+.2f}" for end in ("value", "low", "high"))
    assert note == (
        f"all examples together differ from dense by {value} points [{low}, {high}]: scotoma "
        "slices with reference: rest finds where they differ most"
    )


def test_an_audit_searches_as_its_configuration_says(tmp_path):
    section = "slices: {mode: batch, alpha: 0.5, min_size: 40, max_cross: 2, "
    section += "features: [age, class]}"
    run = audited(tmp_path / "run", images=False, harm="female cats", section=section)
    (path,) = slicing.slices(run)
    search = read_json(path)["slices"]["prune-0.9"]
    chosen = {"mode": "batch", "alpha": 0.5, "min_size": 40, "max_cross": 2, "confirm": False}
    assert search["settings"] | chosen == search["settings"]
    assert search["features"] == ["age", "class"]  # a column that is no attribute, as numbers
    examples = AuditedExamples.read(run.examples).split("test")
    ages, labels = examples.features["age"].cast(int), examples.table["label"]
    table = pl.DataFrame({"age": ages, "class": labels})
    wrong = {
        name: Predictions.read(run.predictions(name)).predicted != examples.labels[:, None]
        for name in ("dense", "prune-0.9")
    }
    report = find_slices(
        table, wrong["prune-0.9"], baseline=wrong["dense"], mode="batch", alpha=0.5, min_size=40,
        max_cross=2, permutations=0, ids=np.array(examples.ids),
    )  # fmt: skip
    assert [one["text"] for one in search["slices"]] == [one.text for one in report.slices][:20]
    assert "class = cat" in [one.text for one in report.slices]


def test_an_audit_and_a_search_start_from_the_same_defaults_and_bounds():
    search, audit = SearchSettings(), SliceSettings()
    for name in ("mode", "alpha", "min_size"):
        assert getattr(audit, name) == getattr(search, name)
        ours, theirs = (
            type(one).model_json_schema()["properties"][name] for one in (search, audit)
        )
        rules = {"enum", "minimum", "exclusiveMinimum", "exclusiveMaximum", "maximum"}
        assert {k: ours[k] for k in rules & ours.keys()} == {
            k: theirs[k] for k in rules & theirs.keys()
        }


@pytest.mark.parametrize(("features", "rows", "together"), [(2, 100, 3), (60, 10**5, 1)])
def test_many_features_bound_the_conditions_and_the_audit_says_so(features, rows, together):
    assert conditions_together(features, rows)[0] == together
