"""Temperatures and detection, against other libraries, the papers' sums and planted truth."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from scotoma.robustness import example_mean
from scotoma.robustness.confidence import mean_share
from scotoma.robustness.detection import Familiarity, accepted_share, auroc
from scotoma.robustness.temperature import (
    energy_and_tempered,
    fit_temperature,
    mean_temperature,
    temperature_influence,
)
from scotoma.stages.robustness.clean_scores import halves


def logits(seed: int, n: int = 2_000, too_sure: float = 2.5) -> tuple[np.ndarray, np.ndarray]:
    """Scores whose labels are drawn from the softmax of the scores over `too_sure`."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, 2, (n, 5))
    chance = np.exp(truth) / np.exp(truth).sum(axis=1, keepdims=True)
    labels = (chance.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return too_sure * truth, labels


def test_temperature_minimises_torchs_cross_entropy() -> None:
    """No temperature a little off has a lower loss, and the gradient there is 0."""
    scores, labels = logits(0)
    best = fit_temperature(scores, labels)
    temperature = torch.tensor(best, dtype=torch.float64, requires_grad=True)
    loss = torch.nn.functional.cross_entropy(
        torch.tensor(scores) / temperature, torch.tensor(labels)
    )
    loss.backward()
    assert temperature.grad is not None
    assert abs(float(temperature.grad)) < 1e-8
    assert best == pytest.approx(2.5, abs=0.25)


def test_influence_of_a_picture_is_what_leaving_it_out_does() -> None:
    scores, labels = logits(1, n=400)
    whole = fit_temperature(scores, labels)
    psi = temperature_influence(scores, labels, whole)
    for row in range(5):
        kept = np.arange(400) != row
        without = fit_temperature(scores[kept], labels[kept])
        assert 399 * (whole - without) == pytest.approx(psi[row], rel=0.05, abs=0.01)


def test_a_planted_temperature_is_within_its_interval() -> None:
    covered = 0
    for seed in range(20):
        members = [logits(100 * seed + k, n=400, too_sure=2.0) for k in range(5)]
        fitted = [fit_temperature(*one) for one in members]
        psi = np.stack(
            [temperature_influence(*one, t) for one, t in zip(members, fitted, strict=True)], axis=1
        )
        estimate = mean_temperature(fitted, psi)
        covered += estimate.low <= 2.0 <= estimate.high
    assert covered >= 16


def test_models_without_a_best_temperature_are_counted() -> None:
    """Always right: the surer the likelier. Never better than chance: the less sure the better."""
    assert np.isnan(fit_temperature([[3.0, 0.0], [0.0, 3.0]], [0, 1]))
    assert np.isnan(fit_temperature([[3.0, 0.0], [0.0, 3.0]], [1, 0]))
    assert np.isnan(fit_temperature([[np.nan, 0.0], [0.0, 3.0]], [1, 0]))
    estimate = mean_temperature([1.5, np.nan], np.zeros((5, 2)))
    assert estimate.reason == "undefined (no temperature fits 1 of the models)"


def test_energy_and_probability_are_torchs() -> None:
    scores, _ = logits(3, n=50)
    temperatures = np.linspace(0.5, 3, 50)
    energy, tempered = energy_and_tempered(scores, temperatures)
    values = torch.tensor(scores)
    assert energy == pytest.approx(torch.logsumexp(values, 1).numpy())
    softened = torch.softmax(values / torch.tensor(temperatures)[:, None], 1)
    assert tempered == pytest.approx(softened.amax(1).numpy())


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.integers(1, 3))
def test_area_and_accepted_share_are_scikit_learns(seed: int, corruptions: int) -> None:
    """With ties, of one member and of the mean over two."""
    rng = np.random.default_rng(seed)
    clean = rng.integers(0, 9, (40, 2)).astype(float)
    other = rng.integers(-3, 7, (corruptions, 40, 2)).astype(float)
    own = Familiarity(clean, other)
    areas, accepted = [], []
    for member in range(2):
        values = np.concatenate([clean[:, member], other[..., member].ravel()])
        known = np.arange(len(values)) < 40
        areas.append(roc_auc_score(known, values))
        share, kept, _ = roc_curve(known, values, drop_intermediate=False)
        accepted.append(share[np.argmax(kept >= 0.95)])
    assert auroc(own).value == pytest.approx(np.mean(areas))
    assert accepted_share(own).value == pytest.approx(np.mean(accepted))
    apart = Familiarity(clean, other.reshape(-1, 2))
    assert auroc(apart).value == pytest.approx(np.mean(areas))


@pytest.mark.parametrize(
    ("same", "audits"),
    [
        (True, 50),
        (False, 50),
        pytest.param(True, 1_000, marks=pytest.mark.thorough),
        pytest.param(False, 1_000, marks=pytest.mark.thorough),
    ],
)
def test_interval_of_the_area_covers_a_planted_one(same: bool, audits: int) -> None:
    """Normal scores a deviation apart: the area is Phi(1 / sqrt 2) (Hanley and McNeil)."""
    truth, covered, changes = 0.7602499389065233, 0, 0
    for seed in range(audits):
        rng = np.random.default_rng(seed)
        easy = rng.normal(size=(120, 1))
        run = rng.normal(0, 0.1, 6)

        def shown(shift: float, rng=rng, easy=easy, run=run) -> np.ndarray:
            shared = easy if same else rng.normal(size=(120, 1))
            noise = rng.normal(size=(120, 6))
            return np.sqrt(0.5) * shared + np.sqrt(0.5) * noise + shift * (1 + run)

        clean = np.sqrt(0.5) * easy + np.sqrt(0.5) * rng.normal(size=(120, 6))
        both = [Familiarity(clean, one[None] if same else one) for one in (shown(-1), shown(-1))]
        estimate, change = auroc(both[0]), auroc(both[0], both[1])
        covered += estimate.low <= truth <= estimate.high
        changes += change.low <= 0 <= change.high
    assert covered >= (0.93 if audits == 1_000 else 0.86) * audits
    assert changes >= (0.93 if audits == 1_000 else 0.86) * audits


def test_clusters_stay_whole_in_the_halves() -> None:
    clusters = np.repeat(np.arange(50), 3)
    first = halves(clusters, 1)
    assert 60 <= first.sum() <= 90
    assert all(len(set(first[clusters == one])) == 1 for one in range(50))
    assert (halves(clusters, 2) != first).any()


def test_a_share_of_none_has_an_interval_and_one_of_few_stays_above_zero() -> None:
    rng = np.random.default_rng(5)
    clean, far = rng.normal(4, 1, (200, 3)), rng.normal(-6, 1, (60, 3))
    none = accepted_share(Familiarity(clean, far))
    assert (none.value, none.low, none.n) == (0, 0, 60)
    assert none.high == pytest.approx(3 / 60)
    far[:2] += 12  # each passes with every member
    few = accepted_share(Familiarity(clean, far))
    assert 0 < few.low < few.value < few.high < 0.2


def test_a_share_stays_between_nothing_and_all() -> None:
    rng = np.random.default_rng(6)
    shown = rng.random((300, 5)) < 0.997
    high = mean_share(shown, np.ones(shown.shape), "")
    assert 0.98 < high.low < high.value < high.high <= 1
    everything = mean_share(np.ones((300, 5)), np.ones((300, 5)), "")
    assert (everything.value, everything.high) == (1, 1)
    assert everything.low == pytest.approx(1 - 3 / 300)
    rare = example_mean(rng.random(500) < 0.004, members=5, share=True)
    assert 0 < rare.low < rare.value < rare.high < 0.05
