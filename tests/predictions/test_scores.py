"""Files of scores: what is written is read, and what is not ours is refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scotoma.errors import DataError
from scotoma.predictions import ScoreHeads, read_heads, read_scores, write_scores
from scotoma.predictions.scores import SCORE_ROWS

HEADS = ScoreHeads(
    "prune-0.9", 3, ("a", "b", "c"), "DI2", "style", ("plain", "dim"), ((9, 1, 5), (1, 9, 5))
)


def write(path: Path, examples: int = 7) -> np.ndarray:
    scores = np.random.default_rng(0).normal(size=(examples, 6)).astype(np.float32)
    cuts = [slice(at, at + 3) for at in range(0, examples, 3)]
    write_scores(path, ((list(map(str, range(examples)))[c], scores[c]) for c in cuts), HEADS)
    return scores


def test_scores_are_read_back_to_the_bit(tmp_path: Path) -> None:
    scores = write(path := tmp_path / "member-003.parquet")
    ids, values = read_scores(path)
    assert (read_heads(path), ids) == (HEADS, [*"0123456"])
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, scores)


def test_any_reader_of_parquet_and_json_reads_them(tmp_path: Path) -> None:
    scores = write(path := tmp_path / "member-003.parquet")
    table = pl.read_parquet(path)
    assert table.schema == {"example_id": pl.String, "scores": pl.Array(pl.Float32, 6)}
    np.testing.assert_array_equal(table["scores"].to_numpy(), scores)
    said = json.loads(path.with_suffix(".json").read_text())
    assert (said["heads"], said["width"], said["train_counts"]) == (
        [2, 3],
        6,
        [[9, 1, 5], [1, 9, 5]],
    )


def test_a_large_file_has_several_row_groups(tmp_path: Path) -> None:
    rows, heads = SCORE_ROWS + 5, ScoreHeads("dense", 0, ("a",))
    ids = pl.Series(range(rows)).cast(pl.String)
    path = tmp_path / "large.parquet"
    parts = [
        (ids[at : at + SCORE_ROWS], np.ones((min(SCORE_ROWS, rows - at), 1), np.float32))
        for at in range(0, rows, SCORE_ROWS)
    ]
    write_scores(path, parts, heads)
    assert read_scores(path)[0] == ids.to_list()


def test_another_width_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"must have shape \(1, 6\), got \(1, 5\)"):
        write_scores(tmp_path / "x.parquet", [(["a"], np.ones((1, 5), np.float32))], HEADS)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", ["{", "[]", '{"variant": "dense"}'])
def test_a_damaged_description_is_one_sentence(tmp_path: Path, damage: str) -> None:
    write(path := tmp_path / "member-003.parquet")
    path.with_suffix(".json").write_text(damage)
    with pytest.raises(DataError, match="must say what scores are of"):
        read_scores(path)


def test_other_columns_are_one_sentence(tmp_path: Path) -> None:
    write(path := tmp_path / "member-003.parquet")
    pl.DataFrame({"example_id": ["a"]}).write_parquet(path)
    with pytest.raises(DataError, match="must hold 6 scores per example"):
        read_scores(path)
