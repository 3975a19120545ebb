"""`scotoma.pair` takes labels and answers as notebooks hold them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import scotoma
from scotoma.answers.pair import Pair
from scotoma.errors import DataError

N = 1_200
RNG = np.random.default_rng(2)
SEX = RNG.choice(["f", "m"], N)
Y = RNG.choice(["cat", "dog", "owl"], N)
DENSE = np.where(RNG.random(N) < 0.1, "cat", Y)
NUMBERS = RNG.integers(0, 2, N)
INT8 = np.where((SEX == "f") & (RNG.random(N) < 0.2), "owl", DENSE)


def error(pair: Pair, what: str, group: str = "all", column: str = "value") -> float:
    """A number of `scotoma.measure`: the error of a group, dense or compressed, or its change."""
    rows = scotoma.measure(pair, clarify=False, run_to_run=False)
    return rows.filter(question="rates", metric="error", what=what, group=group)[column].item()


def test_two_lines_give_the_change_of_every_group_and_name_the_one_that_is_hit() -> None:
    pair = scotoma.pair(Y, DENSE, INT8, groups={"sex": SEX}, paired=True)
    for group, inside in (("all", SEX != ""), ("sex=f", SEX == "f"), ("sex=m", SEX == "m")):
        rise = (INT8 != Y)[inside].mean() - (DENSE != Y)[inside].mean()
        assert error(pair, "absolute", group) == pytest.approx(rise, abs=1e-12)
    assert error(pair, "absolute", "sex=f", "low") > 0
    assert "f" in scotoma.judge(pair).deciding["where"][0]


def test_numbers_of_any_type_are_labels() -> None:
    y, dense = pd.Series([0, 1, 1, 0] * 20), np.array([0.0, 1.0, 0.0, 0.0] * 20)
    pair = scotoma.pair(y, dense, np.array([False, True, True, False] * 20))
    assert (error(pair, "dense"), error(pair, "compressed")) == (0.25, 0.0)


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
    pair, expected = scotoma.pair(y, dense, int8, groups=groups), scotoma.pair(Y, DENSE, INT8)
    for one in (pair, expected):
        assert one.classes == ("cat", "dog", "owl")
    assert (pair.labels == expected.labels).all()
    assert (pair.dense.predicted == expected.dense.predicted).all()
    assert (pair.compressed.predicted == expected.compressed.predicted).all()
    sizes = {key: mask.sum() for key, mask in pair.examples.groups.by_key.items()}
    assert sizes == {
        "all": N, "sex=(missing)": 20, "sex=f": (SEX[20:] == "f").sum(),
        "sex=m": (SEX[20:] == "m").sum(),
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
    pair = scotoma.pair(Y, whole(DENSE, other), whole(INT8, after), paired=True)
    for side, models in ((pair.dense, (DENSE, other)), (pair.compressed, (INT8, after))):
        said = np.array(pair.classes)[side.predicted]
        assert (said == np.stack(models, axis=1)).all()
    assert error(pair, "dense") == pytest.approx(np.mean([DENSE != Y, other != Y]))


def test_what_was_left_out_folded_or_not_answered_is_told() -> None:
    y = [None if place < 12 else value for place, value in enumerate(Y.tolist())]
    silent = [None if place >= N - 6 else value.upper() for place, value in enumerate(INT8)]
    pair = scotoma.pair(y, DENSE, silent, groups={"age": np.arange(N) % 90})
    after = ((INT8 != Y) | (np.arange(N) >= N - 6))[12:].mean()
    assert error(pair, "compressed") == pytest.approx(after)
    assert len(pair.examples.groups.by_key) == 1 + 4  # all, and bins as commands form them
    shown = repr(pair)
    assert shown.startswith("1,188 examples, 3 classes; models: 1 dense, 1 compressed.\n")
    assert "missing in 12 of 1,200 rows" in shown
    assert "case is folded" in shown
    assert "gives no answer to 6 of" in shown


def test_a_dense_model_that_guesses_admits_no_pass() -> None:
    guessing = RNG.permutation(Y)
    found = scotoma.judge(scotoma.pair(Y, guessing, guessing)).verdict
    assert found == "UNSURE"
    assert "better than its answers dealt at random" in " ".join(found.sentences)


def test_html_escapes_every_name() -> None:
    names = np.where(np.arange(N) % 2, "<script>", "b&b")
    html = scotoma.pair(Y, DENSE, INT8, groups={"<i>": names})._repr_html_()
    assert "<script>" not in html
    assert "<i>" not in html
    assert "&lt;script&gt;" in html


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((Y, DENSE[:-1], INT8), "dense must hold a label for each of the 1,200 examples of y"),
        (([], [], []), "y must hold a label for each example, got none"),
        ((Y, DENSE, INT8, {"sex": SEX[:5]}), "must give a value for each of the 1,200"),
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
        scotoma.pair(*arrays, groups=groups)
