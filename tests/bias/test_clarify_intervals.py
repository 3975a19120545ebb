from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats.contingency import relative_risk

from scotoma.bias.clarify import METRICS, all_metrics, metric, metric_changes
from scotoma.bias.clarify.cells import count_cells, measure
from scotoma.bias.clarify.distances import DISTANCES
from scotoma.bias.clarify.fliptest import fliptest
from scotoma.errors import DataError
from tests.helpers.crossed import crossed_variance

SMOOTH = [name for name in METRICS if name not in (*DISTANCES, "FT")]


def audit(rng, n: int, members: int = 1, *, run_effect: float = 0.0) -> dict[str, np.ndarray]:
    """Two facets that differ in labels and in how they are judged; probit errors, runs differ."""
    d = rng.random(n) < 0.35
    strata = rng.integers(0, 2, n)
    features = rng.normal(size=(n, 2))
    y = rng.random(n) < np.where(d, 0.35, 0.5) + 0.05 * strata
    runs = run_effect * rng.normal(size=(2, members))
    score = np.where(y, 1.0, -1.0) + 0.6 * features[:, 0] - 0.3 * d + rng.normal(size=n)
    p = score[:, None] + runs[d.astype(int)] + rng.normal(size=(n, members)) > 0
    return {"d": d, "y": y, "p": p, "strata": strata, "features": features}


@pytest.mark.parametrize("members", [1, 8, 33])
def test_counting_examples_that_agree_gives_what_examples_one_by_one_give(members):
    one = audit(np.random.default_rng(7), 600, members)
    dense = one.pop("p")
    compressed = dense & (np.random.default_rng(8).random(dense.shape) < 0.9)
    alone = np.arange(600)  # rows with a source each are not put together
    slow = metric_changes(**one, dense=dense, compressed=compressed, clusters=alone)
    fast = metric_changes(**one, dense=dense, compressed=compressed)
    for name, found in fast.items():
        for part in ("value", "low", "high", "n", "events", "df"):
            expected = pytest.approx(getattr(slow[name], part), nan_ok=True)
            assert getattr(found, part) == expected, (name, part)


# --- influences -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMOOTH)
def test_an_influence_is_the_slope_in_the_weight_of_an_example(name):
    cells = np.random.default_rng(1).integers(3, 40, size=(2, 3, 2, 2, 2)).astype(float)
    if name not in ("CDDL", "CDDPL"):
        cells = cells[:, :1]
    table = np.broadcast_to(measure(name, cells).influence, cells.shape)
    step = 1e-4
    for at in np.ndindex(cells.shape[1:]):
        for k, n in enumerate(cells.sum(axis=(1, 2, 3, 4))):
            more, less = cells.copy(), cells.copy()
            more[k][at] += step
            less[k][at] -= step
            slope = (measure(name, more).values[k] - measure(name, less).values[k]) / (2 * step)
            assert table[k][at] == pytest.approx(n * slope, rel=1e-5, abs=1e-6)
    np.testing.assert_allclose((cells * table).sum(axis=(1, 2, 3, 4)), 0, atol=1e-8)


@pytest.mark.parametrize("grid", [False, True])
def test_fliptest_influences_are_what_leaving_out_a_row_does(grid):
    rng = np.random.default_rng(2)
    d, p = rng.random(40) < 0.4, rng.random((40, 3)) < 0.5
    x = rng.integers(0, 4, (40, 2)).astype(float) if grid else rng.normal(size=(40, 2))
    seen = fliptest(x, d, p)
    keep = ~np.eye(40, dtype=bool)
    without = np.array([fliptest(x[one], d[one], p[one]).values for one in keep])
    moved = 40 * (seen.values - without)
    of_a = moved[~d] - moved[~d].mean(axis=0)
    np.testing.assert_allclose(seen.influences[~d], of_a, atol=1e-10)
    # A mean over n_d rows moves by (h - mean) / (n_d - 1) when a row leaves.
    n_d = d.sum()
    np.testing.assert_allclose(seen.influences[d], moved[d] * (n_d - 1) / n_d, atol=1e-10)


# --- against others -------------------------------------------------------------------------------


def test_the_interval_of_di_is_that_of_a_relative_risk():
    one = audit(np.random.default_rng(3), 4_000)
    d, p = one["d"], one["p"][:, 0]
    seen = all_metrics(d=d, p=p, only=["DI"])["DI"]
    risk = relative_risk(p[d].sum(), d.sum(), p[~d].sum(), (~d).sum())
    low, high = risk.confidence_interval(0.95)
    assert seen.scale == "ratio"
    assert seen.value == pytest.approx(risk.relative_risk)
    # t with thousands of degrees of freedom for the normal, n - 1 for n.
    assert (seen.low, seen.high) == (pytest.approx(low, rel=2e-4), pytest.approx(high, rel=2e-4))
    assert seen.at(0.9).low > seen.low
    assert seen.p_below(seen.high) == pytest.approx(0.025)


