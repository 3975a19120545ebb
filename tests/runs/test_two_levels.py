"""Other test sets, equal accuracy, minority cells and runs of one seed: against slow twins."""

from __future__ import annotations

import numpy as np
import pytest

from scotoma.bias.fairness import NAMES
from scotoma.bias.member_fairness import member_fairness
from scotoma.runs import compare_one_seed, equal_accuracy, resampled_bias, survival
from scotoma.runs.effects import covariance_of_draws, fieller, two_level_mean
from scotoma.runs.survival import comparable


def world(n: int = 240, members: int = 3) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    labels, group = rng.integers(3, size=n), rng.integers(2, size=n)
    wrong = rng.random((n, members)) < np.where(group == 1, 0.3, 0.1)[:, None]
    predicted = np.where(wrong, rng.integers(3, size=(n, members)), labels[:, None])
    return labels, predicted, np.stack([group == 0, group == 1]), np.repeat(np.arange(n // 2), 2)


@pytest.mark.parametrize("class_id", [None, 1])
def test_a_draw_is_the_metrics_of_rows_that_are_repeated(class_id: int | None) -> None:
    labels, predicted, groups, clusters = world()
    drawn = resampled_bias(
        labels, [predicted, predicted[:, :2]], groups, NAMES, n_classes=3, class_id=class_id,
        clusters=clusters, draws=5, seed=3,
    )  # fmt: skip
    weights = np.random.Generator(np.random.Philox(key=3)).poisson(1.0, (5, 120))[:, clusters]
    for draw, times in enumerate(weights):
        rows = np.repeat(np.arange(len(labels)), times)
        for place, own in enumerate((predicted, predicted[:, :2])):
            slow = member_fairness(
                labels[rows], own[rows], groups[:, rows], n_classes=3, class_id=class_id
            )
            expected = [slow[name].values.mean() for name in NAMES]
            np.testing.assert_allclose(drawn[draw, place], expected)


def test_intervals_over_examples_hold_what_other_test_sets_show() -> None:
    """The draws' standard deviation is that of the metric over test sets that are really new."""
    rng = np.random.default_rng(1)

    def test_set() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        group, labels = rng.integers(2, size=600), rng.integers(2, size=600)
        wrong = rng.random((600, 2)) < np.where(group == 1, 0.35, 0.1)[:, None]
        predicted = np.where(wrong & (labels == 1)[:, None], 0, labels[:, None])
        return labels, predicted, np.stack([group == 0, group == 1])

    new = [
        member_fairness(y, p, g, n_classes=2, class_id=1)["EOTP"].values.mean()
        for y, p, g in (test_set() for _ in range(300))
    ]
    y, p, g = test_set()
    drawn = resampled_bias(y, [p], g, ["EOTP"], n_classes=2, class_id=1, draws=300)
    assert 0.75 < drawn.std() / np.std(new) < 1.3


def test_both_levels_add_up_and_without_draws_nothing_changes() -> None:
    rng = np.random.default_rng(2)
    runs, draws = rng.normal(0.1, 0.02, 8), rng.normal(0.1, 0.03, 4000)
    whole = two_level_mean(runs, draws)
    se = np.sqrt(runs.var(ddof=1) / 8 + draws.var(ddof=1))
    assert 1.95 < (whole.high - whole.value) / se < 2.1  # hardly more than the normal quantile
    y = runs + 0.3
    assert fieller(runs, y, examples=np.zeros((2, 2))).low == fieller(runs, y).low
    wider = fieller(runs, y, examples=covariance_of_draws(rng.normal(0, 0.01, (500, 2))))
    assert wider.low < fieller(runs, y).low < fieller(runs, y).high < wider.high


def test_intervals_of_survival_widen_with_test_examples_and_values_stay() -> None:
    rng = np.random.default_rng(3)
    b = rng.normal(0, 0.002, (2, 2, 8, 1)) + np.array([0.10, 0.04])[:, None, None, None]
    keys = [(t, v, "DP") for t in ("base", "fair") for v in ("dense", "prune-0.9")]
    sets = dict(zip(keys, b.reshape(4, 8), strict=True))
    [alone] = survival(sets, base="base", dense="dense")
    drawn = {key: own.mean() + rng.normal(0, 0.01, 400) for key, own in sets.items()}
    [both] = survival(sets, base="base", dense="dense", drawn=drawn)
    for key in ("harm", "gain", "gain dense", "interaction", "survival"):
        one, two = alone[key], both[key]
        assert one.value == two.value
        assert two.high - two.low > one.high - one.low
        assert two.note == ""
    assert both.value("p") == alone.value("p")


def test_equal_accuracy_takes_the_nearest_variant_and_says_where_none_is_near() -> None:
    accuracy = np.array([[0.92, 0.88, 0.80], [0.95, 0.885, 0.70]])[..., None].repeat(4, 2)
    accuracy += np.arange(4) / 1000
    b = np.array([[0.10, 0.15, 0.2], [0.04, 0.05, 0.3]])[..., None, None].repeat(4, 2)
    b += (np.arange(4) / 1000)[:, None] * np.array([1, 2, 3])[:, None, None]
    sets = {}
    for t, name in enumerate(("base", "x")):
        for v, variant in enumerate(("dense", "p", "q")):
            sets[name, variant, "BA"] = b[t, v, :, 0]
            sets[name, variant, "accuracy"] = accuracy[t, v]
    rows = equal_accuracy(sets, base="base")
    assert [(row.variant, row.base, comparable(row)) for row in rows] == [
        ("dense", "dense", False), ("p", "p", True), ("q", "q", False),
    ]  # fmt: skip
    assert rows[1].value("gain") == pytest.approx(0.10)


def test_runs_of_one_seed_that_do_not_differ_have_no_variance() -> None:
    rng = np.random.default_rng(4)
    seeds = {("x", "DP"): rng.normal(0.3, 0.03, 8), ("x", "accuracy"): rng.normal(0.9, 0.01, 8)}
    same = {("x", "DP"): np.full(8, 0.3), ("x", "accuracy"): np.full(8, 0.9)}
    cells = compare_one_seed(seeds, same)
    assert [(c.metric, c.value("variance ratio"), c.value("SD of one seed")) for c in cells] == [
        ("DP", 0.0, 0.0), ("accuracy", 0.0, 0.0),
    ]  # fmt: skip
