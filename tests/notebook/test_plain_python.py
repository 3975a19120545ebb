"""What a plain Python shell shows of what notebooks use: names, errors and texts."""

from __future__ import annotations

import numpy as np
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


def test_one_hot_columns_are_told_of() -> None:
    y = np.arange(300) % 3
    pair = scotoma.pair(y, np.eye(3, dtype=int)[y], np.eye(3, dtype=bool)[y])
    said = "is read as 3 models, but every row has a single 1, as one-hot classes do"
    assert f"Dense {said}: pass the class instead, such as argmax(axis=1)." in repr(pair)
    assert f"Compressed {said}" in repr(pair)
    right = (y[:, None] + [0, 0, 1]) % 2
    assert "one-hot" not in repr(scotoma.pair(y % 2, right, right))
