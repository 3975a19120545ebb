from __future__ import annotations

import io
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from scotoma.answers.group_keys import group_key
from scotoma.config import Config, parse_config
from scotoma.datasets import AuditedExamples
from scotoma.datasets.select_examples import examples_from_source
from scotoma.errors import DataError

CONFIG = """\
label: {column: face}
groups:
  sex: {column: male, names: {1: male, 0: female}}
  age: {column: young}
cluster: {column: person}
variants: [dense, {prune: [0.5]}]
"""
ROWS = {
    #             train               test
    "example_id": ["a", "b", "c", "d", "e", "f"],
    "split": ["train", "train", "train", "test", "test", "test"],
    "face": ["10", "9", "10", "9", "10", "9"],
    "male": [1, 0, 1, 1, 0, 1],
    "young": ["yes", "no", None, "no", None, "yes"],
    "person": ["p", "q", "p", "r", "s", "r"],
}


def png(size: tuple[int, int] = (4, 3), colour: tuple[int, int, int] = (1, 2, 3)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, "PNG")
    return buffer.getvalue()


def source(**columns: list[Any] | None) -> pl.DataFrame:
    """ROWS with some columns replaced, or left out where None."""
    table = {key: value for key, value in (ROWS | columns).items() if value is not None}
    images = [{"bytes": png(), "path": f"{n}.png"} for n in range(6)]
    return pl.DataFrame(table | {"image": images})


def config(text: str = CONFIG, **update: str) -> Config:
    for old, new in update.items():
        assert old in text
        text = text.replace(old, new)
    return parse_config(text, "audit.yaml")


def made(text: str = CONFIG, **columns: list[Any] | pl.Series | None) -> AuditedExamples:
    return examples_from_source(source(**columns), config(text), "table.csv")


def refused(text: str = CONFIG, **columns: list[Any] | pl.Series | None) -> str:
    with pytest.raises(DataError) as caught:
        made(text, **columns)
    assert caught.value.exit_code == 4
    return str(caught.value)


# --- what is taken out of a source ----------------------------------------------------------------


def test_label_attributes_and_cluster_are_taken_by_their_columns() -> None:
    examples = made()
    assert examples.table.columns == [
        "example_id",
        "split",
        "label",
        "sex",
        "age",
        "cluster",
        "image",
    ]
    assert examples.attributes == ("sex", "age")
    assert examples.table["sex"].to_list() == ["male", "female", "male", "male", "female", "male"]
    assert examples.table["cluster"].to_list() == ROWS["person"]


def test_classes_that_are_numbers_stand_in_the_order_of_their_size() -> None:
    examples = made()
    assert examples.classes == ("9", "10")
    assert examples.labels.tolist() == [1, 0, 1, 0, 1, 0]
    assert examples.labels.dtype == np.int64


def test_classes_that_are_words_stand_in_the_order_of_the_alphabet_after_numbers() -> None:
    examples = made(face=["no", "2", "yes", "no", "2", "yes"])
    assert examples.classes == ("2", "no", "yes")


def test_a_missing_value_of_an_attribute_becomes_a_group_of_its_own() -> None:
    examples = made()
    assert examples.table["age"].to_list() == ["yes", "no", "(missing)", "no", "(missing)", "yes"]
    partition = examples.partition()
    assert "age=(missing)" in partition.keys
    assert partition.mask("age=(missing)").tolist() == [False, False, True, False, True, False]


def test_a_split_holds_its_rows_in_their_order() -> None:
    test = made(split=["test", "test", "train", "train", "train", "test"]).split("test")
    assert test.ids == ["a", "b", "f"]
    assert made().split("test").classes == ("9", "10")


def test_single_examples_are_read_in_the_order_asked(tmp_path: Path) -> None:
    (examples := made()).write(path := tmp_path / "examples.parquet")
    read = AuditedExamples.read(path, only=["e", "a", "c"])
    assert read.ids == ["e", "a", "c"]
    assert read.table.equals(examples.table[[4, 0, 2]])
    assert AuditedExamples.read(path, only=[]).ids == []


def test_rows_of_one_source_share_a_cluster() -> None:
    clusters = made().clusters
    assert clusters is not None
    p, q, r, s = clusters[[0, 1, 3, 4]]
    assert clusters.tolist() == [p, q, p, r, s, r]
    assert sorted({p, q, r, s}) == [0, 1, 2, 3]


def test_without_a_cluster_column_every_row_is_its_own() -> None:
    assert made(CONFIG.replace("cluster: {column: person}\n", "")).clusters is None


# --- values and notes -----------------------------------------------------------------------------


