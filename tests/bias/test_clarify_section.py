"""Clarify's 21 metrics in an audit: every question answered, or the reason why it is not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from scotoma.bias.clarify import METRICS
from scotoma.bias.clarify.guide import GUIDE
from scotoma.datasets import AuditedExamples
from scotoma.steps.measures.clarify import ClarifyMetrics, facet_pairs
from tests.conftest import ROOT

N, MEMBERS = 400, 4
CLASSES = ("no", "yes")


def table(**attributes: Any) -> AuditedExamples:
    rng = np.random.default_rng(3)
    labels = [CLASSES[int(one)] for one in rng.random(N) < 0.4]
    return AuditedExamples(
        pl.DataFrame({"label": labels, **attributes}), CLASSES, tuple(attributes), ()
    )


@pytest.fixture(scope="module")
def examples() -> AuditedExamples:
    rng = np.random.default_rng(4)
    return table(
        sex=np.where(rng.random(N) < 0.3, "male", "female"),
        age=rng.choice(["child", "adult", "old"], N),
    )


@pytest.fixture(scope="module")
def populations(examples: AuditedExamples) -> tuple[Any, Any]:
    """Compression loses positives of men alone."""
    rng = np.random.default_rng(5)
    dense = examples.labels[:, None] ^ (rng.random((N, MEMBERS)) < 0.1)
    men = (examples.table["sex"] == "male").to_numpy()[:, None]
    return dense, dense & ~(men & (rng.random((N, MEMBERS)) < 0.5))


def rows_of(
    examples: AuditedExamples, populations: tuple[Any, Any], positive: int | None = 1
) -> Any:
    dense, compressed = populations
    outcomes = ClarifyMetrics(examples, dense, positive, seed=0)
    return by_facet(outcomes.of_compressed(compressed, paired=True), "disadvantaged")


def by_facet(rows: Any, *facts: str) -> dict[tuple[str, ...], dict[str, Any]]:
    """The numbers of every facet and metric, by what they are, and who is facet a."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        if row["metric"] != "selected":
            at = tuple(row["facts"][fact] for fact in facts)
            own = found.setdefault((*at, row["metric"]), {"advantaged": row["facts"]["advantaged"]})
            own[row["what"]] = row["number"]
    return found


def of_data(examples: AuditedExamples, positive: int | None = 1, **known: Any) -> Any:
    metrics = ClarifyMetrics(examples, np.zeros((N, 1), np.uint8), positive, seed=0, **known)
    return by_facet(metrics.of_data(), "split", "disadvantaged")


def test_the_questions_hold_every_metric_once() -> None:
    names = [name for concern in GUIDE for name in (concern.start, *concern.also)]
    assert sorted(names) == sorted(METRICS)
    assert all(concern.why for concern in GUIDE)


def test_every_metric_of_every_facet_has_a_number_with_an_interval_or_a_reason(
    examples: AuditedExamples, populations: tuple[Any, Any]
) -> None:
    data = of_data(examples, training=examples)
    rows = rows_of(examples, populations)
    facets = ["sex=male", "age=adult", "age=child", "age=old"]
    by_split = [[at[1:] for at in data if at[0] == split] for split in ("training", "test")]
    assert by_split[0] == by_split[1]
    found = by_split[0] + list(rows)
    assert sorted(found) == sorted((facet, name) for facet in facets for name in METRICS)
    numbers = [row["labels"] for row in data.values()]
    numbers += [row[part] for row in rows.values() for part in ("dense", "compressed", "change")]
    for one in numbers:
        assert one.reason or one.low <= one.value <= one.high
        assert one.n > 0


def test_positives_by_group_and_their_change_are_those_that_polars_counts(
    examples: AuditedExamples, populations: tuple[Any, Any]
) -> None:
    row = rows_of(examples, populations)["sex=male", "DPPL"]
    shares = []
    for hits in populations:
        rates = examples.table.with_columns(hit=hits.mean(axis=1)).group_by("sex").agg(
            pl.col("hit").mean()
        )  # fmt: skip
        by = dict(rates.iter_rows())
        shares.append(by["female"] - by["male"])
    assert row["advantaged"] == "sex=female"
    assert row["dense"].value == pytest.approx(shares[0])
    assert row["compressed"].value == pytest.approx(shares[1])
    assert row["change"].value == pytest.approx(shares[1] - shares[0])
    assert row["change"].low > 0  # compression takes outcomes from men


def test_strata_are_the_values_of_all_other_attributes(examples: AuditedExamples) -> None:
    (sex, *_) = facet_pairs(examples)
    assert sex.strata is not None
    age = examples.table["age"].to_numpy()
    assert len(np.unique(sex.strata)) == 3
    assert all(len(set(age[sex.strata == stratum])) == 1 for stratum in range(3))


def test_strata_are_numbered_in_the_order_of_their_values() -> None:
    rng = np.random.default_rng(6)
    examples = table(**{name: rng.choice(["x", "y", "z"], N) for name in "abcd"})
    for pair in facet_pairs(examples):
        others = [name for name in "abcd" if name != pair.attribute]
        codes = np.stack([examples.table[name].rank("dense").to_numpy() for name in others], axis=1)
        slow = np.unique(codes, axis=0, return_inverse=True)[1].ravel()
        np.testing.assert_array_equal(pair.strata, slow)


