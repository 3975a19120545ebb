from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from scotoma.slices.search.strategies import split
from tests.slices.searching import find_slices

N = 4_000


def people(seed: int = 0, rows: int = N) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "age": rng.integers(18, 80, rows),
            "job": rng.choice(["Sales", "Crafts", "Clerk", "Other"], rows, p=[0.2, 0.3, 0.3, 0.2]),
            "hours": np.where(rng.random(rows) < 0.5, 40, rng.integers(10, 70, rows)),
            "score": rng.normal(size=rows),
            "city": rng.choice([f"town {i}" for i in range(12)], rows),
        }
    )


def planted(table: pl.DataFrame) -> np.ndarray:
    return ((table["hours"] == 40) & (table["job"] == "Sales")).to_numpy()


def errors(table: pl.DataFrame, seed: int = 1, high: float = 0.45) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.random(table.height) < np.where(planted(table), high, 0.1)


TABLE = people()
ERRORS = errors(TABLE)


def search(outcome=ERRORS, table=TABLE, **options):
    return find_slices(table, outcome, **{"permutations": 0, **options})


# --- what is found --------------------------------------------------------------------------------


@pytest.mark.parametrize("confirm", [True, False])
def test_cover_finds_what_was_planted_and_little_else(confirm):
    report = search(confirm=confirm)
    assert 1 <= len(report.slices) <= 4
    covered = np.any([one.mask for one in report.slices], axis=0)
    truth = planted(TABLE)
    assert (covered & truth).sum() > 0.7 * truth.sum()
    assert (covered & truth).sum() > 0.8 * covered.sum()
    best = report.slices[0]
    assert best.features == ("job", "hours")
    assert best.text == "job = Sales and hours = 40"
    assert len(best.predicates) == 2
    assert best.size == truth.sum() == best.support * N
    assert best.q <= 0.05


def test_a_confirmed_slice_is_measured_on_the_half_that_did_not_find_it():
    report = search()
    one = report.slices[0]
    assert one.confirmation is not None
    assert one.q >= one.confirmation.p == one.p
    assert one.q == one.confirmation.q
    assert one.discovery.p < 1e-3
    assert one.inside.n + one.outside.n == N / 2
    assert one.effect.n == one.inside.n < one.size
    assert one.effect.value == pytest.approx(one.inside.value - one.outside.value)
    low, high = one.effect.low, one.effect.high
    assert low < 0.35 < high  # the truth; the discovery flatters itself
    alone = search(confirm=False).slices[0]
    assert alone.confirmation is None
    assert alone.inside.n + alone.outside.n == N


def test_each_half_confirms_slices_that_the_other_proposes():
    confirming = set()
    for seed in range(6):
        report = search(errors(TABLE, seed))
        one = report.slices[0]
        confirming.add(one.half)
        assert 0.4 * one.size < one.confirmation.size < 0.6 * one.size
        assert one.discovery.size + one.confirmation.size == one.size
    assert confirming == {0, 1}


def test_every_mode_finds_the_planted_slice():
    for mode in ("batch", "iterative", "priority"):
        report = search(mode=mode)
        # They stop at the first significant parent: what was planted lies in what is found.
        assert any((one.mask >= planted(TABLE)).all() for one in report.slices), mode
        texts = {one.text for one in report.slices}
        assert len(texts) == len(report.slices) == report.slice_count
        q = [one.q for one in report.slices]
        assert q == sorted(q)
        assert report.tested <= report.hits.nonempty <= report.candidates


def test_the_same_seed_gives_the_same_report_and_ids_decide_the_halves():
    first, second = (json.dumps(search(permutations=2).as_dict()) for _ in range(2))
    assert first == second
    ids = np.array([f"row {i}" for i in range(N)])
    shuffle = np.random.default_rng(0).permutation(N)
    plain = search(ids=ids)
    moved = search(ERRORS[shuffle], TABLE[shuffle.tolist()], ids=ids[shuffle])
    assert [(s.text, s.p) for s in plain.slices] == [(s.text, s.p) for s in moved.slices]
    assert set(plain.slices[0].rows) == set(moved.slices[0].rows)
    assert set(plain.slices[0].rows) == set(ids[plain.slices[0].mask])


