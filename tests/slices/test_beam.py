"""Beam against the engine of one machine: the same counts, the same slices, to the last digit."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scotoma.errors import DataError
from scotoma.slices import find_slices
from scotoma.slices.beam import search_shards
from scotoma.slices.chance import Chance
from scotoma.slices.cover import rows_of
from scotoma.slices.lattice import feature_subsets
from scotoma.slices.predicates import codings, encode
from scotoma.slices.shard import Question, Sums, add_up, merge, outcome_of
from scotoma.slices.weights import poisson_weights

pytestmark = pytest.mark.slow

FEATURES = ["age", "job", "shift", "hours"]
ROWS = 1_200


def people(seed: int = 0, members: int = 3) -> pl.DataFrame:
    """Predictions that fail on the night shift of Sales; some ages and jobs are missing."""
    rng = np.random.default_rng(seed)
    job = rng.choice(["Sales", "Craft", "Clerk"], ROWS)
    shift = rng.choice(["day", "night"], ROWS)
    bad = (job == "Sales") & (shift == "night")
    label = rng.random(ROWS) < 0.5
    columns = {
        "id": [f"p{row}" for row in range(ROWS)],
        "age": np.where(rng.random(ROWS) < 0.02, np.nan, rng.integers(18, 70, ROWS)),
        "job": np.where(rng.random(ROWS) < 0.02, None, job),
        "shift": shift,
        "hours": rng.normal(40, 9, ROWS).round(1),
        "label": label.astype(int),
    }
    for member in range(members):
        for name, more in (("dense", 0.0), ("int8", 0.35)):
            wrong = rng.random(ROWS) < 0.1 + more * bad
            columns[f"{name}_{member}"] = (label ^ wrong).astype(int)
    return pl.DataFrame(columns)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table in three files of several row groups, in another order."""
    folder = tmp_path_factory.mktemp("shards")
    table = people().sample(fraction=1, shuffle=True, seed=1)
    for place, part in enumerate((table[:500], table[500:], table[:0])):
        part.write_parquet(folder / f"part-{place}.parquet", row_group_size=200)
    return folder


def both(
    shards: Path,
    out: Path,
    outcome,
    baseline=(),
    *,
    mode,
    protocol,
    metric="error",
    confirm=False,
    **options,
):
    """What Beam found, and what one machine found in the table in its own order."""
    far = search_shards(
        f"{shards}/*.parquet", out=str(out / "found"), outcome=outcome, baseline=baseline,
        label="label", features=FEATURES, identifier="id", mode=mode, protocol=protocol,
        metric=metric, permutations=0, confirm=confirm, **options,
    )  # fmt: skip
    table = people()
    near = find_slices(
        table.select(FEATURES), table.select(outcome).to_numpy(),
        baseline=table.select(baseline).to_numpy() if baseline else None,
        labels=table["label"].to_numpy(), ids=table["id"].to_numpy(), mode=mode,
        protocol=protocol, metric=metric, confirm=confirm, permutations=0, **options,
    )  # fmt: skip
    return far, near


MEMBERS = ["int8_0", "int8_1", "int8_2"]
BEFORE = ["dense_0", "dense_1", "dense_2"]


