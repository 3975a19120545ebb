"""What a plain Python shell shows of what notebooks use: names, errors and texts."""

from __future__ import annotations

import pytest

import scotoma
from scotoma.answers.pair import Pair


def small() -> Pair:
    """A pair in which a third of the examples is turned."""
    y, sex = [0, 1] * 300, ["f", "m", "m"] * 200
    int8 = [1 - label if one == "f" else label for label, one in zip(y, sex, strict=True)]
    return scotoma.pair(y, y, int8, groups={"sex": sex})


@pytest.mark.parametrize("name", sorted(set(scotoma.__all__) - {"__version__"}))
def test_errors_name_what_was_called(name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{name}\(\) "):
        getattr(scotoma, name)(nonsense=1, nothing=2)


def test_a_report_of_slices_shows_its_table() -> None:
    shown = repr(scotoma.find_slices(small()))
    assert "where sex = f (33.3% of the examples)" in shown
    assert "SliceReport(" not in shown
    assert max(map(len, shown.splitlines())) <= 80
