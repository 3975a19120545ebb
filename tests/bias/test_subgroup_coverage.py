"""How often the intervals hold the truth, over audits whose truth is known."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import norm

from scotoma.bias import GroupChange, amplification, gap
from scotoma.numbers import Estimate
from tests.helpers.worlds import AUDITS, worlds

pytestmark = pytest.mark.slow

RATES = {"a": (0.06, 0.07), "b": (0.08, 0.12)}  # dense and compressed error of either group


@dataclass(frozen=True)
class World:
    """What the audits are drawn from: probit errors of examples and runs, crossed.

    An error is a latent value above its threshold: per-example difficulty (sd su; dense and
    compressed correlated) plus per-run effect (sd sr) plus chance (sd 1).
    """

    k: int = 5
    k_c: int = 5
    n: int = 600  # rows; a third are group a
    su: float = 1.5
    sr: float = 0.10
    correlation: float = 0.95
    paired: bool = False
    clustered: bool = False
    fixed_models: bool = False  # the truth is that of the models drawn, not of all models


def draw(world: World, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, list]:
    """Dense and compressed errors, clusters, and the true rates (dense, compressed) of a and b."""
    rng = np.random.default_rng([seed, 7])
    n, k, k_c = world.n, world.k, world.k_c
    in_a = np.arange(n) % 3 == 0
    source = rng.integers(0, n // 2, n)  # one to several rows a source
    fate = rng.normal(size=n)
    if world.clustered:
        fate = math.sqrt(0.8) * rng.normal(size=n)[source] + math.sqrt(0.2) * fate
    fresh = rng.normal(size=n)
    fate_c = world.correlation * fate + math.sqrt(1 - world.correlation**2) * fresh
    runs, chance = rng.normal(size=k), rng.normal(size=(n, k))
    runs_c, chance_c = rng.normal(size=k_c), rng.normal(size=(n, k_c))
    if world.paired:  # the compressed member keeps most of its own run
        runs_c, chance_c = 0.9 * runs + 0.44 * runs_c, 0.9 * chance + 0.44 * chance_c
    truth = []
    errors = []
    for p, (u, r, e) in enumerate([(fate, runs, chance), (fate_c, runs_c, chance_c)]):
        # A probit of a sum of normals is a probit: this threshold makes the mean rate exact.
        spread = math.sqrt(world.su**2 + 1 + (0 if world.fixed_models else world.sr**2))
        threshold = np.array([norm.isf(RATES[group][p]) * spread for group in "ab"])
        own = threshold[np.where(in_a, 0, 1)]
        errors.append(world.su * u[:, None] + world.sr * r + e > own[:, None])
        shift = (world.sr * r).mean() if world.fixed_models else 0.0
        truth.append([norm.sf((t - shift) / spread) for t in threshold])
    return *errors, source if world.clustered else None, truth


@functools.cache
def audits(world: World) -> list[tuple[GroupChange, GroupChange, dict[str, Estimate], list]]:
    found = []
    in_a = np.arange(world.n) % 3 == 0
    labels = np.zeros(world.n, int)
    for seed in range(AUDITS):
        dense, compressed, clusters, truth = draw(world, seed)
        predictions = labels, dense.astype(np.int8), compressed.astype(np.int8)
        said = {"n_classes": 2, "clusters": clusters, "paired": world.paired}
        changes = amplification(
            *predictions, np.stack([in_a, ~in_a]), ["a", "b"], positive=1, **said
        )
        a, b = (change for change in changes if change.metric == "fpr")
        found.append((a, b, gap(*predictions, in_a, ~in_a, **said), truth))
    return found


def estimates(world: World) -> dict[str, list]:
    """Per number its estimates over the audits, each with its truth, where estimable."""
    rows = {"rate": [], "difference": [], "relative": [], "gap": []}
    for _, b, between, ((d_a, d_b), (c_a, c_b)) in audits(world):
        rows["rate"].append((b.compressed, c_b))
        rows["difference"].append((b.absolute, c_b - d_b))
        rows["relative"].append((b.relative, c_b / d_b - 1))
        rows["gap"].append((between["gap"], (c_b - d_b) - (c_a - d_a)))
    return rows


WORLDS = {
    "5 members": World(),
    "10 members": World(k=10, k_c=10),
    "5 pairs": World(paired=True),
    "30 members": World(k=30, k_c=30),
    "10 pairs": World(k=10, k_c=10, paired=True),
    "30 pairs": World(k=30, k_c=30, paired=True),
    "few hard examples that 30 members share": World(k=30, k_c=30, su=3.0, correlation=0.9),
    "10 and 5 runs that differ much": World(k=10, sr=0.4, n=1500),
    "clusters": World(clustered=True),
    "clusters, 10 pairs": World(k=10, k_c=10, clustered=True, paired=True),
    "clusters, 30 members": World(k=30, k_c=30, clustered=True),
    "shipped": World(k=1, k_c=1, n=1500, sr=0.2, paired=True, fixed_models=True),
}


@pytest.mark.parametrize("number", ["rate", "difference", "relative", "gap"])
@pytest.mark.parametrize("name", worlds(WORLDS))
def test_intervals_hold_the_truth_about_as_often_as_they_say(name, number):
    pairs = [(e, truth) for e, truth in estimates(WORLDS[name])[number] if not math.isnan(e.low)]
    assert len(pairs) >= 0.99 * AUDITS
    held = np.mean([e.low <= truth <= e.high for e, truth in pairs])
    assert 0.91 <= held <= 0.995, held


@pytest.mark.parametrize("number", ["difference", "relative", "gap"])
@pytest.mark.parametrize("name", worlds(WORLDS))
def test_standard_errors_are_as_long_as_the_spread_of_the_audits(name, number):
    pairs = [(e, truth) for e, truth in estimates(WORLDS[name])[number] if not math.isnan(e.se)]
    values, truths = np.array([e.value for e, _ in pairs]), np.array([truth for _, truth in pairs])
    misses = np.log1p(values) - np.log1p(truths) if number == "relative" else values - truths
    # The variance is what is estimated without bias: its root, at few degrees of freedom, is not.
    # The floor for examples that have not changed yet makes it longer, above all with few models.
    ratio = math.sqrt(np.mean([e.se**2 for e, _ in pairs])) / misses.std(ddof=1)
    assert 0.9 <= ratio <= 1.25, ratio
