"""`scotoma.compare` on arrays, as a notebook uses it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import scotoma
from scotoma.errors import DataError

N = 1_200
RNG = np.random.default_rng(2)
SEX = RNG.choice(["f", "m"], N)
Y = RNG.choice(["cat", "dog", "owl"], N)
DENSE = np.where(RNG.random(N) < 0.1, "cat", Y)
NUMBERS = RNG.integers(0, 2, N)
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


def every_kind() -> dict[str, tuple]:
    """The same labels, answers and groups as other libraries and plain Python hold them."""
    import pyarrow as pa

    def missing(values: np.ndarray, none: object) -> list[object]:
        return [none if place < 20 else value for place, value in enumerate(values.tolist())]

    frame = pd.DataFrame({"sex": pd.Categorical(missing(SEX, None))})
    return {
        "lists": (Y.tolist(), DENSE.tolist(), INT8.tolist(), {"sex": missing(SEX, None)}),
        "pandas": (pd.Series(Y), pd.Series(DENSE), pd.Series(INT8), frame),
        "other index": (
            pd.Series(Y, index=range(N, 2 * N)), pd.Series(DENSE), pd.Series(INT8), frame,
        ),
        "categories": (
            pd.Series(Y, dtype="category"), pd.Categorical(DENSE), pd.Categorical(INT8), frame,
        ),
        "strings": (
            pd.Series(Y, dtype="string"), pd.Index(DENSE), pd.Series(INT8),
            {"sex": pd.Series(missing(SEX, pd.NA), dtype="string")},
        ),
        "nan": (Y, DENSE, INT8, {"sex": np.array(missing(SEX, float("nan")), dtype=object)}),
        "polars": (
            pl.Series(Y), pl.Series(DENSE, dtype=pl.Categorical), pl.Series(INT8),
            pl.DataFrame({"sex": missing(SEX, None)}),
        ),
        "arrow": (
            pa.array(Y.tolist()), pa.chunked_array([DENSE.tolist()]), pa.array(INT8.tolist()),
            pa.table({"sex": missing(SEX, None)}),
        ),
        "columns": (Y[:, None], DENSE[:, None], {"int8": INT8}, frame["sex"]),
        "tuples": (tuple(Y), tuple(DENSE), iter(INT8.tolist()), {"sex": missing(SEX, "")}),
    }  # fmt: skip


@pytest.mark.parametrize("kind", every_kind())
def test_columns_of_any_library_give_the_same_numbers(kind: str) -> None:
    y, dense, int8, groups = every_kind()[kind]
    comparison = scotoma.compare(y, dense, int8, groups=groups)
    expected = scotoma.compare(Y, DENSE, INT8)
    assert comparison.accuracy.change == expected.accuracy.change
    sizes = dict(zip(*comparison.groups.select("group", "n"), strict=True))
    assert sizes == {
        "sex=(missing)": 20, "sex=f": (SEX[20:] == "f").sum(), "sex=m": (SEX[20:] == "m").sum(),
    }  # fmt: skip


@pytest.mark.parametrize(
    "whole",
    [
        lambda a, b: np.stack([a, b], 1),
        lambda a, b: [a, b],
        lambda a, b: {"m": a, "k": b},
        lambda a, b: {"m": [a, b]},
        lambda a, b: pd.DataFrame({0: a, 1: b}),
        lambda a, b: [list(row) for row in zip(a, b, strict=True)],
    ],
)
def test_several_models_come_in_any_form_and_paired_ones_in_their_order(whole) -> None:
    other = np.where(RNG.random(N) < 0.1, "dog", Y)
    after = np.where(RNG.random(N) < 0.02, "owl", other)
    d, c = whole(DENSE, other), whole(INT8, after)
    apart, paired = scotoma.compare(Y, d, c), scotoma.compare(Y, d, c, paired=True)
    before = np.mean([(DENSE == Y).mean(), (other == Y).mean()])
    for comparison in (apart, paired):
        assert comparison.accuracy.before.value == pytest.approx(before)
        assert comparison.accuracy.before.members == 2
    changed = next(one for one in paired.flip_counts if one.kind == "changed")
    expected = np.mean([(DENSE != INT8).mean(), (other != after).mean()])
    assert changed.share.value == pytest.approx(expected)
    every_pair = next(one for one in apart.flip_counts if one.kind == "changed")
    assert every_pair.share.value > changed.share.value


def test_what_was_left_out_folded_or_not_answered_is_told() -> None:
    y = [None if place < 12 else value for place, value in enumerate(Y.tolist())]
    silent = [None if place >= N - 6 else value.upper() for place, value in enumerate(INT8)]
    comparison = scotoma.compare(y, DENSE, silent, groups={"age": np.arange(N) % 90})
    assert comparison.error.n == N - 12
    right = (DENSE[12:] == Y[12:]).mean()
    assert comparison.accuracy.before.value == pytest.approx(right)
    after = ((INT8 == Y) & (np.arange(N) < N - 6))[12:].mean()
    assert comparison.accuracy.after.value == pytest.approx(after)
    assert len(comparison.groups) == 4  # bins, as commands form them
    told = " ".join(comparison.notes)
    assert "missing in 12 of 1,200 rows" in told
    assert "case is folded" in told
    assert "gives no answer to 6 of" in told


def test_a_dense_model_that_guesses_is_told() -> None:
    guessing = RNG.permutation(Y)
    told = " ".join(scotoma.compare(Y, guessing, guessing).notes)
    assert "better than its answers dealt at random" in told
    assert "dealt at random" not in " ".join(scotoma.compare(Y, DENSE, INT8).notes)


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
        ((Y, DENSE[:-1], INT8), "dense must hold a label for each of the 1,200 examples of y"),
        (([], [], []), "y must hold a label for each example, got none"),
        ((Y, DENSE, INT8, {"sex": SEX[:5]}), "must give a value for each of the 1,200"),
        ((Y, DENSE, INT8, {"id": [f"p{i}" for i in range(N)]}), "at most 200 groups, got 1,200"),
        ((Y, np.full((N, 3), 1 / 3), INT8), "got a probability for each of 3 classes; pass the cl"),
        ((NUMBERS, RNG.random(N), NUMBERS), "turn scores into labels with a threshold"),
        ((Y, DENSE, NUMBERS), "these are numbers of classes: write their names instead"),
        ((Y, np.array(["x"] * N), INT8), "must answer with labels, but 'x' is not among 'cat'"),
        ((Y, {"a": DENSE, "b": DENSE[:5]}, INT8), "dense must hold columns of one length"),
        ((Y, {}, INT8), "dense must hold an answer for each example, got nothing"),
        ((Y, 3, INT8), "dense must hold a value for each example, got 3"),
        ((np.stack([Y, Y], 1), DENSE, INT8), "y must be one column with a value for each example"),
        ((Y, np.zeros((N, 2, 2)), INT8), "got shape"),
        ((Y, [[object()]] * N, INT8), "must hold words, numbers or dates"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(arguments: tuple, sentence: str) -> None:
    *arrays, groups = arguments if len(arguments) == 4 else (*arguments, None)
    with pytest.raises(DataError, match=sentence):
        scotoma.compare(*arrays, groups=groups)