def test_published_protocol_has_the_papers_defaults_and_finds_noise():
    report = search(mode="batch", protocol="published", permutations=2)
    asked = {
        name: report.settings[name] for name in ("min_size", "alpha", "bootstrap", "correction")
    }
    assert asked == {"min_size": 1, "alpha": 0.01, "bootstrap": 20, "correction": "none"}
    assert report.settings["reference"] == "whole"
    assert min(one.size for one in report.slices) < 30
    assert report.null.any == 2
    assert report.null.mean > 1
    one = report.slices[0]
    assert one.effect.df == 19
    assert one.effect.value == pytest.approx(one.inside.value - report.overall.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "runs"),
    [
        ({"mode": "batch"}, 40),
        ({"mode": "iterative"}, 40),
        ({"mode": "priority", "budget": 500}, 40),
        ({"mode": "cover"}, 40),
        ({"mode": "cover", "confirm": False}, 40),
        ({"mode": "batch", "direction": "both"}, 40),
    ],
)
def test_shuffled_outcomes_give_nothing_in_nearly_all_searches(options, runs):
    table = people(3, 1_500)
    outcome = np.random.default_rng(4).random(1_500) < 0.13
    report = search(outcome, table, permutations=runs, **options)
    assert report.null.any <= 6  # 99.5% of Binomial(40, .05)
    assert len(report.null.counts) == runs


@pytest.mark.parametrize("reference", ["rest", "baseline"])
def test_shuffled_populations_give_nothing_in_nearly_all_searches(reference):
    table = people(5, 1_500)
    rng = np.random.default_rng(6)
    difficulty = rng.normal(size=(1_500, 1))
    dense, compressed = ((difficulty + rng.normal(size=(1_500, 5)) > 1.5) for _ in range(2))
    for direction in ("higher", "both"):
        options = {"direction": direction, "mode": "batch", "permutations": 40}
        base = {"baseline": dense} if reference == "baseline" else {}
        report = search(compressed, table, reference=reference, **base, **options)
        assert report.null.any <= 6


# --- metrics --------------------------------------------------------------------------------------


LABELS = np.random.default_rng(7).random(N) < 0.4
PREDICTED = LABELS ^ errors(TABLE, 8)


def values(report):
    return [(one.text, one.p) for one in report.slices]


def test_errors_are_worked_out_from_labels_of_any_kind():
    names = np.array(["cat", "dog"])
    expected = values(search(PREDICTED != LABELS, confirm=False))
    assert expected
    assert values(search(PREDICTED, labels=LABELS, confirm=False)) == expected
    spelled = search(names[PREDICTED.astype(int)], labels=names[LABELS.astype(int)], confirm=False)
    assert values(spelled) == expected
    right = search(PREDICTED, labels=LABELS, metric="accuracy", confirm=False)
    assert [text for text, _ in values(right)] == [text for text, _ in expected]
    np.testing.assert_allclose([p for _, p in values(right)], [p for _, p in expected])
    assert right.slices[0].effect.value < 0


def test_counts_are_rates_of_the_examples_at_risk():
    inside = planted(TABLE)
    cells = {
        "fpr": (PREDICTED & ~LABELS, ~LABELS),
        "fnr": (~PREDICTED & LABELS, LABELS),
        "recall": (PREDICTED & LABELS, LABELS),
        "precision": (PREDICTED & LABELS, PREDICTED),
    }
    for metric, (above, below) in cells.items():
        report = search(PREDICTED, labels=LABELS, metric=metric, confirm=False)
        one = report.slices[0]
        assert (one.mask & inside).sum() > 0.5 * one.size, metric
        assert one.at_risk == below[one.mask].sum()
        assert one.inside.value == pytest.approx(above[one.mask].sum() / below[one.mask].sum())
        assert one.outside.value == pytest.approx(above[~one.mask].sum() / below[~one.mask].sum())
        assert report.overall.value == pytest.approx(above.sum() / below.sum())


