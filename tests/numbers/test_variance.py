from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from scotoma.errors import DataError
from scotoma.numbers import (
    ChangeEvidence,
    Tally,
    Units,
    Words,
    cluster_sums,
    holm,
    n_effective,
    of_variance,
)
from tests.helpers.crossed import crossed_variance, ratio_influence

PARTS = ("total", "examples", "members", "residual", "df", "floor")
UNROUNDED = tuple(part for part in PARTS if part != "df")


def mean_difference(d, c, *, paired=False):
    variance = crossed_variance(d, c, paired=paired)
    return of_variance(float(c.mean() - d.mean()), variance, n=len(d), members=d.shape[1])


def hard_examples(rng, n, k, shift=0.0):
    """0/1 events that examples and members both decide, so that no variance part is 0."""
    latent = 1.5 * rng.normal(size=(n, 1)) + 0.4 * rng.normal(size=(1, k)) + rng.normal(size=(n, k))
    return (latent > 1.5 - shift).astype(float)


def slow_variance(d, c, g_d, g_c, paired):
    """Steps 1 to 5 in their own letters, with loops, and the floor; c None for a single rate."""
    n, K = len(d), len(d[0])
    Kc = 0 if c is None else len(c[0])
    X = range(n)
    a = [sum(d[x]) / K for x in X]
    cc = [0.0] * n if c is None else [sum(c[x]) / Kc for x in X]
    psi = [(0.0 if c is None else g_c * cc[x]) - g_d * a[x] for x in X]
    mean = sum(psi) / n
    V_ex = sum((v - mean) ** 2 for v in psi) / (n - 1) / n
    m2 = sum((v - mean) ** 2 for v in psi) / n
    m4 = sum((v - mean) ** 4 for v in psi) / n
    f = 2 * n / (m4 / m2**2 - 1)

    def part(e, k):
        if k < 5:  # too few runs to know their spread
            return 0.0, 0.0, k
        p_m = [sum(e[x][m] for x in X) / n for m in range(k)]
        p = sum(p_m) / k
        V_pop = sum((q - p) ** 2 for q in p_m) / (k - 1) / k
        SSE = (
            sum(e[x][m] ** 2 for x in X for m in range(k))
            - k * sum((sum(e[x]) / k) ** 2 for x in X)
            - n * sum(q**2 for q in p_m)
            + n * k * p**2
        )
        return V_pop, SSE / ((n - 1) * (k - 1) * n * k), k

    if paired:
        z = [[g_c * c[x][m] - g_d * d[x][m] for m in range(K)] for x in X]
        parts = [part(z, K)]
    else:
        parts = [part([[g_d * v for v in row] for row in d], K)]
        if c is not None:
            parts.append(part([[g_c * v for v in row] for row in c], Kc))
    V_mod, V_res = sum(p[0] for p in parts), sum(p[1] for p in parts)
    # V + 4 m2/(n+4)^2, m2 the mean squared change of a changed example, each weighted by its
    # square; below 10 effective ones up to two examples that flip in every member are added.
    sizes = [(v - mean) ** 2 for v in psi]
    effective = sum(sizes) ** 2 / sum(v**2 for v in sizes)
    assumed = max(0.0, 2 - effective / 5)
    m2 = (sum(sizes) + assumed * g_d * (g_c or 0.0)) / (effective + assumed)
    floor = 0.0 if c is None else 4 * m2 / (n + 4) ** 2
    V = max(V_ex + V_mod - V_res, V_ex, V_mod) + floor
    df = V**2 / (V_ex**2 / f + sum(p[0] ** 2 / (p[2] - 1) for p in parts))
    return V, V_ex, V_mod, V_res, df, floor


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("n", [12, 40])
@pytest.mark.parametrize("k", [2, 3, 4, 5, 9])
def test_variance_is_the_slow_one_in_the_letters_of_the_design(paired, n, k):
    rng = np.random.default_rng(k)
    d = hard_examples(rng, n, k)
    c = np.maximum(d, hard_examples(rng, n, k)) if paired else hard_examples(rng, n, k + 2, 0.5)
    g_d, g_c = 1 / d.mean(), 1 / c.mean()
    slow = slow_variance(d.tolist(), c.tolist(), g_d, g_c, paired)
    unit = np.sqrt(g_d * g_c)
    fast = crossed_variance(g_d * d, g_c * c, paired=paired, unit=unit)
    assert min(slow) > 0 or k < 5
    np.testing.assert_allclose([getattr(fast, part) for part in PARTS], slow, rtol=1e-12)


