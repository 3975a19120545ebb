"""The groups that values of an attribute form."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from scotoma.answers.groups import GroupColumn, group_values, parse_group
from scotoma.errors import ConfigError, DataError
from scotoma.sources.onnx import OnnxSource


def grouped(values: list[str | None], **rule: object) -> tuple[list[str | None], tuple[str, ...]]:
    column = pl.Series(values, dtype=pl.String)
    every = pl.repeat(True, len(values), eager=True)
    made = group_values(column, GroupColumn.model_validate({"column": "x", **rule}), every, "'x'")
    return made.values.to_list(), made.notes


@pytest.mark.parametrize("whole", [True, False])
def test_bins_hold_what_pandas_cuts(whole: bool) -> None:
    random = np.random.default_rng(1)
    numbers = random.integers(0, 90, 500) if whole else random.normal(size=500)
    edges = [18, 40, 65] if whole else [-0.5, 0.25]
    expected = pd.cut(numbers, [-np.inf, *edges, np.inf], right=False).codes
    names, notes = grouped([str(number) for number in numbers], bins=edges)
    assert not notes
    of_code = {code: {n for n, c in zip(names, expected, strict=True) if c == code}
               for code in set(expected)}  # fmt: skip
    assert all(len(one) == 1 for one in of_code.values())
    assert len(set(names)) == len(edges) + 1


def test_quantiles_make_groups_of_about_equal_size_and_ties_stay_together() -> None:
    numbers = np.random.default_rng(2).normal(size=1000)
    names, _ = grouped([str(number) for number in numbers], bins=5)
    assert {names.count(name) for name in set(names)} <= set(range(190, 211))
    ties, _ = grouped(["0"] * 90 + ["1"] * 6 + ["7"] * 4, bins=4)
    assert ties == ["under 1"] * 90 + ["1 or more"] * 10


def test_many_numbers_and_many_dates_are_put_together_unasked_and_a_note_says_so() -> None:
    ages = [str(age) for age in range(18, 91)] + [None]
    names, notes = grouped(ages)
    assert len(set(names)) == 5
    assert names[-1] is None
    assert notes == (
        "attribute 'x' holds 73 numbers, so its groups are bins of about equal size (under 36, "
        "36 to 53, 54 to 71, 72 or more); choose other bins, or each value",
    )
    days = [f"2026-{month:02d}-{day:02d}T08:00" for month in (1, 2) for day in range(1, 15)]
    names, notes = grouped(days)
    assert set(names) == {"2026-01", "2026-02"}
    assert notes == (
        "attribute 'x' holds 28 dates, so its groups are their months; choose another period",
    )
    assert grouped(ages, bins="each") == (ages, ())
    assert grouped(ages[:20]) == (ages[:20], ())
    assert grouped([*ages, "unknown"])[0][0] == "18"


def test_rare_values_go_together_and_are_named() -> None:
    names, notes = grouped(["a"] * 5 + ["b", "c", "c"], rare_below=3)
    assert names == ["a"] * 5 + ["(other)"] * 3
    assert notes == (
        "attribute 'x': 'b', 'c' have fewer than 3 test examples and are in the group (other)",
    )


@pytest.mark.parametrize(
    ("values", "rule", "message"),
    [
        (
            ["1", "old"],
            {"bins": 2},
            "attribute 'x' must hold numbers for bins, got 'old'; correct or empty it, or leave "
            "bins out",
        ),
        (
            ["2026-02-30"],
            {"period": "year"},
            "attribute 'x' must hold dates as YYYY-MM-DD for period, got '2026-02-30'; write it "
            "so, or leave period out",
        ),
        (
            ["male", "female"],
            {"names": {"Male": "men"}},
            "names of attribute 'x' has 'Male', which no row holds; they hold female, male; did "
            "you mean 'male'?",
        ),
    ],
)
def test_values_that_a_rule_does_not_fit_are_refused(
    values: list[str | None], rule: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError) as refused:
        grouped(values, **rule)
    assert str(refused.value) == message


def test_options_name_a_column_and_its_groups() -> None:
    known = ["age", "day", "a:4"]
    assert parse_group("a:4", known) == GroupColumn(column="a:4")
    assert parse_group("age:4", known) == GroupColumn(column="age", bins=4)
    assert parse_group("age:40", known) == GroupColumn(column="age", bins=[40])
    assert parse_group("age:each", known) == GroupColumn(column="age", bins="each")
    assert parse_group("day:month", known) == GroupColumn(column="day", period="month")
    with pytest.raises(ConfigError) as refused:
        parse_group("age:40,18", known)
    assert str(refused.value) == (
        "--group 'age:40,18' must be COLUMN, or COLUMN: and then a number of groups (4, up to "
        "20), the rising numbers they begin at (18,40,65), each, year or month"
    )


# --- the class that each score of an external model stands for ------------------------------------


def order(
    labels: list[str],
    home: Path,
    id2label: list[str] | None = None,
    classes: list[str] | None = None,
    names: list[str] | None = None,
) -> tuple[list[str], str]:
    """The order, and the note on it."""
    folder = home / "models" / "dense"
    folder.mkdir(parents=True)
    if id2label:
        named = {"id2label": {str(place): name for place, name in enumerate(id2label)}}
        (folder / "config.json").write_text(json.dumps(named))
    source = OnnxSource(
        kind="onnx", models=str(home / "models"), images="x", attributes="x", classes=classes or []
    )
    ids = names or [f"{place}.png" for place in range(len(labels))]
    table = pl.DataFrame({"example_id": ids, "label": labels})
    found, note = source.class_order(table, "table.csv")
    return list(found), note.sentence


@pytest.mark.parametrize(
    ("labels", "id2label", "classes", "expected", "told"),
    [
        (["cat", "dog"], None, None, ["cat", "dog"], "(the labels as text, as ImageFolder sorts"),
        (["c10", "c9", "B"], None, None, ["B", "c10", "c9"], "as ImageFolder sorts them)"),
        (["10", "9", "0"], None, None, ["0", "9", "10"], "(the labels by value)"),
        (["cat", "dog"], ["dog", "cat"], None, ["dog", "cat"], "(id2label in config.json beside"),
        (["cat"], ["bird", "Cat"], None, ["bird", "cat"], "(id2label in config.json"),
        (["0", "1"], ["dog", "cat", "b"], None, ["0", "1", "2"], "(id2label in config.json"),
        (["cat", "dog"], ["LABEL_0", "LABEL_1"], None, ["cat", "dog"],
         "ImageFolder sorts them; id2label in config.json names none of them)"),
        (["cat", "dog"], None, ["dog", "x", "cat"], ["dog", "x", "cat"], "(source.classes)"),
        (["cat", "dog"], ["dog", "cat"], ["cat", "dog"], ["cat", "dog"],
         "(source.classes; id2label in config.json says dog, cat)"),
        (["cat", "dog"], ["dog", "cat"], ["dog", "cat"], ["dog", "cat"], "(source.classes)"),
    ],
)  # fmt: skip
def test_the_order_of_scores(
    labels: list[str],
    id2label: list[str] | None,
    classes: list[str] | None,
    expected: list[str],
    told: str,
    tmp_path: Path,
) -> None:
    found, sentence = order(labels, tmp_path, id2label, classes)
    assert found == expected
    assert sentence.startswith("the models' scores are read in the order ")
    assert sentence.endswith(told) or told in sentence


def test_numbers_that_name_folders_are_sorted_as_text(tmp_path: Path) -> None:
    labels = ["0", "2", "10"]
    names = [f"test/{label}/a.png" for label in labels]
    assert order(labels, tmp_path, names=names)[0] == sorted(labels)


@pytest.mark.parametrize(
    ("labels", "id2label", "classes", "sentence"),
    [
        (["cat", "dgo"], None, ["cat", "dog"],
         "label 'dgo' of table.csv must be in source.classes, which lists cat, dog; did you mean"),
        (["cat", "emu"], ["dog", "cat"], None,
         "label 'emu' of table.csv must be one class of id2label in config.json, which lists dog, "
         "cat; correct it, or list all classes in source.classes"),
        (["crane", "dog"], ["crane", "dog", "crane"], None,
         "label 'crane' of table.csv must be one"),
    ],
)  # fmt: skip
def test_a_label_that_no_score_stands_for_is_refused(
    labels: list[str],
    id2label: list[str] | None,
    classes: list[str] | None,
    sentence: str,
    tmp_path: Path,
) -> None:
    with pytest.raises(DataError) as refused:
        order(labels, tmp_path, id2label, classes)
    assert str(refused.value).startswith(sentence)
