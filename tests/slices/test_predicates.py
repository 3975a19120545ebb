from __future__ import annotations

import datetime as dt
import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scotoma.errors import DataError
from scotoma.slices.search.predicates import cut_points, encode, round_cuts


def texts(features, **options):
    return [[own.text for own in feature] for feature in encode(features, **options).predicates]


def test_ages_are_cut_into_tenths_that_people_can_read():
    ages = ["age < 10", "age in [10, 20)", "age in [20, 30)"]
    assert texts({"age": np.arange(100)})[0][:3] == ages
    assert texts({"age": np.arange(100)})[0][-1] == "age >= 90"
    counts = np.bincount(encode({"age": np.arange(100)}).codes[0])
    assert counts.tolist() == [10] * 10


def test_a_value_that_fills_a_bin_alone_gets_one_of_its_own():
    gain = np.concatenate([np.zeros(182, int), np.arange(100, 1900, 100)])
    assert texts({"gain": gain}) == [["gain = 0", "gain >= 100"]]
    hours = np.repeat(
        [20, 30, 38, 40, 45, 50, 60, 70, 75, 80, 90], [9, 9, 9, 40, 9, 4, 4, 4, 4, 4, 4]
    )
    assert "hours = 40" in texts({"hours": hours})[0]


@given(
    st.lists(st.one_of(st.integers(-50, 50), st.floats(-1e6, 1e6)), min_size=2, max_size=200),
    st.integers(2, 12),
)
def test_bins_part_the_values_in_order_and_lose_none(values, bins):
    numbers = np.array(values, float)
    cuts = cut_points(numbers, bins)
    own = np.searchsorted(cuts, numbers, side="right")
    assert (np.diff(own[np.argsort(numbers, kind="stable")]) >= 0).all()
    assert (np.bincount(own, minlength=cuts.size + 1) > 0).all()
    heaviest = max(np.unique(numbers, return_counts=True)[1].max(), 1)
    assert np.bincount(own).max() <= max(heaviest, -(-numbers.size // bins) + heaviest)
    rounded = round_cuts(numbers, cuts)
    np.testing.assert_array_equal(np.searchsorted(rounded, numbers, side="right"), own)
    assert (rounded <= cuts).all()


def test_bounds_of_measurements_have_no_more_digits_than_they_need():
    numbers = np.random.default_rng(0).normal(size=1_000)
    assert max(len(text) for text in texts({"x": numbers})[0]) < len("x in [-0.1234, -0.1234)")


def test_frequent_values_stand_alone_and_the_rest_together():
    job = ["b"] * 5 + ["a"] * 5 + ["c"] * 3 + ["d", "e"]
    encoded = encode({"job": job}, max_categories=2)
    assert texts({"job": job}, max_categories=2) == [
        ["job = a", "job = b", "job is one of 3 rarer values"]
    ]
    assert encoded.codes.tolist() == [[1] * 5 + [0] * 5 + [2] * 5]
    assert encoded.predicates[0][2].kind == "rest"
    assert encoded.notes == (
        "column 'job' has 5 different values: the 2 most frequent were taken one by one, the rest "
        "together",
    )


def test_missing_is_a_value_of_its_own():
    table = {"job": ["a", None, "b"], "age": [1.0, float("nan"), 3.0], "old": [True, None, False]}
    assert texts(table) == [
        ["job = a", "job = b", "job is missing"],
        ["age = 1", "age = 3", "age is missing"],
        ["old = false", "old = true", "old is missing"],
    ]
    assert encode(table).codes[:, 1].tolist() == [2, 2, 2]


def test_dates_are_cut_like_numbers_and_written_as_dates():
    days = [dt.date(2024, 1, 1) + dt.timedelta(days=day) for day in range(40)]
    assert texts({"day": days}, bins=2) == [["day < 2024-01-21", "day >= 2024-01-21"]]
    times = [dt.datetime(2024, 1, 1, hour) for hour in range(20)]
    assert texts({"at": times}, bins=2)[0][0] == "at < 2024-01-01 10:00:00"


def test_names_and_values_that_could_mislead_are_quoted_or_cleaned():
    table = {"a\x1b[31m": ["x and y = z", "\u202eevil", "plain"]}
    assert texts(table) == [["a [31m = plain", 'a [31m = "x and y = z"', 'a [31m = " evil"']]


def test_pandas_arrow_and_plain_columns_give_the_same_codes():
    frame = pl.DataFrame(
        {"age": [20, 30, None, 50], "job": ["a", None, "b", "a"], "x": [0.5, float("nan"), 1, 2]}
    )
    expected = encode(frame, bins=2)
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    for other in (
        frame.lazy(),
        frame.to_dict(as_series=False),
        pandas.DataFrame(frame.to_dict(as_series=False), index=[7, 7, 8, 9]),
        arrow.table(frame.to_dict(as_series=False)),
    ):
        encoded = encode(other, bins=2)
        np.testing.assert_array_equal(encoded.codes, expected.codes)
        assert [len(own) for own in encoded.predicates] == [len(o) for o in expected.predicates]


@pytest.mark.slow
def test_a_million_different_strings_are_encoded_as_a_hundred_and_the_rest():
    encoded = encode({"id": np.arange(1_000_000).astype(str), "even": np.arange(1_000_000) % 2})
    assert len(encoded.predicates[0]) == 101
    assert "has 1,000,000 different values" in encoded.notes[0]


def test_columns_that_define_no_slice_are_left_out_with_a_sentence():
    table = {"one": ["a"] * 3, "none": [None] * 3, "nan": [float("nan")] * 3, "two": [1, 2, 1]}
    encoded = encode(table)
    assert encoded.features == ("two",)
    assert encoded.notes == (
        "column 'one' is constant (one = a): it defines no slice and was left out",
        "column 'none' holds no value: it defines no slice and was left out",
        "column 'nan' holds no value: it defines no slice and was left out",
    )


@pytest.mark.parametrize(
    ("features", "options", "sentence"),
    [
        ({"a": []}, {}, "features must have at least one row, got 0: pass the scored examples"),
        ({"a": [1, 1]}, {}, "features must have a column with at least two values, got 1 without"),
        ({"a": [[1], [2]]}, {}, "column 'a' must hold numbers, text, truth values or dates, got"),
        (3, {}, "features must be a table, got int: pass a polars, pandas or Arrow table"),
        ({"a": [1, 2]}, {"bins": 1}, "bins must lie between 2 and 250, got 1: the default is 10"),
        ({"a": [1, 2]}, {"max_categories": 300}, "max_categories must lie between 1 and 250, got"),
    ],
)
def test_tables_that_cannot_be_sliced_are_refused_in_a_sentence(features, options, sentence):
    with pytest.raises(DataError, match="^" + re.escape(sentence)):
        encode(features, **options)
