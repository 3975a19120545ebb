from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scotoma.divergence import score, streaming
from scotoma.divergence.streaming import COLUMNS, score_parquet
from scotoma.errors import DataError
from scotoma.predictions import Predictions

pytestmark = pytest.mark.slow

ROWS = list(COLUMNS)[1:]


def population(path: Path, votes: np.ndarray, ids: list[str] | None = None, **kept: int) -> Path:
    n, members = votes.shape
    names = tuple(f"x{row}" for row in range(n))
    classes = tuple(f"c{c}" for c in range(kept.get("n_classes", 4)))
    made = Predictions(path.stem, names, tuple(range(members)), classes, votes.astype(np.uint16))
    made.write(path)
    if ids is not None:  # Predictions refuses ids that stand twice; a file can hold them
        kept_metadata = {k: v for k, v in pl.read_parquet_metadata(path).items() if "scotoma" in k}
        table = pl.read_parquet(path).with_columns(example_id=pl.Series(ids))
        table.write_parquet(path, metadata=kept_metadata)
    return path


def nearly_unanimous(seed: int, n: int, members: int, n_classes: int = 4) -> np.ndarray:
    rng = np.random.default_rng(seed)
    truth = np.random.default_rng(9).integers(0, n_classes, (n, 1))
    wrong = rng.random((n, members)) < rng.choice([0, 0, 0.5], (n, 1))
    return np.where(wrong, rng.integers(0, n_classes, (n, members)), truth)


@pytest.mark.parametrize(("members", "others"), [(5, 5), (4, 7), (1, 1)])
@pytest.mark.parametrize("rows", [1, 64, 10_000])
def test_streamed_scores_are_those_of_the_whole(members, others, rows, tmp_path):
    n = 70 if rows == 1 else 1000
    dense, compressed = nearly_unanimous(1, n, members), nearly_unanimous(2, n, others)
    found = score_parquet(
        population(tmp_path / "dense", dense), population(tmp_path / "int8[*]", compressed),
        tmp_path / "out", rows=rows,
    )  # fmt: skip
    whole = score(dense, compressed, 4)
    table = pl.read_parquet(tmp_path / "out")
    assert table.columns == list(COLUMNS)
    assert table["example_id"].to_list() == [f"x{row}" for row in range(n)]
    for name in ROWS:
        np.testing.assert_array_equal(table[name].to_numpy(), getattr(whole, name), err_msg=name)
    assert (found.n, found.cie, found.n_classes) == (n, whole.cie_count, 4)
    assert (found.dense_members, found.compressed_members) == (members, others)
    distances, counts = np.unique(whole.taxicab, return_counts=True)
    assert found.taxicab == dict(zip(distances.tolist(), counts.tolist(), strict=True))
    assert list(found.taxicab) == sorted(found.taxicab)


@settings(max_examples=15)
@given(st.data())
def test_rows_on_which_all_agree_need_no_counting(data):
    votes = st.lists(st.integers(0, 2), min_size=3, max_size=3)
    both = st.lists(st.tuples(votes, votes), min_size=1, max_size=8)
    dense, compressed = (np.array(side) for side in zip(*data.draw(both), strict=True))
    found, whole = streaming._score(dense, compressed, 3), score(dense, compressed, 3)
    for name in (*ROWS, "dense_tied", "compressed_tied", "cie_certain"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name), err_msg=name)


def test_files_of_others_need_the_number_of_classes(tmp_path):
    votes = nearly_unanimous(1, 20, 3)
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path in paths:  # integer ids, bytes for class ids, no metadata
        columns = {
            "example_id": range(20),
            "predicted": pl.Series(votes, dtype=pl.Array(pl.UInt8, 3)),
        }
        pl.DataFrame(columns).write_parquet(path)
    with pytest.raises(DataError, match=r"a\.parquet does not name its classes: write it with Pre"):
        score_parquet(*paths, tmp_path / "out")
    found = score_parquet(*paths, tmp_path / "out", n_classes=4)
    assert (found.n, found.cie.count) == (20, 0)
    with pytest.raises(DataError, match=r"^dense must hold class ids from 0 to 2, got 3: number"):
        score_parquet(*paths, tmp_path / "out", n_classes=3)


