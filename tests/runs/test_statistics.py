"""Risk, paired tests, ratios and floors against libraries and slow twins."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from scotoma.errors import ConfigError, DataError
from scotoma.runs import (
    baselines,
    compare_paired,
    compare_techniques,
    survival,
)
from scotoma.runs.comparing import paired_permutation_p
from scotoma.runs.effects import fieller, single_run_risk
from scotoma.runs.survival import collapsed, null_floor
from scotoma.runs.techniques import correlate_metrics

RNG = np.random.default_rng(29)


# --- single-run risk --------------------------------------------------------------------------


def test_risk_is_u_over_the_number_of_pairs() -> None:
    for _ in range(20):
        base, other = RNG.normal(0.5, 1, 9).round(1), RNG.normal(0, 1, 12).round(1)
        risk = single_run_risk(base, other, 0.95)
        higher, lower = (base, other) if other.mean() <= base.mean() else (other, base)
        wrong = stats.mannwhitneyu(lower, higher).statistic / 108
        assert risk.value == pytest.approx(wrong)
        assert risk.low <= risk.value <= risk.high
        assert single_run_risk(-base, -other, 0.95).value == pytest.approx(risk.value)


def test_no_wrong_pair_leaves_a_risk_that_shrinks_with_runs() -> None:
    few, many = (single_run_risk(np.arange(n) + 100.0, np.arange(float(n)), 0.95) for n in (8, 32))
    assert few.value == many.value == few.low == 0
    assert 0.1 < few.high < 0.4
    assert many.high < few.high / 2


@pytest.mark.parametrize("shift", [0.0, 1.0, 2.0])
def test_intervals_of_the_risk_hold_the_truth(shift: float) -> None:
    truth = stats.norm.cdf(-shift / math.sqrt(2))
    held = 0
    for _ in range(1500):
        base, other = RNG.normal(shift, 1, 16), RNG.normal(0, 1, 16)
        above = (other[:, None] > base).mean()
        one = single_run_risk(base, other, 0.95)
        if other.mean() > base.mean():  # the direction is picked from the means
            assert one.value == pytest.approx(1 - above)
            held += 1 - one.high <= truth <= 1 - one.low
        else:
            held += one.low <= truth <= one.high
    assert 0.93 <= held / 1500 <= 0.985


# --- paired permutation -----------------------------------------------------------------------


def test_sign_flips_are_counted_one_by_one() -> None:
    """Whole numbers have ties, which a slow twin counts exactly."""
    table = RNG.integers(-4, 7, (9, 5))
    for column, p in zip(table.T, paired_permutation_p(table / 10), strict=True):
        sums = [abs(np.dot(signs, column)) for signs in product((-1, 1), repeat=9)]
        assert p == np.mean(np.array(sums) >= abs(column.sum()))


def test_sums_that_differ_by_rounding_alone_are_ties() -> None:
    """0.1 + 0.2 - 0.3 is not 0 in binary, and no flip is nearer to 0 than that."""
    assert float(paired_permutation_p([0.1, 0.2, -0.3, 0.1, 0.2, -0.3])) == 1


def test_many_runs_are_flipped_at_random_and_repeat() -> None:
    column = RNG.normal(0.4, 1, 24)
    p = float(paired_permutation_p(column))
    assert p == float(paired_permutation_p(column))
    assert p == pytest.approx(stats.ttest_1samp(column, 0).pvalue, abs=0.01)
    assert float(paired_permutation_p(np.full(24, 0.1))) == pytest.approx(1e-5, rel=0.1)


def test_differences_of_nothing_have_p_1_and_undefined_ones_none() -> None:
    table = np.zeros((8, 2))
    table[0, 1] = np.nan
    assert float(paired_permutation_p(table)[0]) == 1
    assert math.isnan(paired_permutation_p(table)[1])


def test_sign_flips_keep_their_level() -> None:
    p = paired_permutation_p(RNG.standard_t(4, (10, 4000)))
    assert (p <= 0.05).mean() == pytest.approx(0.05, abs=0.012)


def test_techniques_that_share_runs_are_compared_run_by_run() -> None:
    noise = RNG.normal(0, 1, 8)
    sets = {("a", "DP"): noise + 0.01, ("b", "DP"): noise, ("c", "DP"): noise[:5]}
    [cell] = compare_paired(sets, [["a", "b"]])
    assert cell["difference"].value == pytest.approx(0.01)
    assert cell.value("p") == cell.value("p, adjusted") == 2 / 2**8
    with pytest.raises(DataError, match="same runs to be paired, got 8 and 5"):
        compare_paired(sets, [["a", "c"]])


# --- Fieller ----------------------------------------------------------------------------------


def slow_fieller(x: np.ndarray, y: np.ndarray, ratios: np.ndarray, level: float) -> np.ndarray:
    """The ratios that a paired t test does not reject."""
    p = stats.ttest_1samp(x[:, None] - ratios * y[:, None], 0).pvalue
    kept = ratios[p >= 1 - level]
    return np.array([min(kept), max(kept)])


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_fieller_keeps_the_ratios_that_a_t_test_keeps(level: float) -> None:
    y = RNG.normal(2, 0.5, 8)
    x = 0.4 * y + RNG.normal(0, 0.3, 8)
    ratio = fieller(x, y, level=level)
    grid = np.linspace(-1, 2, 3001)
    assert [ratio.low, ratio.high] == pytest.approx(slow_fieller(x, y, grid, level), abs=1.1e-3)
    assert ratio.value == pytest.approx(x.mean() / y.mean())


def test_survival_of_no_gain_is_undefined() -> None:
    for _ in range(50):
        y = RNG.normal(0.7, 1, 8)
        low, high = stats.t.interval(0.95, 7, y.mean(), stats.sem(y))
        undefined = math.isnan(fieller(y / 2, y).value)
        assert undefined == (low <= 0 <= high)
    assert "no gain to survive" in fieller([1.0, -1, 1, -1], [1.0, -1, 1, -1]).reason


def test_fieller_holds_the_truth() -> None:
    held = total = 0
    for _ in range(3000):
        y = RNG.normal(3, 1, 8)
        x = 0.5 * y + RNG.normal(0, 1, 8)
        ratio = fieller(x, y)
        if not math.isnan(ratio.value):
            total += 1
            held += ratio.low <= 0.5 <= ratio.high
    assert held / total == pytest.approx(0.95, abs=0.015)


def table(b, techniques, variants, metrics):
    """B[m, v, seed, metric] by technique, variant and metric."""
    return {
        (t, v, metric): b[m, n, :, k]
        for m, t in enumerate(techniques)
        for n, v in enumerate(variants)
        for k, metric in enumerate(metrics)
    }


# --- survival ---------------------------------------------------------------------------------


def test_harm_interaction_and_survival_are_those_of_the_formulas() -> None:
    """B[m, v, seed, metric] in the letters of the specification."""
    techniques, variants, metrics = ["base", "a", "b"], ["dense", "p", "q"], ["DP", "BA"]
    b = RNG.uniform(0.1, 0.2, (3, 3, 8, 2))
    b[0] += 0.3
    accuracy = np.full((3, 3, 8), 0.9)
    accuracy[0, 2] = 0.87
    sets = table(b, techniques, variants, metrics)
    sets |= {
        (*key[:2], "accuracy"): accuracy[m, v]
        for m, t in enumerate(techniques)
        for v, key in enumerate((t, one) for one in variants)
    }
    cells = survival(sets, base="base", dense="dense")
    assert len(cells) == 2 * 2 * 2
    p = []
    for cell in cells:
        m, v = techniques.index(cell.technique), variants.index(cell.variant)
        k = metrics.index(cell.metric)
        i = (b[m, v, :, k] - b[0, v, :, k]) - (b[m, 0, :, k] - b[0, 0, :, k])
        gain, dense = b[0, v, :, k] - b[m, v, :, k], b[0, 0, :, k] - b[m, 0, :, k]
        assert cell.value("harm") == pytest.approx((b[m, v, :, k] - b[m, 0, :, k]).mean())
        assert cell.value("interaction") == pytest.approx(i.mean())
        ends = cell["interaction"].low, cell["interaction"].high
        assert ends == pytest.approx(stats.t.interval(0.95, 7, i.mean(), stats.sem(i)))
        assert cell.value("survival") == pytest.approx(gain.mean() / dense.mean())
        sd = i.mean() / b[0, 0, :, k].std(ddof=1)
        assert cell.value("interaction in SD") == pytest.approx(sd)
        assert collapsed(cell) == (cell.variant == "q")
        p.append(cell.value("p"))
    adjusted = stats.false_discovery_control(p)
    assert [cell.value("p, adjusted") for cell in cells] == pytest.approx(adjusted)


def test_an_undefined_member_undoes_its_own_cells_only() -> None:
    b = RNG.uniform(0.1, 0.2, (2, 2, 8, 2))
    b[1, 1, 3, 0] = np.nan
    sets = table(b, ["base", "a"], ["dense", "p"], ["DP", "BA"])
    spoiled, whole = survival(sets, base="base", dense="dense")
    assert math.isnan(spoiled.value("interaction"))
    assert "undefined in a run" in spoiled["survival"].reason
    assert math.isnan(spoiled.value("p, adjusted"))
    assert whole.value("p") == whole.value("p, adjusted")
    assert math.isfinite(whole.value("harm"))


def test_a_technique_that_is_worse_while_dense_has_no_gain_to_survive() -> None:
    b = RNG.uniform(0.1, 0.12, (2, 2, 8, 1))
    b[1] += 0.2
    sets = table(b, ["base", "a"], ["dense", "p"], ["DP"])
    [cell] = survival(sets, base="base", dense="dense")
    assert math.isnan(cell.value("survival"))
    assert "worse than the baseline while dense" in cell["survival"].reason
    assert cell["gain dense"].high < 0


def test_the_null_floor_is_what_halves_of_the_seeds_differ_by() -> None:
    values = RNG.normal(0, 1, 8)
    distances = sorted(
        abs(values[list(half)].mean() - np.delete(values, half).mean())
        for half in map(list, combinations(range(8), 4))
    )
    assert null_floor(values) == pytest.approx(distances[math.ceil(0.95 * 69)])
    assert null_floor(RNG.normal(0, 1, 40)) > 0


def test_arrays_that_do_not_fit_are_refused() -> None:
    sets = table(np.zeros((2, 1, 8, 1)), ["base", "a"], ["dense"], ["DP"])
    with pytest.raises(DataError, match="the same two seeds or more of everything, got 5 to 8"):
        survival(sets | {("a", "dense", "DP"): np.zeros(5)}, base="base", dense="dense")
    with pytest.raises(DataError, match="the same two seeds or more of everything, got 1 to 1"):
        survival({key: own[:1] for key, own in sets.items()}, base="base", dense="dense")


# --- techniques and baselines -----------------------------------------------------------------


def technique(name: str, mean: float, runs: int = 8, **more: float) -> dict:
    values = mean + 0.01 * RNG.standard_normal(runs)
    return {(name, "DP"): values} | {(name, m): values * f for m, f in more.items()}


def test_fewer_than_eight_runs_are_refused_in_one_sentence() -> None:
    with pytest.raises(
        DataError, match="needs 8 runs of each technique, got 7 of fair: train more"
    ):
        compare_techniques(technique("base", 0.3) | technique("fair", 0.1, 7), {"fair": "base"})


def test_undefined_and_missing_metrics_leave_the_others() -> None:
    base, fair = technique("base", 0.3, SPSF=0.5, BA=1.0), technique("fair", 0.1, SPSF=0.5)
    fair["fair", "SPSF"][2] = np.nan
    found = compare_techniques(base | fair, {"fair": "base"})
    assert [cell.metric for cell in found.cells] == ["DP"]
    assert found.cells[0].verdict == "better"
    assert found.totals["without_accuracy"] == 1
    assert found.undefined == {
        ("fair", "SPSF"): "not compared (undefined in a run)",
        ("fair", "BA"): "not compared (fair has no values)",
    }


def test_correlations_tell_techniques_from_chance() -> None:
    """Two metrics that techniques move together and chance does not."""
    means = {"base": 0.3, "a": 0.1, "b": 0.2}
    runs = {(name, m): mean + RNG.normal(0, 0.01, 200)
            for name, mean in means.items() for m in ("DP", "BA")}  # fmt: skip
    found = correlate_metrics(runs, list(means))
    assert found.effective_across < 1.05
    assert found.effective_within > 1.9
    assert math.isnan(correlate_metrics({("a", "DP"): np.ones(8)}, ["a"]).lowest_across)


@pytest.mark.parametrize(
    ("names", "bases", "sentence"),
    [
        (["a", "b"], [], "no technique is called a baseline: name it with --base"),
        (["base"], [], "a tournament needs a technique beside its baseline, got none: add one"),
        (["a", "b"], ["c"], "--base must be one of the techniques, got 'c': choose among 'a', 'b'"),
        (["S-Base", "S-base", "S-RS"], [], "a task must have one baseline, got 'S-Base', 'S-base'"),
        (["S-Base", "A-L2", "S-RS"], [], "technique 'A-L2' has no baseline among 'S-Base'"),
    ],
)
def test_a_baseline_that_cannot_be_told_is_asked_for(
    names: list[str], bases: list[str], sentence: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        baselines(names, bases)
    assert str(refusal.value).startswith(sentence)