@pytest.mark.parametrize("k", [4, 5])
def test_variance_of_a_single_rate_is_the_slow_one(k):
    d = hard_examples(np.random.default_rng(3), 40, k)
    slow = slow_variance(d.tolist(), None, 2.5, None, False)
    fast = crossed_variance(2.5 * d)
    np.testing.assert_allclose([getattr(fast, part) for part in PARTS], slow, rtol=1e-12)


@pytest.mark.parametrize("paired", [False, True])
def test_rows_that_agree_may_be_put_together(paired):
    rng = np.random.default_rng(4)
    d, c = rng.integers(0, 2, (2, 12, 3)).astype(float)
    times = rng.integers(1, 6, 12)
    whole = crossed_variance(d.repeat(times, 0), c.repeat(times, 0), paired=paired)
    merged = crossed_variance(d, c, paired=paired, times=times)
    np.testing.assert_allclose(
        [getattr(merged, part) for part in PARTS], [getattr(whole, part) for part in PARTS]
    )


def test_variance_never_falls_below_either_of_its_levels():
    # Examples that differ in nothing but chance: V_ex + V_mod - V_res comes out below V_mod.
    d = np.eye(5)[[0, 1, 2, 3, 4, 0]]
    variance = crossed_variance(d)
    assert variance.examples + variance.members - variance.residual < variance.members
    assert variance.total == max(variance.members, variance.examples) > 0


def test_one_member_each_is_the_paired_interval_over_examples_alone():
    # McNemar: 9 examples newly wrong, 4 newly right, of 200: sum (psi - mean)^2 / (n (n - 1)),
    # and the floor 4/(n + 4)^2 times almost 1.
    d, c = np.zeros((200, 1)), np.zeros((200, 1))
    d[:4], c[4:13] = 1, 1
    variance = crossed_variance(d, c, paired=True)
    mean = 5 / 200
    examples = (13 - 200 * mean**2) / (200 * 199)
    floor = 4 / 204**2
    assert variance.examples == pytest.approx(examples)
    assert variance.floor == pytest.approx(floor, rel=0.05)
    assert variance.total == pytest.approx(examples + floor, rel=0.01)
    assert (variance.members, variance.residual) == (0, 0)
    change = mean_difference(d, c, paired=True)
    assert change.note == "one training run: says nothing about the next one"
    psi = (c - d)[:, 0]
    f = 2 * 200 / (stats.kurtosis(psi, fisher=False) - 1)
    df = f * (variance.total / stats.sem(psi) ** 2) ** 2
    assert change.df == pytest.approx(df)
    assert change.high - change.value == pytest.approx(
        stats.t.ppf(0.975, df) * np.sqrt(stats.sem(psi) ** 2 + variance.floor), rel=1e-12
    )


def test_a_population_of_one_is_taken_as_it_is_and_the_other_is_not():
    rng = np.random.default_rng(5)
    d, c = hard_examples(rng, 50, 1), hard_examples(rng, 50, 6)
    variance, alone = crossed_variance(d, c), crossed_variance(c)
    assert variance.members == pytest.approx(alone.members)
    assert variance.residual == pytest.approx(alone.residual)


