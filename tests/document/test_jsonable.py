from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nst

from scotoma.document import show
from scotoma.document.jsonable import jsonable


class Verdict(Enum):
    UNSURE = "unsure"


@dataclass(frozen=True)
class Pair:
    low: float
    names: tuple[str, ...]


@dataclass(frozen=True)
class Spoken:
    value: float

    def as_dict(self) -> dict[str, Any]:
        return {"value": self.value, "words": np.array(["a", "b"])}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float64(0.1), 0.1),
        (np.int64(2**62), 2**62),
        (np.uint16(7), 7),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array([0.5, np.nan, -np.inf]), [0.5, None, None]),
        (np.array(3.5), 3.5),
        (np.array([], dtype=bool), []),
        (float("nan"), None),
        (float("inf"), None),
        (np.float32("nan"), None),
        ({1: (2, 3)}, {"1": [2, 3]}),
        (Verdict.UNSURE, "unsure"),
        (None, None),
        (True, True),
        ("nan", "nan"),
        (Pair(float("nan"), ("x", "y")), {"low": None, "names": ["x", "y"]}),
        (Spoken(0.5), {"value": 0.5, "words": ["a", "b"]}),
        ([{"deep": [Pair(1.5, ())]}], [{"deep": [{"low": 1.5, "names": []}]}]),
    ],
)
def test_results_become_plain_values(value: object, expected: object) -> None:
    found = jsonable(value)
    assert found == expected
    assert type(found) is type(expected)


def test_numbers_keep_every_digit() -> None:
    third = np.float64(1) / 3
    assert json.loads(json.dumps(jsonable(third))) == third


leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | nst.arrays(nst.floating_dtypes() | nst.integer_dtypes(), nst.array_shapes(max_dims=2))
)
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(value=trees)
def test_whatever_comes_out_can_be_written_and_does_not_change_again(value: object) -> None:
    found = jsonable(value)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert jsonable(found) == found


# --- how a duration and a size are written: the cells of forecasts and pages ----------------------


UNITS = ["B", "kB", "MB", "GB", "TB"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "< 1 s"),
        (89.0, "89 s"),
        (91.0, "1.5 min"),
        (5399.0, "90 min"),
        (5400.0, "1.5 h"),
        (10 * 86400.0, "10 days"),
        (2 * 31557600.0, "2 years"),
    ],
)
def test_durations_have_the_unit_that_people_would_use(seconds: float, text: str) -> None:
    assert show(seconds, "duration").value == text


@given(st.integers(0, 10**15))
def test_sizes_are_right_to_two_digits(count: int) -> None:
    number, unit = show(count, "bytes").value.split()
    value = float(number.replace(",", "")) * 1000 ** UNITS.index(unit)
    assert math.isclose(value, count, rel_tol=0.051, abs_tol=0.5)