@pytest.mark.parametrize("metric", ["f1", "precision"])
def test_ratios_of_a_population_are_those_of_its_summed_counts(metric):
    rng = np.random.default_rng(9)
    flips = rng.random((N, 3)) < np.where(planted(TABLE), 0.5, 0.1)[:, None]
    predicted = LABELS[:, None] ^ flips
    report = search(predicted, labels=LABELS, metric=metric, confirm=False)
    one = report.slices[0]
    hits = predicted & LABELS[:, None]

    def value(rows):
        tp, positives = hits[rows].sum(), predicted[rows].sum()
        return (
            tp / positives
            if metric == "precision"
            else 2 * tp / (positives + 3 * LABELS[rows].sum())
        )

    assert one.inside.value == pytest.approx(value(one.mask))
    assert one.effect.value == pytest.approx(value(one.mask) - value(~one.mask))
    assert one.effect.low < one.effect.value < one.effect.high < 0
    assert search(predicted, labels=LABELS, metric=metric, baseline=predicted, mode="batch",
                  max_cross=1).slice_count == 0  # fmt: skip


def test_losses_and_auc_find_the_planted_slice_too():
    rng = np.random.default_rng(10)
    bad = planted(TABLE)
    loss = rng.exponential(np.where(bad, 2.0, 1.0))
    assert planted_share(search(loss, metric="loss")) > 0.8
    scores = rng.normal(np.where(bad, 0.0, 1.5) * LABELS)
    found = search(scores, labels=LABELS, metric="auc", max_cross=2, bootstrap=50)
    assert planted_share(found) > 0.8
    assert found.settings["reference"] == "whole"
    assert found.slices[0].effect.high < 0


def planted_share(report):
    one = report.slices[0]
    return (one.mask & planted(TABLE)).sum() / one.size


def test_dense_against_compressed_is_compared_on_the_same_slice():
    rng = np.random.default_rng(11)
    difficulty = rng.normal(size=(N, 1))
    dense = difficulty + rng.normal(0, 0.5, (N, 5)) > 1.4
    shift = np.where(planted(TABLE), 0.7, 0.0)[:, None]
    compressed = difficulty + shift + rng.normal(0, 0.5, (N, 5)) > 1.4
    report = search(compressed, baseline=dense)
    assert report.settings["reference"] == "baseline"
    assert planted_share(report) > 0.8
    one = report.slices[0]
    half = split(np.arange(N), 0)[one.half]
    inside = one.mask[half]
    expected = compressed[half][inside].mean() - dense[half][inside].mean()
    assert one.effect.value == pytest.approx(expected)
    single = search(compressed[:, 0], baseline=dense[:, 0], confirm=False)
    assert planted_share(single) > 0.8
    elsewhere = search(compressed, baseline=dense, reference="rest", confirm=False)
    assert planted_share(elsewhere) > 0.8
    assert elsewhere.notes == ()
    (note,) = report.notes
    change = report.change
    low, high = f"{100 * change.low:+.2f}", f"{100 * change.high:+.2f}"
    assert note.startswith(
        f"all examples together differ from the baseline by {100 * change.value:+.2f} points "
        f"[{low}, {high}]: "
    )
    assert search(dense, baseline=dense[:, ::-1].copy()).notes == ()


def test_a_slice_that_owes_its_harm_to_a_part_is_narrowed_to_it():
    """Of three members `job = Sales`, which holds the harm, is often the more significant."""
    named, rows = 0, list[float]()
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rate = 0.03 + 0.4 * (rng.random((N, 1)) < 0.15)
        before, after = (
            rng.random((N, 3)) < rate + more * planted(TABLE)[:, None] for more in (0.0, 0.2)
        )
        report = search(after, baseline=before, seed=seed)
        named += report.slices[0].text == "job = Sales and hours = 40"
        rows.append(planted_share(report))
    assert named >= 10
    assert np.mean(rows) > 0.9


