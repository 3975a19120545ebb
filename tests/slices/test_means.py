from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from scotoma.slices.judging.auc import auc
from scotoma.slices.judging.bootstrap import row_draws
from scotoma.slices.judging.tally import narrow, tally_lanes
from tests.helpers.crossed import crossed_variance
from tests.slices.searching import Prepared, prepared


def population(rng, difficulty, members, threshold=1.0):
    noise = rng.normal(size=(difficulty.size, members)) + rng.normal(0, 0.2, members)
    return (difficulty[:, None] + noise > threshold).astype(float)


def any_runs(*populations, **options):
    """`crossed_variance`, but as slices do it: from two runs on they add their variance."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("scotoma.numbers.crossed.FEWEST_RUNS", 2)
        patched.setattr("scotoma.numbers.number.FEWEST_RUNS", 2)
        return crossed_variance(*populations, **options)


def parts(means, inside):
    """Effect, variance and degrees of freedom of one slice."""
    lane, lanes = means.evidence.lane, means.evidence.parts[1][1]
    summed = (lanes[inside].sum(0)[None], np.array([float(inside.sum())]))
    summed += (float(inside.size), lanes.sum(0))
    return [float(part[0]) for part in (lane.effects(*summed), *lane.variance(*summed))]


def mean(outcome, baseline, reference, paired, direction, least):
    return prepared(
        outcome, baseline=baseline, metric="mean", reference=reference, paired=paired,
        direction=direction, min_size=least,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("members", "paired"),
    [((1, 1), False), ((5, 5), False), ((5, 5), True), ((5, 3), False), ((30, 10), False)],
)
def test_two_populations_on_a_slice_have_the_crossed_variance(members, paired):
    rng = np.random.default_rng(sum(members))
    difficulty = rng.normal(size=600)
    outcome = population(rng, difficulty, members[0], 0.4)
    baseline = population(rng, difficulty, members[1])
    inside = rng.random(600) < 0.3
    means = mean(outcome, baseline, "baseline", paired, "higher", 30)
    effect, variance, df = parts(means, inside)
    expected = any_runs(baseline[inside], outcome[inside], paired=paired, unit=None)
    assert effect == pytest.approx(outcome[inside].mean() - baseline[inside].mean())
    # The mean square stands in for the variance over examples: never smaller.
    assert variance >= expected.total * (1 - 1e-12)
    psi = outcome[inside].mean(1) - baseline[inside].mean(1)
    square = (psi**2).mean() / psi.size
    examples = max(expected.examples, square)
    total = max(examples + expected.members - expected.residual, examples, expected.members)
    assert variance == pytest.approx(total, rel=1e-9)
    judged = means.judge((~inside).astype(int)[None], 2, 1.0)
    assert judged.p[0] == pytest.approx(stats.t.sf(effect / np.sqrt(variance), df), rel=1e-9)


@pytest.mark.parametrize("members", [1, 4])
@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("least", [2, 60])
def test_shuffled_and_taken_evidence_says_what_its_own_numbers_say(members, paired, least):
    rng = np.random.default_rng(members + least)
    outcome, baseline = rng.normal(size=(2, 400, members)) * [[[1.0]], [[3.0]]]
    whole = mean(outcome, baseline, "baseline", paired, "both", least).evidence
    part, again = np.flatnonzero(rng.random(400) < 0.7), np.flatnonzero(rng.random(250) < 0.7)
    keys = rng.integers(0, 4, (1, again.size))
    moved = whole.take(part).shuffled(np.random.default_rng(1)).shuffled(np.random.default_rng(2))
    swap = np.logical_xor(*(np.random.default_rng(s).integers(0, 2, part.size) for s in (1, 2)))
    pair = outcome[part], baseline[part]
    first, second = (np.where(swap[:, None], b, a) for a, b in (pair, pair[::-1]))
    fresh = mean(first[again], second[again], "baseline", paired, "both", least)
    expected = fresh.judge(keys, 4)
    found = Prepared(moved.take(again), least).judge(keys, 4)
    np.testing.assert_array_equal(found.cell, expected.cell)
    np.testing.assert_allclose(found.p, expected.p, rtol=1e-9)
    np.testing.assert_allclose(found.effect, expected.effect, rtol=1e-9, atol=1e-15)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 6]), st.booleans())
def test_a_slice_against_the_rest_has_the_crossed_variance_of_its_influences(seed, k, lognormal):
    rng = np.random.default_rng(seed)
    difficulty = rng.normal(size=500)
    outcome = population(rng, difficulty, k, 0.5)
    if lognormal:
        outcome = np.exp(difficulty[:, None] + rng.normal(0, 0.3, (500, k)))
    inside = rng.random(500) < 0.4
    n, N = inside.sum(), inside.size
    means = mean(outcome, None, "rest", False, "higher", 30)
    effect, variance, _ = parts(means, inside)
    assert effect == pytest.approx(outcome[inside].mean() - outcome[~inside].mean())
    influence = np.where(inside[:, None], N / n, -N / (N - n)) * outcome
    influence -= np.where(inside[:, None], N / n, -N / (N - n)) * np.where(
        inside[:, None], outcome[inside].mean(), outcome[~inside].mean()
    )
    expected = any_runs(influence)
    own, rest = (outcome[rows].mean(1).var(ddof=1) for rows in (inside, ~inside))
    examples = max(own, rest) / n + rest / (N - n)
    members = residual = 0.0
    if k > 1:
        members = (outcome[inside].mean(0) - outcome[~inside].mean(0)).var(ddof=1) / k
        residual = chance(outcome[inside]) + chance(outcome[~inside])
    total = max(examples + members - residual, examples, members)
    assert variance == pytest.approx(total, rel=1e-9)
    if rest <= own:
        assert variance == pytest.approx(expected.total, rel=0.1)


def chance(e):
    """V_res of one population: what one member does on one example by chance."""
    n, k = e.shape
    left = e - e.mean(1, keepdims=True) - e.mean(0) + e.mean()
    return (left**2).sum() / ((n - 1) * (k - 1) * n * k)


def test_a_slice_without_events_is_no_certain_finding():
    # 0 of 300 at 5%: Wald's variance is 0, the rest's is not; exact p 2e-7.
    outcome = np.concatenate([np.zeros(300), np.tile([1.0] + [0.0] * 19, 300)])[:, None]
    inside = np.arange(outcome.size) < 300
    means = mean(outcome, None, "rest", False, "lower", 30)
    p = means.judge((~inside).astype(int)[None], 2, 1.0).p[0]
    exact = stats.hypergeom.cdf(0, outcome.size, 300, 300)
    assert exact < p < 1e-3


def test_means_that_too_few_examples_carry_are_not_significant_yet_count_as_tested():
    outcome = np.zeros((4_000, 3))
    outcome[:60, 0] = 1  # 60 examples carry the whole: 8 of 550, where 5 do
    inside = ((np.arange(4_000) >= 55) & (np.arange(4_000) < 605)).astype(int)
    judged = mean(outcome, None, "rest", False, "higher", 30).judge(inside[None], 2, 1.0)
    assert judged.size[1] == 550
    assert judged.cell.tolist() == [0, 1]
    assert judged.p[1] == 1.0
    assert judged.effect[1] == pytest.approx(5 / 550 / 3 - 55 / 3_450 / 3)


def test_a_constant_added_to_a_population_changes_no_p_value():
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(400, 4))
    keys = rng.integers(0, 3, 400)[None]
    plain = mean(scores + 3, None, "rest", False, "both", 30).judge(keys, 3, 1.0)
    lifted = mean(scores + 1e6, None, "rest", False, "both", 30).judge(keys, 3, 1.0)
    np.testing.assert_allclose(plain.p, lifted.p, rtol=1e-6)


@given(st.integers(0, 10**6), st.integers(1, 5))
def test_tally_is_the_sum_over_the_rows_of_each_cell(seed, subsets):
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 4, (subsets, 30)) + 4 * np.arange(subsets)[:, None]
    lanes = rng.integers(0, 9, (30, 3))
    for form in (narrow(lanes), lanes.astype(float)):
        sums = tally_lanes(keys, 4 * subsets, form)
        for g, cell in np.ndindex(subsets, 4):
            expected = lanes[keys[g] == 4 * g + cell].sum(0)
            assert sums[4 * g + cell].tolist() == expected.tolist()


# --- AUC ------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 12))
def test_auc_is_the_share_of_pairs_in_order_with_rows_repeated_by_their_weight(seed, values):
    rng = np.random.default_rng(seed)
    scores, labels = rng.integers(0, values, 60), rng.random(60) < 0.4
    cell, weights = np.sort(rng.integers(0, 2, 60)), rng.poisson(1, (60, 3))
    order = np.lexsort((scores, cell))
    ours = auc(scores[order], labels[order], cell[order], weights[order])
    for c, b in np.ndindex(2, 3):
        rows = np.repeat(np.arange(60), np.where(cell == c, weights[:, b], 0))
        above, below = scores[rows][labels[rows]], scores[rows][~labels[rows]]
        if above.size and below.size:
            u = stats.mannwhitneyu(above, below).statistic
            assert ours[c, b] == pytest.approx(u / (above.size * below.size), rel=1e-12)
        else:
            assert np.isnan(ours[c, b])


def ranked(seed, draws=40, members=2, baseline=False, sound=True):
    rng = np.random.default_rng(seed)
    labels = rng.random(400) < 0.4
    scores = labels[:, None] + rng.normal(size=(400, members))
    other = labels[:, None] + rng.normal(size=(400, members)) if baseline else None
    bad = rng.random(400) < 0.2
    scores[bad] = rng.normal(size=(bad.sum(), members))
    drawn = rng.multinomial(members, [1 / members] * members, draws).T
    ranks = prepared(
        scores, baseline=other, labels=labels.astype(int), metric="auc", bootstrap=draws, seed=seed,
        paired=baseline,
    ).evidence  # fmt: skip
    assert np.array_equal(ranks.known.weights, row_draws(np.arange(400), draws, seed))
    times = np.concatenate([np.ones((members, 1), int), drawn], axis=1)
    lane = replace(ranks.lane, members=(times,) * len(ranks.lane.members), sound=sound)
    return bad, Prepared(replace(ranks, lane=lane), 30)


@pytest.mark.parametrize("baseline", [False, True])
def test_auc_of_a_slice_is_compared_by_its_own_bootstrap(baseline):
    bad, ranks = ranked(0, baseline=baseline)
    judged, ranks = ranks.judge(bad.astype(int)[None], 2), ranks.evidence
    own, other = ranks.known.populations[0].above, ranks.known.populations[-1].above

    def difference(weights, drawn):
        total = 0.0
        for m, times in enumerate(drawn):
            for scores, sign in ((own, 1), (other if baseline else None, -1)):
                if scores is None:
                    continue
                order = np.argsort(scores[:, m], kind="stable")
                for inside, part in ((bad, sign), (np.ones(400, bool), -1 if not baseline else 0)):
                    rows = order[inside[order]]
                    args = scores[rows, m], ranks.known.labels[rows], np.zeros(rows.size, int)
                    total += part * times * float(auc(*args, weights[rows][:, None])[0, 0])
        return total / len(drawn)

    ones = np.ones(400, int)
    effect = difference(ones, [1, 1])
    draws = [
        difference(ranks.known.weights[:, b].astype(int), ranks.lane.members[0][:, b])
        for b in range(1, 41)
    ]
    assert judged.effect[1] == pytest.approx(effect)
    shown = ranks.effect(bad, 0.95)
    assert shown.value == pytest.approx(effect)
    assert shown.se == pytest.approx(np.std(draws, ddof=1))
    assert judged.p[1] >= stats.t.sf(-effect / np.std(draws, ddof=1), 39) * (1 - 1e-9)


def test_slices_that_cannot_be_significant_are_not_drawn_and_none_is_lost():
    for seed in range(6):
        bad, ranks = ranked(seed)
        keys = np.stack([bad, 2 + np.arange(400) % 5, 7 + np.arange(400) % 3]).astype(int)
        every, some = ranks.judge(keys, 10, 1.0), ranks.judge(keys, 10, 0.05)
        small = every.p <= 0.05
        np.testing.assert_array_equal(every.p[small], some.p[small])
        assert (some.p[~small] > 0.05).all()