@settings(max_examples=80)
@given(st.data(), st.booleans(), st.booleans())
def test_tallies_give_what_the_matrices_give(data, paired, ratio):
    n, k = data.draw(st.integers(2, 40)), data.draw(st.integers(1, 8))
    k_c = k if paired else data.draw(st.integers(1, 8))
    d = data.draw(arrays(np.bool_, (n, k)))
    c = data.draw(arrays(np.bool_, (n, k_c)))
    g_d, g_c = (1 / max(d.mean(), 0.01), 1 / max(c.mean(), 0.01)) if ratio else (1.0, 1.0)
    fast = Tally.of(d, c, paired=paired).variance(g_d, g_c)
    slow = crossed_variance(g_d * d, g_c * c, paired=paired, unit=np.sqrt(g_d * g_c))
    scale = g_d**2 + g_c**2
    for part in UNROUNDED:  # fourth powers that cancel lose some digits of the kurtosis
        np.testing.assert_allclose(
            getattr(fast, part), getattr(slow, part), rtol=1e-8, atol=1e-15 * scale
        )
    if slow.total > 1e-12 * scale:  # from 10^12 degrees of freedom on rounding makes them endless
        assert 1 / fast.df == pytest.approx(1 / slow.df, rel=1e-8, abs=1e-12)


def test_tallies_give_the_intervals_of_numbers_at_full_size():
    rng = np.random.default_rng(11)
    d, c = hard_examples(rng, 3000, 30), hard_examples(rng, 3000, 30, 0.1)
    words = Words("error", "examples", "group 'all'")
    units = Units.of(3000)
    for paired in (False, True):
        whole = ChangeEvidence.of_tally(Tally.of(d, c, paired=paired))
        was, now = units.mean(d), units.mean(c, axis="dense" if paired else "compressed")
        a, b = (
            whole.columns(lambda place: words)["absolute"].estimates()[0],
            now.since(was).estimate(),
        )
        np.testing.assert_allclose(
            [a.value, a.low, a.high, a.df, a.events],
            [b.value, b.low, b.high, b.df, b.events],
            rtol=1e-10,
        )
        of_tally, of_rows = whole.log_ratio, now.log().since(was.log()).variance
        np.testing.assert_allclose(
            [of_tally.total, of_tally.floor, of_tally.df],
            [of_rows.total, of_rows.floor, of_rows.df],
            rtol=1e-10,
        )


@settings(max_examples=40)
@given(st.data(), st.booleans())
def test_shards_sum_to_the_whole_in_any_order(data, paired):
    n, cut = 24, data.draw(st.integers(0, 24))
    d, c = data.draw(arrays(np.bool_, (n, 3))), data.draw(arrays(np.bool_, (n, 3)))
    groups = data.draw(arrays(np.bool_, (2, n)))

    def both(rows: slice) -> Tally:
        parts = [Tally.of(d[rows], c[rows], own[rows], paired=paired) for own in groups]
        return Tally.stack(parts, (2,))

    whole, parts = both(slice(None)), [both(slice(cut)), both(slice(cut, n))]
    for shards in (parts, parts[::-1]):
        merged = shards[0] + shards[1]
        for name in ("powers", "dense", "compressed", "squares"):
            np.testing.assert_array_equal(getattr(merged, name), getattr(whole, name))


# --- rows that share sources ----------------------------------------------------------------------


def sources(data, n: int = 12, k: int = 3, k_c: int = 3):
    """Rows at risk of each source, and events of both populations among them."""
    r = data.draw(arrays(np.int64, n, elements=st.integers(0, 6)))
    share = (
        arrays(np.float64, (n, k), elements=st.floats(0, 1)),
        arrays(np.float64, (n, k_c), elements=st.floats(0, 1)),
    )
    return r, *(np.floor(data.draw(part) * (r[:, None] + 0.999)).astype(int) for part in share)