@pytest.mark.parametrize(
    ("outcome", "baseline", "options"),
    [
        (["int8_0"], [], {"mode": "cover", "protocol": "sound"}),
        (["int8_0"], [], {"mode": "batch", "protocol": "sound", "direction": "both"}),
        (["int8_0"], ["dense_0"], {"mode": "cover", "protocol": "sound", "confirm": True}),
        (["int8_0"], [], {"mode": "cover", "protocol": "published", "confirm": True,
                          "metric": "fnr", "min_size": 9}),
        (MEMBERS, BEFORE, {"mode": "batch", "protocol": "published", "paired": True}),
        (MEMBERS, [], {"mode": "batch", "protocol": "published", "metric": "f1"}),
    ],
)  # fmt: skip
def test_beam_finds_the_slices_of_one_machine_with_the_same_numbers(
    shards, tmp_path, outcome, baseline, options
):
    far, near = both(shards, tmp_path, outcome, baseline, **options, max_cross=2)
    assert [one.text for one in far.slices] == [one.text for one in near.slices]
    assert far.slices
    for name in ("p", "q"):  # sums of floating point in blocks of another shape
        found = [[getattr(one, name) for one in report.slices] for report in (far, near)]
        np.testing.assert_allclose(found[0], found[1], rtol=1e-11)
    counts = ("candidates", "nonempty", "tested")
    assert {n: getattr(far, n) for n in counts} == {n: getattr(near, n) for n in counts}
    first, local = far.slices[0], near.slices[0]
    if options.get("confirm"):  # of the half that confirms
        assert first.size == local.effect.n < local.at_risk
        found = [[one.discovery.p, one.discovery.q, one.discovery.size] for one in (first, local)]
        np.testing.assert_allclose(found[0], found[1], rtol=1e-11)
    else:
        assert first.size == local.at_risk
        assert first.discovery is None
    assert first.effect.n == local.effect.n
    assert first.effect.members == local.effect.members
    for name in ("value", "low", "high", "df"):
        assert getattr(first.effect, name) == pytest.approx(
            getattr(local.effect, name), rel=1e-11, nan_ok=True
        )


def test_counts_of_every_slice_and_replicate_are_those_of_one_machine(shards, tmp_path):
    search_shards(
        f"{shards}/*.parquet", out=str(tmp_path / "found"), outcome=MEMBERS, baseline=BEFORE,
        label="label", features=FEATURES, identifier="id", mode="batch", protocol="published",
        bootstrap=6, alpha=1 - 1e-12, direction="both", max_cross=2, seed=5, permutations=0,
    )  # fmt: skip
    lines = [
        json.loads(line)
        for path in tmp_path.glob("found-0-*.jsonl")
        for line in path.read_text().splitlines()
    ]
    table = people()
    encoded = encode(table.select(FEATURES))
    ids, labels = table["id"].to_numpy().astype(str), table["label"].to_numpy()[:, None]
    weights = np.concatenate([np.ones((ROWS, 1), int), poisson_weights(ids, 6, 5)], axis=1)
    rng = np.random.default_rng([5, 1])
    drawn = [rng.multinomial(3, [1 / 3] * 3, 6).T for _ in range(2)]
    subsets = [(), *feature_subsets(4, 1), *feature_subsets(4, 2)]
    seen = 0
    for line in lines:
        subset = subsets[line["number"]]
        for cell, lanes in zip(line.get("cell", [0]), line["lanes"], strict=True):
            codes = np.unravel_index(cell, encoded.sizes[list(subset)]) if subset else ()
            inside = rows_of(encoded, (subset, tuple(codes)))
            expected = [[inside.sum()]]
            for names, times in zip((MEMBERS, BEFORE), drawn, strict=True):
                wrong = table.select(names).to_numpy() != labels
                members = np.concatenate([np.ones((3, 1), int), times], axis=1)
                expected.append(((wrong @ members) * weights)[inside].sum(0))
                expected.append((3 * weights)[inside].sum(0))
            assert lanes == np.concatenate(expected).tolist()
            seen += 1
    assert seen > 200


@pytest.mark.thorough
def test_s3_holds_the_shards_and_what_was_found(shards, s3):
    for path in shards.glob("*.parquet"):
        s3.put(f"people/{path.name}", path.read_bytes())
    report = search_shards(
        s3.uri("people", "*.parquet"), out=s3.uri("found", "batch"), outcome=["int8_0"],
        label="label", features=["job", "shift"], identifier="id", mode="batch",
        permutations=0,
    )  # fmt: skip
    assert "job = Sales" in report.slices[0].text
    assert [name for name in s3.names() if name.startswith("found/batch-0-")]


@pytest.mark.thorough
def test_the_null_stands_beside_what_was_found(shards, tmp_path):
    report = search_shards(
        f"{shards}/*.parquet", out=str(tmp_path / "found"), outcome=["int8_0"],
        label="label", features=["job", "shift"], identifier="id", max_cross=2, permutations=2,
    )  # fmt: skip
    assert report.slices[0].text == "job = Sales and shift = night"
    assert report.null.sentence() == "on shuffled outcomes the same search found nothing, 2 times"
    assert list(tmp_path.glob("found-null-1-0-*.jsonl"))


