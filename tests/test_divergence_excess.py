"""The excess over what seeds alone do: enumeration, published simulation, coverage, refusals."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binom, norm

from scotoma.divergence import excess, half_size, score
from scotoma.divergence.split_halves import SplitPlan, by_splits, by_tables, disjoint_halves, halves
from scotoma.errors import DataError
from scotoma.uncertainty import crossed_variance
from tests.worlds import AUDITS, worlds

# Probit errors of 5% with a per-example difficulty, two balanced classes, a run effect of .1.
MEAN, SPREAD, RUNS = -3.02, 1.5, 0.1


def audit(rng, n, k, correlation, *, runs=RUNS, sources=None):
    """Labels of a dense and a compressed population whose difficulties correlate."""
    z, fresh = rng.standard_normal((2, n, 1))
    if sources is not None:  # rows of one source are as difficult as each other
        z, fresh = z[sources], fresh[sources]
    z2 = correlation * z + np.sqrt(1 - correlation**2) * fresh
    y = rng.integers(0, 2, (n, 1), np.uint8)
    chance = runs * rng.standard_normal((2, 1, k)) + rng.standard_normal((2, n, k))
    return [y ^ (MEAN + SPREAD * side + own > 0) for side, own in zip((z, z2), chance, strict=True)]


def expected_cie(k, correlation, *, runs=RUNS, tie_errs=None):
    """Chance that the modal labels of two populations of k members differ, by quadrature."""
    z = np.linspace(-7, 7, 301)
    weight = norm.pdf(z) / norm.pdf(z).sum()
    scale = np.sqrt(1 + runs**2)  # members being independent, a run effect only adds to the noise
    total = 0.0
    for least in {k // 2 + 1, (k + 1) // 2}:  # a tie errs in one of the two classes

        def modal_errs(z, least=least):
            return binom.sf(least - 1, k, norm.cdf((MEAN + SPREAD * z) / scale))

        q = modal_errs(z)
        other = correlation * z[:, None] + np.sqrt(1 - correlation**2) * z
        p = modal_errs(other) @ weight
        total += (weight * (q * (1 - p) + p * (1 - q))).sum() / (2 - k % 2)
    return total


def modal(labels):
    return min(set(labels), key=lambda i: (-labels.count(i), i))


def enumerate_halves(dense, compressed, half, *, paired):
    """[A against B', A against B] of one example, averaged over all disjoint A and B."""
    across = within = count = 0
    members = range(len(dense))
    for a in combinations(members, half):
        for b in combinations([m for m in members if m not in a], half):
            of_a, of_b = modal([dense[m] for m in a]), modal([dense[m] for m in b])
            others = [b] if paired else list(combinations(range(len(compressed)), half))
            across += np.mean([of_a != modal([compressed[m] for m in o]) for o in others])
            within += of_a != of_b
            count += 1
    return across / count, within / count


def without(row, m):
    return row[:m] + row[m + 1 :]


ROWS = 5
EXACT = {
    "unpaired": (7, 6, 2, 3),
    "paired": (5, 5, 2, 1),
    "three labels": (5, 6, 3, 1),
    "three labels, so that halves tie": (7, 4, 3, 3),
}


@pytest.mark.parametrize("name", EXACT)
def test_halves_agree_with_enumeration_of_all_splits(name):
    k, other, n_labels, half = EXACT[name]
    paired = name == "paired"
    rng = np.random.default_rng(4)
    dense, compressed = (rng.integers(0, n_labels, (ROWS, size)) for size in (k, other))
    found, drawn = halves(dense, compressed, half, paired=paired, splits=100_000, seed=0)
    assert drawn == (name != "unpaired")
    # 100,000 drawn splits: standard error of what a member adds at most .003.
    close = {"atol": 0.015 if drawn else 1e-12}
    for x, (d, c) in enumerate(zip(dense.tolist(), compressed.tolist(), strict=True)):
        across, within = enumerate_halves(d, c, half, paired=paired)
        np.testing.assert_allclose(found.dense_compressed[x], across, **close)
        np.testing.assert_allclose(found.dense_dense[x], within, **close)
        left_out = [
            [(without(d, m), without(c, m) if paired else c) for m in range(k)],
            [] if paired else [(d, without(c, m)) for m in range(other)],
        ]
        for drops, cases in zip(found.drops, left_out, strict=False):
            for m, (d_left, c_left) in enumerate(cases):
                a, w = enumerate_halves(d_left, c_left, half, paired=paired)
                np.testing.assert_allclose(drops[x, m], (a - w) - (across - within), **close)


def test_drawn_splits_and_tables_are_two_routes_to_the_same_numbers():
    rng = np.random.default_rng(0)
    dense, compressed = (
        (rng.random((40, 10)) < rng.random((40, 1))) * 1,
        rng.integers(0, 2, (40, 9)),
    )
    plan = SplitPlan.draw(10, 9, 3, paired=False, splits=8_000, seed=1)
    drawn, table = by_splits(dense, compressed, plan, 2), by_tables(dense, compressed, 3)
    np.testing.assert_allclose(drawn.dense_dense, table.dense_dense, atol=0.025)
    np.testing.assert_allclose(drawn.dense_compressed, table.dense_compressed, atol=0.025)
    for by_chance, exact in zip(drawn.drops, table.drops, strict=True):
        np.testing.assert_allclose(by_chance, exact, atol=0.03)


def test_halves_of_a_split_are_disjoint_and_swaps_keep_their_size():
    plan = SplitPlan.draw(9, 7, 3, paired=False, splits=50, seed=0)
    assert not (plan.a * plan.b).any()
    assert (plan.a.sum(1) == 3).all()
    for swaps, who, base in (
        (plan.a_swaps, plan.a_who, plan.a),
        (plan.b_swaps, plan.b_who, plan.b),
        (plan.c_swaps, plan.c_who, plan.c),
    ):
        assert (swaps.sum(1) == 3).all()
        assert not (swaps * who.T).any()  # the member is left out ...
        assert ((swaps - base.repeat(3, axis=0)) == -1).sum(1).tolist() == [1] * 150  # ... alone
    assert not (plan.a_swaps * plan.b.repeat(3, axis=0)).any()


def test_half_sizes_are_odd_and_leave_a_member_to_spare():
    assert [half_size(k) for k in (1, 2, 3, 4, 5, 6, 7, 10, 11, 30)] == [
        0,
        0,
        1,
        1,
        1,
        1,
        3,
        3,
        5,
        13,
    ]


# Simulated for the same design with halves of K/2, % of examples:
#   identical populations, K against K: 2.32 (K = 5), 1.65 (10), .93 (30); halves: 2.34, 1.32
#   difficulties that correlate .95: excess of halves .40 (K = 10), .59 (K = 30)
@pytest.mark.slow
def test_the_floor_is_that_of_a_second_dense_population():
    rng = np.random.default_rng(2)
    for k, published, of_halves in ((10, 1.65, 2.34), (30, 0.93, 1.32)):
        found, half_shares = [], []
        for _ in range(25):
            dense, second = audit(rng, 8_000, k, 1.0)
            result = excess(dense, second, 2)
            found.append((100 * result.cie_share.value, 100 * result.floor_at_k.value))
            half_shares.append(100 * disjoint_halves(dense, k // 2, splits=1, seed=0).mean())
        # Standard error of the mean of 25 audits of 8,000 examples: .03, and .03 for those quoted.
        count, floor = np.mean(found, axis=0)
        assert count == pytest.approx(published, abs=0.09)
        assert np.mean(half_shares) == pytest.approx(of_halves, abs=0.09)
        assert floor == pytest.approx(count, abs=0.09)
        assert count == pytest.approx(100 * expected_cie(k, 1.0), abs=0.09)


@pytest.mark.slow
@pytest.mark.parametrize("k", [5, 10, 30])
def test_excess_is_the_true_one_while_the_naive_difference_has_the_wrong_sign(k):
    rng = np.random.default_rng(k)
    half = half_size(k)
    truth = 100 * (expected_cie(half, 0.95) - expected_cie(half, 1.0))
    found = [excess(*audit(rng, 8_000, k, 0.95), 2) for _ in range(25)]
    estimates = [100 * result.excess.value for result in found]
    assert np.mean(estimates) == pytest.approx(truth, abs=4 * np.std(estimates) / 5)
    naive = [100 * (r.cie_share.value - r.halves_dense_dense) for r in found]
    assert (np.mean(naive) < 0) == (k < 30)


COPY, CHANCE = 0.12, 0.1  # what a copy adds to an example's difficulty, and to a member's chance


def paired_audit(rng, n, k, shift=0.0, runs=0.0):
    """A dense population and its copies with a small noise of their own, as int8 makes it."""
    y = rng.integers(0, 2, (n, 1), np.uint8)
    margin = MEAN + SPREAD * rng.standard_normal((n, 1)) + RUNS * rng.standard_normal(k)
    margin = margin + rng.standard_normal((n, k))
    noise = COPY * rng.standard_normal((n, 1)) + CHANCE * rng.standard_normal((n, k))
    noise = noise + runs * rng.standard_normal(k)
    return y ^ (margin > 0), y ^ (margin + shift + noise > 0)


def expected_paired_excess(half, shift, runs):
    """Its halves' excess by quadrature; members of disjoint halves fail by chances of their own."""
    z = np.linspace(-7, 7, 301)
    weight = norm.pdf(z) / norm.pdf(z).sum()

    def modal_errs(margin, chance):
        return binom.sf(half // 2, half, norm.cdf(margin / np.sqrt(1 + RUNS**2 + chance**2)))

    q = modal_errs(MEAN + SPREAD * z, 0)[:, None]
    p = (
        modal_errs(MEAN + SPREAD * z[:, None] + shift + COPY * z, np.hypot(CHANCE, runs))
        @ weight[:, None]
    )
    return (weight[:, None] * (q * (1 - p) + p * (1 - q) - 2 * q * (1 - q))).sum()


UNPAIRED = {  # members, examples, correlation of difficulty, run effect
    "5 members, runs that differ": (5, 2_000, 0.95, 0.25),
    "10 members": (10, 2_000, 0.95, 0.1),
    "30 members": (30, 2_000, 0.95, 0.1),
    "10 members, sources of 12 rows": (10, 3_000, 0.8, 0.1),
    "10 members, nothing differs": (10, 2_000, 1.0, 0.1),
    "30 members, nothing differs": (30, 2_000, 1.0, 0.1),
}
PAIRED = {  # members, examples, shift of the margin and how it differs by run, splits
    "5 pairs": (5, 2_000, 0.2, 0, 200),
    "10 pairs": (10, 1_500, 0.2, 0, 200),
    "30 pairs": (30, 1_000, 0.2, 0, 60),
    "10 pairs whose copies differ by run": (10, 3_000, 0.2, 0.25, 60),
    "10 pairs, next to nothing differs": (10, 1_500, 0.0, 0, 100),
    "30 pairs, next to nothing differs": (30, 1_000, 0.0, 0, 60),
}


def audits(name):
    """The true excess of one design, and its estimates."""
    rng = np.random.default_rng(3)
    if name in UNPAIRED:
        k, n, correlation, runs = UNPAIRED[name]
        half = half_size(k)
        truth = expected_cie(half, correlation, runs=runs) - expected_cie(half, 1.0, runs=runs)
        shared = rng.integers(0, n // 12, n) if "sources" in name else None
        drawn = (audit(rng, n, k, correlation, runs=runs, sources=shared) for _ in range(AUDITS))
        return truth, [excess(*both, 2, clusters=shared).excess for both in drawn]
    k, n, shift, runs, splits = PAIRED[name]
    drawn = (paired_audit(rng, n, k, shift, runs) for _ in range(AUDITS))
    return expected_paired_excess(half_size(k), shift, runs), [
        excess(*populations, 2, paired=True, splits=splits).excess for populations in drawn
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*worlds(UNPAIRED), *worlds(PAIRED)])
def test_intervals_hold_the_truth_as_often_as_they_say(name):
    truth, found = audits(name)
    held = np.mean([one.low <= truth <= one.high for one in found])
    values = np.array([one.value for one in found])
    # The variance is what is estimated without bias, and its mean is what the audits spread.
    width = np.sqrt(np.mean([one.se**2 for one in found])) / values.std(ddof=1)
    assert abs(values.mean() - truth) <= 4 * values.std() / np.sqrt(AUDITS)
    if name.endswith("nothing differs"):
        # Known to be wide there: 1% of false alarms instead of 2.5, more than 99% of truths held.
        assert held >= 0.91
        assert 0.9 <= width <= 1.25
        assert sum(one.low > truth for one in found) <= 18 * AUDITS / 200
    else:
        assert 0.91 <= held <= 0.995
        assert 0.9 <= width <= 1.15


def test_a_paired_variant_does_not_fall_below_the_floor():
    rng = np.random.default_rng(0)
    found = [excess(*paired_audit(rng, 4_000, 20), 2, paired=True) for _ in range(8)]
    floor = np.mean([result.halves_dense_dense for result in found])
    # The same members on both sides would put the excess at -.7 of the floor.
    assert np.mean([result.excess.value for result in found]) > -0.02 * floor
    assert np.mean([result.cie_share.value for result in found]) < 0.5 * floor
    harmed = excess(*paired_audit(rng, 4_000, 20, shift=0.3), 2, paired=True)
    assert harmed.excess.low > 0
    assert harmed.splits == 200


@pytest.mark.parametrize("paired", [False, True])
def test_the_error_is_that_of_leave_one_out_pseudo_values(paired):
    rng = np.random.default_rng(0)
    dense, compressed = paired_audit(rng, 300, 7, 0.2) if paired else audit(rng, 300, 7, 0.8)
    found = excess(dense, compressed, 2, paired=paired, seed=3)
    part, _ = halves(dense, compressed, 3, paired=paired, splits=200, seed=3)
    gain = part.dense_compressed - part.dense_dense
    if paired:
        pseudo = gain[:, None] - 6 * part.drops[0]
        pseudo -= (pseudo.mean(1) - gain)[:, None]
        variance = crossed_variance(pseudo)
    else:
        variance = crossed_variance(6 * part.drops[0], gain[:, None] - 6 * part.drops[1])
    total = max(variance.examples + variance.members - variance.residual, variance.examples)
    df = variance.df * (total / variance.total) ** 2
    assert found.excess.value == pytest.approx(gain.mean())
    assert found.excess.se == pytest.approx(np.sqrt(total), rel=0.02 if paired else 1e-9)
    assert found.excess.df == pytest.approx(df, rel=0.05 if paired else 1e-9)


def test_order_of_examples_and_members_changes_nothing_where_nothing_is_drawn():
    rng = np.random.default_rng(0)
    dense, compressed = audit(rng, 500, 9, 0.8)
    rows, left, right = (rng.permutation(size) for size in (500, 9, 9))
    first = excess(dense, compressed, 2).excess
    again = excess(dense[rows][:, left], compressed[rows][:, right], 2).excess
    assert (again.value, again.se) == (pytest.approx(first.value), pytest.approx(first.se))


def test_the_same_seed_draws_the_same_splits():
    rng = np.random.default_rng(0)
    dense, compressed = rng.integers(0, 4, (2, 200, 9))
    first, again, other = (excess(dense, compressed, 4, seed=s).excess for s in (1, 1, 2))
    assert first == again
    assert first.value != other.value


def test_many_classes_give_what_their_renumbering_gives():
    rng = np.random.default_rng(0)
    dense, compressed = rng.integers(0, 3, (2, 200, 9))
    few = excess(dense, compressed, 3).excess
    assert excess(dense * 400, compressed * 400, 1000).excess == few


def test_rows_of_one_source_count_once():
    rng = np.random.default_rng(0)
    dense, compressed = audit(rng, 400, 9, 0.8)
    once = excess(dense, compressed, 2)
    twice = [side.repeat(2, axis=0) for side in (dense, compressed)]
    joined = excess(*twice, 2, clusters=np.repeat(np.arange(400), 2))
    assert joined.excess.se == pytest.approx(once.excess.se)
    assert joined.excess.value == pytest.approx(once.excess.value)
    assert joined.cie_share.low == pytest.approx(once.cie_share.low)
    assert joined.excess.n == 400
    assert excess(*twice, 2).excess.se < 0.9 * once.excess.se


def test_one_model_a_side_has_flips_and_no_floor():
    found = excess(np.zeros((50, 1), int), (np.arange(50) % 5 == 0)[:, None] * 1, 2)
    assert found.cie.count == 10
    assert found.cie_share.value == 0.2
    assert "one training run: says nothing about the next one" in found.cie_share.note
    assert np.isnan(found.excess.value)
    assert found.excess.reason.startswith("excess not estimable (one model per side: the CIEs are")
    assert np.isnan(found.floor_at_k.value)
    assert (found.half_size, found.splits) == (0, 0)


def test_two_members_are_too_few_for_halves():
    rng = np.random.default_rng(0)
    found = excess(rng.integers(0, 2, (50, 2)), rng.integers(0, 2, (50, 5)), 2)
    assert found.excess.reason == (
        "excess not estimable (halves with one member to spare need 3 members a population, "
        "got 2 and 5)"
    )
    assert np.isfinite(excess(*rng.integers(0, 2, (2, 50, 3)), 2).excess.low)


def test_the_floor_is_not_extrapolated_from_fewer_than_ten_members():
    rng = np.random.default_rng(0)
    nine, ten = (excess(*rng.integers(0, 2, (2, 50, k)), 2) for k in (9, 10))
    assert nine.floor_at_k.reason == (
        "floor not estimable from 9 members (extrapolated from halves, it needs 10; a second "
        "dense population gives it)"
    )
    assert ten.floor_at_k.reason == "extrapolated from halves of 5 members, without an interval"
    assert ten.floor_extrapolated


def test_a_second_dense_population_gives_the_floor():
    rng = np.random.default_rng(0)
    dense, second = audit(rng, 500, 9, 1.0)
    found = excess(dense, 1 - dense, 2, second_dense=second)
    assert not found.floor_extrapolated
    assert found.floor_at_k.value == score(dense, second, 2).cie.mean()
    assert found.floor_at_k.low < found.floor_at_k.value < found.floor_at_k.high


def test_unanimous_populations_have_an_excess_bounded_by_the_rule_of_three():
    found = excess(np.ones((150, 5), int), np.ones((150, 5), int), 2).excess
    assert (found.value, found.low, found.high) == (0, pytest.approx(-0.02), pytest.approx(0.02))


def test_one_example_has_no_interval():
    found = excess([[0, 1, 1, 0, 1]], [[0, 0, 1, 1, 1]], 2).excess
    assert (found.reason, np.isnan(found.low)) == ("interval not estimable (one example)", True)


def test_populations_of_other_size_are_compared_in_halves_of_the_smaller():
    rng = np.random.default_rng(0)
    found = excess(audit(rng, 3_000, 12, 1.0)[0], audit(rng, 3_000, 30, 1.0)[0], 2)
    assert found.half_size == 5
    assert found.excess.members == 12


def test_bad_settings_are_refused_in_one_sentence():
    dense = np.zeros((4, 5), int)
    with pytest.raises(DataError, match="paired populations must have as many compressed as dense"):
        excess(dense, dense[:, :4], 2, paired=True)
    with pytest.raises(DataError, match="splits must be at least 1, got 0: 200 is the default"):
        excess(dense, dense, 2, splits=0)
    with pytest.raises(DataError, match=r"level must be a fraction in \(0, 1\), got 95"):
        excess(dense, dense, 2, level=95)
    with pytest.raises(DataError, match=r"clusters must give one id per row, got shape \(3,\)"):
        excess(dense, dense, 2, clusters=[1, 2, 3])