def test_whole_numbers_that_became_fractions_because_one_is_missing_stay_whole() -> None:
    examples = made(male=[1.0, 0.0, None, 1.0, 0.0, float("nan")], face=[10.0, 9.0] * 3)
    assert examples.table["sex"].to_list() == [
        "male",
        "female",
        "(missing)",
        "male",
        "female",
        "(missing)",
    ]
    assert examples.classes == ("9", "10")


def test_fractions_stay_fractions() -> None:
    assert made(young=[0.5, 1, 1, 0.5, 1, 1]).table["age"].to_list() == [
        *("0.5", "1.0", "1.0"),
        *("0.5", "1.0", "1.0"),
    ]


@pytest.mark.parametrize("nothing", [None, "", "  "])
def test_missing_values_of_an_attribute_are_counted_in_a_note(nothing: str | None) -> None:
    """10% of 10,000 test rows, and some of training, which the note leaves to the table of groups.

    The sentence is that of the issue: the group is kept, and said.
    """
    n = 10_000
    young = [nothing if i % 10 == 3 else ("yes", "no")[i % 2] for i in range(n)]
    table = pl.DataFrame(
        {
            "example_id": [f"{i}" for i in range(2 * n)],
            "split": ["train"] * n + ["test"] * n,
            "face": ["9", "10"] * n,
            "young": young * 2,
        }
    )
    text = (
        "label: {column: face}\ngroups: {age: {column: young}}\nvariants: [dense, {prune: [0.5]}]"
    )
    examples = examples_from_source(table, config(text), "table.csv", ["what the source said"])
    assert examples.notes == (
        "what the source said",
        "attribute 'age' is missing in 1,000 of 10,000 test rows (10.0%); they form the group "
        "'(missing)'; fill them, or keep the group",
    )
    assert examples.split("test").notes == examples.notes
    assert examples.partition().mask("age=(missing)").sum() == 2 * n / 10


def test_values_that_only_training_lacks_are_noted_too() -> None:
    (note,) = made(young=["yes", "no", None, "no", "yes", "yes"]).notes
    assert note.startswith("attribute 'age' is missing in 1 of 3 training rows (33.3%); ")


def test_classes_without_test_row_are_noted() -> None:
    notes = made(face=["8", "9", "10", "9", "10", "9"]).notes
    assert notes[0] == (
        "1 of 3 classes has no row in the test split (the first is '8'); nothing can be said about "
        "it"
    )


def test_data_without_fault_have_no_note() -> None:
    assert made(young=["yes", "no"] * 3).notes == ()


# --- groups ---------------------------------------------------------------------------------------

CROSSED = CONFIG.replace("{column: young}", "{column: young}\n  intersections: [[sex, age]]")
UNNAMED = CONFIG.replace(", names: {1: male, 0: female}", "")


def test_groups_are_all_then_every_value_then_every_intersection() -> None:
    partition = made(CROSSED).partition()
    assert partition.keys == (
        "all",
        "sex=female",
        "sex=male",
        "age=(missing)",
        "age=no",
        "age=yes",
        "sex=female,age=(missing)",
        "sex=female,age=no",
        "sex=female,age=yes",
        "sex=male,age=(missing)",
        "sex=male,age=no",
        "sex=male,age=yes",
    )
    assert partition.names[1:4] == ("female", "male", "age (missing)")
    assert partition.names[-1] == "male & age yes"
    assert partition.masks.shape == (12, 6)
    assert partition.mask("sex=male,age=yes").tolist() == [True, *[False] * 4, True]


def test_a_value_that_two_attributes_share_is_named_with_its_attribute() -> None:
    partition = made(UNNAMED, male=["yes", "no", "yes", "yes", "no", "yes"]).partition()
    assert partition.names == (
        "all",
        "sex no",
        "sex yes",
        "age (missing)",
        "age no",
        "age yes",
    )


def test_an_attribute_value_called_all_does_not_hide_all_examples() -> None:
    partition = made(UNNAMED, male=["all", "some", "all", "all", "some", "all"]).partition()
    assert partition.mask("all").all()
    assert len(set(partition.keys)) == len(partition.keys)
    assert len(set(partition.names)) == len(partition.names)


@given(
    groups=st.sets(
        st.dictionaries(st.text("ab=,\\", min_size=1), st.text("ab=,\\")).map(
            lambda group: tuple(sorted(group.items()))
        ),
        min_size=2,
    )
)
@example(groups={(("a", "b,c=d"),), (("a", "b"), ("c", "d"))})
@example(groups={(("a=b", "c"),), (("a", "b=c"),)})
@example(groups={(("a\\", "b"),), (("a", "\\b"),)})
@example(groups={(("a", "\\"), ("b", "c")), (("a", ",b=c"),)})
def test_two_groups_never_share_a_key(groups: set[tuple[tuple[str, str], ...]]) -> None:
    assert len({group_key(group) for group in groups}) == len(groups)


