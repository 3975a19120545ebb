from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from scotoma import published
from scotoma.errors import DataError
from scotoma.runs import RunFinding, compare_runs, spread


class Seen:
    """One comparison under a protocol, by the names of this module."""

    def __init__(self, numbers, protocol="sound"):
        one = self.one = RunFinding("", "", numbers, protocol=protocol)
        u, form = ("one-sided U", "relative") if protocol == "published" else ("U", "raw")
        self.u_p, self.u_p_adjusted = one.value(f"{u} p"), one.p("U")
        self.levene_p = one.value(f"{form} Levene p")
        self.levene_p_adjusted = one.p(f"{form} Levene")
        self.difference, self.cohens_d = one["difference"], one["Cohen's d"]
        self.spread_ratio, self.reason = one[f"{form} spread"], one[f"{form} Levene p"].reason
        self.effect = one.effect

    def mean_moves(self):
        return self.one.moves("mean")

    def variance_moves(self):
        return self.one.spread_moves


def compare_run_sets(base, other, protocol="sound", level=0.95):
    return Seen(compare_runs({"": (base, other)}, level=level)[""], protocol)


def compare_family(pairs, protocol="sound"):
    return {name: Seen(numbers, protocol) for name, numbers in compare_runs(pairs).items()}


def max_diff(values):
    return {what: one.value for what, one in spread(values)[0].items()}


METRICS = ["DP", "DI", "SPSF", "FPSF", "EOFP", "EOTP", "BA"]

# Overall DP of 16 fixed-seed runs, and what Qian et al. 2021 state of them against S-Base: values
# and statistics of the artefact lin-tan/fairness-variance (BSD-3-Clause).
S_BASE = """2984 2914 3046 3048 2902 2962 2842 3124 2868 2922 2910 3020 3064 2976 2942 2956"""
DP_RUNS = {
    "S-UC": "4504 4314 4066 4254 3714 4254 4136 4450 4006 4000 3946 3972 4460 3882 4400 3814",
    "S-GR": "3852 3146 4078 3854 2864 3820 3284 3162 3842 2546 3286 3684 3756 3788 2472 4188",
    "S-DD1": "3452 3406 3566 3342 3422 3636 3456 3346 3436 3392 3442 3554 3582 3456 3432 3660",
}
#         U p      d     Levene p  mean  variance
PRINTED = {
    "S-UC": (0.00000, 6.38, 0.00097, "+", "+"),
    "S-GR": (0.00121, 1.35, 0.00124, "+", "+"),
    "S-DD1": (0.00000, 5.79, 0.97524, "+", "NS"),
}


def typed(line: str) -> np.ndarray:
    return np.array(line.split(), float) / 100_000


STUDY, RUNS = published.load("fairness_variance"), published.load("fairness_variance_runs")


def percent(value: float) -> float:
    """As the study prints: four significant digits, times 100, one decimal, half to even."""
    shown = Decimal(f"{value:.4g}") * 100
    return float(shown.quantize(Decimal("0.1"), rounding=ROUND_HALF_EVEN))


# --- the published study, from its raw runs -------------------------------------------------------


@pytest.mark.parametrize("technique", PRINTED)
def test_typed_runs_give_the_statistics_the_study_prints(technique):
    u_p, d, levene_p, mean, variance = PRINTED[technique]
    seen = compare_run_sets(typed(S_BASE), typed(DP_RUNS[technique]), protocol="published")
    assert round(seen.u_p, 5) == u_p
    assert round(seen.cohens_d.value, 2) == d
    assert round(seen.levene_p, 5) == levene_p
    assert (seen.mean_moves(), seen.variance_moves()) == (mean, variance)


def test_every_published_test_is_reproduced_to_its_last_printed_digit():
    assert len(STUDY.tests) == 77
    for printed in STUDY.tests:
        base = published.fairness_values(printed.base, printed.metric)[:, -1]
        other = published.fairness_values(printed.technique, printed.metric)[:, -1]
        seen = compare_run_sets(base, other, protocol="published")
        where = f"{printed.technique} {printed.metric}"
        assert round(seen.u_p, 5) == printed.u_p, where
        assert round(seen.levene_p, 5) == printed.levene_p, where
        if printed.abs_cohen_d is not None:
            assert round(abs(seen.cohens_d.value), 2) == printed.abs_cohen_d, where
        assert seen.mean_moves() == printed.u_sig, where
        assert seen.variance_moves() == printed.levene_sig, where
        difference = printed.technique_mean - printed.base_mean
        assert seen.difference.value == pytest.approx(difference, abs=4e-5)