def test_what_lacks_is_named_in_the_words_of_the_configuration(
    populations: tuple[Any, Any],
) -> None:
    alone = table(sex=np.where(np.arange(N) % 3, "f", "m"))
    rows = rows_of(alone, populations)
    assert rows["sex=m", "CDDPL"]["change"].reason == "not computed (needs a second attribute)"
    assert rows["sex=m", "FT"]["dense"].reason == "not computed (needs clarify.features)"
    assert not rows["sex=m", "AD"]["change"].reason
    many = rows_of(alone, populations, positive=None)
    assert many["sex=m", "AD"]["change"].reason == "not computed (needs label.positive)"
    measured = of_data(alone, None, training=alone)
    data = {at[-1]: row["labels"] for at, row in measured.items()}
    assert data["DPL"].reason == "not computed (needs label.positive)"
    assert data["TVD"].value >= 0
    assert not data["TVD"].reason


def test_the_fliptest_compares_by_the_columns_that_the_configuration_names(
    examples: AuditedExamples, populations: tuple[Any, Any]
) -> None:
    """Five nearest in the other facet by scikit-learn, on columns of standard deviation 1."""
    x = np.random.default_rng(7).normal(size=(N, 2)) * [1, 1000]
    columns = pl.DataFrame({"age": x[:, 0], "income": x[:, 1]}).to_struct("features")
    measured = replace(examples, table=examples.table.with_columns(columns))
    dense = populations[0]
    outcomes = ClarifyMetrics(measured, dense, 1, seed=0, features=["age", "income"])
    d = (examples.table["sex"] == "male").to_numpy()
    scaled = StandardScaler().fit_transform(x)
    likes = NearestNeighbors(n_neighbors=5).fit(scaled[~d]).kneighbors(scaled[d])[1]
    p = populations[0] == 1
    voted = p[~d][likes].sum(axis=1) >= 3
    expected = (voted.astype(int) - p[d]).mean()
    flips = by_facet(outcomes.of_compressed(dense, paired=True), "attribute")["sex", "FT"]["dense"]
    assert flips.value == pytest.approx(expected)
    assert flips.low < expected < flips.high


def test_an_attribute_of_one_value_has_no_facets() -> None:
    assert facet_pairs(table(sex=["m"] * N)) == []


def test_labels_are_those_of_the_training_examples_beside_those_of_the_test_examples(
    examples: AuditedExamples,
) -> None:
    """Hand counts of the facets that the test examples name; values of neither are left out."""
    sex = np.array(["male", "female", "x"])[np.arange(N) % 3]
    training = table(sex=sex, age=["old"] * N)
    rows = of_data(examples, advantaged={"sex": "female"}, training=training)
    found = {at: row["labels"] for at, row in rows.items()}
    labels = training.labels.astype(float)
    by = {name: labels[sex == name].mean() for name in ("male", "female")}
    trained = found["training", "sex=male", "DPL"]
    assert (trained.value, trained.n) == (pytest.approx(by["female"] - by["male"]), 134 + 133)
    assert found["training", "sex=male", "CI"].value == pytest.approx((133 - 134) / (133 + 134))
    assert found["test", "sex=male", "DPL"].n == N


def test_without_training_examples_the_reason_stands_in_their_rows(
    examples: AuditedExamples,
) -> None:
    nobody = examples.keep(np.zeros(N, bool))
    rows = of_data(examples, training=nobody)
    training = [row["labels"] for at, row in rows.items() if at[0] == "training"]
    assert {one.reason for one in training} == {
        "the audit has no training examples; source.training names a table of them"
    }


def test_of_two_values_the_one_that_is_rarer_in_training_is_disadvantaged() -> None:
    tested, trained = table(sex=["m", "f"] * (N // 2)), table(sex=["m"] * 10 + ["f"] * (N - 10))
    assert facet_pairs(tested)[0].disadvantaged == "sex=f"  # as many of both: by name
    assert facet_pairs(tested, training=trained)[0].disadvantaged == "sex=m"


FALSE_OMISSION = {
    "name": "FOD", "title": "False omission difference", "question": "Are rejections wrong alike?",
    "formula": "share of positives among negative predictions, in a - in d", "neutral": 0.0,
    "sign": "+ rejections are more often wrong in a", "stage": "post-training",
    "needs": ["y", "p"], "swap": "negates", "concern": "trust",
    "ratio": {"over": "FN", "under": "TN FN", "named": "negative predictions", "compared": "a - d"},
}  # fmt: skip
ASKED = """\
import numpy as np
from scotoma.bias.clarify import all_metrics
from scotoma.bias.clarify.guide import GUIDE
from scotoma.config.gate import parse_rules

d, y, p = np.load("d.npy"), np.load("y.npy"), np.load("p.npy")
parse_rules("rules: [{id: own, metric: clarify.FOD, max: 0.2}]", "gate.yaml")
print(all_metrics(d=d, y=y, p=p)["FOD"].value, *(c.key for c in GUIDE if "FOD" in c.also))
"""


def test_a_metric_needs_no_more_than_an_entry(tmp_path: Path) -> None:
    """Measured, explained and named by a rule, in a copy whose one file has an entry more."""
    copy = tmp_path / "scotoma"
    shutil.copytree(ROOT / "scotoma", copy, ignore=shutil.ignore_patterns("__pycache__"))
    file = copy / "bias" / "clarify" / "metrics.json"
    file.write_text(json.dumps([*json.loads(file.read_text()), FALSE_OMISSION]))
    d, y, p = np.random.default_rng(2).random((3, N)) < [[0.4], [0.5], [0.3]]
    for name, values in (("d", d), ("y", y), ("p", p)):
        np.save(tmp_path / f"{name}.npy", values)
    done = subprocess.run(
        [sys.executable, "-c", ASKED], cwd=tmp_path, capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    value, concern = done.stdout.split()
    assert float(value) == pytest.approx(y[~d & ~p].mean() - y[d & ~p].mean())
    assert concern == "trust"