values = st.sampled_from(["a", "b", "c", "(missing)", "a & b", "é", "a,y=b", ">=1", "\\"])
tables = st.integers(1, 8).flatmap(
    lambda n: st.fixed_dictionaries(
        {name: st.lists(values, min_size=n, max_size=n) for name in ("x", "y", "z")}
    )
)


@settings(max_examples=30)
@given(table=tables, crossed=st.sampled_from([(), (("x", "y"),), (("z", "x", "y"), ("y", "z"))]))
def test_masks_are_those_of_asking_every_row(
    table: dict[str, list[str]], crossed: tuple[tuple[str, ...], ...]
) -> None:
    partition = AuditedExamples(
        pl.DataFrame(table), ("0", "1"), ("x", "y", "z"), crossed
    ).partition()
    # Slow twin: one group, one row at a time, from the definition.
    n = len(table["x"])
    groups = [("all", [True] * n)]
    for attributes in [("x",), ("y",), ("z",), *crossed]:
        for cell in product(*(sorted(set(table[a])) for a in attributes)):
            pairs = list(zip(attributes, cell, strict=True))
            groups.append(
                (
                    ",".join(f"{a}={escaped(v)}" for a, v in pairs),
                    [all(table[a][row] == v for a, v in pairs) for row in range(n)],
                )
            )
    assert list(partition.keys) == [key for key, _ in groups]
    assert partition.masks.tolist() == [mask for _, mask in groups]
    assert partition.masks.dtype == bool
    # Values of one attribute cut the examples into parts; so do their intersections.
    for attributes in [("x",), ("y",), ("z",), *crossed]:
        rows = [
            partition.masks[g]
            for g, key in enumerate(partition.keys)
            if _attributes_of(key, table) == attributes
        ]
        assert np.sum(rows, axis=0).tolist() == [1] * n


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,")


def _attributes_of(key: str, table: dict[str, list[str]]) -> tuple[str, ...] | None:
    """The attributes whose values cross in a group, found by trying all of them."""
    for attributes in [("x",), ("y",), ("z",), ("x", "y"), ("y", "z"), ("z", "x", "y")]:
        for cell in product(*(sorted(set(table[a])) for a in attributes)):
            pairs = zip(attributes, cell, strict=True)
            if key == ",".join(f"{a}={escaped(v)}" for a, v in pairs):
                return attributes
    return None


# --- the file -------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [CONFIG, CROSSED, "label: {column: face}\n" + CONFIG[-34:]])
def test_what_is_written_is_read(tmp_path: Path, text: str) -> None:
    before = made(text)
    before.write(tmp_path / "examples.parquet")
    after = AuditedExamples.read(tmp_path / "examples.parquet")
    assert after.table.equals(before.table)
    assert (after.classes, after.attributes, after.intersections, after.notes) == (
        before.classes,
        before.attributes,
        before.intersections,
        before.notes,
    )


def test_images_may_be_left_on_the_disk(tmp_path: Path) -> None:
    before = made(CROSSED)
    before.write(tmp_path / "examples.parquet")
    after = AuditedExamples.read(tmp_path / "examples.parquet", images=False)
    assert after.table.equals(before.table.drop("image"))
    assert after.partition().keys == before.partition().keys
    assert after.notes == before.notes


def test_classes_and_attributes_with_awkward_names_are_read_as_written(tmp_path: Path) -> None:
    text = CROSSED.replace("face", "the face").replace("  age:", '  "a\\tg\\ne":')
    text = text.replace("[sex, age]", '[sex, "a\\tg\\ne"]')
    before = examples_from_source(source().rename({"face": "the face"}), config(text), "table.csv")
    before = AuditedExamples(
        before.table.with_columns(pl.col("label").replace({"9": "nine\n9"})),
        ("nine\n9", "10"),
        before.attributes,
        before.intersections,
    )
    before.write(tmp_path / "examples.parquet")
    after = AuditedExamples.read(tmp_path / "examples.parquet")
    assert after.classes == before.classes
    assert after.attributes == before.attributes
    assert after.intersections == before.intersections


