from __future__ import annotations

import re
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nst
from numpy.typing import NDArray

from scotoma.errors import DataError
from scotoma.predictions import (
    Predictions,
    label_counts,
    write_predictions,
)
from scotoma.predictions.matrix import ROWS
from scotoma.predictions.patterns import _expression

CLASSES = ("0", "one", "zwei, drei", "\u2028")


def made(
    predicted: list[list[int]] | NDArray[np.uint16],
    members: tuple[int, ...],
    *,
    variant: str = "prune-0.5",
    ids: tuple[str, ...] | None = None,
    paired_with: str = "",
) -> Predictions:
    array = np.asarray(predicted, dtype=np.uint16)
    ids = tuple(f"x{n}" for n in range(len(array))) if ids is None else ids
    return Predictions(variant, array, ids, members, CLASSES, paired_with)


def same(a: Predictions, b: Predictions) -> bool:
    np.testing.assert_array_equal(a.predicted, b.predicted)
    return (a.variant, a.example_ids, a.members, a.classes, a.paired_with) == (
        b.variant,
        b.example_ids,
        b.members,
        b.classes,
        b.paired_with,
    )


# --- the matrix and its file ----------------------------------------------------------------------


@pytest.mark.parametrize("members", [(0, 1, 2), (5, 7, 200)])
def test_what_is_written_is_read(tmp_path: Path, members: tuple[int, ...]) -> None:
    ids = ("b.png", "ä,\n.png")
    before = made([[0, 3, 1], [2, 0, 0]], members, ids=ids, paired_with="dense")
    before.write(tmp_path / "p.parquet")
    assert same(Predictions.read(tmp_path / "p.parquet"), before)


@given(
    predicted=nst.arrays(
        np.uint16, st.tuples(st.integers(0, 4), st.integers(1, 4)), elements={"max_value": 3}
    ),
    first=st.integers(0, 250),
)
def test_any_matrix_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, predicted: NDArray[np.uint16], first: int
) -> None:
    before = made(predicted, tuple(range(first, first + predicted.shape[1])))
    path = tmp_path_factory.getbasetemp() / "any.parquet"
    before.write(path)
    assert same(Predictions.read(path), before)


def test_the_file_is_parquet_that_anyone_can_read(tmp_path: Path) -> None:
    made([[0, 3], [2, 0]], (4, 9)).write(tmp_path / "p.parquet")
    table = pl.read_parquet(tmp_path / "p.parquet")
    assert table.schema == {"example_id": pl.String, "predicted": pl.Array(pl.UInt8, 2)}
    assert table["predicted"].to_list() == [[0, 3], [2, 0]]


