"""What intervals hold where few predictions change: int8 variants and groups of 20 to 60 examples.

The generator shares no code with the package: difficulties from a Beta distribution, a Gaussian
copula between the dense and the compressed prediction, run effects.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from scipy.special import ndtri

from scotoma.bias import gap
from scotoma.bias.clarify import metric, metric_changes
from scotoma.bias.clarify.estimates import POST_TRAINING
from scotoma.impact import class_impact

pytestmark = pytest.mark.slow

COUPLINGS = (0.99, 0.9975, 0.999975)  # 2%, 1% and 0.1% of the predictions flip
SIZES = [(60, 20), (40, 40), (20, 60)]  # examples of the advantaged and the disadvantaged facet
STRENGTH = 1.2  # of the Beta distribution: most examples are easy, few are hard
HARM = 0.1  # in probits, for the disadvantaged facet: about 2 points of error
AUDITS = [45, pytest.param(1000, marks=pytest.mark.thorough)]


def predictions(rng, mean, runs, coupling, harm=0.0):
    """Whether dense and compressed members are wrong, bool, shape (n, K) each.

    Args:
        rng: Generator of examples and predictions.
        mean: Expected error of each example's kind, shape (n,).
        runs: Probits by which each dense run errs more, shape (K,).
        coupling: Correlation of the dense and the compressed prediction.
        harm: Probits by which compression raises the error of each example, shape (n,).
    """
    difficulty = rng.beta(mean * STRENGTH, (1 - mean) * STRENGTH)
    threshold = ndtri(np.clip(difficulty, 1e-9, 1 - 1e-9))[:, None] + runs
    latent = rng.normal(size=threshold.shape)
    noise = rng.normal(size=threshold.shape)
    other = coupling * latent + np.sqrt(1 - coupling**2) * noise
    return latent < threshold, other < threshold + np.reshape(harm, (-1, 1))


def facets(rng, sizes, runs, coupling, harm=0.0):
    """Two facets as `changes` takes them: d, y, strata, features, dense and compressed."""
    d = np.repeat([False, True], sizes)
    y = rng.random(d.size) < np.where(d, 0.45, 0.55)
    wrong = predictions(rng, 0.18 + 0.05 * y + 0.08 * d, runs, coupling, harm * d)
    dense, compressed = (y[:, None] ^ errs for errs in wrong)
    return {
        "d": d, "y": y, "strata": rng.random(d.size) < 0.5, "dense": dense,
        "compressed": compressed, "features": np.c_[y + rng.normal(size=d.size) / 2, d],
    }  # fmt: skip


@functools.cache
def truth(sizes, names):
    """The changes in 160,000 examples of the same world; the runs have no effects of their own."""
    many = [2000 * size for size in sizes]
    whole = facets(np.random.default_rng(0), many, np.zeros(3), COUPLINGS[0], HARM)
    given = {name: whole[name] for name in ("d", "y", "strata")}
    dense, compressed = (
        {name: np.mean([metric(name, **given, p=p) for p in whole[part].T]) for name in names}
        for part in ("dense", "compressed")
    )
    return {name: compressed[name] - dense[name] for name in names}


def coverage(members, audits, *, harm):
    """Of each metric: audits with a number, with an interval, and whose interval holds the truth.

    A metric has no number where a rate in it has no denominator.
    """
    rng = np.random.default_rng(10 * members + harm)
    sums: dict[str, np.ndarray] = {}
    for place in range(audits):
        sizes, coupling = SIZES[place % 3], COUPLINGS[place // 3 % 3]
        runs = np.zeros(members) if harm else 0.1 * rng.normal(size=members)
        one = facets(rng, sizes, runs, coupling, HARM * harm)
        # Of what neighbours do there is no truth but that of as many rows: none where harm is done.
        names = tuple(name for name in POST_TRAINING if name != "FT" or not harm)
        expected = truth(sizes, names) if harm else {}
        for name, seen in metric_changes(**one, paired=True, only=names).items():
            change = expected[name] if harm else 0.0
            inside = seen.low <= change <= seen.high
            holds = [not math.isnan(seen.value), not math.isnan(seen.low), inside]
            sums[name] = sums.get(name, np.zeros(3)) + holds
    return sums


@pytest.mark.parametrize("audits", AUDITS)
@pytest.mark.parametrize("harm", [False, True])
@pytest.mark.parametrize("members", [1, 2, 5])
def test_intervals_of_clarify_changes_hold_where_few_predictions_flip(members, harm, audits):
    for name, (numbers, intervals, covered) in coverage(members, audits, harm=harm).items():
        assert numbers >= (0.5 if name == "TE" else 0.99) * audits, name
        assert intervals >= 0.95 * numbers, name
        assert covered >= 0.93 * numbers, name


def false_gaps(members, audits):
    """Share of audits that show a gap at p <= 0.05 where compression harms all examples alike."""
    rng, significant = np.random.default_rng(members), 0
    for place in range(audits):
        size, coupling = (20, 40, 60)[place % 3], COUPLINGS[place // 3 % 3]
        small = np.arange(5000) < size
        runs = 0.1 * rng.normal(size=members)
        wrong = predictions(rng, np.full(small.size, 0.15), runs, coupling, HARM / 4)
        dense, compressed = (errs.astype(int) for errs in wrong)
        seen = gap(
            np.zeros(small.size, int), dense, compressed, ~small, small, n_classes=2, paired=True
        )["gap"]
        significant += 2 * min(seen.p_above(0.0), seen.p_below(0.0)) <= 0.05
    return significant / audits


@pytest.mark.parametrize("audits", [150, pytest.param(1500, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("members", [1, 2, 5])
def test_compression_that_harms_all_alike_shows_no_gap(members, audits):
    assert false_gaps(members, audits) <= 0.06


def false_classes(members, audits):
    """Share of classes that change at p <= 0.05 where compression harms all of them alike."""
    rng, significant = np.random.default_rng(members), []
    labels = np.repeat(np.arange(10), [20, 40, 60, 1000, 1000] * 2)
    for place in range(audits):
        runs = 0.1 * rng.normal(size=members)
        wrong = predictions(rng, np.full(labels.size, 0.15), runs, COUPLINGS[place % 3], HARM / 4)
        ids = ((labels[:, None] + errs) % 10 for errs in wrong)
        rows = class_impact(*ids, labels, n_classes=10, paired=True)
        p = np.array([row.p for row in rows])
        significant.append(p[~np.isnan(p)] <= 0.05)
    return float(np.concatenate(significant).mean())


@pytest.mark.parametrize("audits", [60, pytest.param(400, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("members", [1, 2, 5])
def test_compression_that_harms_all_alike_changes_no_class(members, audits):
    assert false_classes(members, audits) <= 0.06