def test_memory_is_that_of_a_slice(tmp_path):
    votes = nearly_unanimous(1, 60_000, 30, 2)
    dense = population(tmp_path / "dense", votes, n_classes=2)
    compressed = population(tmp_path / "int8", votes[::-1], n_classes=2)
    score_parquet(dense, compressed, tmp_path / "out", rows=2_000)
    tracemalloc.start()  # what Python and NumPy hold; Polars has its own memory
    score_parquet(dense, compressed, tmp_path / "out", rows=2_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6  # both tables as 16-bit numbers are 7.2 MB


def test_an_id_that_differs_is_named_with_its_row(tmp_path):
    votes = nearly_unanimous(1, 100, 3)
    ids = [f"x{row}" for row in range(100)]
    dense = population(tmp_path / "dense", votes, ids)
    ids[77] = "other"
    int8 = population(tmp_path / "int8", votes, ids)
    with pytest.raises(DataError) as caught:
        score_parquet(dense, int8, tmp_path / "out", rows=10)
    assert str(caught.value) == (
        "dense and compressed must predict the same examples in the same order, got 'x77' and "
        "'other' in row 78: sort both by example_id and predict what is missing"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "dense",
        "int8",
    ]  # nothing half done


@pytest.mark.parametrize("rows", [7, 10, 1000])
def test_examples_of_one_side_only_are_named(rows, tmp_path):
    votes = nearly_unanimous(1, 30, 3)
    long, short = population(tmp_path / "long", votes), population(tmp_path / "short", votes[:20])
    for pair in ((long, short), (short, long)):
        with pytest.raises(
            DataError, match=r"example 'x20' of .*long is not in .*short, predict it"
        ):
            score_parquet(*pair, tmp_path / "out", rows=rows)


@pytest.mark.parametrize("at_once", [2**24, 16])
@pytest.mark.parametrize("rows", [7, 1000])
def test_an_id_that_stands_twice_is_named(rows, at_once, tmp_path, monkeypatch):
    monkeypatch.setattr(streaming, "IDS", at_once)  # fewer ids at a time: several passes
    votes = nearly_unanimous(1, 100, 3)
    ids = [f"x{row}" for row in range(100)]
    ids[90] = ids[3]
    paths = [population(tmp_path / name, votes, ids) for name in ("dense", "int8")]
    with pytest.raises(DataError) as caught:
        score_parquet(*paths, tmp_path / "out", rows=rows)
    assert str(caught.value) == (
        f"example ids must be unique, got 'x3' 2 times in {paths[0]}: give every example an id of "
        "its own"
    )
    ids[90] = "x90"
    paths = [population(tmp_path / name, votes, ids) for name in ("dense", "int8")]
    assert score_parquet(*paths, tmp_path / "out", rows=rows).n == 100


def test_neighbours_with_one_id_are_found_where_ids_ascend(tmp_path):
    votes = nearly_unanimous(1, 20, 3)
    ids = [f"x{row:02}" for row in range(20)]
    ids[10] = ids[9]
    paths = [population(tmp_path / name, votes, ids) for name in ("dense", "int8")]
    for rows in (10, 1000):  # within a slice, and across its border
        with pytest.raises(DataError, match="'x09' 2 times"):
            score_parquet(*paths, tmp_path / "out", rows=rows)


def test_predictions_that_are_missing_or_no_table_are_refused(tmp_path):
    good = population(tmp_path / "good", nearly_unanimous(1, 4, 2))
    ids = {"example_id": [f"x{row}" for row in range(4)]}
    bad = {
        "gap": {**ids, "predicted": pl.Series([[0, 1], [0, None], [0, 0], [1, 1]],
                                              dtype=pl.Array(pl.UInt16, 2))},
        "list": {**ids, "predicted": [[0, 1]] * 4},
        "nobody": {"example_id": ["x0", None, "x2", "x3"],
                   "predicted": pl.Series([[0, 1]] * 4, dtype=pl.Array(pl.UInt16, 2))},
        "float": {**ids, "predicted": pl.Series([[0.5, 1.0]] * 4, dtype=pl.Array(pl.Float64, 2))},
    }  # fmt: skip
    sentences = {
        "gap": r"gap has examples without predictions of every member: predict them, or leave",
        "list": r"list must have columns example_id and predicted, a fixed-size list of class ids, "
        r"got example_id String, predicted List\(Int64\): write it with Predictions.write",
        "nobody": r"nobody has no example id in row 2: give it one",
        "float": r"compressed must be an examples by members table of class ids, got values of "
        r"type float64: convert scores",
        "text": r"text cannot be read as Parquet \(",
        "absent": r"absent cannot be read as Parquet \(",
    }
    for name, columns in bad.items():
        pl.DataFrame(columns).write_parquet(tmp_path / name)
    (tmp_path / "text").write_text("example_id,predicted\n")
    for name, sentence in sentences.items():
        with pytest.raises(DataError, match=sentence) as caught:
            score_parquet(good, tmp_path / name, tmp_path / "out", n_classes=4)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_settings_that_do_not_fit_are_refused(tmp_path):
    votes = nearly_unanimous(1, 4, 2)
    dense, other = population(tmp_path / "a", votes), population(tmp_path / "b", votes, n_classes=5)
    with pytest.raises(DataError, match=r"a and .*b must name the same classes in the same order"):
        score_parquet(dense, other, tmp_path / "out")
    with pytest.raises(DataError, match="n_classes must be at least 2, got 1: count the label's"):
        score_parquet(dense, other, tmp_path / "out", n_classes=1)
    with pytest.raises(DataError, match="rows must be at least 1, got 0: 262,144 is the default"):
        score_parquet(dense, other, tmp_path / "out", rows=0)
    nothing = population(tmp_path / "nothing", votes[:0])
    with pytest.raises(DataError, match="nothing holds no examples: predict at least one"):
        score_parquet(nothing, nothing, tmp_path / "out")
