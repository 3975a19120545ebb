"""Rows of one cluster: variances, shuffles and halves go by clusters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scotoma.errors import DataError
from scotoma.numbers import RateEvidence, Tally, Words
from scotoma.numbers.clusters import cluster_sums
from scotoma.slices.judging.evidence import estimate_difference
from scotoma.slices.judging.tally import ClusterSums, ClusterVariance
from scotoma.slices.outcomes import SLICE_METRICS, coins, prepare_outcome, shuffle
from scotoma.slices.search.strategies import split
from tests.helpers.commands import measured
from tests.helpers.crossed import crossed_variance, ratio_influence
from tests.slices.searching import find_slices, prepared


def world(seed: int, members: int = 3, rows: int = 400):
    """Outcomes of two populations in which rows of one cluster look alike, and a slice."""
    rng = np.random.default_rng(seed)
    clusters = rng.integers(0, 120, rows)
    difficulty = rng.normal(size=120)[clusters][:, None]
    dense, compressed = (
        (difficulty + rng.normal(0, 0.7, (rows, members)) > 0.8).astype(float) for _ in range(2)
    )
    return dense, compressed, clusters, rng.random(rows) < 0.4


def slow_influences(values, clusters, inside):
    """Influence of every cluster on mean(values inside) - mean(values outside), one by one."""
    here, there = values[inside].mean(), values[~inside].mean()
    found = []
    for cluster in np.unique(clusters):
        own = clusters == cluster
        a = (values[own & inside] - here).sum() / inside.sum()
        b = (values[own & ~inside] - there).sum() / (~inside).sum()
        found.append(a - b)
    return np.array(found)


def mean(outcome, baseline, reference, paired, clusters=None):
    return prepared(
        outcome, baseline=baseline, reference=reference, paired=paired, metric="mean",
        clusters=clusters,
    ).evidence  # fmt: skip


def over_clusters(evidence, inside):
    """The variance of a slice's effect over clusters."""
    if evidence.by_cluster is None:
        return None
    codes, values, every = evidence.by_cluster
    pairs = ClusterSums.of(np.where(inside, 0, 1)[None], codes, values)
    whole = every if evidence.lane.reference == "rest" else None
    size = np.array([inside.sum(), (~inside).sum()])
    return ClusterVariance.of(pairs, size, np.zeros(1, np.intp), whole)


def variance_of(evidence, inside):
    """Effect and variance of a slice's test."""
    lanes = evidence.parts[1][1]
    summed = (lanes[inside].sum(0)[None], np.array([float(inside.sum())]))
    summed += (float(inside.size), lanes.sum(0))
    variance, _ = evidence.lane.variance(*summed, over_clusters(evidence, inside))
    return evidence.lane.effects(*summed)[0], variance[0]


@pytest.mark.parametrize("seed", range(4))
def test_against_the_rest_a_cluster_counts_once_wherever_its_rows_lie(seed):
    _, compressed, clusters, inside = world(seed, members=1)
    means = mean(compressed, None, "rest", False, clusters)
    w = slow_influences(compressed[:, 0], clusters, inside)
    expected = (w**2).sum() * w.size / (w.size - 1)
    over = over_clusters(means, inside)
    np.testing.assert_allclose(over.variance[0], expected, rtol=1e-10)
    kurtosis = w.size * (w**4).sum() / (w**2).sum() ** 2
    np.testing.assert_allclose(over.df[0], 2 * w.size / (kurtosis - 1), rtol=1e-8)
    outcome = prepare_outcome(SLICE_METRICS["error"], compressed, None, None, 400)
    known = estimate_difference(replace(outcome, clusters=clusters), inside, 0.95)
    assert known.se**2 == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(4))
def test_against_a_baseline_the_variance_is_that_of_the_ratio_over_clusters(seed):
    dense, compressed, clusters, inside = world(seed)
    means = mean(compressed, dense, "baseline", True, clusters)
    change = (compressed - dense).mean(1, keepdims=True)[inside]
    rows = cluster_sums(np.ones(inside.sum()), clusters[inside])
    sums = cluster_sums(change, clusters[inside])
    psi = ratio_influence(sums, rows)[:, 0]
    centred = psi.var(ddof=1) / psi.size  # the test adds the squared mean: nothing changed
    effect, variance = variance_of(means, inside)
    assert effect == pytest.approx(change.mean())
    assert variance >= centred * (1 - 1e-9)
    assert variance < 1.3 * (centred + (change.mean() ** 2 + 1) / rows.size)


