"""Agreement, effects, blinding and power: against published numbers, a package and simulations."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from scotoma.study.analysis import alpha, annotator_agreement, counts_of
from scotoma.study.blinding import bang, effective_guesses, james, james_interval
from scotoma.study.effects import (
    bootstrap_interval,
    difference,
    interaction,
    mean_variances,
    weighted_share,
)
from scotoma.study.mixed_model import odds_ratio
from scotoma.study.text import power, smallest_difference

pytestmark = pytest.mark.slow

# Krippendorff (2011), example C: four observers, twelve units, five categories; 0 is missing.
EXAMPLE_C = """
1 2 3 3 2 1 4 1 2 0 0 0
1 2 3 3 2 2 4 1 2 5 0 3
0 3 3 3 2 3 4 2 2 5 1 0
1 2 3 3 2 4 4 1 2 5 1 0
"""
# The package krippendorff 0.9.0 on answers drawn as below: items, annotators, categories, share
# missing, alpha.
PACKAGE = [
    (12, 3, 3, 0.0, 0.17647058823529405),
    (40, 5, 2, 0.3, 0.04776556776556795),
    (25, 4, 3, 0.5, 0.16159695817490483),
]


def test_alpha_and_ac1_of_the_published_example() -> None:
    """Krippendorff prints 0.743; Gwet's irrCAC prints AC1 0.77544 for the same table."""
    table = np.loadtxt(EXAMPLE_C.strip().splitlines(), dtype=int).T - 1
    found = annotator_agreement(counts_of(table, 5), seed=0)
    assert found["alpha"].value == pytest.approx(0.743, abs=5e-4)
    assert found["ac1"].value == pytest.approx(0.77544, abs=5e-6)


def test_alpha_is_that_of_the_package() -> None:
    rng = np.random.default_rng(7)
    for items, annotators, categories, missing, expected in PACKAGE:
        answers = rng.integers(categories, size=(items, annotators))
        kept = rng.random((items, annotators)) >= missing
        counts = counts_of(np.where(kept, answers, -1), categories)
        assert float(alpha(counts)) == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=20))
def test_weights_repeat_items(rows: list[tuple[int, int]]) -> None:
    counts = np.array(rows)
    weights = np.arange(len(rows)) % 3
    np.testing.assert_allclose(alpha(counts, weights), alpha(np.repeat(counts, weights, axis=0)))


@pytest.mark.parametrize(
    ("prevalence", "expected_alpha", "expected_ac1"),
    [(0.5, 0.81, 0.81), (0.05, 0.45, 0.89), (0.02, 0.22, 0.89)],
)
def test_a_rare_answer_lowers_alpha_and_not_ac1(
    prevalence: float, expected_alpha: float, expected_ac1: float
) -> None:
    """Annotators are right 95% of the time throughout."""
    rng = np.random.default_rng(0)
    truth = rng.random((20_000, 1)) < prevalence
    answers = (truth ^ (rng.random((20_000, 3)) < 0.05)).astype(np.int64)
    found = annotator_agreement(counts_of(answers, 2)[:4000], seed=0)
    assert float(alpha(counts_of(answers, 2))) == pytest.approx(expected_alpha, abs=0.03)
    assert found["ac1"].value == pytest.approx(expected_ac1, abs=0.02)