def test_table_2_of_the_study_is_reproduced_where_its_runs_are_public():
    for technique in ("S-GR", "A-L2"):
        table = STUDY.table2[technique]
        for metric in table.columns:
            runs = published.fairness_values(technique, metric)
            whole, classes = max_diff(runs[:, -1]), max_diff(runs[:, :-1])
            seen = {
                "overall_maxdiff": percent(whole["MaxDiff"]),
                "overall_std": percent(whole["STDEV"]),
                "perclass_maxdiff": percent(classes["MaxDiff of class"]),
                "perclass_std": percent(classes["STDEV of class"]),
            }
            assert seen == table.column(metric), metric


def test_table_4_of_the_study_is_reproduced_where_its_runs_are_public():
    assert list(STUDY.table4.rows) == list(STUDY.techniques)
    assert len(RUNS.accuracy) == 13
    for technique in RUNS.accuracy:
        printed = STUDY.table4.rows[technique]
        seen = max_diff(published.fairness_values(technique, "DI")[:, :-1])
        shown = ("MaxDiff", "STDEV", "MaxDiff of class", "STDEV of class")
        assert tuple(percent(seen[what]) for what in shown) == printed, technique


def test_huge_effects_of_the_study_are_called_huge():
    for printed in STUDY.tests:
        if printed.abs_cohen_d is None or printed.abs_cohen_d == 2.0:
            continue
        base = published.fairness_values(printed.base, printed.metric)[:, -1]
        other = published.fairness_values(printed.technique, printed.metric)[:, -1]
        seen = compare_run_sets(base, other)
        assert (seen.effect == "huge") == (printed.abs_cohen_d > 2.0)


# --- tests against things we did not write --------------------------------------------------------


def exact_two_sided(b: list[float], o: list[float]) -> float:
    """All arrangements counted: the share whose U lies as far from its mean as the one seen."""
    pooled = np.array(b + o)
    ranks = pooled.argsort().argsort()
    centre = len(b) * (len(pooled) - 1) / 2
    seen = abs(ranks[: len(b)].sum() - centre)
    all_ways = list(combinations(range(len(pooled)), len(b)))
    return sum(abs(sum(way) - centre) >= seen - 1e-9 for way in all_ways) / len(all_ways)


@given(
    values=st.lists(st.integers(0, 10**6), min_size=5, max_size=10, unique=True),
    cut=st.integers(2, 3),
)
@settings(max_examples=30)
def test_the_sound_p_value_counts_all_arrangements(values, cut):
    b, o = [float(v) for v in values[:cut]], [float(v) for v in values[cut:]]
    assert compare_run_sets(b, o).u_p == pytest.approx(exact_two_sided(b, o), abs=1e-12)


def test_with_ties_or_more_than_20_runs_the_normal_approximation_is_used():
    rng = np.random.default_rng(5)
    b, o = rng.normal(size=21), rng.normal(0.6, 1.3, size=9)
    approximate = stats.mannwhitneyu(b, o, method="asymptotic").pvalue
    assert compare_run_sets(b, o).u_p == approximate
    exact = stats.mannwhitneyu(b[:20], o, method="exact").pvalue
    assert compare_run_sets(b[:20], o).u_p == exact
    tied = np.round(b[:8], 1), np.append(np.round(b[:3], 1), 2.0)
    assert compare_run_sets(*tied).u_p == stats.mannwhitneyu(*tied, method="asymptotic").pvalue


def test_the_sound_variance_test_is_brown_forsythe_on_the_values_themselves():
    rng = np.random.default_rng(6)
    b, o = rng.normal(3, 1, size=12), rng.normal(9, 3, size=10)
    assert compare_run_sets(b, o).levene_p == stats.levene(b, o, center="median").pvalue
    published = compare_run_sets(b, o, protocol="published").levene_p
    assert compare_run_sets(b, o).levene_p < 0.01 < published


def test_the_difference_has_welchs_interval():
    rng = np.random.default_rng(7)
    b, o = rng.normal(3, 1, size=12), rng.normal(4, 3, size=7)
    welch = stats.ttest_ind(o, b, equal_var=False).confidence_interval(0.9)
    seen = compare_run_sets(b, o, level=0.9).difference
    np.testing.assert_allclose([seen.low, seen.high], welch, rtol=1e-12)
    assert (seen.n, seen.members, seen.note) == (19, 7, "about training runs on this test set")