# --- the sums of a shard --------------------------------------------------------------------------


def asked(table: pl.DataFrame, draws: int = 5) -> Question:
    made = codings(table[name] for name in FEATURES)
    return Question(tuple(made), "id", tuple(MEMBERS), (), "label", "error", False, 2, draws, 3)


def added(parts: list[pl.DataFrame], question: Question) -> dict[int, Sums]:
    found: dict[int, list[Sums]] = {}
    for part in parts:
        for number, sums in add_up(part, question):
            found.setdefault(number, []).append(sums)
    return {number: merge(sums) for number, sums in found.items()}


@settings(max_examples=20)
@given(st.lists(st.integers(0, 300), max_size=4), st.integers(0, 10), st.booleans())
def test_sums_do_not_depend_on_how_the_table_is_cut_or_ordered(cuts, seed, dealt):
    table = people()[:300]
    question = asked(table)
    if dealt:
        pool = outcome_of(table, question)
        question = replace(question, chance=Chance(question.seed, 1, pool))
    shuffled = table.sample(fraction=1, shuffle=True, seed=seed)
    edges = sorted({0, *cuts, 300})
    parts = [shuffled[a:b] for a, b in pairwise(edges)]
    whole, cut = added([table], question), added(parts, question)
    assert whole.keys() == cut.keys()
    for number, sums in whole.items():
        np.testing.assert_array_equal(cut[number].cell, sums.cell)
        np.testing.assert_array_equal(cut[number].lanes, sums.lanes)
        assert sums.lanes[:, 0].sum() == 300


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"metric": "auc"}, "shards are searched by metrics that count, got 'auc'"),
        ({"pattern": "nothing-*.parquet"}, "pattern must name Parquet files, got none at"),
        ({"features": ["job", "town"]}, "every file must hold the column 'town'"),
        ({"baseline": ["dense_9"]}, "every file must hold the column 'dense_9'"),
        ({"max_cross": 5}, "max_cross must be between 1 and 4, got 5"),
    ],
)
def test_what_cannot_be_searched_is_refused_in_a_sentence(shards, tmp_path, options, sentence):
    asked = {"pattern": "*.parquet", "features": FEATURES, "metric": "error"} | options
    pattern = asked.pop("pattern")
    with pytest.raises(DataError, match=sentence):
        search_shards(f"{shards}/{pattern}", out=str(tmp_path / "found"), outcome=["int8_0"],
                      label="label", identifier="id", **asked)  # fmt: skip


@pytest.mark.parametrize("before", [["dense_0"], ["dense_0", "dense_1"]])
def test_against_a_baseline_members_change_places_and_nothing_is_lost(before):
    table = people()
    question = replace(asked(table), outcome=("int8_0", "int8_1"), baseline=tuple(before))
    outcome, ids = outcome_of(table, question), table["id"].to_numpy().astype(str)
    dealt = [Chance(0, number, None).deal(outcome, ids) for number in range(60)]
    both = [np.concatenate([one.model.above, one.baseline.above], axis=1) for one in dealt]
    was = np.concatenate([outcome.model.above, outcome.baseline.above], axis=1)
    assert all((np.sort(one, axis=1) == np.sort(was, axis=1)).all() for one in both)
    model = np.mean([one.model.above for one in dealt])
    assert abs(model - was.mean()) < 0.012 < outcome.model.above.mean() - was.mean()


def test_without_a_baseline_outcomes_are_drawn_anew_at_the_rate_of_all():
    table = people()
    question = replace(asked(table), outcome=("int8_0",), draws=0)
    outcome, ids = outcome_of(table, question), table["id"].to_numpy().astype(str)
    rates, kept = [], []
    for number in range(40):
        own = Chance(0, number, outcome).deal(outcome, ids).model.above
        rates.append(own.mean())
        kept.append(np.corrcoef(own[:, 0], outcome.model.above[:, 0])[0, 1])
    assert np.mean(rates) == pytest.approx(outcome.model.above.mean(), abs=0.006)
    assert abs(np.mean(kept)) < 0.02
    assert len(set(rates)) > 10