def test_the_same_predictions_give_the_same_bytes(tmp_path: Path) -> None:
    for name in "ab":
        made([[0, 3], [2, 0]], (4, 9)).write(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_class_id_without_a_class_is_refused() -> None:
    with pytest.raises(DataError) as caught:
        made([[0, 3], [4, 0]], (0, 1))
    assert str(caught.value) == "predictions of prune-0.5 hold class id 4; ids go from 0 to 3"


@pytest.mark.parametrize(
    ("ids", "members"), [(("x0",), (0, 1, 2)), (("x0", "x1"), (0, 1)), (("x0", "x1"), (0,))]
)
def test_a_matrix_of_another_shape_is_refused(
    ids: tuple[str, ...], members: tuple[int, ...]
) -> None:
    with pytest.raises(DataError) as caught:
        made([[0, 3, 1], [2, 0, 0]], members, ids=ids)
    assert str(caught.value) == (
        f"predictions of prune-0.5 have shape (2, 3) for {len(ids)} examples and "
        f"{len(members)} members"
    )


def test_a_class_name_may_hold_a_line_break(tmp_path: Path) -> None:
    before = Predictions("dense", np.ones((1, 1), np.uint16), ("x",), (0,), ("a\nb", "c"))
    before.write(tmp_path / "p.parquet")
    assert same(Predictions.read(tmp_path / "p.parquet"), before)


# --- shards put together --------------------------------------------------------------------------


def test_members_of_shards_stand_in_the_order_of_their_numbers() -> None:
    # One digit a member, so that a column in the wrong place shows.
    late = made([[3, 1], [3, 1]], (7, 2), paired_with="dense")
    early = made([[0, 2], [0, 2]], (0, 5), paired_with="dense")
    gathered = Predictions.gather([late, early])
    assert gathered.members == (0, 2, 5, 7)
    assert gathered.predicted.tolist() == [[0, 1, 2, 3], [0, 1, 2, 3]]
    assert gathered.paired_with == "dense"
    assert all(type(member) is int for member in gathered.members)


@given(
    order=st.permutations(range(6)),
    cuts=st.lists(st.integers(1, 5), max_size=3, unique=True).map(sorted),
)
def test_how_members_were_dealt_out_makes_no_difference(order: list[int], cuts: list[int]) -> None:
    whole = made(np.arange(12, dtype=np.uint16).reshape(2, 6) % 4, tuple(range(6)))
    bounds = [0, *cuts, 6]
    parts = [
        made(whole.predicted[:, dealt], tuple(dealt))
        for dealt in (order[a:b] for a, b in pairwise(bounds))
    ]
    assert same(Predictions.gather(parts), whole)


def test_gathered_shards_can_be_written(tmp_path: Path) -> None:
    gathered = Predictions.gather([made([[0], [1]], (1,)), made([[2], [3]], (0,))])
    gathered.write(tmp_path / "p.parquet")
    assert same(Predictions.read(tmp_path / "p.parquet"), gathered)


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (made([[0], [1]], (1,), ids=("x1", "x0")), "'x0' and 'x1' in row 1"),
        (made([[0], [1]], (1,), ids=("x0", "y")), "'x1' and 'y' in row 2"),
        (made([[0]], (1,), ids=("x0",)), "'x1' and nothing in row 2"),
    ],
    ids=["another order", "another example", "fewer examples"],
)
def test_shards_of_different_examples_are_refused_and_the_first_is_named(
    other: Predictions, found: str
) -> None:
    with pytest.raises(DataError) as caught:
        Predictions.gather([made([[0], [1]], (0,)), other])
    assert str(caught.value) == (
        "shards of prune-0.5 must hold the same examples in the same order, got "
        f"{found}; run the predict step again"
    )


def test_shards_of_different_variants_are_refused() -> None:
    other = made([[0], [1]], (1,), variant="dense")
    with pytest.raises(DataError) as caught:
        Predictions.gather([made([[0], [1]], (0,)), other])
    assert str(caught.value) == (
        "shards of prune-0.5 must hold its members, got those of dense; run the predict step again"
    )


def test_an_example_that_stands_twice_is_named() -> None:
    with pytest.raises(DataError, match="hold example 'b' twice; ids must be unique"):
        Predictions("dense", np.zeros((3, 1), np.uint16), ("a", "b", "b"), (0,), ("x", "y"))


def test_a_member_that_stands_in_two_shards_is_refused() -> None:
    with pytest.raises(DataError, match="member"):
        Predictions.gather([made([[0], [1]], (3,)), made([[0], [2]], (3,))])


def test_shards_that_count_classes_differently_are_refused() -> None:
    other = Predictions("prune-0.5", np.zeros((1, 1), np.uint16), ("x0",), (1,), CLASSES[::-1])
    with pytest.raises(DataError):
        Predictions.gather([made([[0]], (0,)), other])


# --- label counts ---------------------------------------------------------------------------------


def slow_label_counts(predicted: NDArray[np.uint16], classes: int) -> list[list[int]]:
    """b[x, i]: how many members k say class i of example x."""
    b = [[0] * classes for _ in predicted]
    for x, row in enumerate(predicted):
        for k in range(len(row)):
            b[x][row[k]] += 1
    return b


@given(
    predicted=nst.arrays(
        st.sampled_from([np.uint8, np.uint16, np.int64]),
        st.tuples(st.integers(0, 6), st.integers(1, 9)),
        elements={"min_value": 0, "max_value": 6},
    ),
    spare=st.integers(0, 3),
)
def test_label_counts_are_those_of_counting_one_by_one(
    predicted: NDArray[np.uint16], spare: int
) -> None:
    counts = label_counts(predicted, 7 + spare)
    assert counts.tolist() == slow_label_counts(predicted, 7 + spare)
    assert counts.shape == (len(predicted), 7 + spare)
    assert (counts.sum(axis=1) == predicted.shape[1]).all()