@settings(max_examples=60)
@given(st.data(), st.booleans(), st.booleans())
def test_tallies_give_what_the_influences_of_sources_give(data, paired, ratio):
    r, d, c = sources(data, k_c=3 if paired else 4)
    tally = Tally.of(d, c, r, paired=paired)
    rates = tally.rates()
    assume((r > 0).sum() > 1 and (not ratio or min(rates) > 0))
    g_d, g_c = (1 / rates[0], 1 / rates[1]) if ratio else (1.0, 1.0)
    risky = r > 0
    of_d, of_c = (ratio_influence(e[risky], r[risky]) for e in (d, c))
    slow = crossed_variance(g_d * of_d, g_c * of_c, paired=paired, unit=np.sqrt(g_d * g_c))
    fast = tally.variance(g_d, g_c)
    scale = g_d**2 + g_c**2
    for part in UNROUNDED:
        np.testing.assert_allclose(
            getattr(fast, part), getattr(slow, part), rtol=1e-9, atol=1e-13 * scale
        )
    if slow.examples > 1e-6 * scale:
        assert 1 / fast.df == pytest.approx(1 / slow.df, rel=1e-6, abs=1e-12)
    alone = tally.compressed_only()
    np.testing.assert_allclose(
        alone.variance(1.0, None).total, crossed_variance(of_c).total, rtol=1e-9, atol=1e-13
    )
    assert float(alone.rates()[0]) == pytest.approx(float(rates[1]))
    assert float(tally.effective_events()[0]) == pytest.approx(n_effective(d[risky].sum(axis=1)))


@settings(max_examples=40)
@given(st.data(), st.booleans())
def test_shards_of_whole_sources_sum_to_the_whole_in_any_order(data, paired):
    r, d, c = sources(data)
    cut = data.draw(st.integers(0, len(r)))
    whole = Tally.of(d, c, r, paired=paired)
    parts = [Tally.of(d[s], c[s], r[s], paired=paired) for s in (slice(cut), slice(cut, None))]
    for shards in (parts, parts[::-1]):
        merged = shards[0] + shards[1]
        for name in ("powers", "dense", "compressed", "squares"):
            np.testing.assert_array_equal(getattr(merged, name), getattr(whole, name))


def test_sources_of_one_row_each_have_the_variance_of_rows():
    rng = np.random.default_rng(12)
    d, c = hard_examples(rng, 50, 4), hard_examples(rng, 50, 4, 0.3)
    for paired in (False, True):
        rows = Tally.of(d, c, paired=paired).variance()
        of_sources = Tally.of(d, c, np.ones(50), paired=paired).variance()
        np.testing.assert_allclose(
            [getattr(of_sources, part) for part in PARTS], [getattr(rows, part) for part in PARTS]
        )


def test_a_tally_sums_powers_over_the_examples_at_risk():
    rng = np.random.default_rng(2)
    d, c = rng.random((30, 3)) < 0.4, rng.random((30, 4)) < 0.6
    risk = rng.random(30) < 0.7
    powers = Tally.of(d, c, risk).powers
    for i, j in product(range(5), repeat=2):
        expected = sum(int(d[x].sum()) ** i * int(c[x].sum()) ** j for x in np.flatnonzero(risk))
        assert powers[i, j, 0] == (expected if i + j <= 4 else 0)


def test_fourth_powers_of_255_members_fit():
    tally = Tally.of(np.ones((3, 255)), np.ones((3, 255)))
    assert int(tally.powers[4, 0, 0]) * (10**9 // 3) < 2**63
    with pytest.raises(DataError, match="a tally holds at most 255 members, got 256"):
        Tally.of(np.ones((1, 256)))


def test_pairing_removes_what_the_members_share():
    rng = np.random.default_rng(4)
    runs = rng.normal(size=(1, 8))
    d = rng.normal(size=(300, 8)) + runs
    c = d + 0.1 * rng.normal(size=(300, 8)) + 0.2
    paired, apart = mean_difference(d, c, paired=True), mean_difference(d, c)
    assert paired.se < apart.se / 5
    assert paired.value == apart.value


def test_clusters_are_summed_in_order_of_their_ids():
    sums = cluster_sums([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]], [9, 4, 9])
    assert sums.tolist() == [[10.0, 20.0], [101.0, 202.0]]
    assert cluster_sums([[1.0]], None).tolist() == [[1.0]]
    assert cluster_sums([1.0, 2.0, 3.0], [0, 0, 0]).tolist() == [6.0]
    with pytest.raises(DataError, match=r"one id per row, got shape \(2,\) for 3 rows"):
        cluster_sums([1, 2, 3], [0, 1])


