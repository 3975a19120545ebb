"""Randomised thresholds against fairlearn's, offsets and last layers against their optima."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from fairlearn.postprocessing import ThresholdOptimizer
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from scotoma.errors import DataError
from scotoma.mitigation import decide
from scotoma.mitigation.decide.thresholds import Thresholds, roc_hull
from scotoma.mitigation.held_out import judged_half

pytestmark = pytest.mark.slow  # fairlearn imports pandas and scikit-learn

FAIRLEARN = {"true positive rate": "true_positive_rate_parity", "odds": "equalized_odds"}
DIVISORS = [1, 2, 4, 5, 8, 10, 20, 25, 40]  # of fairlearn's grid of 1,000: corners lie on it


class Given(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A model whose score is its only feature."""

    def fit(self, X: Any, y: Any) -> Given:
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X: Any) -> Any:
        return np.asarray(X)[:, 0]


def table(seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Scores with ties, labels and two or three groups."""
    random = np.random.default_rng(seed)
    labels, groups = [], []
    for group in range(int(random.integers(2, 4))):
        counts = random.choice(DIVISORS, size=2)
        labels += [0] * counts[0] + [1] * counts[1]
        groups += [group] * int(counts.sum())
    y, a = np.array(labels), np.array(groups)
    scores = random.normal(size=len(y)) + random.uniform(-0.5, 2) * y + 0.7 * a
    return np.round(scores, int(random.integers(0, 4))), y, a


def expected(chance: NDArray[np.float64], y: NDArray[Any], a: NDArray[Any]) -> dict[str, Any]:
    rates = {
        label: np.array([chance[(a == g) & (y == label)].mean() for g in np.unique(a)])
        for label in (0, 1)
    }
    return {"accuracy": np.where(y == 1, chance, 1 - chance).mean(), **rates}


def against_fairlearn(seed: int, equal: Any) -> tuple[float, bool]:
    """How much more accurate ours is than fairlearn's, and whether both chances are equal."""
    scores, y, a = table(seed)
    rule = Thresholds.fit(scores, y, a, equal=equal)
    ours = rule.probability(scores, a)
    optimizer = ThresholdOptimizer(
        estimator=Given(), constraints=FAIRLEARN[equal], prefit=False, predict_method="predict"
    )
    optimizer.fit(scores[:, None], y, sensitive_features=a)
    theirs = optimizer._pmf_predict(scores[:, None], sensitive_features=a)[:, 1]
    mine, fairlearns = expected(ours, y, a), expected(theirs, y, a)
    assert np.ptp(mine[1]) < 1e-9
    if equal == "odds":
        assert np.ptp(mine[0]) < 1e-9
    return mine["accuracy"] - fairlearns["accuracy"], bool(np.abs(ours - theirs).max() < 1e-9)


def compare(seeds: range) -> None:
    rate = [against_fairlearn(seed, "true positive rate") for seed in seeds]
    odds = [against_fairlearn(seed, "odds") for seed in seeds]
    # the corners of these tables lie on fairlearn's grid: the same optimum, and the same chances
    # except on plateaus, where several rates are equally accurate
    assert max(abs(gain) for gain, _ in rate) < 1e-9
    assert np.mean([same for _, same in rate]) > 0.75
    # two hulls may cross between grid points, where ours is more accurate, never less
    assert min(gain for gain, _ in odds) > -1e-9
    assert max(gain for gain, _ in odds) < 2e-3
    assert np.mean([gain < 1e-9 for gain, _ in odds]) > 0.5


def test_thresholds_equal_those_of_fairlearn() -> None:
    compare(range(20))


@pytest.mark.thorough
def test_thresholds_equal_those_of_fairlearn_on_1000_tables() -> None:
    compare(range(1000))


def test_draws_have_the_chances_that_the_rule_says() -> None:
    scores, y, a = table(5)
    rule = Thresholds.fit(scores, y, a, equal="odds")
    many, groups = np.tile(scores, 4000), np.tile(a, 4000)
    drawn = rule(many, groups).reshape(4000, -1).mean(axis=0)
    assert np.abs(drawn - rule.probability(scores, a)).max() < 0.04  # 5 standard errors of 1/2
    assert rule(many, groups).tolist() == rule(many, groups).tolist()


@given(st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=2, max_size=30))
def test_no_threshold_lies_above_the_hull(rows: list[tuple[int, bool]]) -> None:
    scores = np.array([float(score) for score, _ in rows])
    labels = np.array([int(label) for _, label in rows])
    labels[:2] = 0, 1
    hull = roc_hull(scores, labels)
    for cut in [-np.inf, *np.unique(scores)]:
        above = scores > cut
        x, y = above[labels == 0].mean(), above[labels == 1].mean()
        assert hull.highest_true_positive_rate(np.array([x]))[0] >= y - 1e-12
    for x, y, cut in zip(
        hull.false_positive_rate, hull.true_positive_rate, hull.threshold, strict=True
    ):
        above = scores > cut
        assert (above[labels == 0].mean(), above[labels == 1].mean()) == pytest.approx((x, y))