def test_the_ends_of_the_interval_of_d_put_the_t_seen_at_their_tails():
    rng = np.random.default_rng(8)
    b, o = rng.normal(0, 1, size=9), rng.normal(1.4, 1, size=9)
    seen = compare_run_sets(b, o).cohens_d
    t = stats.ttest_ind(o, b, equal_var=False).statistic
    weight = math.sqrt(9 / 2)
    assert seen.value * weight == pytest.approx(t)
    assert stats.nct.cdf(t, seen.df, seen.low * weight) == pytest.approx(0.975, abs=1e-5)
    assert stats.nct.cdf(t, seen.df, seen.high * weight) == pytest.approx(0.025, abs=1e-5)


def test_the_freedom_of_d_is_that_of_students_test_where_spreads_are_equal():
    runs = np.array([0.1, 0.4, 0.2, 0.9, 0.5, 0.3])
    seen = compare_run_sets(runs, runs + 0.2).cohens_d
    assert seen.df == pytest.approx(2 * len(runs) - 2)
    steady = compare_run_sets(runs, runs + 0.2 + 1e-6 * (runs - runs.mean())).cohens_d
    assert steady.df == pytest.approx(2 * len(runs) - 2, rel=1e-5)
    alone = compare_run_sets(runs, 0.5 + 1e-4 * runs).cohens_d  # of one side that varies
    assert alone.df == pytest.approx(len(runs) - 1, rel=1e-3)


@pytest.mark.parametrize("shift", [1e4, -1e4, 1e9])
def test_the_interval_of_a_d_of_thousands_is_that_of_numerical_integration(shift):
    # SciPy's own inverse needed seconds at 1e4 standard deviations and did not end at 1e9.
    runs = np.array([0.0, 0.3, 1.0, 1.1])
    seen = compare_run_sets(runs, runs + shift * runs.std(ddof=1)).cohens_d
    assert seen.value == pytest.approx(shift)
    assert seen.low < seen.value < seen.high
    t = shift * math.sqrt(len(runs) / 2)
    z, weights = np.polynomial.hermite_e.hermegauss(60)
    for end, p in ((seen.low, 0.975), (seen.high, 0.025)):
        # T is below t where the chi-squared under its root is above df (delta + z)^2 / t^2.
        above = (end * math.sqrt(len(runs) / 2) + z) / t
        tails = stats.chi2.sf(seen.df * above**2, seen.df)
        below = (weights * (tails if shift > 0 else 1 - tails)).sum() / math.sqrt(2 * math.pi)
        assert below == pytest.approx(p, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("runs", "sigma"), [((6, 6), 1.0), ((8, 14), 2.0)])
def test_intervals_cover_the_true_difference_and_the_true_d(runs, sigma):
    rng = np.random.default_rng(9)
    truth, d = 0.8, 0.8 / math.sqrt((1 + sigma**2) / 2)
    hits = np.zeros(2)
    for _ in range(300):
        seen = compare_run_sets(rng.normal(0, 1, runs[0]), rng.normal(truth, sigma, runs[1]))
        hits += seen.difference.low <= truth <= seen.difference.high
        hits[1] += (seen.cohens_d.low <= d <= seen.cohens_d.high) - (
            seen.difference.low <= truth <= seen.difference.high
        )
    assert (hits >= 0.91 * 300).all()
    assert (hits <= 0.995 * 300).all()


@pytest.mark.slow
def test_a_one_sided_test_in_the_direction_of_the_data_alarms_twice_as_often_as_it_says():
    rng = np.random.default_rng(10)
    pairs = rng.normal(size=(300, 2, 16))
    alarms = {
        protocol: sum(compare_run_sets(b, o, protocol=protocol).u_p <= 0.05 for b, o in pairs)
        for protocol in ("published", "sound")
    }
    # 99% of Binomial(300, .1) lies in 17 to 44, of Binomial(300, .05) in 6 to 25.
    assert 20 <= alarms["published"] <= 44
    assert alarms["sound"] <= 25
    assert alarms["published"] > 1.4 * alarms["sound"]


# --- spread ---------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_spread_is_range_and_population_standard_deviation(values):
    seen = max_diff(values)
    assert seen["MaxDiff"] == max(values) - min(values)
    own = np.sqrt(np.mean((np.array(values) - np.mean(values)) ** 2))
    assert seen["STDEV"] == pytest.approx(own)
    assert seen["STDEV"] <= seen["MaxDiff"] / 2 + 1e-12  # Popoviciu's inequality
    assert spread(values)[1] is None
    assert spread(values)[0]["sigma"].n == len(values)


def test_the_first_of_two_equally_spread_classes_is_the_worst():
    rows = [[0.5, 0.25, 0.5, 0.1], [0.5, 0.75, 0.0, 0.1], [0.5, 0.75, 0.25, 0.1]]
    seen = max_diff(rows)
    assert (spread(rows)[1], seen["MaxDiff of class"]) == (1, 0.5)
    assert seen["STDEV of class"] == pytest.approx(math.sqrt(1 / 18))
    assert seen["MaxDiff"] == pytest.approx(0.4 - 0.3375)


