"""Overconfidence and detection, against simulated truth, other libraries and planted areas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from scotoma.numbers import COMPRESSED, Units
from scotoma.robustness.confidence import auroc, energy, overconfidence


def drawn(rng: np.random.Generator, n: int, members: int = 4, bias: float = 0.0) -> np.ndarray:
    """Confidence less right answers of models that are right as often as they say, less `bias`."""
    hard = rng.normal(size=(n, 1))
    sure = 1 / (1 + np.exp(-(1.5 + hard + 0.5 * rng.normal(size=(n, members)))))
    return np.asarray(sure - (rng.random((n, members)) < sure - bias))


def test_too_sure_models_have_a_gap_that_is_held() -> None:
    rng = np.random.default_rng(1)
    held, differ = 0, 0
    for _ in range(150):
        own, other = drawn(rng, 400, bias=0.1), drawn(rng, 400)
        one = overconfidence(own, Units.of(400), COMPRESSED)
        before = overconfidence(other, Units.of(400))
        gap, both = one.estimate(), (one - before).floored(1.0).estimate()
        held += gap.low <= 0.1 <= gap.high
        differ += both.low <= 0.1 <= both.high
        assert both.value == pytest.approx(gap.value - before.value)
    assert held >= 0.88 * 150
    assert differ >= 0.88 * 150


def test_clusters_count_once() -> None:
    own = drawn(np.random.default_rng(5), 300)
    one = overconfidence(own, Units.of(300)).estimate()
    twice = Units.of(600, np.repeat(np.arange(300), 2))
    other = overconfidence(np.repeat(own, 2, axis=0), twice).estimate()
    assert other.value == pytest.approx(one.value)
    assert other.se == pytest.approx(one.se, rel=0.05)
    assert other.n == 300


def test_energy_is_torchs() -> None:
    scores = 5 * np.random.default_rng(3).normal(size=(50, 5))
    assert energy(scores) == pytest.approx(torch.logsumexp(torch.tensor(scores), 1).numpy())


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.integers(1, 3))
def test_area_is_scikit_learns(seed: int, corruptions: int) -> None:
    """With ties, the mean over two members."""
    rng = np.random.default_rng(seed)
    clean = rng.integers(0, 9, (40, 2)).astype(float)
    other = rng.integers(-3, 7, (corruptions, 40, 2)).astype(float)
    areas = []
    for member in range(2):
        values = np.concatenate([clean[:, member], other[..., member].ravel()])
        areas.append(roc_auc_score(np.arange(len(values)) < 40, values))
    assert auroc(clean, other).value == pytest.approx(np.mean(areas))
    assert auroc(clean, other.reshape(-1, 2)).value == pytest.approx(np.mean(areas))


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
        shifted = (one[None] if same else one for one in (shown(-1), shown(-1)))
        own, dense = (
            auroc(clean, one, axis=axis)
            for one, axis in zip(shifted, (COMPRESSED, "dense"), strict=True)
        )
        estimate, change = own.estimate(), (own - dense).floored(1 / 120).estimate()
        covered += estimate.low <= truth <= estimate.high
        changes += change.low <= 0 <= change.high
    assert covered >= (0.93 if audits == 1_000 else 0.86) * audits
    assert changes >= (0.93 if audits == 1_000 else 0.86) * audits