def simulated(
    rng: np.random.Generator, per_arm: int, annotators: int, effect: float, sd: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Answers of two arms and the true difference: items, annotators, annotators by arm, answers.

    Answers are drawn on the scale of shares, so that the truth is known without integration:
    a share of 0.3, items that differ by 0.2 either way, annotators by up to 0.07.
    """
    people = rng.uniform(-0.07, 0.07, annotators)
    arms = []
    for shift in (effect, 0.0):
        items = rng.choice([-0.2, 0.2], (per_arm, 1))
        of_arm = rng.uniform(-1, 1, annotators) * sd * 3**0.5
        chance = np.clip(0.3 + shift + items + people + of_arm, 0, 1)
        arms.append((rng.random((per_arm, annotators)) < chance).astype(float))
    return arms[0], arms[1], effect


def coverage(studies: int, annotators: int, effect: float, sd: float) -> float:
    """Share of studies whose interval holds the true difference."""
    rng = np.random.default_rng(annotators)
    held = 0
    for _ in range(studies):
        first, second, truth = simulated(rng, 100, annotators, effect, sd)
        found = difference(first, second)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= truth <= found.high
    return held / studies


@pytest.mark.parametrize("annotators", [5, 10])
def test_intervals_hold_the_planted_difference(annotators: int) -> None:
    assert 0.88 <= coverage(100, annotators, 0.12, 0.02) <= 1


@pytest.mark.thorough
@pytest.mark.parametrize("annotators", [3, 5, 10])
@pytest.mark.parametrize("effect", [0.0, 0.12])
@pytest.mark.parametrize("sd", [0.0, 0.02])
def test_intervals_hold_the_planted_difference_in_500_studies(
    annotators: int, effect: float, sd: float
) -> None:
    """At no effect what the interval misses is the size of the test: at most 6%, and noise."""
    assert coverage(500, annotators, effect, sd) >= 0.93 - 0.015


def test_answers_taken_as_independent_would_miss_it() -> None:
    """The intervals are wide because they must be: the binomial one holds far less often."""
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(100):
        first, second, truth = simulated(rng, 100, 10, 0.12, 0.05)
        p, q = first.mean(), second.mean()
        half = 1.96 * (p * (1 - p) / first.size + q * (1 - q) / second.size) ** 0.5
        held += abs(p - q - truth) <= half
    assert held < 85


def test_the_bootstrap_gives_about_the_same_interval() -> None:
    rng = np.random.default_rng(1)
    first, second, _ = simulated(rng, 100, 8, 0.12, 0.03)
    found = difference(first, second)
    low, high = bootstrap_interval(first, second, seed=0)
    assert found.low == pytest.approx(low, abs=0.04)
    assert found.high == pytest.approx(high, abs=0.04)


def test_swapped_arms_mirror_the_interval_and_missing_answers_are_left_out() -> None:
    rng = np.random.default_rng(2)
    first, second, _ = simulated(rng, 30, 4, 0.1, 0.02)
    first[rng.random(first.shape) < 0.2] = np.nan
    found, mirrored = difference(first, second), difference(second, first)
    assert found.low == pytest.approx(-mirrored.high)
    assert found.p == pytest.approx(mirrored.p)
    assert found.shares[0] == pytest.approx(np.nanmean(first))


@pytest.mark.parametrize(
    ("annotators", "items", "reason"),
    [
        (2, 5, "2 of 3 annotators needed to see how much they differ"),
        (3, 1, "an arm has fewer than 2 items"),
        (3, 0, "an arm has no answer"),
    ],
)
def test_too_few_of_either_is_undefined_with_a_reason(
    annotators: int, items: int, reason: str
) -> None:
    found = difference(np.ones((items, annotators)), np.zeros((5, annotators)))
    assert (found.low, found.p, found.reason) == (None, None, reason)


def test_equal_answers_have_no_interval() -> None:
    found = difference(np.ones((5, 3)), np.zeros((5, 3)))
    assert (found.value, found.low) == (1.0, None)
    assert found.reason == "all answers are equal within each arm"


def test_blinding_indices_of_a_published_trial() -> None:
    """The CRISP trial in Bang et al. (2004): James 0.75, Bang 0.21 and 0.01."""
    assert james((82, 25, 170), (27, 29, 83)) == pytest.approx(0.75, abs=0.005)
    assert bang(82, 25, 170).value == pytest.approx(0.21, abs=0.005)
    assert bang(29, 27, 83).value == pytest.approx(0.01, abs=0.005)


def test_blinding_indices_at_their_ends() -> None:
    assert james((9, 0, 0), (0, 9, 0)) == pytest.approx(0)
    assert james((0, 0, 9), (0, 0, 9)) == 1
    assert james((5, 5, 0), (5, 5, 0)) == pytest.approx(0.5)
    assert james((0, 0, 0), (0, 0, 0)) is None
    assert bang(0, 9, 0).value == -1
    assert bang(0, 0, 0).value is None


def test_bangs_interval_is_tangos_of_a_published_table() -> None:
    """Fagerland, Lydersen and Laake (2014), airway reactivity, n = 21: -0.517 to -0.026."""
    found = bang(1, 7, 13)
    assert found.low == pytest.approx(-0.517, abs=5e-4)
    assert found.high == pytest.approx(-0.026, abs=5e-4)


def test_bangs_interval_has_a_width_where_all_guesses_are_right() -> None:
    """There Tango's limit is Wilson's of one share: (n - z^2) / (n + z^2)."""
    z2 = 1.959964**2
    found = bang(30, 0, 0)
    assert found.low == pytest.approx((30 - z2) / (30 + z2), abs=1e-6)
    assert found.high == 1
    mirrored = bang(0, 30, 0)
    assert (mirrored.low, mirrored.high) == (-1, pytest.approx(-(found.low or 0)))
    assert bang(30, 0, 0, effective=5).low == pytest.approx((5 - z2) / (5 + z2), abs=1e-6)


def test_bangs_interval_holds_95_percent_of_what_a_trinomial_gives() -> None:
    """By enumeration of every outcome of 30 guesses."""
    n = 30
    for right, wrong in ((0.98, 0.01), (0.6, 0.3), (0.05, 0.05)):
        counts = [(c, w, n - c - w) for c in range(n + 1) for w in range(n - c + 1)]
        shares = stats.multinomial.pmf(counts, n, [right, wrong, 1 - right - wrong])
        likely = [(one, share) for one, share in zip(counts, shares, strict=True) if share > 1e-6]
        held = 0.0
        for one, share in likely:
            found = bang(*one)
            assert found.low is not None
            assert found.high is not None
            held += share * (found.low <= right - wrong <= found.high)
        assert 0.93 <= held <= 0.99


def test_guesses_that_depend_on_each_other_count_for_fewer() -> None:
    rng = np.random.default_rng(0)
    independent = rng.choice([-1.0, 1.0], (60, 10))
    assert effective_guesses(independent) > 300
    of_items = np.repeat(rng.choice([-1.0, 1.0], (60, 1)), 10, axis=1)
    assert effective_guesses(of_items) == pytest.approx(60, rel=0.05)
    assert effective_guesses(np.full((3, 4), np.nan)) == 0


def test_what_annotators_do_in_both_arms_alike_cancels() -> None:
    rng = np.random.default_rng(5)
    strict = (rng.random((30, 6)) < np.linspace(0.1, 0.9, 6)).astype(float)
    assert mean_variances([strict, strict], [1, -1])[1] == pytest.approx(0)
    assert mean_variances([strict], [1])[1] > 0.01


def test_an_interaction_is_the_difference_of_two_differences() -> None:
    rng = np.random.default_rng(4)
    first, second, _ = simulated(rng, 40, 5, 0.3, 0.02)
    third, fourth, _ = simulated(rng, 40, 5, 0.0, 0.02)
    found = interaction((first, second), (third, fourth))
    one, other = difference(first, second), difference(third, fourth)
    assert found.value == pytest.approx((one.value or 0) - (other.value or 0))
    assert found.items == (40, 40, 40, 40)
    assert found.low is not None
    assert found.low > 0
    widths = [(one.high or 0) - (one.low or 0) for one in (found, one, other)]
    assert max(widths[1:]) < widths[0] < sum(widths[1:]) * 1.2
    assert interaction((first, second), (first, second)).value == pytest.approx(0)


def logistic_arms(rng: np.random.Generator, effect: float) -> tuple[np.ndarray, np.ndarray]:
    people = rng.normal(0, 1.5, 5)
    arms = []
    for shift in (effect, 0.0):
        odds = -1 + shift + rng.normal(0, 1, (60, 1)) + people
        arms.append((rng.random((60, 5)) < 1 / (1 + np.exp(-odds))).astype(float))
    return arms[0], arms[1]


def test_the_mixed_model_is_the_slow_twin_of_its_formula() -> None:
    """Laplace: random effects at their mode by a general minimiser, its curvature by hand."""
    first, second = (arm[:8] for arm in logistic_arms(np.random.default_rng(1), 1.0))
    first[0, :3] = np.nan
    found = odds_ratio(first, second)
    arm, item, judge, y = np.array(
        [(a, i + 8 * a, j, y) for a, own in enumerate((second, first))
         for (i, j), y in np.ndenumerate(own) if not np.isnan(y)]
    ).T  # fmt: skip
    design = np.concatenate(
        [item[:, None] == np.arange(16), judge[:, None] == np.arange(5)], axis=1
    ).astype(float)

    def laplace(parameters: np.ndarray) -> float:
        prior = np.repeat(np.exp(-2 * parameters[2:]), [16, 5])

        def joint(effects: np.ndarray) -> float:
            odds = parameters[0] + parameters[1] * arm + design @ effects
            return float(np.logaddexp(0, odds).sum() - y @ odds + prior @ effects**2 / 2)

        best = optimize.minimize(joint, np.zeros(21), method="BFGS")
        share = 1 / (1 + np.exp(-(parameters[0] + parameters[1] * arm + design @ best.x)))
        curvature = design.T @ (design * (share * (1 - share))[:, None]) + np.diag(prior)
        _, log_det = np.linalg.slogdet(curvature)
        return best.fun + log_det / 2 - np.log(prior).sum() / 2

    at = np.log([found.value or 0, found.sd_items or 0, found.sd_annotators or 0])
    intercept = optimize.minimize_scalar(lambda b: laplace(np.array([b, *at])), bounds=(-3, 2)).x
    least = laplace(np.array([intercept, *at]))
    for place in range(3):
        for step in (-0.3, 0.3):
            assert laplace(np.array([intercept, *(at + step * (np.arange(3) == place))])) > least


def test_the_mixed_models_deviations_are_those_of_a_marginal_likelihood() -> None:
    """Items alone differ: the likelihood of each is a sum over one variable, by quadrature."""
    rng = np.random.default_rng(1)
    arms = []
    for shift in (0.8, 0.0):
        odds = shift + rng.normal(0, 1, (150, 1))
        arms.append((rng.random((150, 12)) < 1 / (1 + np.exp(-odds))).astype(float))
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)

    def loss(parameters: np.ndarray) -> float:
        total = 0.0
        for arm, shift in ((arms[0], parameters[1]), (arms[1], 0.0)):
            odds = parameters[0] + shift + np.exp(parameters[2]) * nodes
            yes = arm.sum(axis=1)[:, None]
            likelihood = np.exp(yes * odds - 12 * np.logaddexp(0, odds)) @ weights
            total += np.log(likelihood).sum()
        return -float(total)

    best = optimize.minimize(loss, np.zeros(3), method="Nelder-Mead", options={"maxiter": 400})
    found = odds_ratio(*arms)
    assert np.log(found.value or 0) == pytest.approx(best.x[1], abs=0.03)
    assert found.sd_items == pytest.approx(np.exp(best.x[2]), rel=0.05)
    assert found.sd_annotators is not None
    assert found.sd_annotators < 0.2


def test_odds_are_undefined_with_a_reason() -> None:
    ones = np.ones((4, 3))
    assert odds_ratio(ones[:, :2], ones[:, :2]).reason == "2 of 3 annotators needed"
    assert odds_ratio(ones, 0 * ones).reason == "all answers are equal within an arm"


@pytest.mark.parametrize(
    ("per_arm", "annotators", "expected"), [(100, 3, 0.55), (100, 5, 0.77), (200, 5, 0.91)]
)
def test_power_is_that_of_simulated_studies(per_arm: int, annotators: int, expected: float) -> None:
    """Of a difference of 0.14 over 0.17, by simulation of a logistic model beforehand."""
    assert power(0.14, per_arm, annotators) == pytest.approx(expected, abs=0.05)


def test_more_annotators_help_where_more_images_do_not() -> None:
    with_three = smallest_difference(100, 3)
    assert with_three is not None
    assert (smallest_difference(400, 3) or 1) > (smallest_difference(100, 6) or 1)
    assert power(with_three, 100, 3) == pytest.approx(0.8, abs=1e-4)


def test_a_weighted_share_is_that_of_the_population_and_holds_it() -> None:
    rng = np.random.default_rng(0)
    truth = np.where(np.arange(400) < 100, 0.6, 0.1)  # a quarter of all says yes more often
    drawn = np.concatenate([np.arange(30), np.arange(100, 130)])  # of both as many
    weights = np.repeat([100 / 30, 300 / 30], 30)
    held = 0
    for _ in range(200):
        answers = (rng.random((60, 5)) < truth[drawn, None]).astype(float)
        found = weighted_share(answers, weights)
        assert found.value == pytest.approx(np.average(answers.mean(axis=1), weights=weights))
        assert found.low is not None
        assert found.high is not None
        held += found.low <= truth.mean() <= found.high
    assert 180 <= held <= 200
    equal = weighted_share(np.ones((4, 3)), np.ones(4))
    assert (equal.value, equal.low, equal.reason) == (
        1,
        None,
        "all answers are equal within each arm",
    )


def test_the_interval_of_ac1_is_as_wide_as_a_jackknife_says() -> None:
    rng = np.random.default_rng(1)
    counts = counts_of(np.where(rng.random((80, 4)) < 0.15, 1, 0), 2)
    found = annotator_agreement(counts, seed=0)

    def ac1(
        kept: npt.NDArray[np.int64],
    ) -> float:  # as Gwet writes it, for four answers of two kinds
        yes = kept[:, 1]
        agreeing = np.mean((yes * (yes - 1) + (4 - yes) * (3 - yes)) / 12)
        chance = 2 * np.mean(yes / 4) * (1 - np.mean(yes / 4))
        return float((agreeing - chance) / (1 - chance))

    assert found["ac1"].value == pytest.approx(ac1(counts))
    without = np.array([ac1(np.delete(counts, i, axis=0)) for i in range(80)])
    error = (79 / 80 * np.sum((without - without.mean()) ** 2)) ** 0.5
    assert found["ac1"].low is not None
    assert found["ac1"].high is not None
    assert found["ac1"].high - found["ac1"].low == pytest.approx(2 * 1.96 * error, rel=0.1)
    assert found["ac1"].low < found["ac1"].value < found["ac1"].high


def test_the_interval_of_jamess_index_is_as_wide_as_a_jackknife_says() -> None:
    rng = np.random.default_rng(2)
    first = np.arange(120) < 40
    guesses = rng.choice(3, (120, 60), p=[0.4, 0.3, 0.3])

    def index(kept: npt.NDArray[np.bool_]) -> float:
        one, two = (np.bincount(guesses[kept & side].ravel()) for side in (first, ~first))
        return james((one[0], one[1], one[2]), (two[0], two[1], two[2])) or 0.0

    every = np.arange(120)
    without = np.array([index(every != i) for i in every])
    by_items = 119 / 120 * np.sum((without - without.mean()) ** 2)
    ends = james_interval(guesses, first, seed=0)
    assert ends is not None
    # Guesses are independent: items, annotators and both together bring as much variance each.
    assert ends[1] - ends[0] == pytest.approx(2 * 1.96 * (3 * by_items) ** 0.5, rel=0.2)
    assert james_interval(guesses[:, :2], first, seed=0) is None
    assert james_interval(np.zeros((6, 3), int), np.arange(6) < 3, seed=0) is None