# --- offsets --------------------------------------------------------------------------------------


def clouds(seed: int, n: int = 600) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    random = np.random.default_rng(seed)
    labels, groups = random.integers(3, size=n), random.integers(2, size=n)
    scores = random.normal(size=(n, 3))
    scores[np.arange(n), labels] += 1.2
    return scores, labels, groups


def test_offsets_undo_a_shift_of_one_groups_scores() -> None:
    scores, labels, groups = clouds(2)
    shift = np.array([[0.0, 0.0, 0.0], [2.0, -1.5, -0.5]])
    plain = decide.fit("offsets", scores, labels, groups, inverse_penalty=1e9)
    moved = decide.fit("offsets", scores + shift[groups], labels, groups, inverse_penalty=1e9)
    difference = np.array(moved.offsets) - np.array(plain.offsets)  # type: ignore[attr-defined]
    np.testing.assert_allclose(difference, -shift, atol=1e-4)
    predicted = plain(scores, groups)
    assert moved(scores + shift[groups], groups).tolist() == predicted.tolist()


def test_offsets_follow_the_scale_of_the_scores() -> None:
    scores, labels, groups = clouds(3)
    plain = decide.fit("offsets", scores, labels, groups)
    large = decide.fit("offsets", 50 * scores, labels, groups)
    offsets = [np.array(rule.offsets) for rule in (plain, large)]  # type: ignore[attr-defined]
    np.testing.assert_allclose(offsets[1], 50 * offsets[0], rtol=1e-3, atol=1e-3)


def test_penalised_offsets_vanish() -> None:
    scores, labels, groups = clouds(4)
    rule = decide.fit("offsets", scores, labels, groups, inverse_penalty=1e-9)
    assert np.abs(rule.offsets).max() < 1e-5  # type: ignore[attr-defined]
    assert rule(scores, groups).tolist() == scores.argmax(axis=1).tolist()


# --- DFR ------------------------------------------------------------------------------------------