@pytest.mark.parametrize("members", [(1, 1), (4, 4), (4, 3)])
def test_the_null_of_two_models_exchanges_them(members):
    rng = np.random.default_rng(12)
    difficulty = rng.normal(size=(N, 1))
    dense, compressed = (
        difficulty + shift + rng.normal(0, 0.5, (N, k)) > 1.4
        for k, shift in zip(members[::-1], (0.0, 0.5), strict=True)
    )
    report = search(compressed, baseline=dense, mode="batch", max_cross=1, permutations=10)
    assert report.slice_count > 10  # it is worse everywhere
    assert report.null.any <= 2


def test_a_ratio_is_no_worse_where_there_are_only_more_positives():
    rng = np.random.default_rng(13)
    crafts = (TABLE["job"] == "Crafts").to_numpy()
    positive = rng.random(N) < np.where(crafts, 0.8, 0.2)
    predicted = positive[:, None] & (rng.random((N, 3)) < 0.8)
    for direction in ("lower", "higher"):
        options = {"metric": "f1", "direction": direction, "mode": "batch", "max_cross": 1}
        assert search(predicted, labels=positive, **options).slice_count == 0


# --- the report -----------------------------------------------------------------------------------


def test_report_is_ready_for_json_and_csv():
    report = search(permutations=3, mode="batch")
    shown = report.as_dict(rows=True)
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    first = shown["slices"][0]
    assert first["rows"] == np.flatnonzero(report.slices[0].mask).tolist()
    assert {"value", "low", "high", "n"} <= first["effect"].keys()
    assert shown["null"]["permutations"] == 3
    table = report.table()
    assert table["slice"].to_list() == [one.text for one in report.slices]
    assert table["effect"][0] == report.slices[0].effect.value
    assert pl.read_csv(table.write_csv().encode()).height == len(report.slices)
    nothing = search(np.arange(N) % 10 == 0)
    assert nothing.table().columns == table.columns
    assert nothing.summary().startswith("found 0 slices among ")


def test_lattice_holds_every_single_predicate_and_marks_what_is_reported():
    for mode in ("cover", "batch"):
        report = search(mode=mode)
        lattice = report.lattice
        singles = lattice.filter(pl.col("cross") == 1)
        assert singles.height == report.view.encoded.sizes.sum()
        assert set(lattice.filter("reported")["text"]) <= {one.text for one in report.slices}
        assert lattice["support"].max() <= 1
        assert lattice["reported"].any()
        row = lattice.filter(pl.col("text") == "job = Sales").row(0, named=True)
        sales = (TABLE["job"] == "Sales").to_numpy()
        assert row["size"] == sales.sum()
        assert row["effect"] == pytest.approx(ERRORS[sales].mean() - ERRORS[~sales].mean())


def test_progress_counts_the_searches():
    told = []
    search(permutations=3, mode="batch", progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_limit_bounds_what_is_described_and_not_what_is_counted():
    report = search(mode="batch", protocol="published", limit=3)
    assert len(report.slices) == 3 < report.slice_count


def test_features_that_contain_the_answer_are_named():
    table = TABLE.with_columns(answer=pl.Series(LABELS), wrong=pl.Series(ERRORS).cast(pl.String))
    report = search(LABELS ^ ERRORS, table, labels=LABELS)
    assert [note.partition(":")[0] for note in report.notes] == [
        "column 'answer' tells the label of nearly every example",
        "column 'wrong' tells the outcome of nearly every example",
    ]
    assert search().notes == ()


def test_an_outcome_without_a_single_error_gives_nothing_and_says_so():
    report = search(np.zeros(N), permutations=2)
    assert report.slice_count == 0
    sentence = "on shuffled outcomes the same search found nothing (2 searches)"
    assert report.summary().endswith(sentence)


def test_priority_searches_what_is_too_large_to_exhaust():
    report = search(mode="priority", max_candidates=20, permutations=1)
    assert report.candidates > 20
    assert report.settings["budget"] == 2_500
    assert report.slice_count


def test_columns_that_cannot_define_slices_do_not_stop_the_search():
    table = TABLE.with_columns(
        same=pl.lit("x"), none=pl.lit(None, pl.Float64), id=pl.Series(np.arange(N)).cast(pl.String)
    )
    report = search(ERRORS, table)
    assert report.features == (*TABLE.columns, "id")
    assert len(report.notes) == 3
    assert planted_share(report) > 0.8