# --- bounds ---------------------------------------------------------------------------------------


def test_upper_bounds_of_distances_hold_also_where_the_facets_are_alike():
    shares = np.array([0.5, 0.3, 0.2])
    held = dict.fromkeys(DISTANCES, 0)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        d = rng.random(150) < 0.4
        other = np.where(d, rng.choice(3, 150, p=shares[::-1]), rng.choice(3, 150, p=shares))
        seen = all_metrics(d=d, labels=other, seed=seed)
        true_l2 = math.sqrt(((shares - shares[::-1]) ** 2).sum())
        true = {"TVD": 0.3, "KS": 0.3, "LP": true_l2, "KL": 0.3 * math.log(2.5)}
        for name, value in true.items():
            held[name] += seen[name].high >= value
        alike = all_metrics(d=d, labels=rng.choice(3, 150, p=shares), seed=seed)
        assert all(alike[name].low == 0.0 < alike[name].high for name in DISTANCES)
    # 99% of Binomial(60, .95) lies at 52 and above.
    assert all(held[name] >= 52 for name in ("KL", "LP", "TVD", "KS"))


# --- what stands beside the numbers ---------------------------------------------------------------


def test_two_labels_make_every_distance_a_function_of_dpl():
    one = audit(np.random.default_rng(3), 300)
    table = all_metrics(d=one["d"], y=one["y"])
    dpl = abs(table["DPL"].value)
    for name, value in {"TVD": dpl, "KS": dpl, "LP": math.sqrt(2) * dpl}.items():
        assert table[name].value == pytest.approx(value)
        assert table[name].members == 0
        assert table[name].note.startswith("upper bound only")
    # A one-sided 95% bound of |DPL|, up to the noise of the draws.
    one_sided = table["DPL"].value + 1.645 * table["DPL"].se
    assert table["TVD"].high == pytest.approx(one_sided, rel=0.05)


def test_kl_stays_infinite_up_to_its_bound_where_only_a_has_a_label():
    d = np.arange(40) < 20
    seen = all_metrics(d=d, labels=np.where(np.arange(40) == 39, 2, np.arange(40) % 2))["KL"]
    assert (seen.value, seen.low, seen.high) == (math.inf, 0.0, math.inf)


def test_bounds_of_distances_count_rows_of_one_source_once():
    one = audit(np.random.default_rng(4), 400, 3)
    twice = {name: np.repeat(values, 2, axis=0) for name, values in one.items()}
    del one["features"], twice["features"]
    people = np.repeat(np.random.default_rng(5).permutation(400), 2)
    single, apart, joined = (
        all_metrics(**own) for own in (one, twice, twice | {"clusters": people})
    )
    for name in DISTANCES:
        assert joined[name].high == pytest.approx(single[name].high, rel=0.1)
        assert apart[name].high < joined[name].high


