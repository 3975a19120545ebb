"""Every bad input is answered in one sentence."""

from __future__ import annotations

import re

import pytest

from scotoma.errors import DataError
from tests.slices.searching import find_slices

TWO = {"a": ["x", "y"] * 50, "b": list(range(100))}
WRONG = [0, 1] * 50
BAD = {
    "features must have at least one row, got 0: pass the scored examples": ({"a": []}, [], {}),
    "outcome must give one value a row of features, or one a row and member, got shape (3,) for "
    "100 rows: pass the outcome of the same examples": (TWO, [0, 1, 0], {}),
    "outcome must lie in [0, 1] for the rate 'error', got 3 in row 1: pass labels= to compare "
    "predicted classes with, or metric='mean' for any other score": (TWO, [0, 3] * 50, {}),
    "outcome must be finite, got nan in row 0: leave out the examples that have no outcome": (
        TWO, [float("nan"), 3] * 50, {"metric": "loss"}),
    "outcome must be numbers, got 'x': pass labels= to compare predicted classes with, or "
    "numbers": (TWO, ["x", "y"] * 50, {}),
    "metric must be one of error, accuracy, flip, loss, taxicab, mean, fpr, fnr, recall, "
    "precision, f1, auc, got 'fprr'; did you mean 'fpr'?": (TWO, WRONG, {"metric": "fprr"}),
    "metric 'fpr' needs true labels, got none: pass labels=": (TWO, WRONG, {"metric": "fpr"}),
    "metric 'loss' is computed from the outcome alone, got labels too: leave them out, or ask for "
    "metric='error'": (TWO, WRONG, {"metric": "loss", "labels": WRONG}),
    "labels must be 0 or 1, got 2: code the positive class as 1, all others as 0": (
        TWO, WRONG, {"metric": "fpr", "labels": [0, 2] * 50}),
    "metric 'fpr' is about negatives, got none among 100 labels: pass labels in which both classes "
    "occur": (TWO, WRONG, {"metric": "fpr", "labels": [1] * 100}),
    "metric 'auc' needs positives and negatives, got labels of one class only: pass labels in "
    "which both occur": (TWO, WRONG, {"metric": "auc", "labels": [1] * 100}),
    "labels must give one label a row of features, got shape (2,) for 100 rows: pass the labels of "
    "the same examples": (TWO, WRONG, {"labels": [1, 0]}),
    "reference 'baseline' needs a baseline, got none: pass baseline=": (
        TWO, WRONG, {"reference": "baseline"}),
    "reference 'whole' is for the published protocol and for auc, without a baseline, got protocol "
    "'sound' and metric 'error': use reference='rest'": (TWO, WRONG, {"reference": "whole"}),
    "mode must be one of cover, batch, iterative, priority, got 'bach'; did you mean 'batch'?": (
        TWO, WRONG, {"mode": "bach"}),
    "max_cross must be at most 4, got 5": (
        TWO, WRONG, {"max_cross": 5}),
    "alpha must be less than 1.0, got 5": (
        TWO, WRONG, {"alpha": 5}),
    "ids must be unique, got '0' 2 times: give every row an id of its own": (
        TWO, WRONG, {"ids": [0, *range(99)]}),
    "paired populations need as many members, got 1 and 0: drop those without a partner, or leave "
    "paired out": (TWO, WRONG, {"paired": True}),
    "the search must stay within max_candidates=20, got 32 candidate slices: use mode='priority', "
    "lower max_cross, pass fewer features, or raise max_candidates": (
        TWO, WRONG, {"max_candidates": 20}),
    "memory_gib must hold the candidates of one set of features, got 1e-06 for": (
        TWO, WRONG, {"memory_gib": 1e-6}),
}  # fmt: skip


@pytest.mark.parametrize("sentence", BAD, ids=lambda text: text[:40])
def test_bad_input_is_refused_in_a_sentence(sentence):
    features, outcome, options = BAD[sentence]
    with pytest.raises(DataError, match="^" + re.escape(sentence)):
        find_slices(features, outcome, **options)
