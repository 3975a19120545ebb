"""How a duration and a size are written: the cells of forecasts and pages."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scotoma.document import show

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