@given(st.integers(0, 1000), st.sampled_from(["rest", "baseline"]))
def test_rows_of_their_own_clusters_change_nothing_but_the_count_of_clusters(seed, reference):
    dense, compressed, _, inside = world(seed, rows=90)
    other = dense if reference == "baseline" else None
    plain = mean(compressed, other, reference, False)
    own = mean(compressed, other, reference, False, np.arange(90))
    (effect, variance), (known, other) = (variance_of(one, inside) for one in (own, plain))
    assert effect == known
    assert variance == pytest.approx(other, rel=0.1)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(0, 99))
def test_a_shuffle_moves_every_row_once_and_coins_are_shared(clusters, seed):
    clusters, rng = np.array(clusters), np.random.default_rng(seed)
    assert sorted(shuffle(clusters.size, clusters, rng)) == list(range(clusters.size))
    tosses = coins(clusters.size, clusters, rng)
    assert all(len(set(tosses[clusters == cluster])) == 1 for cluster in clusters)
    first, second = split(clusters, seed)
    assert not set(clusters[first]) & set(clusters[second])
    assert sorted([*first, *second]) == list(range(clusters.size))


def test_clusters_of_one_size_keep_their_outcomes_together():
    clusters = np.repeat(np.arange(30), 3)
    moved = shuffle(90, clusters, np.random.default_rng(0))
    assert all(len(set(clusters[moved[clusters == cluster]])) == 1 for cluster in range(30))


@pytest.mark.parametrize("compared", [False, True])
def test_copies_of_examples_find_nothing_where_clusters_are_named(compared):
    """Six copies of 900 examples: what looks like 5,400 rows is 900, and noise is called so."""
    found = {"named": 0, "unnamed": 0}
    for seed in range(10):
        rng = np.random.default_rng(seed)
        table = pl.DataFrame({f"x{i}": rng.choice(list("abcd"), 900) for i in range(4)})
        copied = pl.concat([table] * 6)
        dense, compressed = (np.tile(rng.random(900) < 0.2, 6) for _ in range(2))
        options = {"baseline": dense} if compared else {}
        options |= {"mode": "batch", "permutations": 0, "max_cross": 2}
        clusters = np.tile(np.arange(900), 6)
        named = find_slices(copied, compressed, clusters=clusters, **options)
        found["named"] += named.slice_count > 0
        found["unnamed"] += find_slices(copied, compressed, **options).slice_count > 0
        assert named.settings["clusters"] == 900
    assert found["unnamed"] >= 8
    assert found["named"] <= 2


@pytest.mark.parametrize("what", ["clusters", "members", "change"])
def test_the_family_that_is_corrected_for_does_not_depend_on_the_outcome(what):
    """A test given only to slices with many errors finds 11% in noise, not 5%."""
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(300), 3)
    table = {f"x{i}": rng.choice(list("abcd"), 300)[clusters] for i in range(4)}
    tested = set()
    for _ in range(5):
        wrong = (rng.permutation(300) < 60)[clusters]
        noise = rng.random((900, 3)) < 0.02
        options = {
            "clusters": {"outcome": wrong, "clusters": clusters},
            "members": {"outcome": wrong[:, None] ^ noise},
            "change": {"outcome": wrong[:, None] ^ noise, "baseline": noise},
        }[what]
        tested.add(find_slices(table, mode="batch", permutations=0, **options).tested)
    assert len(tested) == 1


