"""Examples are paired by what they are, and never by where they stand."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scotoma.errors import DataError
from scotoma.readers.pairing import pair
from scotoma.readers.record import COLUMNS, EvaluationLog


def log(
    rows: list[dict[str, Any]], folder: Path | None = None, model: str = "bf16", **settings: str
) -> EvaluationLog:
    """A log of a few rows; of each only what matters is given."""
    usual = [
        {
            "example_id": str(n),
            "rerun": 0,
            "content_hash": f"c{row.get('example_id', n)}",
            "prompt_hash": 1,
            "target_hash": 2,
            "row": n,
        }
        for n, row in enumerate(rows)
    ]
    table = [one | row for one, row in zip(usual, rows, strict=True)]
    examples = pl.DataFrame(
        {name: [row.get(name) for row in table] for name in COLUMNS}, schema=COLUMNS
    )
    texts = ()
    if folder is not None:
        texts = (folder / f"{model}.parquet",)
        pl.DataFrame(
            [{"row": n, "prompt": r.get("prompt"), "answer": None, "text": None,
              "target": r.get("target")} for n, r in enumerate(rows)],
            schema={"row": pl.Int64, "prompt": pl.String, "answer": pl.String,
                    "text": pl.String, "target": pl.String},
        ).write_parquet(texts[0])  # fmt: skip
    return EvaluationLog(model, "sums", "lm-eval", (), settings, examples, (), texts=texts)


def ids(count: int) -> list[dict[str, Any]]:
    return [{"example_id": str(n)} for n in range(count)]


@given(st.lists(st.integers(0, 50), unique=True, min_size=1), st.randoms(use_true_random=False))
def test_the_order_of_a_log_plays_no_part(numbers: list[int], shuffled: random.Random) -> None:
    rows = [{"example_id": str(n)} for n in numbers]
    other = rows.copy()
    shuffled.shuffle(other)
    pairs = pair(log(rows), log(other))
    assert pairs.examples == len(rows)
    assert pairs.baseline["example_id"].to_list() == [row["example_id"] for row in rows]
    for column in ("pair", "example_id", "content_hash"):
        assert pairs.compressed[column].to_list() == pairs.baseline[column].to_list()


def test_content_is_stronger_than_an_id() -> None:
    """A data set that was shuffled before ids were given: position and id both mislead."""
    one = log([{"example_id": str(n), "content_hash": f"c{n}"} for n in range(9)])
    other = log([{"example_id": str(n), "content_hash": f"c{8 - n}"} for n in range(9)])
    pairs = pair(one, other)
    assert pairs.key == "content_hash"
    assert pairs.compressed["example_id"].to_list() == list("876543210")
    assert pairs.compressed["content_hash"].to_list() == pairs.baseline["content_hash"].to_list()


def test_contents_of_one_id_may_not_differ_where_ids_pair() -> None:
    """One example has no content in one log, so ids pair; the others still must be the same."""
    rows, other = ids(4), ids(4)
    rows[0]["content_hash"] = None
    other[2]["content_hash"] = "other"
    with pytest.raises(DataError, match=r"1 of 4 examples with the same id differ in content"):
        pair(log(rows), log(other))
    pairs = pair(log(rows), log(other), allow_different_prompts=True)
    assert (pairs.key, pairs.examples, len(pairs.differences)) == ("example_id", 4, 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/data/val/{}.jpg", "/mnt/imagenet/val/{}.jpg"),
        ("val/{}.jpg", "{}.jpg"),
        ("C:\\val\\{}.jpg", "val/{}.jpg"),
        ("caf\u00e9-{}.jpg", "cafe\u0301-{}.jpg"),  # macOS writes the accent apart
    ],
)
def test_paths_in_other_folders_are_paired_by_the_names_of_files(one: str, other: str) -> None:
    sides = [
        log([{"example_id": path.format(n), "content_hash": None} for n in order])
        for path, order in ((one, range(9)), (other, range(8, -1, -1)))
    ]
    pairs = pair(*sides)
    assert pairs.examples == 9
    assert pairs.compressed["example_id"].to_list() == [other.format(n) for n in range(9)]
    assert pairs.notes == ("sums: ids are paired by the names of files in them.",)


def test_names_of_files_that_repeat_pair_nothing() -> None:
    sides = [
        log([{"example_id": f"{top}/{n}/x.jpg", "content_hash": None} for n in range(9)])
        for top in "ab"
    ]
    with pytest.raises(DataError, match="have no example in common"):
        pair(*sides)


def test_ids_pair_where_an_example_has_no_content_hash() -> None:
    rows = ids(3)
    rows[1]["content_hash"] = None
    pairs = pair(log(rows), log(ids(3)[::-1]))
    assert (pairs.key, pairs.compressed["example_id"].to_list()) == ("example_id", list("012"))


def test_examples_of_equal_content_are_told_apart_by_their_ids() -> None:
    rows = [{"example_id": str(n), "content_hash": "same" if n < 3 else f"c{n}"} for n in range(5)]
    pairs = pair(log(rows), log(rows[::-1]))
    assert pairs.examples == 5
    assert pairs.compressed["example_id"].to_list() == list("01234")


def test_reruns_stand_together_and_may_differ_in_number() -> None:
    one = log([{"example_id": str(n % 2), "rerun": n // 2} for n in range(6)])
    pairs = pair(one, log(ids(2)))
    assert pairs.baseline["pair"].to_list() == [0, 0, 0, 1, 1, 1]
    assert pairs.baseline["rerun"].to_list() == [0, 1, 2, 0, 1, 2]
    assert (pairs.examples, pairs.compressed["pair"].to_list()) == (2, [0, 1])


def test_different_prompts_are_refused_by_the_first_and_their_number(tmp_path: Path) -> None:
    shared = "Answer with a number. " * 3
    rows = [{"example_id": str(n), "prompt": f"{shared}Q{n}?"} for n in range(9)]
    other = [dict(row) for row in rows]
    for n in (4, 7):
        other[n] |= {"prompt": f"{shared}Question {n}?", "prompt_hash": 3}
    one, two = log(rows, tmp_path), log(other, tmp_path, "w4a16")
    with pytest.raises(DataError) as refused:
        pair(one, two)
    assert str(refused.value) == (
        "bf16 and w4a16 of task sums must have been asked the same questions, but 2 of 9 prompts "
        "differ, the first of example '4' ('...wer with a number. Q4?' against '...wer with a "
        "number. Question 4?'); evaluate both alike, or pass --allow-different-prompts"
    )
    pairs = pair(one, two, allow_different_prompts=True)
    assert pairs.examples == 9
    assert pairs.differences[0].startswith("2 of 9 prompts differ, the first of example '4'")


def test_different_targets_are_refused(tmp_path: Path) -> None:
    rows = [{"example_id": str(n), "target": "1"} for n in range(3)]
    other = [*rows[:2], rows[2] | {"target": "2", "target_hash": 3}]
    with pytest.raises(DataError, match=r"1 of 3 targets differ, .* '2' \('1' against '2'\)"):
        pair(log(rows, tmp_path), log(other, tmp_path, "w4a16"))


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [("few_shot", "0", "5"), ("filter", "strict", "flexible"), ("limit", "none", "100")],
)
def test_different_settings_are_refused(name: str, one: str, other: str) -> None:
    ours, theirs = log(ids(3), **{name: one}), log(ids(3), **{name: other}, solver="x")
    with pytest.raises(DataError, match=f"but {name} is {one} in one and {other} in the other;"):
        pair(ours, theirs)
    allowed = pair(ours, theirs, allow_different_prompts=True)
    assert allowed.differences == (
        f"{name[0].upper()}{name[1:]} is {one} in one and {other} in the other.",
    )


def test_several_differences_are_counted() -> None:
    ours, theirs = log(ids(3), few_shot="0", limit="3"), log(ids(3), few_shot="5", limit="4")
    with pytest.raises(DataError, match=r"few_shot is 0 .* other \(1 more differences\); evaluate"):
        pair(ours, theirs)


def test_content_that_changed_under_the_same_ids_is_refused() -> None:
    other = [row | {"content_hash": f"new{row['example_id']}"} for row in ids(50)]
    other[0]["content_hash"] = "c0"
    with pytest.raises(DataError, match="49 of 50 examples with the same id differ in content, "):
        pair(log(ids(50)), log(other))
    pairs = pair(log(ids(50)), log(other), allow_different_prompts=True)
    assert (pairs.key, pairs.examples) == ("example_id", 50)


def test_one_sided_examples_are_named_and_refused_above_one_percent() -> None:
    pairs = pair(log(ids(200)), log(ids(198)))
    assert pairs.only_baseline == ("198", "199")  # exactly 1%
    assert pairs.examples == pairs.compressed.height == 198
    with pytest.raises(DataError) as refused:
        pair(log(ids(200)), log(ids(197)))
    assert str(refused.value) == (
        "bf16 and bf16 of task sums must have answered the same examples, but 3 of 200 are in one "
        "log only: 3 only in bf16 ('197', '198', '199'); evaluate both on the same data, or pass "
        "--allow-missing"
    )
    assert pair(log(ids(200)), log(ids(10)), allow_missing=True).examples == 10


def test_nothing_in_common_is_refused_whatever_is_allowed() -> None:
    other = log([{"example_id": "x"}])
    with pytest.raises(DataError, match="no example in common: the first are '0' and 'x'"):
        pair(log(ids(2)), other, allow_missing=True, allow_different_prompts=True)