def features(seed: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    random = np.random.default_rng(seed)
    labels, groups = random.integers(3, size=400), random.integers(2, size=400)
    z = random.normal(size=(400, 6)) + np.eye(6)[labels] * 1.5 + np.eye(6)[3 + groups]
    z[:, 5] = 4.0  # a unit that never fires is constant
    return 10.0 ** np.arange(-2, 4) * z, labels, groups


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("inverse_penalty", [0.05, 1.0, 20.0])
def test_dfr_with_all_rows_minimises_torchs_penalised_loss(
    inverse_penalty: float, classes: int
) -> None:
    """At the layer's weights of standardised features, no slope is left."""
    z, labels, _ = features(0)
    labels = labels % classes
    rule: Any = decide.fit(
        "dfr", z, labels, inverse_penalty=inverse_penalty, balanced=False, tolerance=1e-9
    )
    mean, spread = z.mean(axis=0), z.std(axis=0)
    spread[5] = 1.0
    weight = torch.tensor(np.array(rule.weight) * spread, requires_grad=True)
    bias = torch.tensor(np.array(rule.bias) + np.array(rule.weight) @ mean, requires_grad=True)
    scores = torch.tensor((z - mean) / spread) @ weight.T + bias
    loss = torch.nn.functional.cross_entropy(scores, torch.tensor(labels), reduction="sum")
    (loss + (weight**2).sum() / (2 * inverse_penalty)).backward()
    for slopes in (weight.grad, bias.grad):
        assert slopes is not None
        assert float(slopes.abs().max()) / len(z) < 1e-6
    assert np.sum(rule.weight, axis=0) == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(rule.scores(z), scores.detach().numpy(), atol=1e-9)


def test_dfr_needs_an_example_of_every_class() -> None:
    z, labels, _ = features(0)
    with pytest.raises(DataError, match="got none of class 3 in group 0; add some"):
        decide.fit("dfr", z, labels, classes=4, inverse_penalty=1.0, balanced=False)


def test_dfr_on_balanced_rows_is_the_mean_of_its_heads() -> None:
    """Cells of equal size leave nothing to draw: every draw is all rows."""
    z, labels, groups = features(1)
    cell = groups * 3 + labels
    smallest = np.bincount(cell).min()
    rows = np.concatenate([np.flatnonzero(cell == c)[:smallest] for c in range(6)])
    drawn = decide.fit(
        "dfr", z[rows], labels[rows], groups[rows], inverse_penalty=1.0, tolerance=1e-9
    )
    whole = decide.fit(
        "dfr", z[rows], labels[rows], inverse_penalty=1.0, balanced=False, tolerance=1e-9
    )
    np.testing.assert_allclose(
        drawn.scores(z),  # type: ignore[attr-defined]
        whole.scores(z),  # type: ignore[attr-defined]
        atol=1e-6,
    )


def test_the_penalty_of_dfr_is_that_of_the_best_worst_group_of_held_out_examples() -> None:
    """A slow twin with scikit-learn, which sees neither the grid's order nor warm starts."""
    from sklearn.linear_model import LogisticRegression

    z, labels, groups = features(2)
    held = judged_half(groups * 3 + labels, None, 0)
    spread = z.std(0)
    standard = (z - z.mean(0)) / np.where(spread > 0, spread, 1.0)
    counts = np.bincount((groups * 3 + labels)[~held], minlength=6)
    random, rows = np.random.default_rng(0), []
    for cell in range(6):
        of_cell = np.flatnonzero((groups * 3 + labels)[~held] == cell)
        rows.append(random.choice(of_cell, counts.min(), replace=False))
    fit_on = np.flatnonzero(~held)[np.sort(np.concatenate(rows))]
    worst = {}
    for penalty in (0.001, 0.01, 0.1, 1.0, 10.0):
        model = LogisticRegression(C=penalty, tol=1e-8, max_iter=10_000)
        right = model.fit(standard[fit_on], labels[fit_on]).predict(standard[held]) == labels[held]
        worst[penalty] = min(
            np.mean([right[(groups[held] == g) & (labels[held] == y)].mean() for y in range(3)])
            for g in range(2)
        )
    rule = decide.fit("dfr", z, labels, groups)
    assert worst[rule.inverse_penalty] == max(worst.values())  # type: ignore[attr-defined]
    one_each = np.arange(6)
    alone = decide.fit("dfr", z[:6], one_each % 3, one_each // 3)
    assert alone.inverse_penalty == 1.0  # type: ignore[attr-defined]  # nothing to hold out


def test_dfr_helps_the_group_that_a_shortcut_fails() -> None:
    random = np.random.default_rng(0)
    y = random.integers(2, size=4000)
    a = np.where(random.random(4000) < 0.95, y, 1 - y)  # the shortcut is right 95% of the time
    z = np.stack([y + random.normal(size=4000), 3 * a + random.normal(size=4000)], axis=1)
    fit_on, judged = slice(0, 2000), slice(2000, None)
    worst = {}
    for balanced in (False, True):
        rule = decide.fit("dfr", z[fit_on], y[fit_on], a[fit_on], balanced=balanced)
        right = rule(z[judged]) == y[judged]
        cells = 2 * y[judged] + a[judged]
        worst[balanced] = min(right[cells == cell].mean() for cell in range(4))
    assert worst[False] < 0.4 < 0.6 < worst[True]


def test_a_layer_of_given_weights_gives_their_scores() -> None:
    z, _, _ = features(2)
    random = np.random.default_rng(2)
    weight, bias = random.normal(size=(3, 6)), random.normal(size=3)
    rule = decide.LastLayer.of(weight, bias)
    np.testing.assert_allclose(rule.scores(z), z @ weight.T + bias, rtol=1e-12)