@pytest.mark.parametrize("shape", [(30,), (30, 3)])
def test_clusters_are_summed_alike_whatever_their_ids_look_like(shape):
    rng = np.random.default_rng(7)
    values, ids = rng.random(shape), 2 * rng.integers(0, 9, 30)
    counted, of_sorted = cluster_sums(values, ids), cluster_sums(values, 10**9 * (ids - 4))
    np.testing.assert_allclose(counted, of_sorted, rtol=1e-14)
    slow = [values[ids == one].sum(axis=0) for one in sorted(set(ids.tolist()))]
    np.testing.assert_allclose(counted, slow, rtol=1e-14)


def test_doubling_every_row_within_its_cluster_changes_nothing():
    rng = np.random.default_rng(8)
    d, c = hard_examples(rng, 60, 5), hard_examples(rng, 60, 5, 0.4)
    ids = np.repeat(np.arange(60), 2)
    once = ChangeEvidence.of_tally(Tally.of(d, c))
    sums = [cluster_sums(np.repeat(e, 2, axis=0), ids) for e in (d, c)]
    twice = ChangeEvidence.of_tally(Tally.of(*sums, np.full(60, 2)))
    words = Words("error", "examples", "all")
    a, b = (one.columns(lambda place: words)["relative"].estimates()[0] for one in (once, twice))
    np.testing.assert_allclose([a.value, a.se, a.df, a.events], [b.value, b.se, b.df, b.events])
    assert (a.n, b.n) == (60, 60)


def test_influences_of_a_ratio_are_its_derivatives():
    rng = np.random.default_rng(9)
    r = rng.integers(1, 5, 12).astype(float)
    e = rng.binomial(r.astype(int)[:, None], 0.3, (12, 3)).astype(float)
    rate = e.mean(1).sum() / r.sum()
    influence = ratio_influence(e, r).mean(1)
    for x in range(12):
        weights = np.ones(12)
        weights[x] += 1e-6  # the rate with a little more of cluster x
        moved = (weights @ e.mean(1)) / (weights @ r)
        assert (moved - rate) / 1e-6 * 12 == pytest.approx(influence[x], abs=1e-5)


def test_n_effective_counts_examples_that_carry_the_rate():
    assert n_effective([0, 3, 3, 3]) == 3
    assert n_effective([1, 9]) == pytest.approx(100 / 82)
    assert n_effective([0, 0]) == 0


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: crossed_variance(np.ones((3, 2)), np.ones((3, 4)), paired=True),
            "paired populations need as many compressed as dense members, got 2 and 4: "
            "drop the members without a partner, or pass paired=False",
        ),
        (
            lambda: Units.of(4).mean(np.ones((3, 2))),
            "events must be a table of 4 examples by members, got shape (3, 2): "
            "pass at least one member as a column",
        ),
        (
            lambda: Units.of(3).mean([1, 0, 0]) - Units.of(4).mean([1, 0, 0, 0]),
            "numbers must be about the same units, got 3 and 4: score both on one test set",
        ),
        (
            lambda: Units.of(2).mean(np.eye(2)) - Units.of(2).mean([1, 0]),
            "paired populations need as many compressed as dense members, got 1 and 2: "
            "drop the members without a partner, or pass paired=False",
        ),
        (
            lambda: holm([0.5, 1.5]),
            "p-values must be fractions in [0, 1], got 1.5: pass nan for what was not tested",
        ),
        (
            lambda: Tally.of(np.ones((2, 2))) + Tally.of(np.ones((2, 3))),
            "shards must hold the same groups, events and members, got shapes (2,) and (3,): "
            "count both with the same configuration",
        ),
    ],
)
def test_bad_input_gets_one_sentence(call, sentence):
    with pytest.raises(DataError) as caught:
        call()
    assert str(caught.value) == sentence
