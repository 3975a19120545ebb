"""Beam against the search of one machine: the same slices with the same numbers."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scotoma.errors import DataError
from scotoma.slices import SearchSettings
from scotoma.slices.beam import SlicesQuestion, search_parquet
from scotoma.slices.beam.part import Query, Sums, add_up, merge, read_outcome
from scotoma.slices.hashing import poisson_weights
from scotoma.slices.judging.bootstrap import BootstrapLane, member_draws
from scotoma.slices.search.predicates import codings
from scotoma.slices.search.sweep import flag_rows
from tests.slices.asking import measured, scotoma
from tests.slices.searching import find_slices

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
        "loss": rng.gamma(2, 0.1, ROWS) * (1 + 2 * bad),
        "loss_before": rng.gamma(2, 0.1, ROWS),
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


MEMBERS = ["int8_0", "int8_1", "int8_2"]
BEFORE = ["dense_0", "dense_1", "dense_2"]
CASES = {
    "a rate": (MEMBERS[:1], [], {}),
    "without halves": (MEMBERS, [], {"confirm": False}),
    "two models": (MEMBERS[:1], BEFORE[:1], {"mode": "batch"}),
    "a population": (MEMBERS, [], {"metric": "accuracy", "mode": "batch"}),
    "two populations": (MEMBERS, BEFORE, {}),
    "of unequal size": (MEMBERS[:2], BEFORE, {"mode": "batch", "alpha": 0.4}),
    "in pairs, against the rest": (
        MEMBERS,
        BEFORE,
        {"paired": True, "reference": "rest", "mode": "batch"},
    ),
    "two models, against the rest": (
        MEMBERS[:1],
        BEFORE[:1],
        {"reference": "rest", "mode": "batch"},
    ),
    "means": (["loss"], [], {"metric": "loss", "confirm": False}),
    "means of two": (
        ["loss"],
        ["loss_before"],
        {"metric": "mean", "mode": "batch", "direction": "both"},
    ),
    "published": (MEMBERS[:1], [], {"protocol": "published", "metric": "fnr", "mode": "batch"}),
    "published, in pairs": (
        MEMBERS,
        BEFORE,
        {"mode": "batch", "protocol": "published", "paired": True},
    ),
}


# One with confirmation, one in pairs, one of means, one as published; the others take as long.
TYPICAL = ("two populations", "in pairs, against the rest", "means of two", "published, in pairs")


def question_of(outcome, baseline=(), label="label", identifier="id", **rest) -> SlicesQuestion:
    return SlicesQuestion(
        identifier=identifier, outcome=outcome, baseline=baseline, label=label,
        **{"features": FEATURES, **rest},
    )  # fmt: skip


def both(shards: Path, outcome, baseline, *, metric="error", **options):
    """What Beam finds, and what one machine finds in the table in its own order."""
    labelled = metric not in ("loss", "mean")
    shared = {"metric": metric, "permutations": 0, "max_cross": 2, **options}
    far = search_parquet(
        f"{shards}/*.parquet",
        question_of(
            outcome, baseline, "label" if labelled else None, settings=SearchSettings(**shared)
        ),
    )
    table = people()
    near = find_slices(
        table.select(FEATURES), table.select(outcome).to_numpy(),
        baseline=table.select(baseline).to_numpy() if baseline else None,
        labels=table["label"].to_numpy() if labelled else None, ids=table["id"].to_numpy(),
        **shared,
    )  # fmt: skip
    return far, near


def close(far, near):
    """The same in all words and whole numbers, and in all others but their last digits."""
    if isinstance(near, dict):
        assert far.keys() == near.keys()
        for name in near:
            close(far[name], near[name])
    elif isinstance(near, list | tuple):
        assert len(far) == len(near)
        for one, other in zip(far, near, strict=True):
            close(one, other)
    elif isinstance(near, float):
        assert far == pytest.approx(near, rel=1e-9, abs=1e-12, nan_ok=True)
    else:
        assert far == near


@pytest.mark.parametrize(
    "case",
    [case if case in TYPICAL else pytest.param(case, marks=pytest.mark.thorough) for case in CASES],
)
def test_beam_finds_the_slices_of_one_machine_with_the_same_numbers(shards, case):
    outcome, baseline, options = CASES[case]
    far, near = both(shards, outcome, baseline, **options)
    assert far.slices
    close(far.as_dict(), near.as_dict())
    close(far.change.as_dict(), near.change.as_dict())


@pytest.mark.thorough  # Beam makes a client for every file that it opens
def test_s3_holds_the_files_and_what_is_written_there_is_removed(shards, s3):
    s3.put("people/part-0.parquet", (shards / "part-0.parquet").read_bytes())
    before = set(s3.names())
    report = search_parquet(
        s3.uri("people", "*.parquet"),
        question_of(
            ["int8_0"], features=["job", "shift"],
            settings=SearchSettings(mode="batch", permutations=0),
            beam_options=[f"--temp_location={s3.uri('temporary')}"],
        ),
    )  # fmt: skip
    assert "job = Sales" in report.slices[0].text
    assert set(s3.names()) == before


@pytest.mark.thorough
def test_the_null_stands_beside_what_was_found(shards):
    report = search_parquet(
        f"{shards}/*.parquet",
        question_of(
            ["int8_0"], features=["job", "shift"],
            settings=SearchSettings(max_cross=2, permutations=2, confirm=False),
        ),
    )  # fmt: skip
    assert report.slices[0].text == "job = Sales and shift = night"
    sentence = "on shuffled outcomes the same search found nothing (2 searches)"
    assert report.null.sentence() == sentence


# --- the command ----------------------------------------------------------------------------------

PROCESSES = "--direct_running_mode=multi_processing --direct_num_workers=2"
NAMED = ("--outcome", "int8_*", "--baseline", "dense_*", "--label", "label", "--id", "id")
ASKED = (*NAMED, "--mode", "batch", "--max-cross", "2", "--permutations", "0")
CHOSEN = (*(part for name in FEATURES for part in ("--feature", name)),)


@pytest.mark.thorough
def test_the_command_finds_the_same_in_several_processes_of_beam_as_without(shards, tmp_path):
    text = people().with_columns(pl.col("hours", "label").cast(pl.String))
    text.write_parquet(tmp_path / "people.parquet")
    text[:700].write_parquet(tmp_path / "part-0.parquet", row_group_size=200)
    text[700:].write_parquet(tmp_path / "part-1.parquet")
    near = measured("slices", tmp_path / "people.parquet", *ASKED, *CHOSEN)
    beam = ("--runner", "beam", "--beam-options", PROCESSES)
    far = measured("slices", tmp_path / "part-*.parquet", *ASKED, *CHOSEN, *beam)
    assert near["slices"]
    assert all(one.pop("rows") for one in near["slices"])
    close(far, near)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--metric", "auc"), "on Beam metric must be one of error, accuracy, flip, "
         "loss, taxicab, mean, fpr, fnr, recall, got 'auc'"),
        (("--mode", "priority"), "on Beam mode must be one of cover, batch"),
        (("--cluster", "job"), "--cluster works on one machine only, got runner: beam too"),
        (("--runner", "spark"), "settings.yaml:1 runner must be one of beam, got 'spark'"),
        (("--outcome", "int9_*"), "--outcome names column 'int9_*', which is not in the table"),
        (("--label", "job"), "column 'job' must hold a value in every row, got an empty one"),
    ],
)  # fmt: skip
def test_what_the_command_cannot_search_on_beam_is_one_sentence(shards, options, sentence):
    asked = ("slices", f"{shards}/*.parquet", "--runner", "beam", *NAMED)
    code, out, err = scotoma(*asked, *options)
    assert (code in (2, 4), out) == (True, ""), err
    assert err.startswith(f"scotoma: {sentence}"), err
    assert err.count("\n") == 1


def test_options_that_need_another_say_so(shards):
    for options, sentence in {
        ("--runner", "beam"): "runner: beam needs ids, got none: name their column with --id",
        ("--beam-options", "--x"): "settings.yaml:1 beam_options needs runner: beam; add it",
    }.items():
        code, out, err = scotoma("slices", f"{shards}/*.parquet", *NAMED[:-2], *options)
        assert (code, out, err) == (2, "", f"scotoma: {sentence}\n")


def test_a_runner_that_fails_is_one_sentence(shards, tmp_path):
    beam = ("--runner", "beam", "--beam-options", f"--runner=Spork --temp_location={tmp_path}")
    code, out, err = scotoma("slices", f"{shards}/*.parquet", *NAMED, *beam)
    assert (code, out) == (5, "")
    assert err.startswith("scotoma: the runner of Beam failed (Unexpected pipeline runner: Spork")
    assert err.count("\n") == 1


def test_without_beam_one_sentence_says_what_installs_it(shards, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "apache_beam"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    code, out, err = scotoma("slices", f"{shards}/*.parquet", *NAMED, "--runner", "beam")
    assert (code, out) == (2, "")
    assert err.startswith("scotoma: searching slices on Beam needs apache_beam")
    assert err.endswith("; pip install 'scotoma[beam]'\n")


# --- the sums of a part ---------------------------------------------------------------------------


def query_of(table: pl.DataFrame, outcome=MEMBERS, baseline=()) -> Query:
    question = question_of(outcome, baseline, settings=SearchSettings(max_cross=2, seed=3))
    every = codings(table[name] for name in FEATURES)
    members = tuple(map(len, filter(None, (outcome, baseline))))
    lane = BootstrapLane("higher", member_draws(members, 5, 3, paired=False))
    return Query(question, tuple(every), lane)


def added(parts: list[pl.DataFrame], query: Query) -> dict[tuple[int, ...], Sums]:
    sums: dict[tuple[int, ...], list[Sums]] = {}
    for part in parts:
        for subset, own in add_up(part, query):
            sums.setdefault(subset, []).append(own)
    return {subset: merge(own) for subset, own in sums.items()}


@settings(max_examples=20)
@given(st.lists(st.integers(0, 300), max_size=4), st.integers(0, 10), st.booleans())
def test_sums_do_not_depend_on_how_the_table_is_cut_or_ordered(cuts, seed, dealt):
    table = people()[:300]
    query = query_of(table)
    if dealt:
        query = replace(query, shuffle=1, pool=read_outcome(table, query.question))
    shuffled = table.sample(fraction=1, shuffle=True, seed=seed)
    edges = sorted({0, *cuts, 300})
    parts = [shuffled[a:b] for a, b in pairwise(edges)]
    whole, cut = added([table], query), added(parts, query)
    assert whole.keys() == cut.keys()
    for subset, sums in whole.items():
        np.testing.assert_array_equal(cut[subset].cell, sums.cell)
        np.testing.assert_array_equal(cut[subset].lanes, sums.lanes)
        assert sums.lanes[:, 0].sum() == 300


def test_counts_of_every_slice_and_replicate_are_those_of_the_rows():
    table = people()
    query = query_of(table, baseline=BEFORE)
    encoded, draws, seed = query.encode(table), query.lane.draws, 3
    ids, labels = table["id"].to_numpy().astype(str), table["label"].to_numpy()[:, None]
    weights = np.concatenate([np.ones((ROWS, 1), int), poisson_weights(ids, draws, seed)], axis=1)
    rng = np.random.default_rng([seed, 1])
    drawn = [rng.multinomial(3, [1 / 3] * 3, draws).T for _ in range(2)]
    seen = 0
    for subset, sums in added([table[:500], table[500:]], query).items():
        for cell, lanes in zip(sums.cell, sums.lanes, strict=True):
            codes = np.unravel_index(cell, encoded.sizes[list(subset)]) if subset else ()
            inside = flag_rows(encoded, (subset, tuple(codes)))
            expected = [[inside.sum()]]
            for names, times in zip((MEMBERS, BEFORE), drawn, strict=True):
                wrong = table.select(names).to_numpy() != labels
                members = np.concatenate([np.ones((3, 1), int), times], axis=1)
                expected.append(((wrong @ members) * weights)[inside].sum(0))
                expected.append((3 * weights)[inside].sum(0))
            assert lanes.tolist() == np.concatenate(expected).tolist()
            seen += 1
    assert seen > 200


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"metric": "auc"}, "on Beam metric must be one of error, accuracy, flip, loss, taxicab, "
         "mean, fpr, fnr, recall, got 'auc': search for others without a runner"),
        ({"metric": "f1"}, "on Beam metric must be one of .*, got 'f1'"),
        ({"mode": "priority"}, "on Beam mode must be one of cover, batch, got 'priority'"),
        ({"pattern": "nothing-*.parquet"}, "pattern must name Parquet files, got none at"),
        ({"features": ["job", "town"]}, "every file must hold the column 'town'"),
        ({"baseline": ["dense_9"]}, "every file must hold the column 'dense_9'"),
        ({"identifier": "job"}, "column 'job' must hold a value in every row"),
        ({"identifier": "shift"}, "example ids must be unique over all files, got 1,198 that"),
        ({"max_cross": 5}, "max_cross must be at most 4, got 5"),
        ({"options": ["--runner=FlinkRunner"]}, "runner FlinkRunner must share a folder"),
    ],
)  # fmt: skip
def test_what_cannot_be_searched_is_refused_in_a_sentence(shards, options, sentence):
    asked = {"pattern": "*.parquet", "features": FEATURES, "options": (), **options}
    files, features, beam = (asked.pop(name) for name in ("pattern", "features", "options"))
    named = {name: asked.pop(name) for name in ("baseline", "identifier") if name in asked}
    with pytest.raises(DataError, match=sentence):
        search_parquet(
            f"{shards}/{files}",
            question_of(
                ["int8_0"], **named, features=features, settings=SearchSettings(**asked),
                beam_options=beam,
            ),
        )  # fmt: skip


# --- shuffled outcomes ----------------------------------------------------------------------------


@pytest.mark.parametrize("before", [["dense_0"], ["dense_0", "dense_1"]])
def test_against_a_baseline_members_change_places_and_nothing_is_lost(before):
    table = people()
    query = query_of(table, MEMBERS[:2], before)
    outcome = read_outcome(table, query.question)
    ids = table["id"].to_numpy().astype(str)
    dealt = [replace(query, shuffle=number).dealt(outcome, ids) for number in range(60)]
    both = [np.concatenate([one.model.above, one.baseline.above], axis=1) for one in dealt]
    was = np.concatenate([outcome.model.above, outcome.baseline.above], axis=1)
    assert all((np.sort(one, axis=1) == np.sort(was, axis=1)).all() for one in both)
    model = np.mean([one.model.above for one in dealt])
    assert abs(model - was.mean()) < 0.012 < outcome.model.above.mean() - was.mean()


def test_against_the_rest_pairs_of_outcomes_are_drawn_anew_at_the_rate_of_all():
    table = people()
    query = query_of(table, MEMBERS[:1], BEFORE[:1])
    outcome = read_outcome(table, query.question)
    ids = table["id"].to_numpy().astype(str)
    rates, kept = [], []
    change = (outcome.model.above - outcome.baseline.above)[:, 0]
    for number in range(40):
        own = replace(query, shuffle=number, pool=outcome).dealt(outcome, ids)
        drawn = (own.model.above - own.baseline.above)[:, 0]
        rates.append(drawn.mean())
        kept.append(np.corrcoef(drawn, change)[0, 1])
    assert np.mean(rates) == pytest.approx(change.mean(), abs=0.006)
    assert abs(np.mean(kept)) < 0.02
    assert len(set(rates)) > 10