def test_label_counts_do_not_overflow_where_class_ids_are_small_numbers() -> None:
    predicted = np.full((700, 2), 255, dtype=np.uint8)
    counts = label_counts(predicted, 256)
    assert (counts[:, 255] == 2).all()
    assert counts[:, :255].sum() == 0


@pytest.mark.parametrize("predicted", [[[3], [0]], [[0], [3]], [[-1], [0]]])
def test_a_class_id_out_of_range_is_refused_and_not_counted_for_another_example(
    predicted: list[list[int]],
) -> None:
    with pytest.raises(ValueError, match="class id"):
        label_counts(np.array(predicted), 3)


# --- files, a row group at a time -----------------------------------------------------------------


@pytest.mark.parametrize(("classes", "kind"), [(256, pl.UInt8), (257, pl.UInt16)])
def test_class_ids_take_one_byte_where_they_fit(
    tmp_path: Path, classes: int, kind: type[pl.DataType]
) -> None:
    last = np.full((2, 1), classes - 1, np.uint16)
    names = tuple(map(str, range(classes)))
    Predictions("dense", last, ("a", "b"), (0,), names).write(tmp_path / "p.parquet")
    assert pl.read_parquet_schema(tmp_path / "p.parquet")["predicted"] == pl.Array(kind, 1)
    found = Predictions.read(tmp_path / "p.parquet")
    assert found.predicted.tolist() == [[classes - 1], [classes - 1]]