def slopes(name: str, one: dict[str, np.ndarray]) -> np.ndarray:
    """How the metric moves when one example more of its cell is predicted positive, numerically."""
    cells, index = count_cells(one["d"], one["y"], one["p"], one["strata"])
    moved = np.zeros(cells.shape[1:-1])
    step = 1e-4 * np.array([-1.0, 1.0])
    for at in np.ndindex(moved.shape):
        more, less = cells.copy(), cells.copy()
        more[0][at] += step
        less[0][at] -= step
        moved[at] = (measure(name, more).values - measure(name, less).values)[0] / 2e-4
    return moved.ravel()[index[:, 0] // 2]


@pytest.mark.parametrize("name", [n for n in SMOOTH if METRICS[n].stage == "post-training"])
def test_changes_of_identical_models_have_the_floor_of_flips_that_were_not_seen(name):
    # Four flips among the examples at risk in each facet, and what each of them would move.
    one = audit(np.random.default_rng(6), 300)
    same = metric_changes(
        d=one["d"], y=one["y"], dense=one["p"], compressed=one["p"].copy(), paired=True,
        strata=one["strata"], only=[name],
    )[name]  # fmt: skip
    moved, floor = slopes(name, one), 0.0
    for facet in (one["d"], ~one["d"]):
        at_risk = moved[facet & (np.abs(moved) > 1e-9)]
        n = len(at_risk)
        floor += (at_risk**2).mean() * n**2 * 4 / (n + 4) ** 2
    assert same.value == pytest.approx(0, abs=1e-12)
    assert same.se == pytest.approx(math.sqrt(floor), rel=1e-5)


def test_a_difference_of_proportions_has_the_variance_and_floor_of_both_proportions():
    one = audit(np.random.default_rng(6), 300, 4)
    flipped = one["p"] ^ (np.random.default_rng(7).random(one["p"].shape) < 0.06)
    moved = metric_changes(d=one["d"], dense=one["p"], compressed=flipped, paired=True)["DPPL"]
    expected = 0.0
    for facet in (one["d"], ~one["d"]):
        rise = crossed_variance(one["p"][facet] * 1.0, flipped[facet] * 1.0, paired=True)
        assert rise.floor < 1 / (facet.sum() + 4) ** 2  # enough flips to know their mean square
        expected += rise.total
    assert moved.se**2 == pytest.approx(expected, rel=0.01)  # n - 1 for all, not for each facet


def test_the_fliptest_of_identical_models_has_the_floor_of_both_facets():
    one = audit(np.random.default_rng(6), 300, 4)
    same = metric_changes(
        d=one["d"], dense=one["p"], compressed=one["p"], features=one["features"], only=["FT"]
    )["FT"]
    sizes = one["d"].sum(), (~one["d"]).sum()
    assert same.se**2 >= sum(4 / (n + 4) ** 2 for n in sizes)
    paired = metric_changes(
        d=one["d"], dense=one["p"], compressed=one["p"], features=one["features"], only=["FT"],
        paired=True,
    )["FT"]  # fmt: skip
    assert paired.se**2 == pytest.approx(sum(4 / (n + 4) ** 2 for n in sizes))


def test_a_change_is_the_difference_of_the_metrics():
    one, two = audit(np.random.default_rng(7), 300, 3), audit(np.random.default_rng(8), 300, 3)
    given_ = {name: one[name] for name in ("d", "y", "strata", "features")}
    dense, pruned = all_metrics(**given_, p=one["p"]), all_metrics(**given_, p=two["p"])
    moved = metric_changes(**given_, dense=one["p"], compressed=two["p"])
    for name, seen in moved.items():
        assert seen.value == pytest.approx(pruned[name].value - dense[name].value, abs=1e-12)
        assert seen.low < seen.value < seen.high
        assert seen.members == 3
    means = [metric("RD", d=one["d"], y=one["y"], p=p) for p in one["p"].T]
    assert dense["RD"].value == pytest.approx(np.mean(means))


def test_paired_members_are_compared_with_their_own():
    rng = np.random.default_rng(9)
    one = audit(rng, 2000, 8, run_effect=0.5)
    flipped = one["p"] ^ (rng.random(one["p"].shape) < 0.01)
    given_ = {"d": one["d"], "y": one["y"], "dense": one["p"], "compressed": flipped}
    paired, apart = metric_changes(**given_, paired=True), metric_changes(**given_)
    for name in ("RD", "DPPL", "DI"):
        assert paired[name].high - paired[name].low < 0.5 * (apart[name].high - apart[name].low)


YES, NO = True, False
# d: two rows, one of them positive; a: three rows.
TINY = {"d": [YES, YES, NO, NO, NO], "y": [YES, NO, YES, NO, NO]}


@pytest.mark.parametrize(
    ("name", "given_", "reason"),
    [
        ("RD", {"y": [NO, NO, YES, NO, NO], "p": TINY["y"]}, "undefined (no positive labels in the disadvantaged facet)"),  # noqa: E501
        ("DAR", {"p": [NO, NO, YES, NO, NO]}, "undefined (no positive predictions in the disadvantaged facet)"),  # noqa: E501
        ("DI", {"p": [YES, NO, NO, NO, NO]}, "undefined (no positive predictions in the advantaged facet)"),  # noqa: E501
        ("SD", {"y": [YES, NO, YES, YES, YES], "p": TINY["y"]}, "undefined (no negative labels in the advantaged facet)"),  # noqa: E501
        ("DRR", {"p": [YES, YES, YES, NO, NO]}, "undefined (no negative predictions in the disadvantaged facet)"),  # noqa: E501
        ("TE", {"p": [NO, YES, NO, NO, NO]}, "undefined (no false positives in the advantaged facet)"),  # noqa: E501
        ("AD", {"d": [NO] * 5, "p": TINY["y"]}, "undefined (no examples in the disadvantaged facet)"),  # noqa: E501
        ("FT", {"d": [YES] * 5, "p": TINY["y"], "features": np.arange(5)}, "undefined (no examples in the advantaged facet)"),  # noqa: E501
        ("KL", {"d": [YES] * 5}, "undefined (no examples in the advantaged facet)"),
        ("CDDL", {"strata": ["x", "x", "y", "y", "y"], "y": [YES, YES, NO, NO, NO]}, "undefined (no stratum holds both positive and negative labels)"),  # noqa: E501
        ("CDDPL", {"strata": ["x"] * 5, "p": [YES] * 5}, "undefined (no negative predictions in stratum 'x')"),  # noqa: E501
        ("GE", {"y": [YES] * 5, "p": [NO] * 5}, "undefined (every example is a missed positive)"),
        ("RD", {}, "not computed (needs p)"),
        ("CDDPL", {}, "not computed (needs p and strata)"),
    ],
)  # fmt: skip
def test_what_is_undefined_is_nan_and_says_why(name, given_, reason):
    seen = all_metrics(**(TINY | given_))[name]
    assert math.isnan(seen.value)
    assert math.isnan(seen.low)
    assert seen.reason == reason
    if not reason.startswith("not"):
        assert math.isnan(metric(name, **(TINY | given_)))


def test_a_metric_undefined_for_one_member_is_undefined_for_the_population():
    p = np.array([[YES, NO], [NO, NO], [YES, YES], [NO, NO], [YES, NO]])
    seen = all_metrics(**TINY, p=p)["DAR"]
    assert math.isnan(seen.value)
    assert seen.reason == (
        "undefined (no positive predictions in the disadvantaged facet for 1 of 2 members)"
    )


def test_the_change_of_a_metric_that_one_member_lacks_is_that_of_all_members_together():
    rng = np.random.default_rng(9)
    d, y = np.arange(300) < 40, rng.random(300) < 0.3
    dense = y[:, None] ^ (rng.random((300, 5)) < 0.15)
    dense[d, 0] = False  # this member accepts nobody of d
    compressed = dense ^ (rng.random(dense.shape) < 0.03)
    seen = metric_changes(d=d, y=y, dense=dense, compressed=compressed, paired=True)["DAR"]
    values, scores = [], []
    for p in (dense, compressed):
        value, score = 0.0, np.zeros(p.shape)
        for sign, facet in ((1, ~d), (-1, d)):
            own, accepted = p[facet], p[facet].sum() / 5
            hit = own & y[facet, None]
            value += sign * hit.sum() / own.sum()
            score[facet] = sign * len(y) * (hit - hit.sum() / own.sum() * own) / accepted
        values.append(value)
        scores.append(score)
    assert seen.value == pytest.approx(values[1] - values[0])
    spread = crossed_variance(*scores, paired=True, unit=None).total
    assert spread < seen.se**2 < 8 * spread  # and the floor, of 6 flips in a facet of 40
    assert seen.note == (
        "all members counted together: no positive predictions in the disadvantaged facet for 1 "
        "of 5 members"
    )


@pytest.mark.parametrize(("name", "most", "known"), [
    ("DAR", 2.0, "lies within [-2, 2]"), ("DCA", math.inf, "may be anything"),
])  # fmt: skip
def test_a_change_of_what_is_undefined_is_bounded_by_what_it_can_be(name, most, known):
    d = np.arange(60) < 20
    dense, nobody = np.arange(60) % 3 == 0, np.zeros(60, bool)
    seen = metric_changes(d=d, y=dense, dense=dense, compressed=np.where(d, nobody, dense))[name]
    assert math.isnan(seen.value)
    assert (seen.low, seen.high) == (-most, most)
    assert (seen.at(0.99).low, seen.at(0.99).high) == (-most, most)
    assert seen.reason == (
        "undefined (no positive predictions in the disadvantaged facet), so that its change "
        f"{known}"
    )


def test_a_ratio_carried_by_few_examples_has_a_value_but_no_interval():
    d = np.arange(100) < 50
    p = np.isin(np.arange(100), [3, 7, 12]) | (np.arange(100) > 80)
    seen = all_metrics(d=d, p=p)
    assert seen["DI"].value == pytest.approx(3 / 19)
    assert seen["DI"].reason == "interval not estimable (3 effective events, 5 are needed)"
    assert math.isnan(seen["DI"].low)
    assert (seen["DI"].events, seen["DI"].note) == (3.0, "few events")
    assert seen["DPPL"].low < seen["DPPL"].value < seen["DPPL"].high  # the difference is shown
    assert seen["DPPL"].note.startswith("few events")


def test_a_facet_without_errors_does_not_pass_for_certain():
    d, y = np.arange(80) < 40, np.arange(80) % 2 == 0
    seen = all_metrics(d=d, y=y, p=y)["RD"]
    assert seen.value == 0.0
    # One success and one failure more in each facet of 20 positives: 2 x (1/22)(21/22)/22.
    reach = 1.959964 * math.sqrt(2 * (1 / 22) * (21 / 22) / 22)
    assert (seen.low, seen.high) == (pytest.approx(-reach), pytest.approx(reach))


def test_the_number_of_examples_is_that_which_enters():
    one = audit(np.random.default_rng(10), 200)
    seen = all_metrics(**one)
    assert seen["RD"].n == one["y"].sum()
    assert seen["SD"].n == (~one["y"]).sum()
    assert seen["DAR"].n == one["p"].sum()
    assert seen["DI"].n == seen["CI"].n == seen["FT"].n == 200
    missed, found = one["y"] & ~one["p"][:, 0], one["y"] & one["p"][:, 0]
    rarest = min((part & side).sum() for part in (missed, found) for side in (one["d"], ~one["d"]))
    assert seen["RD"].events == rarest
    assert seen["RD"].members == 1
    assert "one training run" in seen["RD"].note
    assert seen["CI"].members == 0
    assert "training run" not in seen["CI"].note


@given(st.integers(0, 10_000))
@settings(max_examples=15)
def test_the_same_predictions_give_the_same_bytes_and_every_interval_holds_its_value(seed):
    one = audit(np.random.default_rng(seed), 60, 2)
    first, again = all_metrics(**one), all_metrics(**one)
    for name, seen in first.items():
        assert replace(again[name]).as_dict() == seen.as_dict()
        if not math.isnan(seen.low):
            assert seen.low <= seen.value <= seen.high, name
        assert math.isnan(seen.low) == bool(seen.reason), name


def test_a_change_of_a_data_metric_is_refused():
    with pytest.raises(DataError, match="DPL describes the data, which compression does not"):
        metric_changes(d=TINY["d"], dense=TINY["y"], compressed=TINY["y"], only=["RD", "DPL"])


def test_a_level_that_is_no_fraction_is_refused():
    for call in (
        lambda: all_metrics(**TINY, level=95),
        lambda: metric_changes(d=TINY["d"], dense=TINY["y"], compressed=TINY["y"], level=95),
    ):
        with pytest.raises(DataError, match=r"level must be a fraction in \(0, 1\), got 95"):
            call()


@pytest.mark.parametrize(("name", "outcome"), [("CDDL", "y"), ("CDDPL", "p")])
def test_a_stratum_where_all_are_alike_is_left_out_and_named(name, outcome):
    """Value and n are those of the other strata; the interval is that of a sample with them."""
    rng = np.random.default_rng(4)
    strata, d = np.array(["b"] * 40 + ["one", "two"] * 60), rng.random(160) < 0.4
    positive = (rng.random(160) < 0.5) & (strata != "b")
    whole = all_metrics(d=d, strata=strata, **{outcome: positive})[name]
    kept = strata != "b"
    rest = all_metrics(d=d[kept], strata=strata[kept], **{outcome: positive[kept]})[name]
    assert (whole.value, whole.n) == (pytest.approx(rest.value), 120)
    assert whole.se == pytest.approx(rest.se, rel=0.05)
    what = "labels" if outcome == "y" else "predictions"
    assert f"without stratum 'b', 25% of the examples, where all {what} are alike" in whole.note


def test_a_change_is_over_strata_that_both_sides_have():
    strata = np.repeat(["one", "two"], 20)
    d, dense = np.tile([YES, NO], 20), np.arange(40) % 3 == 0
    compressed = np.where(strata == "one", dense ^ (np.arange(40) == 3), NO)
    change = metric_changes(d=d, dense=dense, compressed=compressed, strata=strata)["CDDPL"]
    one = strata == "one"
    alone = {"d": d[one], "dense": dense[one], "compressed": compressed[one]}
    assert change.value == pytest.approx(metric_changes(**alone, strata=strata[one])["CDDPL"].value)
    assert "without stratum 'two'" in change.note


def test_the_change_of_ft_beside_one_advantaged_example_says_why_it_has_no_interval():
    d, rows = np.arange(10) > 0, np.arange(10)
    moved = metric_changes(
        d=d, dense=rows % 2 == 0, compressed=rows % 3 == 0, features=rows[:, None].astype(float),
        only=["FT"],
    )["FT"]  # fmt: skip
    assert moved.reason == "interval not estimable (one example in the advantaged facet)"
    assert moved.value == pytest.approx(1 / 9)
    assert moved.note == "few events; one training run: says nothing about the next one"