def test_a_class_undefined_in_one_run_leaves_the_overall_spread_undefined():
    seen, worst = spread([[0.1, math.nan], [0.3, 0.5]])
    assert math.isnan(seen["MaxDiff"].value)
    assert math.isnan(seen["sigma"].value)
    assert seen["sigma"].reason == "interval not estimable (a run has no value)"
    assert (worst, round(seen["MaxDiff of class"].value, 6)) == (0, 0.2)
    assert spread([[math.nan], [0.5]])[1] is None


def test_the_interval_of_sigma_covers_as_promised():
    rng = np.random.default_rng(11)
    shown = [spread(rng.normal(0, 2, 8))[0]["sigma"] for _ in range(300)]
    assert 0.91 <= np.mean([one.low <= 2 <= one.high for one in shown]) <= 0.995


# --- degenerate runs, families, refusals ----------------------------------------------------------


def test_runs_that_never_vary_have_no_effect_size_and_say_why():
    for protocol in ("sound", "published"):
        seen = compare_run_sets([0.2, 0.2, 0.2], [0.2, 0.2], protocol=protocol)
        assert seen.u_p == 1.0
        assert math.isnan(seen.levene_p)
        assert seen.reason == "no test of variances (nothing varies over 5 runs)"
        assert seen.cohens_d.reason == "undefined (nothing varies over 5 runs)"
        assert (seen.difference.value, seen.effect) == (0.0, "undefined")
        assert (seen.mean_moves(), seen.variance_moves()) == ("NS", "NS")


@pytest.mark.parametrize("protocol", ["sound", "published"])
def test_runs_that_differ_by_their_rounding_do_not_vary(protocol):
    base, other = [0.3, 0.1 + 0.2], [0.7, 0.7]
    assert base[0] != base[1]
    seen = compare_run_sets(base, other, protocol=protocol)
    assert seen.cohens_d.reason == "undefined (nothing varies over 4 runs)"
    assert math.isnan(seen.spread_ratio.value)
    assert seen.difference.reason == "interval not estimable (nothing varies over 4 runs)"


@pytest.mark.parametrize("protocol", ["sound", "published"])
@pytest.mark.parametrize("runs", [2, 6])
def test_the_variance_of_two_runs_is_never_significant(protocol, runs):
    # Both lie equally far from their median: F is infinite or as good as, whatever the truth.
    rng = np.random.default_rng(runs)
    for _ in range(20):
        pair, others = rng.normal(5, 1, 2), rng.normal(5, 1, runs)
        for seen in (
            compare_run_sets(pair, others, protocol=protocol),
            compare_run_sets(others, pair, protocol=protocol),
        ):
            assert math.isnan(seen.levene_p)
            assert seen.reason == "no test of variances (2 runs on a side, 3 are needed)"
            assert seen.variance_moves() == "NS"


@pytest.mark.parametrize(("runs", "powerless"), [(3, True), (4, True), (5, False)])
def test_tests_of_variances_of_fewer_than_five_runs_say_that_they_have_no_power(runs, powerless):
    rng = np.random.default_rng(1)
    seen = compare_run_sets(rng.normal(size=runs), rng.normal(size=9))
    assert not math.isnan(seen.levene_p)
    assert ("fewer than 5 runs a side" in seen.spread_ratio.note) == powerless


def test_a_mean_of_zero_leaves_the_published_variance_test_undefined():
    seen = compare_run_sets([-1.0, 1.0, 0.0], [1.0, 2.0, 4.0], protocol="published")
    assert math.isnan(seen.levene_p)
    assert seen.reason == "no test of variances (a mean of 0 cannot be divided by)"
    assert seen.spread_ratio.reason == "undefined (a mean of 0 cannot be divided by)"
    assert not compare_run_sets([-1.0, 1.0, 0.0], [1.0, 2.0, 4.0]).reason


def test_a_baseline_without_spread_still_meets_one_with_spread():
    seen = compare_run_sets([0.2, 0.2, 0.2, 0.2], [0.2, 0.4, 0.1, 0.5])
    assert seen.spread_ratio.value == math.inf
    assert seen.spread_ratio.reason == "interval not estimable (base does not vary over 4 runs)"
    assert seen.levene_p < 0.05
    assert seen.variance_moves() == "+"