def test_the_same_examples_give_the_same_bytes(tmp_path: Path) -> None:
    for name in "ab":
        made(CROSSED).write(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


# --- tables that cannot be audited, and the sentence that says so ---------------------------------

# What replaces a part of CONFIG, what replaces columns of ROWS, and the sentence.
REFUSED: list[tuple[dict[str, str], dict[str, Any], str]] = [
    ({}, {"face": None},
     "label column 'face' is not in table.csv; it has male, person, young; name one of them"),
    ({}, {"male": None},
     "groups.sex column 'male' is not in table.csv; it has face, person, young; name one of them"),
    ({}, {"person": None},
     "cluster column 'person' is not in table.csv; it has face, male, young; name one of them"),
    ({"column: male": "column: Male"}, {},
     "groups.sex column 'Male' is not in table.csv; it has face, male, person, young; did you mean "
     "'male'?"),
    ({}, {"male": [1, 0, 1, 1, 1, 1]},
     "attribute 'sex' has one value, 'male', in the test split of table.csv; a comparison of "
     "groups needs two, so remove it or choose another column"),
    ({}, {"young": [None] * 6},
     "attribute 'age' has one value, '(missing)', in the test split of table.csv; a comparison of "
     "groups needs two, so remove it or choose another column"),
    ({"{1: male, 0: female}": "{1: person, 0: person}"}, {},
     "attribute 'sex' has one value, 'person', in the test split of table.csv; a comparison of "
     "groups needs two, so remove it or choose another column"),
    ({}, {"example_id": ["a", "b", "c", "d", "b", "f"]},
     "example id 'b' stands in table.csv twice; ids must be unique"),
    ({}, {"face": [None] * 6},
     "label column 'face' is empty in 6 of 6 rows of table.csv, the first is 'a'; fill or remove "
     "them"),
    ({}, {"split": ["train"] * 6},
     "the test split of table.csv holds no row; check source.split"),
    ({}, {"split": ["test"] * 6},
     "the train split of table.csv holds no row; check source.split"),
    ({}, {"face": ["9"] * 6},
     "label column 'face' has one value, '9', in the train split of table.csv; a classifier needs "
     "two"),
    ({}, {"face": ["10", "9", "10", "9", "10", "8"]},
     "label '8' is in the test split of table.csv but never in training; move or remove its rows"),
    ({"column: face": "column: face, positive: 11"}, {},
     "label.positive is 11, but column 'face' holds 9, 10"),
    ({"column: face": "column: face, positive: 8"}, {"face": ["8", "9", "10", "9", "10", "9"]},
     "label.positive 8 has no row in the test split of table.csv, so its rates cannot be measured; "
     "move some rows there"),
    ({"label:": "advantaged: {sex: mal}\nlabel:"}, {},
     "advantaged.sex is 'mal', but the test split of table.csv holds female, male; did you mean "
     "'male'?"),
    *(({"  age:": f"  {name}:"}, {}, f"groups.{name} has a reserved name; rename the attribute")
      for name in ("example_id", "split", "label", "cluster", "image")),
    ({"label:": "clarify: {features: [aeg]}\nlabel:"}, {"age": list(range(6))},
     "clarify.features column 'aeg' is not in table.csv; it has age, face, male, person, young; "
     "did you mean 'age'?"),
    ({"label:": "clarify: {features: [male, young]}\nlabel:"}, {},
     "clarify.features column 'young' of table.csv must hold a finite number for every test "
     "example, got 'no' in the row of 'd'; correct it, or name another column"),
    ({"label:": "clarify: {features: [age]}\nlabel:"}, {"age": [0.0, 1.0, 2.0, 3.0, None, 5.0]},
     "clarify.features column 'age' of table.csv must hold a finite number for every test "
     "example, got None in the row of 'e'; correct it, or name another column"),
    ({"label:": "slices: {features: [sex, clas]}\nlabel:"}, {},
     "slices.features column 'clas' is not in table.csv; it has face, male, person, young; name "
     "one of them"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "columns", "sentence"), REFUSED)
def test_a_table_that_cannot_be_audited_is_refused(
    change: dict[str, str], columns: dict[str, Any], sentence: str
) -> None:
    text = CONFIG
    for old, new in change.items():
        assert old in text
        text = text.replace(old, new, 1)
    assert refused(text, **columns) == sentence


@pytest.mark.parametrize("positive", ["9", "'9'"])
def test_a_positive_class_may_be_a_number_or_a_word(positive: str) -> None:
    text = CONFIG.replace("{column: face}", f"{{column: face, positive: {positive}}}")
    assert made(text).classes == ("9", "10")


def test_an_advantaged_value_changes_no_attribute() -> None:
    assert made(CONFIG + "advantaged: {sex: male}\n").attributes == made().attributes


EXTENSION = pl.Series(range(6), dtype=pl.Int64).ext.to(pl.Extension("made.up", pl.Int64))


@pytest.mark.parametrize("values", [[[1]] * 6, [{"a": 1}] * 6, EXTENSION])
@pytest.mark.parametrize(
    ("column", "role"), [("face", "label"), ("male", "groups.sex"), ("person", "cluster")]
)
def test_a_column_that_holds_no_plain_values_is_refused(
    column: str, role: str, values: list[Any] | pl.Series
) -> None:
    message = refused(CONFIG, **{column: values})
    assert message.startswith(f"{role} column '{column}' of table.csv must hold words or numbers,")
    assert message.endswith("; name another column")