def test_parts_are_written_as_they_come_and_counted_slice_by_slice(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    whole = rng.integers(0, 4, (1000, 3)).astype(np.uint8)
    five = rng.integers(0, 4, (1000, 3, 5)).astype(np.uint8)
    ids = [f"x{row:04}" for row in range(1000)]
    cuts = [0, 1, 400, 400, 999, 1000]  # an empty part among them
    every = Predictions(
        "dense", whole, tuple(ids), (0, 1, 2), CLASSES, runtimes=("torch",), top5=five
    )
    path = tmp_path / "p.parquet"
    write_predictions(path, (every.rows(slice(a, b)) for a, b in pairwise(cuts)))
    assert pl.read_parquet(path)["predicted_top5"][7].to_list() == five[7].ravel().tolist()
    np.testing.assert_array_equal(Predictions.read(path, top5=True).top5, five)
    read, none = Predictions.read(path), Predictions.read(path, rows=0)
    assert read.top5 is None
    for one in (read, none):
        assert (one.variant, one.members, one.runtimes) == ("dense", (0, 1, 2), ("torch",))
    assert none.predicted.shape == (0, 3)
    np.testing.assert_array_equal(read.predicted, whole)
    assert read.example_ids == tuple(ids)
    for rows in (1, 333, 5000):
        parts = list(Predictions.parts(path, rows, top5=True))
        assert [len(one.example_ids) for one in parts][:-1] == [rows] * (len(parts) - 1)
        assert [name for one in parts for name in one.example_ids] == ids
        np.testing.assert_array_equal(np.concatenate([one.predicted for one in parts]), whole)
        np.testing.assert_array_equal(np.concatenate([one.top5 for one in parts]), five)


def test_a_long_file_has_several_row_groups(tmp_path: Path) -> None:
    """What reads a slice reads its row groups: one for all would have to be read whole."""
    n = 2 * ROWS + 5
    parts = (
        Predictions(
            "v",
            np.full((min(ROWS, n - at), 1), at // ROWS, np.uint8),
            tuple(map(str, range(at, min(at + ROWS, n)))),
            (0,),
            ("a", "b", "c"),
        )
        for at in range(0, n, ROWS)
    )
    write_predictions(tmp_path / "p.parquet", parts)
    pyarrow = pytest.importorskip("pyarrow.parquet")
    groups = pyarrow.ParquetFile(tmp_path / "p.parquet").metadata
    assert [groups.row_group(k).num_rows for k in range(groups.num_row_groups)] == [ROWS, ROWS, 5]
    last = [part.example_ids[-1] for part in Predictions.parts(tmp_path / "p.parquet")]
    assert last == [str(ROWS - 1), str(2 * ROWS - 1), str(n - 1)]


@pytest.mark.parametrize(
    ("predicted", "scores", "sentence"),
    [
        ([[0, 4]], None, "predictions of v hold class id 4; ids go from 0 to 3"),
        ([[0, -1]], None, "predictions of v hold class id -1; ids go from 0 to 3"),
        ([[0]], None, "predictions of v have shape (1, 1) for 1 examples and 2 members"),
        ([[0, 1]], [[0.5]], "scores of v must have shape (1, 2), got shape (1, 1); keep one per "
         "prediction"),
        ([[0, 1]], [[0.5, 0.5]], "parts of v must be of the same members and classes and keep the "
         "same, got example_id, predicted, score of v; write each variant to a file of its own"),
    ],
)  # fmt: skip
def test_a_part_that_does_not_fit_is_refused(
    tmp_path: Path, predicted: list[list[int]], scores: list[list[float]] | None, sentence: str
) -> None:
    first = Predictions("v", np.array([[0, 1]]), ("a",), (0, 1), CLASSES)
    kept = None if scores is None else np.array(scores)
    with pytest.raises(DataError) as caught:
        write_predictions(
            tmp_path / "p",
            (replace(first, predicted=p, scores=s)
             for p, s in ((first.predicted, None), (np.array(predicted), kept))),
        )  # fmt: skip
    assert str(caught.value) == sentence


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        Predictions.read(tmp_path / "p")
    pl.DataFrame({"x": [1]}).write_parquet(tmp_path / "q")
    with pytest.raises(DataError, match=r"must hold predictions as Predictions\.write leaves"):
        Predictions.read(tmp_path / "q")


# --- scores ---------------------------------------------------------------------------------------


def test_scores_are_kept_in_half_precision(tmp_path: Path) -> None:
    scores = np.array([[0.25, 1.0, 0.3333], [0.5, 0.75, 0.125]], np.float16)
    before = Predictions(
        "dense", np.zeros((2, 3), np.uint8), ("a", "b"), (0, 1, 2), CLASSES, "", scores, ("ort",)
    )
    before.write(tmp_path / "p.parquet")
    assert pl.read_parquet_schema(tmp_path / "p.parquet")["score"] == pl.Array(pl.Float16, 3)
    after = Predictions.read(tmp_path / "p.parquet")
    assert after.scores is not None
    assert after.scores.dtype == np.float16
    np.testing.assert_array_equal(after.scores, scores)
    assert after.runtimes == ("ort",)


def test_gathered_scores_and_top5_follow_their_members() -> None:
    def part(member: int) -> Predictions:
        zeros, score = np.zeros((1, 1), np.uint8), np.full((1, 1), member, np.float16)
        top5 = np.full((1, 1, 5), member, np.uint8)
        return Predictions("v", zeros, ("a",), (member,), CLASSES, "", score, top5=top5)

    gathered = Predictions.gather([part(2), part(0)])
    assert gathered.scores is not None
    assert gathered.scores.tolist() == [[0, 2]]
    assert gathered.top5 is not None
    assert gathered.top5.tolist() == [[[0] * 5, [2] * 5]]
    bare = Predictions("v", np.zeros((1, 1), np.uint8), ("a",), (1,), CLASSES)
    mixed = Predictions.gather([part(2), bare])
    assert mixed.scores is mixed.top5 is None  # not of every member


def test_a_pattern_matches_what_its_wildcards_can_stand_for() -> None:
    """Compared with an expression that tries everything."""
    random, tokens = Random(0), ["a", "b", "-", "/", "*", "*", "{variant}", "{model}"]
    matched = 0
    for _ in range(4000):
        pattern = [random.choice(tokens) for _ in range(random.randint(1, 8))]
        if max(map(pattern.count, ("{variant}", "{model}"))) > 1:
            continue
        name = "".join(random.choice("ab-/") for _ in range(random.randint(1, 9)))
        each = {"*": "[^/]*", "{variant}": "[^/]+", "{model}": "[^/]+"}
        every = re.fullmatch("".join(each.get(token, token) for token in pattern), name)
        ours = re.fullmatch(_expression("".join(pattern)), name)
        assert (ours is None) == (every is None), (pattern, name)
        matched += ours is not None
    assert matched > 100


@pytest.mark.parametrize("pattern", [12 * "*a" + "*.csv", 12 * "{model}*a" + "{variant}.csv"])
def test_a_pattern_of_many_wildcards_is_matched_at_once(pattern: str) -> None:
    began = time.process_time()
    assert re.fullmatch(_expression(pattern), 250 * "a" + ".cs") is None
    assert time.process_time() - began < 1