def test_the_ratio_of_spreads_of_runs_without_heavy_tails_has_the_textbooks_interval():
    b, o = np.arange(9.0), 3 * np.arange(14.0) ** 1.2
    seen = compare_run_sets(b, o).spread_ratio
    f = o.var(ddof=1) / b.var(ddof=1)
    assert seen.value == pytest.approx(math.sqrt(f))
    # s'^2/s^2 over sigma'^2/sigma^2 has an F distribution with n' - 1 and n - 1 degrees.
    assert seen.low == pytest.approx(math.sqrt(f / stats.f.ppf(0.975, 13, 8)))
    assert seen.high == pytest.approx(math.sqrt(f / stats.f.ppf(0.025, 13, 8)))
    outlier = compare_run_sets(b, np.append(o[:-1], 400.0)).spread_ratio
    assert outlier.high / outlier.low > seen.high / seen.low


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draw", "least"),
    [("standard_normal", 0.93), ("random", 0.93), ("laplace", 0.86)],
)
def test_intervals_of_the_ratio_of_spreads_hold_the_truth(draw, least):
    rng = np.random.default_rng(3)
    base, other = ((getattr(rng, draw)(size=(400, runs))) for runs in (8, 16))
    found = [compare_run_sets(b, 1.7 * o).spread_ratio for b, o in zip(base, other, strict=True)]
    assert np.mean([one.low <= 1.7 <= one.high for one in found]) >= least


@given(
    st.lists(st.integers(0, 1000), min_size=3, max_size=12),
    st.lists(st.integers(0, 1000), min_size=3, max_size=12),
)
@settings(max_examples=50)
def test_swapping_base_and_other_turns_signs_and_keeps_p_values(b, o):
    there, back = compare_run_sets(b, o), compare_run_sets(o, b)
    assert there.u_p == pytest.approx(back.u_p)
    assert there.difference.value == pytest.approx(-back.difference.value)
    np.testing.assert_allclose(there.levene_p, back.levene_p, rtol=1e-9)
    np.testing.assert_allclose(there.cohens_d.low, -back.cohens_d.high, rtol=1e-5, atol=1e-9)
    assert there.effect == back.effect


@pytest.mark.parametrize(
    ("shift", "name"),
    [
        (2.0, "huge"),
        (1.99, "very large"),
        (1.2, "very large"),
        (0.8, "large"),
        (0.5, "medium"),
        (0.2, "small"),
        (0.01, "very small"),
        (0.009, "negligible"),
    ],
)
def test_effects_carry_sawilowskys_names(shift, name):
    unit = np.array([-1.0, 0.0, 1.0])  # standard deviation 1 with ddof=1
    assert compare_run_sets(unit, unit + shift * (1 + 1e-12)).effect == name


def test_a_family_is_adjusted_by_benjamini_hochberg_and_the_published_one_is_not():
    rng = np.random.default_rng(12)
    pairs = {f"{k}": (rng.normal(size=9), rng.normal(0.5 * k, 1, size=8)) for k in range(5)}
    sound = compare_family(pairs)
    alone = [compare_run_sets(*pair) for pair in pairs.values()]
    np.testing.assert_allclose(
        [one.u_p_adjusted for one in sound.values()],
        stats.false_discovery_control([one.u_p for one in alone]),
    )
    np.testing.assert_allclose(
        [one.levene_p_adjusted for one in sound.values()],
        stats.false_discovery_control([one.levene_p for one in alone]),
    )
    published = compare_family(pairs, protocol="published")
    assert all(one.u_p_adjusted == one.u_p for one in published.values())
    assert compare_family({}) == {}


def test_significance_inside_a_family_is_that_of_the_adjusted_p_value():
    base = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    higher = [3.5, 4.5, 6.5, 7.5, 8.5, 9.5]
    same = [1.1, 2.1, 2.9, 4.1, 4.9, 6.2]
    assert compare_run_sets(base, higher).u_p == pytest.approx(0.0411, abs=1e-4)
    assert compare_run_sets(base, higher).mean_moves() == "+"
    family = compare_family({"higher": (base, higher), "a": (base, same), "b": (base, same)})
    assert family["higher"].mean_moves() == "NS"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: compare_run_sets([0.1], [0.1, 0.2]),
            "base must hold the values of two or more runs, got shape (1,): pass one number per "
            "run",
        ),
        (
            lambda: compare_run_sets([0.1, 0.2], [0.1, math.nan]),
            "other must be finite, got nan for run 1: "
            "leave out the classes or metrics that are undefined in a run",
        ),
        (
            lambda: spread([0.1]),
            "runs must be two or more values, or rows of one value per class, got shape (1,): "
            "train at least two runs",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_sentence(call, sentence):
    with pytest.raises(DataError) as refusal:
        call()
    assert str(refusal.value) == sentence
