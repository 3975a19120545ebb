"""Every public function of the measuring half against every fault of the data: one sentence each.

The faults of whole tables are held beside the commands, those of settings beside the functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from scotoma import divergence as of
from scotoma import numbers
from scotoma import runs as sets
from scotoma.bias import clarify, counting, fairness, gaps, subgroup
from scotoma.datasets import AuditedExamples
from scotoma.errors import DataError
from scotoma.impact import class_impact
from scotoma.numbers import Estimate, Tally
from scotoma.predictions import Predictions, label_counts
from scotoma.steps.measures.pairs import comparisons, read_predictions

RNG = np.random.default_rng(0)
N, NAN = 40, math.nan
Y, IDS, OTHER = RNG.integers(0, 2, N), *RNG.integers(0, 2, (2, N, 4))
FIRST = np.arange(N) < 20
GROUPS, NAMES = np.stack([FIRST, ~FIRST]), ["a", "b"]
PARITY, SOURCES = np.arange(N) % 2, np.arange(N) // 2
SCORES, FEATURES = of.score(IDS, OTHER, 2), RNG.normal(size=(N, 2))
TWO = {"n_classes": 2}

# What a function is asked, with arguments that are fine; kinds of arguments by name below.
POPULATIONS = {"dense": IDS, "compressed": OTHER}
CHANGE = {"labels": Y, **POPULATIONS, "clusters": SOURCES}
FACETS = {"d": FIRST, "y": Y == 1, "p": IDS[:, 0] == 1}
MANY = {"d": FIRST, "y": Y == 1, "strata": PARITY, "features": FEATURES, "clusters": SOURCES}
ONE = {"predicted": IDS, "labels": Y, "groups": GROUPS, "clusters": SOURCES}
ASKED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "score": (lambda **k: of.score(n_classes=2, **k), POPULATIONS),
    "excess": (lambda **k: of.excess(n_classes=2, **k), POPULATIONS | {"clusters": SOURCES}),
    "flip_rate": (of.flip_rate, POPULATIONS | {"clusters": SOURCES}),
    "flip_ledger": (lambda **k: of.flip_ledger(names=NAMES, **k), CHANGE | {"groups": GROUPS}),
    "top1_table": (lambda **k: of.top1_table(SCORES, **k), CHANGE),
    "over_index": (
        lambda flags, has, **k: of.over_index(flags, {"has": has}, **k),
        {"flags": FIRST, "has": FIRST, "clusters": SOURCES},
    ),
    "label_counts": (lambda predicted: label_counts(predicted, 2), {"predicted": IDS}),
    "class_impact": (lambda **k: class_impact(n_classes=2, **k), CHANGE),
    "counts": (
        lambda predicted, labels, groups: counting.counts(labels, predicted, groups, 2),
        {"predicted": IDS, "labels": Y, "groups": GROUPS},
    ),
    "tally": (
        lambda **k: counting.tally(n_classes=2, **k),
        POPULATIONS | {"labels": Y, "groups": GROUPS},
    ),
    "rates": (lambda **k: subgroup.rates(names=NAMES, positive=1, n_classes=2, **k), ONE),
    "amplification": (
        lambda **k: subgroup.amplification(names=NAMES, n_classes=2, **k),
        CHANGE | {"groups": GROUPS},
    ),
    "gap": (
        lambda **k: gaps.gap(n_classes=2, **k),
        CHANGE | {"group_a": FIRST, "group_b": ~FIRST},
    ),
    "metric RD": (lambda **k: clarify.metric("RD", **k), FACETS),
    "metric CDDL": (
        lambda **k: clarify.metric("CDDL", **k),
        {"d": FIRST, "y": Y == 1, "strata": PARITY},
    ),
    "metric KL": (
        lambda d, classes: clarify.metric("KL", d=d, labels=classes),
        {"d": FIRST, "classes": np.arange(N) % 3},
    ),
    "metric FT": (
        lambda **k: clarify.metric("FT", **k),
        {"d": FIRST, "p": FACETS["p"], "features": FEATURES},
    ),
    "all_metrics": (clarify.all_metrics, MANY | {"p": IDS == 1}),
    "clarify.metric_changes": (
        lambda was, now, **k: clarify.metric_changes(dense=was, compressed=now, **k),
        MANY | {"was": IDS == 1, "now": OTHER == 1},
    ),
    "fairness.metric": (
        lambda confusion: fairness.fairness_metric("DP", confusion),
        {"confusion": np.array([[[80, 20], [10, 90]], [[60, 40], [70, 30]]])},
    ),
    "fairness.signed": (
        lambda **k: fairness.signed("DP", class_id=1, **{"groups": GROUPS, **k}),
        {"predicted": IDS, "labels": Y, "clusters": SOURCES},
    ),
    "fairness.fairness_bounds": (
        lambda **k: fairness.fairness_bounds(["DP"], n_classes=2, class_id=1, draws=20, **k),
        ONE,
    ),
    "spread": (
        lambda runs: sets.spread(runs)[0]["sigma"],  # the others describe these runs
        {"runs": np.array([0.1, 0.3, 0.2])},
    ),
    "compare_runs": (
        lambda base: [
            number
            for name, number in sets.compare_runs({"one": (base, [0.2, 0.3, 0.1])})["one"].items()
            if " p" not in name
        ],
        {"base": np.array([0.1, 0.3, 0.2])},
    ),
    "Tally.of": (
        lambda was, now: Tally.of(was, now),
        {"was": Y[:, None] == IDS, "now": Y[:, None] == OTHER},
    ),
    "Units.mean": (
        lambda scores: numbers.Units.of(N).mean(scores),
        {"scores": RNG.random((N, 3))},
    ),
    "cluster_sums": (
        lambda clusters: numbers.cluster_sums(np.ones(N), clusters),
        {"clusters": SOURCES},
    ),
    "holm": (lambda p_values: numbers.holm(p_values), {"p_values": np.array([0.1, 0.2])}),
    "benjamini_hochberg": (
        lambda p_values: numbers.benjamini_hochberg(p_values),
        {"p_values": np.array([0.1, 0.2])},
    ),
}


def ragged(good: np.ndarray) -> list:
    rows = [np.ravel(row).tolist() for row in np.asarray(good)]
    return [*rows[:-1], [*rows[-1], rows[-1][-1]]]


def second(value: object) -> Callable[[np.ndarray], np.ndarray]:
    """The values with another one in the second row."""

    def changed(good: np.ndarray) -> np.ndarray:
        words = isinstance(value, str) or np.asarray(good).dtype.kind == "U"
        kind = object if words or value is None else type(value)
        bad = np.asarray(good).astype(kind)
        bad[(1,) + (0,) * (bad.ndim - 1)] = value
        return bad

    return changed


RAGGED: dict[str, Callable[[np.ndarray], Any]] = {"ragged": ragged}
SHAPE = RAGGED | {
    "one row less": lambda good: np.asarray(good)[..., :-1],
    "no rows": lambda good: np.asarray(good)[..., :0],
    "a number": lambda good: 3,
}
ROWS = RAGGED | {
    "one row less": lambda good: np.asarray(good)[:-1],
    "no rows": lambda good: np.asarray(good)[:0],
    "a number": lambda good: 3,
}
GAPS = {"nan": second(NAN), "None": second(None)}
CLASS_IDS = ROWS | GAPS | {
    "negative": second(-1),
    "floats": lambda good: np.asarray(good) + 0.5,
    "text": lambda good: np.asarray(good).astype(str),
    "nothing": lambda good: None,
}  # fmt: skip
BEYOND = {"out of range": second(7)}
FLAGS = GAPS | {"numbers": lambda good: np.asarray(good).astype(int)}
KINDS = {
    "dense": CLASS_IDS | BEYOND, "compressed": CLASS_IDS | BEYOND, "predicted": CLASS_IDS | BEYOND,
    "labels": CLASS_IDS | BEYOND,
    "groups": FLAGS | SHAPE, "group_a": FLAGS | ROWS, "group_b": FLAGS | ROWS,
    "flags": FLAGS | ROWS, "has": FLAGS | ROWS, "d": FLAGS | ROWS, "y": FLAGS | ROWS,
    "p": FLAGS | ROWS,
    "was": RAGGED | GAPS | {"nothing": lambda good: None},
    "now": ROWS | GAPS,
    "clusters": ROWS | GAPS, "strata": ROWS | GAPS, "classes": ROWS | GAPS,
    "features": ROWS | GAPS | {"text": second("much")},
    "confusion": GAPS | {"ragged": ragged, "rates": lambda good: good / 100, "a number": lambda _:
                         3, "negative": second(-1), "no groups": lambda good: good[:1]},
    "runs": RAGGED | {"one run": lambda good: good[:1], "a number": lambda good: 3,
                      "text": second("x")},
    "base": RAGGED | GAPS | {"one run": lambda good: good[:1], "a number": lambda good: 3},
    "scores": RAGGED | GAPS | {"a number": lambda good: 3, "text": second("x")},
    "p_values": {"ragged": ragged, "above 1": lambda good: good + 1, "text": second("x")},
}  # fmt: skip
# Without a number of classes any class id will do, a tally may be of one population, and counting
# alone needs no other table.
FINE = {
    (name, argument, "out of range")
    for name in ("flip_rate", "flip_ledger", "fairness.signed")
    for argument in KINDS
}
FINE |= {("tally", "compressed", "nothing"), ("flip_ledger", "labels", "nothing")}
FINE |= {("label_counts", "predicted", fault) for fault in ("one row less", "no rows")}
CASES = [
    (name, argument, fault)
    for name, (_, good) in ASKED.items()
    for argument in good
    for fault in KINDS[argument]
    if (name, argument, fault) not in FINE
]


@pytest.mark.parametrize("name", ASKED)
def test_what_is_asked_in_this_table_has_an_answer(name: str) -> None:
    ask, good = ASKED[name]
    ask(**good)


@pytest.mark.parametrize(("name", "argument", "fault"), CASES)
def test_bad_input_gets_one_sentence_and_no_number(name: str, argument: str, fault: str) -> None:
    ask, good = ASKED[name]
    with pytest.raises(DataError) as caught:
        ask(**good | {argument: KINDS[argument][fault](good[argument])})
    said = str(caught.value)
    assert "\n" not in said
    assert 20 < len(said) < 260
    assert ", got " in said or ", but " in said or " outside " in said


SENTENCES = {
    "ragged": (
        "score", "dense", "ragged",
        "dense must be an examples by members table of class ids, got rows of different lengths: "
        "give every example one prediction per member",
    ),
    "negative ids": (
        "amplification", "labels", "negative",
        "labels must hold class ids from 0 upwards, got -1: number the classes from 0",
    ),
    "ids out of range": (
        "rates", "predicted", "out of range",
        "predicted must hold class ids from 0 to 1, got 7: number the classes from 0, or correct "
        "n_classes",
    ),
    "float labels": (
        "class_impact", "labels", "floats",
        "labels must be one class id per row, got values of type float64: convert scores to "
        "integer class ids, for example with argmax",
    ),
    "nan strata": (
        "all_metrics", "strata", "nan",
        "strata must have a value in every row, got 1 of 40 rows without one: leave these rows "
        "out, or give them a value of their own",
    ),
    "an empty table": (
        "score", "dense", "no rows",
        "dense must be a table of at least one example by at least one member, got shape (0, 4): "
        "pass one row per example and one column per member",
    ),
    "no examples": (
        "metric RD", "d", "no rows",
        "d must hold the facet of each example, got none: pass one value per example",
    ),
    "other examples": (
        "excess", "compressed", "one row less",
        "dense and compressed must predict the same examples, got 40 and 39 rows: score both on "
        "one test set",
    ),
    "rates for counts": (
        "fairness.metric", "confusion", "rates",
        "confusion must hold counts, got 0.8: pass counts, not rates",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SENTENCES)
def test_a_sentence_names_subject_rule_value_and_way_out(case: str) -> None:
    name, argument, fault, sentence = SENTENCES[case]
    ask, good = ASKED[name]
    with pytest.raises(DataError) as caught:
        ask(**good | {argument: KINDS[argument][fault](good[argument])})
    assert str(caught.value) == sentence


def test_values_without_an_order_are_refused() -> None:
    with pytest.raises(DataError, match="strata must hold values of one kind, got int and str"):
        clarify.metric("CDDL", d=FIRST, y=Y == 1, strata=np.array([1, "x"] * 20, object))


# --- what is no fault: one class, no members in a group, models that agree ------------------------


def estimates(found: Any) -> Iterator[Estimate]:
    """Every estimate anywhere in an answer."""
    if isinstance(found, Estimate):
        yield found
    elif isinstance(found, dict):
        for value in found.values():
            yield from estimates(value)
    elif isinstance(found, list | tuple):
        for value in found:
            yield from estimates(value)
    elif is_dataclass(found):
        for field in fields(found):
            yield from estimates(getattr(found, field.name))


LEGITIMATE = {
    "one class": {"labels": Y * 0, "y": Y < 0, "dense": IDS * 0, "compressed": IDS * 0,
                  "predicted": IDS * 0, "p": IDS > 9, "was": IDS > 9, "now": IDS > 9},
    "one label": {"labels": Y * 0, "y": Y < 0},
    "a group without members": {"groups": np.stack([FIRST, FIRST & False]), "group_b": Y < 0,
                                "flags": Y < 0, "has": Y < 0, "d": Y < 0},
    "a group of everybody": {"groups": np.stack([FIRST | True, FIRST & False]), "d": Y >= 0,
                             "flags": Y >= 0, "has": Y >= 0},
    "one example each": {"clusters": None},
    "one source": {"clusters": np.zeros(N, int)},
    "models that agree": {"compressed": IDS, "now": IDS == 1},
}  # fmt: skip


@pytest.mark.parametrize("case", LEGITIMATE)
@pytest.mark.parametrize("name", ASKED)
def test_what_cannot_be_estimated_is_nan_and_says_why(name: str, case: str) -> None:
    ask, good = ASKED[name]
    changed = {key: value for key, value in LEGITIMATE[case].items() if key in good}
    if "p" in changed and good["p"].ndim == 1:
        changed["p"] = changed["p"][:, 0]
    found = ask(**good | changed)
    for one in estimates(found):
        assert one.reason or not (math.isnan(one.value) or math.isnan(one.low)), one


# --- example ids ----------------------------------------------------------------------------------


def written(path: Path, ids: tuple[str, ...], variant: str = "dense") -> Path:
    votes = np.zeros((len(ids), 2), np.uint8)
    Predictions(variant, votes, ids, (0, 1), ("no", "yes")).write(path)
    return path


def test_variants_of_other_examples_are_refused_and_the_first_is_named(tmp_path: Path) -> None:
    files = {
        "dense": written(tmp_path / "d", ("a", "b", "c")),
        "int8": written(tmp_path / "i", ("a", "x", "c"), "int8"),
    }
    variants = [SimpleNamespace(name=name, paired=True) for name in files]
    run: Any = SimpleNamespace(
        predictions=files.__getitem__, config=SimpleNamespace(resolved_variants=variants)
    )
    examples = AuditedExamples(pl.DataFrame({"example_id": ["a", "b", "c"]}), ("x", "y"), (), ())
    with pytest.raises(DataError) as caught:
        list(comparisons(run, examples, read_predictions(run, "dense", examples)))
    assert str(caught.value) == (
        "predictions of int8 must be for the test examples in their order, got 'b' and 'x' in row "
        "2; run the audit again in a new folder"
    )


def test_an_example_that_stands_twice_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="hold example 'b' twice"):
        written(tmp_path / "d", ("a", "b", "b"))
