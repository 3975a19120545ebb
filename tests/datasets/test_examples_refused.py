"""Tables of examples that cannot be audited, and the sentence that says so."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.datasets.test_examples import CONFIG, made, refused


def test_an_absent_label_column_is_refused() -> None:
    assert refused(face=None) == (
        "label column 'face' is not in table.csv; it has male, person, young; name one of them"
    )


def test_an_absent_attribute_column_is_refused() -> None:
    assert refused(male=None) == (
        "groups.sex column 'male' is not in table.csv; it has face, person, young; name one of them"
    )


def test_an_absent_cluster_column_is_refused() -> None:
    assert refused(person=None) == (
        "cluster column 'person' is not in table.csv; it has face, male, young; name one of them"
    )


def test_a_column_that_is_nearly_named_is_pointed_at() -> None:
    message = refused(CONFIG.replace("column: male", "column: Male"))
    assert "did you mean 'male'?" in message


def test_an_attribute_with_one_value_is_refused() -> None:
    assert refused(male=[1, 0, 1, 1, 1, 1]) == (
        "attribute 'sex' has one value, 'male', in the test split of table.csv; a comparison of "
        "groups needs two, so remove it or choose another column"
    )


def test_an_attribute_that_is_missing_throughout_is_refused() -> None:
    assert refused(young=[None] * 6).startswith("attribute 'age' has one value, '(missing)', in ")


def test_values_that_are_given_one_name_are_one_value() -> None:
    text = CONFIG.replace("{1: male, 0: female}", "{1: person, 0: person}")
    assert refused(text).startswith("attribute 'sex' has one value, 'person', in ")


def test_an_id_that_stands_twice_is_refused() -> None:
    assert refused(example_id=["a", "b", "c", "d", "b", "f"]) == (
        "example id 'b' stands in table.csv twice; ids must be unique"
    )


def test_an_empty_label_is_refused() -> None:
    assert refused(face=[None] * 6) == (
        "label column 'face' is empty in 6 of 6 rows of table.csv, the first is 'a'; fill or "
        "remove them"
    )


@pytest.mark.parametrize("split", ["train", "test"])
def test_an_empty_split_is_refused(split: str) -> None:
    other = {"train": "test", "test": "train"}[split]
    assert refused(split=[other] * 6) == (
        f"the {split} split of table.csv holds no row; check source.split"
    )


def test_a_label_with_one_value_is_refused() -> None:
    assert refused(face=["9", "9", "9", "9", "9", "9"]) == (
        "label column 'face' has one value, '9', in the train split of table.csv; a classifier "
        "needs two"
    )


def test_a_label_that_training_never_shows_is_refused() -> None:
    assert refused(face=["10", "9", "10", "9", "10", "8"]) == (
        "label '8' is in the test split of table.csv but never in training; move or remove its rows"
    )


def test_a_positive_class_that_is_not_there_is_refused() -> None:
    assert refused(CONFIG.replace("{column: face}", "{column: face, positive: 11}")) == (
        "label.positive is 11, but column 'face' holds 9, 10"
    )


@pytest.mark.parametrize("positive", ["9", "'9'"])
def test_a_positive_class_may_be_a_number_or_a_word(positive: str) -> None:
    text = CONFIG.replace("{column: face}", f"{{column: face, positive: {positive}}}")
    assert made(text).classes == ("9", "10")


def test_an_advantaged_value_that_no_test_example_has_is_refused() -> None:
    assert refused(CONFIG + "advantaged: {sex: mal}\n") == (
        "advantaged.sex is 'mal', but the test split of table.csv holds female, male; did you "
        "mean 'male'?"
    )
    assert made(CONFIG + "advantaged: {sex: male}\n").attributes == made().attributes


@pytest.mark.parametrize("name", ["example_id", "split", "label", "cluster", "image"])
def test_an_attribute_with_a_reserved_name_is_refused(name: str) -> None:
    assert refused(CONFIG.replace("  age:", f"  {name}:")) == (
        f"groups.{name} has a reserved name; rename the attribute"
    )


def test_a_positive_class_that_is_never_tested_is_refused() -> None:
    text = CONFIG.replace("{column: face}", "{column: face, positive: 8}")
    assert refused(text, face=["8", "9", "10", "9", "10", "9"]) == (
        "label.positive 8 has no row in the test split of table.csv, so its rates cannot be "
        "measured; move some rows there"
    )


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


@pytest.mark.parametrize(
    ("section", "columns", "message"),
    [
        ("clarify: {features: [aeg]}", {"age": list(range(6))},
         "clarify.features column 'aeg' is not in table.csv; it has age, face, male, person, young;"
         " did you mean 'age'?"),
        ("clarify: {features: [male, young]}", {},
         "clarify.features column 'young' of table.csv must hold a finite number for every test "
         "example, got 'no' in the row of 'd'; correct it, or name another column"),
        ("clarify: {features: [age]}", {"age": [0.0, 1.0, 2.0, 3.0, None, 5.0]},
         "clarify.features column 'age' of table.csv must hold a finite number for every test "
         "example, got None in the row of 'e'; correct it, or name another column"),
        ("slices: {features: [sex, clas]}", {},
         "slices.features column 'clas' is not in table.csv; it has face, male, person, young; "
         "name one of them"),
    ],
)  # fmt: skip
def test_a_feature_that_cannot_be_measured_is_refused(
    section: str, columns: dict[str, Any], message: str
) -> None:
    assert refused(f"{CONFIG}{section}", **columns) == message