@pytest.mark.parametrize("mode", ["cover", "batch", "priority"])
@pytest.mark.parametrize("metric", ["error", "mean", "f1", "auc"])
@pytest.mark.parametrize("people", [1, 2, 5])
def test_a_handful_of_clusters_shows_nothing(tmp_path, people, metric, mode):
    """With one cluster a half is empty; draws of few clusters scatter little or not at all."""
    rng, rows = np.random.default_rng(1), 300
    label = rng.integers(0, 2, rows)
    table = {"who": np.arange(rows) % people, "job": rng.choice(["a", "b"], rows), "label": label}
    table |= {"shift": rng.choice(["d", "n"], rows), "score": rng.random(rows)}
    table["answer"] = np.where(rng.random(rows) < 0.3, 1 - label, label)
    table["dense"] = np.where(rng.random(rows) < 0.1, 1 - label, label)
    pl.DataFrame(table).write_csv(tmp_path / "table.csv")
    (tmp_path / "settings.yaml").write_text(f"mode: {mode}\npermutations: 3\n")
    asked = {
        "error": ("--label", "label", "--outcome", "answer", "--baseline", "dense"),
        "mean": ("--outcome", "score"),
        "f1": (
            "--label", "label", "--positive", "1", "--outcome", "answer", "--baseline", "dense",
        ),
        "auc": ("--label", "label", "--positive", "1", "--outcome", "score"),
    }[metric]  # fmt: skip
    found = measured(
        "slices", tmp_path / "table.csv", *asked, "--metric", metric, "--cluster", "who",
        "--feature", "job", "--feature", "shift", "--settings", tmp_path / "settings.yaml",
    )  # fmt: skip
    assert (found["slices"], found["tested"], found["settings"]["clusters"]) == ([], 0, people)


@pytest.mark.parametrize("metric", ["error", "f1", "auc"])
def test_every_test_takes_clusters(metric):
    rng = np.random.default_rng(3)
    rows = 1_200
    table = pl.DataFrame(
        {"job": rng.choice(["a", "b", "c"], rows), "shift": rng.choice(["d", "n"], rows)}
    )
    bad = ((table["job"] == "a") & (table["shift"] == "n")).to_numpy()
    labels = rng.random(rows) < 0.5
    clusters = np.array([f"person {i // 2}" for i in range(rows)])
    outcome = labels ^ (rng.random(rows) < 0.05 + 0.5 * bad)
    if metric == "auc":
        outcome = np.where(bad, 0.0, labels) + rng.normal(size=rows)
    given_labels = labels if metric == "error" else labels.astype(int)
    report = find_slices(table, outcome, labels=given_labels, metric=metric, clusters=clusters,
                         permutations=5, bootstrap=50)  # fmt: skip
    assert report.slices[0].text == "job = a and shift = n"
    assert report.null.any <= 2


def test_rates_of_slices_are_those_of_clusters():
    _, compressed, clusters, inside = world(5)
    report = find_slices({"a": inside}, compressed, clusters=clusters, mode="batch", alpha=0.999,
                         direction="both", permutations=0)  # fmt: skip
    one = next(one for one in report.slices if one.text == "a = true")
    sums = cluster_sums(compressed[inside], clusters[inside])
    sizes = cluster_sums(np.ones(inside.sum()), clusters[inside])
    words = Words("event", "examples", "the slice")
    evidence = RateEvidence.of_tally(Tally.of(sums, None, sizes))
    (expected,) = evidence.columns(lambda place: words).estimates()
    for name in ("value", "low", "high", "n", "events", "df", "se"):
        assert getattr(one.inside, name) == pytest.approx(getattr(expected, name), rel=1e-12)
    assert one.inside.n == one.effect.n == np.unique(clusters[inside]).size < one.size


def test_means_of_slices_have_the_variance_over_clusters():
    _, compressed, clusters, inside = world(6)
    report = find_slices({"a": inside}, compressed, clusters=clusters, metric="mean", mode="batch",
                         alpha=0.999, direction="both", permutations=0)  # fmt: skip
    one = next(one for one in report.slices if one.text == "a = true")
    rows = cluster_sums(np.ones(inside.sum()), clusters[inside])
    influence = ratio_influence(cluster_sums(compressed[inside], clusters[inside]), rows)
    assert one.inside.se == pytest.approx(crossed_variance(influence).total ** 0.5)
    assert one.inside.value == pytest.approx(compressed[inside].mean())


def test_clusters_must_be_given_for_every_row():
    with pytest.raises(DataError, match=r"clusters must give one integer or string a row, got"):
        find_slices({"a": [1, 2, 3]}, [0, 1, 0], clusters=[1, 2])
