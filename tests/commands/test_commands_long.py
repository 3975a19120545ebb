"""The bias command on predictions one a row: the same numbers as from one column per model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.helpers.commands import scotoma

ROWS, MODELS = 300, (0, 2, 10)  # a natural order is not that of text
ASKED = ("--label", "label", "--group", "sex", "--positive", "1")


def tables(seed: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Examples, and predictions of three variants in the long format, in no order."""
    rng = np.random.default_rng(seed)
    ids = [f"face-{row}" for row in range(ROWS)]
    sex, label = rng.choice(["f", "m"], ROWS), rng.integers(0, 2, ROWS)
    examples = pl.DataFrame({"example_id": ids, "label": label, "sex": sex})
    parts = []
    for variant, error in (("dense", 0.1), ("int8", 0.2), ("prune-0.9", 0.3)):
        for model in MODELS:
            said = label ^ (rng.random(ROWS) < error)
            parts.append(
                pl.DataFrame({"example_id": ids, "model": str(model), "predicted": said})
                .with_columns(variant=pl.lit(variant), score=pl.lit(0.5))
                .sample(fraction=1, shuffle=True, seed=seed + model)
            )
    return examples, pl.concat(parts)


def written(folder: Path, examples: pl.DataFrame, long: pl.DataFrame) -> tuple[Path, Path]:
    paths = folder / "examples.csv", folder / "predictions.parquet"
    examples.write_csv(paths[0])
    long.write_parquet(paths[1])
    return paths


@pytest.mark.parametrize("paired", [False, True])
def test_long_and_wide_tables_give_the_same_numbers(paired: bool, tmp_path: Path) -> None:
    examples, long = tables()
    paths = written(tmp_path, examples, long)
    wide = examples
    for variant in ("dense", "int8"):
        for model in MODELS:
            one = long.filter(variant=variant, model=str(model)).select("example_id", "predicted")
            wide = wide.join(one.rename({"predicted": f"{variant}_{model}"}), on="example_id")
    wide.write_csv(tmp_path / "wide.csv")
    more = (*ASKED, "--json", *(["--paired"] if paired else []))
    of_wide = scotoma(
        "compare", tmp_path / "wide.csv", "--predicted", "int8_*", "--baseline", "dense_*", *more
    )
    of_long = scotoma(
        "compare", paths[1], "--examples", paths[0], "--predicted", "int8", "--baseline", "dense",
        *more,
    )  # fmt: skip
    assert of_long[0] == 0, of_long[2]
    assert json.loads(of_long[1]) == json.loads(of_wide[1])
    assert json.loads(of_long[1])["models"] == 3


def test_a_pattern_may_name_the_variant_and_another_column_the_examples(tmp_path: Path) -> None:
    examples, long = tables()
    renamed = (table.rename({"example_id": "face"}) for table in (examples, long))
    paths = written(tmp_path, *renamed)
    asked = ("--examples", paths[0], "--predicted", "prune-*", "--id", "face", *ASKED)
    code, out, err = scotoma("compare", paths[1], *asked)
    assert (code, err) == (0, "")
    assert out.startswith("predictions.parquet: 300 examples, 3 models")


def first(table: pl.DataFrame, **changed: object) -> pl.DataFrame:
    """The table with other values in its first row."""
    rest = [
        pl.when(pl.int_range(pl.len()) == 0).then(pl.lit(value)).otherwise(name).alias(name)
        for name, value in changed.items()
    ]
    return table.with_columns(rest)


INT8 = ("--predicted", "int8")
BAD = {
    "no such variant": (
        lambda e, p: (e, p), ("--predicted", "int4"), 2,
        "--predicted must name one variant, got none by 'int4': choose among 'dense', 'int8', "
        "'prune-0.9'",
    ),
    "several variants": (
        lambda e, p: (e, p), ("--predicted", "*"), 2,
        "--predicted must name one variant, got 'dense', 'int8', 'prune-0.9': choose among",
    ),
    "the same variant": (
        lambda e, p: (e, p), (*INT8, "--baseline", "int8"), 2,
        "--baseline, --predicted and the columns of the examples must differ, got 'int8/0' twice: "
        "name two variants, or rename the column",
    ),
    "no such column": (
        lambda e, p: (e, p.rename({"model": "seed"})), INT8, 2,
        "the long format names column 'model', which is not in the table; it has",
    ),
    "an example that is not there": (
        lambda e, p: (e.filter(pl.col("example_id") != "face-7"), p), INT8, 4,
        "predictions must be for the examples, but 'face-7' of 'int8' is not among them: add it, "
        "or leave its predictions out",
    ),
    "a prediction that is missing": (
        lambda e, p: (e, p.filter(~((pl.col("variant") == "int8") & (pl.col("model") == "10")
                                    & (pl.col("example_id") == "face-3")))), INT8, 4,
        "model '10' of 'int8' has no prediction for example 'face-3': predict it, or leave the "
        "model out",
    ),
    "a prediction twice": (
        lambda e, p: (e, pl.concat([p, p.filter(variant="int8").head(1)])), INT8, 4,
        "model '0' of 'int8' predicts example 'face-",
    ),
    "an example twice": (
        lambda e, p: (pl.concat([e, e.head(1)]), p), INT8, 4,
        "example ids must be unique, but 'face-0' stands in column 'example_id' 2 times: keep one "
        "row per example",
    ),
    "models without a partner": (
        lambda e, p: (e, p.filter(~((pl.col("variant") == "int8") & (pl.col("model") == "2")))),
        (*INT8, "--baseline", "dense", "--paired"), 2,
        "--paired needs the same models in both variants, got '0', '2', '10' and '0', '10': "
        "leave out models without a partner",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_sentence_and_no_data(name: str, tmp_path: Path) -> None:
    change, asked, code, sentence = BAD[name]
    paths = written(tmp_path, *change(*tables()))
    got = scotoma("compare", paths[1], "--examples", paths[0], *asked, *ASKED)
    assert got[:2] == (code, "")
    assert got[2].startswith(f"scotoma: {sentence}")
    assert got[2].count("\n") == 1
