"""What a table may say in two ways is read in one, or refused: never one of them in silence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from PIL import Image

from scotoma.datasets import AuditedExamples
from tests.faults.made import predictions_made_elsewhere
from tests.helpers.commands import measured, scotoma

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("steps_here")]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """An audit of predictions: columns example_id, label (0 to 2) and sex (f, m)."""
    return predictions_made_elsewhere(tmp_path)


def rewrite(path: Path, *columns: pl.Expr) -> None:
    pl.read_csv(path, infer_schema=False).with_columns(*columns).write_csv(path)


def with_first(column: str, value: str, rows: int = 20) -> pl.Expr:
    """A column whose first rows have another value."""
    return (
        pl.when(pl.int_range(pl.len()) < rows).then(pl.lit(value)).otherwise(column).alias(column)
    )


@pytest.mark.parametrize("word", ["nan", "NaN", "null", " NULL ", ""])
def test_text_that_says_nan_or_null_is_missing_in_audit_and_bias(
    word: str, config: Path, tmp_path: Path
) -> None:
    table = tmp_path / "examples.csv"
    rewrite(table, with_first("sex", word))
    found = measured("audit", "--plan", config)
    assert any(
        "'sex' is missing in 20 of 300 test rows" in note for note in found["examples"]["notes"]
    )
    wide = pl.read_csv(table, infer_schema=False).with_columns(predicted=pl.col("label"))
    wide.write_csv(tmp_path / "wide.csv")
    bias = scotoma(
        "compare", tmp_path / "wide.csv", "--label", "label", "--predicted", "predicted",
        "--group", "sex",
    )  # fmt: skip
    assert bias[0] == 0, bias[2]
    assert "(missing)" in bias[1]
    rewrite(table, with_first("label", word))
    left = measured("audit", "--plan", config)["examples"]
    assert left["test"] == 280


@pytest.mark.parametrize("word", ["inf", pytest.param("nan-1", marks=pytest.mark.thorough)])
def test_a_class_that_is_a_word_among_numbers_has_one_place_under_every_hash_seed(
    word: str, config: Path, tmp_path: Path
) -> None:
    rewrite(tmp_path / "examples.csv", with_first("label", word))
    orders = set()
    for seed in ("1", "2"):
        run = tmp_path / seed
        done = subprocess.run(
            [sys.executable, "-m", "scotoma", "audit", config, "--out", run, "--step", "prepare"],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        orders.add(AuditedExamples.read(run / "examples.parquet").classes)
    assert orders == {("0", "1", "2", word)}


def test_a_class_that_stands_for_a_missing_value_is_refused(config: Path) -> None:
    config.write_text(
        config.read_text().replace("kind: predictions,", "kind: predictions, classes: ['nan'],")
    )
    code, _, err = scotoma("audit", "--plan", config)
    assert code == 4
    assert "source.classes names 'nan', which stands for a missing value; rename the class" in err


@pytest.mark.parametrize("name", ["label", "sex", "example_id"])
def test_a_column_of_examples_that_stands_twice_is_refused(
    name: str, config: Path, tmp_path: Path
) -> None:
    table = tmp_path / "examples.csv"
    header, *rows = table.read_text().splitlines()
    table.write_text("\n".join([f"{header},{name}", *(f"{row},x" for row in rows)]))
    code, _, err = scotoma("audit", "--plan", config)
    assert code == 4
    assert f"examples.csv has two columns {name!r}; rename one of them" in err


def test_a_column_of_predictions_that_stands_twice_is_refused(config: Path, tmp_path: Path) -> None:
    table = tmp_path / "preds" / "dense" / "0.csv"
    header, *rows = table.read_text().splitlines()
    table.write_text("\n".join([f"{header},predicted", *(f"{row},0" for row in rows)]))
    code, _, err = scotoma("audit", config, "--out", tmp_path / "run")
    assert code == 4
    assert "0.csv has two columns 'predicted'; rename one of them" in err


FOLDER = """\
source:
  kind: image_folder
  images: images
  attributes: attributes.csv
  split: {column: part, train: train, test: test}
label: {column: kind}
groups: {sex: {column: sex}}
variants: [dense, {prune: [0.5]}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Sixteen images of two kinds in a folder, and their table; returns the configuration."""
    (tmp_path / "images").mkdir()
    lines = ["image,part,kind,sex"]
    for at in range(16):
        Image.new("L", (8, 8), 10 * at).save(tmp_path / "images" / f"{at}.png")
        lines.append(f"{at}.png,{'train' if at < 8 else 'test'},{'ab'[at % 2]},{'mf'[at // 2 % 2]}")
    (tmp_path / "attributes.csv").write_text("\n".join(lines))
    (tmp_path / "audit.yaml").write_text(FOLDER)
    return tmp_path / "audit.yaml"


def test_two_spellings_of_one_image_are_one_example(folder: Path) -> None:
    table = folder.parent / "attributes.csv"
    text = table.read_text()
    table.write_text(text.replace("15.png", "./sub/..//15.png"))
    code, out, err = scotoma("audit", "--plan", folder, "--no-trial")
    assert code == 0, out + err
    table.write_text(f"{text}\n./15.png,test,b,f")
    code, out, err = scotoma("audit", "--plan", folder, "--no-trial")
    assert code == 4
    assert "example id '15.png' stands in" in out + err
    assert "attributes.csv twice; ids must be unique" in out + err


def test_a_column_of_attributes_that_stands_twice_is_refused(folder: Path) -> None:
    table = folder.parent / "attributes.csv"
    header, *rows = table.read_text().splitlines()
    table.write_text("\n".join([f"{header},sex", *(f"{row},m" for row in rows)]))
    code, out, err = scotoma("audit", "--plan", folder, "--no-trial")
    assert code == 4
    assert "attributes.csv has two columns 'sex'; rename one of them" in out + err


@pytest.mark.parametrize(
    ("intersections", "sentence"),
    [
        ("[[sex, age], [sex, age]]", "the intersection of sex and age stands twice; keep one"),
        ("[[sex, age], [age, sex]]", "the intersection of age and sex stands twice; keep one"),
        ("[[sex, age, sex]]", "an intersection needs different attributes, got 'sex' twice"),
    ],
)
def test_intersections_whose_groups_would_be_the_same_are_refused_by_check(
    intersections: str, sentence: str, config: Path, tmp_path: Path
) -> None:
    rewrite(tmp_path / "examples.csv", (pl.col("label") + " years").alias("age"))
    groups = "groups: {sex: {column: sex}, age: {column: age}, intersections: %s}"
    config.write_text(
        config.read_text().replace("groups: {sex: {column: sex}}", groups % intersections)
    )
    code, _, err = scotoma("audit", "--plan", config)
    assert code == 2
    assert sentence in err
