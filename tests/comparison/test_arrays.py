"""`scotoma.compare` on arrays, as a notebook uses it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import scotoma
from scotoma.errors import DataError

N = 1_200
RNG = np.random.default_rng(2)
SEX = RNG.choice(["f", "m"], N)
Y = RNG.choice(["cat", "dog", "owl"], N)
DENSE = np.where(RNG.random(N) < 0.1, "cat", Y)
INT8 = np.where((SEX == "f") & (RNG.random(N) < 0.2), "owl", DENSE)


def test_six_lines_name_the_group_that_is_hit() -> None:
    comparison = scotoma.compare(Y, DENSE, INT8, groups={"sex": SEX})
    assert comparison.affected["group"].to_list() == ["sex=f"]
    groups = comparison.groups
    assert groups["n"].sum() == N
    for row in groups.iter_rows(named=True):
        inside = row["group"][-1] == SEX
        rise = (INT8 != Y)[inside].mean() - (DENSE != Y)[inside].mean()
        assert row["rise"] == pytest.approx(rise, abs=1e-12)
        assert row["rise_low"] < rise < row["rise_high"]
    accuracy = dict(zip(*comparison.overall.select("number", "value"), strict=True))
    assert accuracy["recovery"] == pytest.approx((INT8 == Y).mean() / (DENSE == Y).mean())
    counts = dict(zip(*comparison.flips.select("kind", "count"), strict=True))
    assert counts["changed"] == pytest.approx((DENSE != INT8).sum())
    assert "Most affected: sex=f" in str(comparison)


def test_columns_of_pandas_and_numbers_of_any_type_are_labels() -> None:
    y, dense = pd.Series([0, 1, 1, 0] * 20), np.array([0.0, 1.0, 0.0, 0.0] * 20)
    comparison = scotoma.compare(y, dense, np.array([False, True, True, False] * 20))
    assert comparison.accuracy.before.value == 0.75
    assert comparison.accuracy.after.value == 1.0


def test_reruns_are_no_training_runs() -> None:
    again = np.where(RNG.random(N) < 0.02, "owl", DENSE)
    reruns = scotoma.compare(Y, np.stack([DENSE, again], 1), INT8, reruns=True)
    assert reruns.floor is not None
    assert reruns.floor.n == reruns.error.n == N
    assert reruns.notes == ("One model a side: another training run may differ.",)
    # An example whose wrong answer becomes another wrong one has changed, too.
    changed = [(DENSE != INT8).mean(), (again != INT8).mean()]
    assert reruns.floor.across.value == pytest.approx(np.mean(changed))


def test_html_escapes_every_name() -> None:
    names = np.where(np.arange(N) % 2, "<script>", "b&b")
    html = scotoma.compare(Y, DENSE, INT8, groups={"<i>": names})._repr_html_()
    assert "<script>" not in html
    assert "<i>" not in html
    assert "&lt;script&gt;" in html


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((Y, DENSE[:-1], INT8), "dense must hold a label for each of the examples"),
        ((Y, DENSE, np.where(SEX == "f", None, INT8)), "compressed must hold a label in every row"),
        ((Y, DENSE, INT8, {"sex": SEX[:5]}), "must give a value for each of the 1,200"),
        ((Y, DENSE, INT8, {"age": np.arange(N)}), "at most 200 groups, got 1,200"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(arguments: tuple, sentence: str) -> None:
    *arrays, groups = arguments if len(arguments) == 4 else (*arguments, None)
    with pytest.raises(DataError, match=sentence):
        scotoma.compare(*arrays, groups=groups)
