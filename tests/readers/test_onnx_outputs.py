"""Which output holds the scores, and what they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scotoma.errors import DataError
from scotoma.readers.onnx_outputs import (
    Shape,
    choose_output,
    class_scores,
    is_one_score,
    is_probability,
)

C = 5


@pytest.mark.parametrize(
    ("outputs", "classes", "chosen"),
    [
        ({"y": [None, C]}, C, "y"),
        ({"y": [None, C, 1, 1]}, C, "y"),
        ({"y": [1, 1, C]}, C, "y"),
        ({"y": None}, C, "y"),
        ({"y": [None, None]}, C, "y"),
        ({"features": [None, 512], "y": [None, C]}, C, "y"),
        ({"y": [None, None], "z": [None, C, 1]}, C, "z"),
        ({"map": [None, C, 7, 7], "y": [None, C]}, C, "y"),
        ({"hidden": [None, C], "logits": [None, C]}, C, "logits"),
        ({"probabilities": [None, C], "Logits": [None, C]}, C, "Logits"),
        ({"y": [None, 1]}, 2, "y"),
        ({"y": [None]}, 2, "y"),
        ({"y": [1, 1, 1, 1]}, 2, "y"),
        ({"loss": [None], "y": [None, 2]}, 2, "y"),
    ],
)
def test_the_output_that_fits_is_chosen(
    outputs: dict[str, Shape], classes: int, chosen: str
) -> None:
    assert choose_output(outputs, classes) == chosen


@pytest.mark.parametrize(
    ("outputs", "classes", "asked", "sentence"),
    [
        ({"y": [None, 9]}, C, "", "got an output of (any, 9); list its classes in source.classes"),
        ({"y": [None, C, 7, 7]}, C, "", "got an output of (any, 5, 7, 7);"),
        ({"y": [None]}, C, "", "got an output of (any,);"),
        ({"y": []}, 2, "", "got an output of ();"),
        ({"a": [None, C], "b": [None, C]}, C, "", "got 2: a, b; name one in source.output"),
        ({"a": [None, C]}, C, "b", "must have the output of source.output, got a and not 'b'"),
        ({"a": [None, C], "b": [None, 9]}, C, "b", "got an output of (any, 9)"),
    ],
)
def test_what_does_not_fit_is_refused(
    outputs: dict[str, Shape], classes: int, asked: str, sentence: str
) -> None:
    with pytest.raises(DataError) as refused:
        choose_output(outputs, classes, asked=asked, called="int8/a.onnx")
    assert str(refused.value).startswith("int8/a.onnx must ")
    assert sentence in str(refused.value)


def test_an_output_that_is_asked_for_overrules_a_usual_name() -> None:
    outputs: dict[str, Shape] = {"logits": [None, C], "aux": [None, C]}
    assert choose_output(outputs, C, asked="aux") == "aux"


def test_each_label_needs_its_own_score() -> None:
    with pytest.raises(DataError, match=r"each of 2 labels, got an output of \(any, 1\); use a"):
        choose_output({"y": [None, 1]}, 2, labels=True)
    assert class_scores(np.ones((3, 1)), 2, labels=True).shape == (3, 1)
    assert is_one_score([None, 1, 1])
    assert not is_one_score([None, None])


@given(st.lists(st.floats(0.001, 0.999), min_size=1, max_size=9), st.integers(0, 3))
def test_one_probability_keeps_its_odds(probabilities: list[float], ones: int) -> None:
    given_shape = np.array(probabilities, np.float32).reshape(-1, *(1,) * ones)
    scores = class_scores(given_shape, 2, probability=True).astype(np.float64)
    softmax = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(softmax[:, 1], probabilities, rtol=1e-4)


def test_a_logit_is_kept_and_what_is_no_number_stays_none() -> None:
    values = np.array([[-3.0], [0.0], [np.nan]], np.float64)
    for probability in (False, True):
        assert np.isnan(class_scores(values, 2, probability=probability)[2, 1])
    assert class_scores(values, 2)[:2].tolist() == [[0.0, -3.0], [0.0, 0.0]]
    assert np.isfinite(class_scores(np.array([0.0, 1.0]), 2, probability=True)).all()


@pytest.mark.parametrize(
    ("operators", "probability"),
    [
        (["Sigmoid"], True),
        (["Squeeze", "Cast", "Sigmoid"], True),
        (["DequantizeLinear", "QuantizeLinear", "Sigmoid"], True),
        (["Gemm", "Sigmoid"], False),
        (["Flatten", "Gemm"], False),
        ([], False),
    ],
)
def test_the_last_operator_says_what_a_score_is(operators: list[str], probability: bool) -> None:
    chain = [*operators, "Input"]
    producers = {f"v{k}": (name, [f"v{k + 1}"]) for k, name in enumerate(chain)}
    assert is_probability(producers, "v0") is probability
    assert not is_probability({"v0": ("Cast", ["v0"])}, "v0")  # a ring ends
