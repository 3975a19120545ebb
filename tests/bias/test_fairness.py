from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scotoma import published
from scotoma.bias import counts
from scotoma.bias.fairness import NAMES, fairness_bounds, fairness_metric, signed
from scotoma.errors import DataError

# Qian et al. 2021, Table 3: rows Sport and Cook, columns Pred-Sport and Pred-Cook.
FEMALE, MALE = [[80, 20], [10, 90]], [[60, 40], [70, 30]]
TABLE_3 = {
    "DP": 20.0, "DI": 33.6, "SPSF": 10.0, "FPSF": 20.0, "EOFP": 40.0, "EOTP": 40.0, "BA": 10.1,
}  # fmt: skip
# Appendix C works some of them out by class: Sport, Cook.
APPENDIX_C = {"DP": (20.0, 20.0), "SPSF": (10.0, 10.0), "EOTP": (20.0, 60.0), "BA": (9.1, 11.1)}


def percent(value) -> float:
    return round(100 * float(value), 1)


def tensors(groups=(2, 2), classes=(2, 4), most=30):
    shape = st.tuples(st.integers(*groups), st.integers(*classes))
    return shape.flatmap(
        lambda size: arrays(np.int64, (size[0], size[1], size[1]), elements=st.integers(0, most))
    )


# --- published values -----------------------------------------------------------------------------


def test_the_running_example_of_the_study_is_reproduced():
    for name, printed in TABLE_3.items():
        assert percent(fairness_metric(name, [FEMALE, MALE]).overall) == printed, name
    for name, by_class in APPENDIX_C.items():
        assert tuple(map(percent, fairness_metric(name, [FEMALE, MALE]).per_class)) == by_class, (
            name
        )


def test_the_typed_example_is_the_published_one():
    example = published.load("fairness_variance").running_example
    assert example.metrics_percent == TABLE_3
    groups = (example.female, example.male)
    assert [[list(row) for row in group.values()] for group in groups] == [FEMALE, MALE]


def test_weighted_by_negatives_the_running_example_gives_the_artefacts_fpsf():
    assert percent(fairness_metric("FPSF", [FEMALE, MALE], weights="negatives").overall) == 10.0


# --- a slow twin in the paper's notation ----------------------------------------------------------


def twin(name: str, confusion: np.ndarray, c: int, weights: str) -> float:
    """Appendix A.2, one class against the rest, group by group; nan where a rate has no number."""

    def ratio(over, under):
        return over / under if under else math.nan

    g_all = range(len(confusion))
    tp = [m[c, c] for m in confusion]
    fp = [m[:, c].sum() - m[c, c] for m in confusion]
    fn = [m[c].sum() - m[c, c] for m in confusion]
    n = [m.sum() for m in confusion]
    tn = [n[g] - tp[g] - fp[g] - fn[g] for g in g_all]
    p = [tp[g] + fn[g] for g in g_all]
    neg = [fp[g] + tn[g] for g in g_all]
    ppr = [ratio(tp[g] + fp[g], n[g]) for g in g_all]
    fpr = [ratio(fp[g], neg[g]) for g in g_all]
    tpr = [ratio(tp[g], p[g]) for g in g_all]
    rates = {"DP": ppr, "EOFP": fpr, "EOTP": tpr}
    if name in rates:
        return max_or_nan(abs(a - b) for a, b in combinations(rates[name], 2))
    if name == "DI":
        return max_or_nan(1 - ratio(min(a, b), max(a, b)) for a, b in combinations(ppr, 2))
    if name == "SPSF":
        whole = ratio(sum(tp) + sum(fp), sum(n))
        return sum(ratio(n[g], sum(n)) * abs(whole - ppr[g]) for g in g_all)
    if name == "FPSF":
        whole = ratio(sum(fp), sum(neg))
        share = n if weights == "examples" else neg
        return sum(ratio(share[g], sum(n)) * abs(whole - fpr[g]) for g in g_all)
    g = int(np.argmax(p))
    return abs(ratio(tp[g] + fp[g], sum(tp) + sum(fp)) - ratio(p[g], sum(p)))


def max_or_nan(values) -> float:
    values = list(values)
    return math.nan if any(math.isnan(value) for value in values) else max(values)


@given(tensors(groups=(2, 4)), st.sampled_from(["examples", "negatives"]))
def test_metrics_follow_the_papers_notation(confusion, weights):
    assume((confusion.sum(axis=(1, 2)) > 0).all())
    positives = confusion.sum(axis=2)
    for name in NAMES:
        seen = fairness_metric(name, confusion, weights=weights)
        for c, value in enumerate(seen.per_class):
            if name == "BA" and (positives[:, c] == positives[:, c].max()).sum() > 1:
                continue  # argmax is not unique
            if name == "DI" and len(confusion) > 2 and (confusion[:, :, c].sum(1) == 0).sum() > 1:
                continue  # two groups without predictions are 0/0 as a pair, and 1 against a third
            expected = twin(name, confusion, c, weights)
            if name == "FPSF" and weights == "negatives" and math.isnan(expected):
                continue  # the twin keeps 0 x nan for a group without negatives
            assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), (name, c)
        overall = np.mean(seen.per_class)
        np.testing.assert_equal(float(seen.overall), float(overall))
        assert set(seen.reasons) == set(np.flatnonzero(np.isnan(seen.per_class)))


# --- laws -----------------------------------------------------------------------------------------


@given(tensors(groups=(1, 1)), st.integers(1, 4))
def test_groups_treated_alike_are_fair_whatever_their_size(confusion, times):
    for name in NAMES:
        seen = fairness_metric(name, np.concatenate([confusion, times * confusion]))
        values = seen.per_class[~np.isnan(seen.per_class)]
        np.testing.assert_allclose(values, 0, atol=1e-12)


def test_members_are_measured_one_by_one():
    rng = np.random.default_rng(1)
    tensor = rng.integers(1, 40, size=(3, 5, 4, 4))
    for name in NAMES:
        many = fairness_metric(name, tensor)
        alone = [fairness_metric(name, tensor[:, m]) for m in range(5)]
        np.testing.assert_allclose(many.per_class, [one.per_class for one in alone])
        np.testing.assert_allclose(many.overall, [one.overall for one in alone])


def test_more_than_two_groups_are_judged_by_their_largest_pair():
    fair, worse, worst = [[8, 2], [2, 8]], [[7, 3], [3, 7]], [[2, 8], [5, 5]]
    for name in ("DP", "DI", "EOFP", "EOTP"):
        three = fairness_metric(name, [fair, worse, worst]).per_class
        pairs = [
            fairness_metric(name, pair).per_class for pair in combinations([fair, worse, worst], 2)
        ]
        np.testing.assert_allclose(three, np.max(pairs, axis=0))


# --- undefined ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "confusion", "class_id", "reason"),
    [
        ("DP", [[[3, 1], [1, 3]], [[0, 0], [0, 0]]], 0, "undefined (no examples in group 'men')"),
        ("DI", [[[3, 0], [1, 0]], [[2, 0], [1, 0]]], 1, "undefined (no predictions of class 1)"),
        ("EOTP", [[[3, 1], [1, 3]], [[2, 1], [0, 0]]], 1, "undefined (no positives of class 1 in group 'men')"),  # noqa: E501
        ("EOFP", [[[3, 1], [0, 0]], [[2, 1], [1, 1]]], 0, "undefined (no negatives of class 0 in group 'women')"),  # noqa: E501
        ("FPSF", [[[3, 1], [0, 0]], [[2, 1], [1, 1]]], 0, "undefined (no negatives of class 0 in group 'women')"),  # noqa: E501
        ("BA", [[[3, 0], [1, 0]], [[2, 0], [1, 0]]], 1, "undefined (no predictions of class 1)"),
        ("BA", [[[3, 1], [0, 0]], [[2, 1], [0, 0]]], 1, "undefined (no positives of class 1)"),
        ("SPSF", np.zeros((2, 2, 2)), 0, "undefined (no examples)"),
    ],
)  # fmt: skip
def test_a_class_without_denominator_is_undefined_and_so_is_the_mean(
    name, confusion, class_id, reason
):
    seen = fairness_metric(name, confusion, groups=["women", "men"])
    assert math.isnan(seen.per_class[class_id])
    assert math.isnan(seen.overall)
    assert seen.reasons[class_id] == reason


def test_weighted_by_negatives_a_group_without_any_adds_nothing():
    confusion = [[[3, 1], [0, 0]], [[2, 1], [1, 1]]]
    assert fairness_metric("FPSF", confusion, weights="negatives").per_class[0] == 0.0


def test_a_group_never_predicted_a_class_is_fully_disadvantaged():
    assert fairness_metric("DI", [[[3, 0], [1, 0]], [[2, 1], [1, 1]]]).per_class[1] == 1.0


# --- intervals and bounds -------------------------------------------------------------------------


def upper_bound(name, *audited, **options):
    return fairness_bounds([name], *audited, **options)[name]


def audit(rng, n: int, members: int = 1, *, gap: float = 0.15, run_effect: float = 0.0):
    """Labels, predictions and groups; group 1 is recognised `gap` less often."""
    group = (rng.random(n) < 0.4).astype(int)
    labels = (rng.random(n) < 0.5).astype(int)
    runs = run_effect * rng.normal(size=members)
    rate = np.where(labels == 1, 0.8 - gap * group, 0.25)[:, None] + runs
    predicted = (rng.random((n, members)) < rate).astype(int)
    return labels, predicted, np.array([group == 0, group == 1])


@pytest.mark.parametrize("gap", [0.0, 0.15])
def test_signed_differences_cover_the_truth_and_bounds_lie_above_it(gap):
    held, below = 0, 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        labels, predicted, groups = audit(rng, 240, 3, gap=gap, run_effect=0.05)
        seen = signed("EOTP", labels, predicted, groups, class_id=1)
        held += seen.low <= gap <= seen.high
        if seed < 60:
            bound = upper_bound(
                "EOTP", labels, predicted, groups, n_classes=2, class_id=1, draws=200, seed=seed
            )
            assert bound.low == 0.0 <= bound.value <= bound.high
            below += gap <= bound.high
    assert 0.91 <= held / 300 <= 0.995
    assert below >= 52  # 99% of Binomial(60, .95)


def test_the_signed_difference_is_the_metric_with_a_sign():
    labels, predicted, groups = audit(np.random.default_rng(2), 300)
    confusion = counts(labels, predicted, groups, 2)
    for name in ("DP", "EOFP", "EOTP"):
        for class_id in (0, 1):
            there = signed(name, labels, predicted[:, 0], groups, class_id=class_id)
            assert abs(there.value) == pytest.approx(
                fairness_metric(name, confusion).per_class[0, class_id]
            )
            back = signed(name, labels, predicted[:, 0], groups[::-1], class_id=class_id)
            assert back.value == pytest.approx(-there.value)
    recalls = [predicted[(labels == 1) & mask].mean() for mask in groups]
    seen = signed("EOTP", labels, predicted, groups, class_id=1)
    assert seen.value == pytest.approx(recalls[0] - recalls[1])


def test_an_undefined_difference_speaks_of_groups():
    seen = signed("EOTP", [1, 0, 0, 0], [1, 0, 1, 0], np.eye(2, dtype=bool)[[0, 0, 1, 1]].T, class_id=1)  # noqa: E501  # fmt: skip
    assert seen.reason == "undefined (no positive labels in the second group)"


def test_the_bound_of_one_model_is_that_of_its_signed_difference():
    labels, predicted, groups = audit(np.random.default_rng(3), 600)
    sides = signed("EOTP", labels, predicted, groups, class_id=1)
    one_sided = abs(sides.value) + 1.645 * sides.se
    bound = upper_bound("EOTP", labels, predicted, groups, n_classes=2, class_id=1, draws=4000)
    assert bound.high == pytest.approx(one_sided, rel=0.04)
    assert bound.note == (
        "upper bound only: chance alone lifts an absolute difference above 0; "
        "one training run: says nothing about the next one"
    )


def test_runs_that_differ_widen_the_bound():
    rng = np.random.default_rng(4)
    labels, steady, groups = audit(rng, 400, 4)
    wild = np.where(np.arange(4) % 2 == 0, steady, np.where(groups[0], 1, steady.T).T)
    mean = {
        name: upper_bound("DP", labels, p, groups, n_classes=2, draws=300)
        for name, p in (("steady", steady), ("wild", wild))
    }
    widths = {name: seen.high - seen.value for name, seen in mean.items()}
    assert widths["wild"] > 2 * widths["steady"]
    value = fairness_metric("DP", counts(labels, wild, groups, 2)).overall.mean()
    assert mean["wild"].value == pytest.approx(value)


def test_rows_of_one_source_are_drawn_together():
    labels, predicted, groups = audit(np.random.default_rng(5), 150, 2)
    twice = np.repeat(labels, 2), np.repeat(predicted, 2, axis=0), np.repeat(groups, 2, axis=1)
    people = np.repeat(np.arange(150) * 7, 2)
    single = upper_bound("BA", labels, predicted, groups, n_classes=2)
    joined = upper_bound("BA", *twice, n_classes=2, clusters=people)
    apart = upper_bound("BA", *twice, n_classes=2)
    assert joined.value == pytest.approx(single.value)
    assert (joined.n, single.n, apart.n) == (150, 150, 300)
    assert joined.high == pytest.approx(single.high, rel=0.15)
    assert apart.high < joined.high
    one = signed("DP", labels, predicted, groups, class_id=1)
    two = signed("DP", *twice, class_id=1, clusters=people)
    assert (one.low, one.high) == (pytest.approx(two.low), pytest.approx(two.high))


@pytest.mark.parametrize("clustered", [False, True])
def test_metrics_bounded_together_have_the_bounds_that_each_has_alone(clustered):
    rng = np.random.default_rng(6)
    labels, predicted = rng.integers(0, 2, 200), rng.integers(0, 2, (200, 4))
    groups = [np.arange(200) < 90, np.arange(200) >= 90]
    said = {"n_classes": 2, "clusters": np.arange(200) // 2 if clustered else None, "draws": 100}
    together = fairness_bounds(NAMES, labels, predicted, groups, **said)
    alone = {name: upper_bound(name, labels, predicted, groups, **said) for name in NAMES}
    assert together == alone
    assert len({one.high for one in alone.values()}) > 4


def test_small_blocks_of_draws_give_the_same_bound(monkeypatch):
    labels, predicted, groups = audit(np.random.default_rng(6), 80, 2)
    sources = np.arange(80) // 2
    for clusters in (None, sources):
        given_ = {"n_classes": 2, "draws": 50, "clusters": clusters}
        whole = upper_bound("SPSF", labels, predicted, groups, **given_)
        with monkeypatch.context() as patch:
            patch.setattr("scotoma.bias.formulas._CHUNK", 100)
            assert upper_bound("SPSF", labels, predicted, groups, **given_) == whole


def test_rows_outside_all_groups_are_left_out():
    labels, predicted, groups = audit(np.random.default_rng(7), 120, 2)
    inside = np.arange(120) < 90
    whole = upper_bound("EOFP", labels[inside], predicted[inside], groups[:, inside], n_classes=2)
    assert upper_bound("EOFP", labels, predicted, groups & inside, n_classes=2) == whole


def test_an_undefined_metric_has_no_bound_and_says_why():
    labels, predicted = np.zeros(6, int), np.zeros(6, int)
    groups = np.array([np.arange(6) < 3, np.arange(6) >= 3])
    seen = upper_bound("EOTP", labels, predicted, groups, n_classes=2)
    assert math.isnan(seen.value)
    assert math.isnan(seen.high)
    assert seen.reason == "undefined (no positives of class 1 in group 0)"


# --- refusals -------------------------------------------------------------------------------------

TWO = np.array([[True, False], [False, True]])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: fairness_metric("AUC", [FEMALE, MALE]),
            "no metric is called 'AUC': choose among DP, DI, SPSF, FPSF, EOFP, EOTP, BA",
        ),
        (
            lambda: fairness_metric("DP", FEMALE),
            "confusion must be counts [g, y, p] or [g, m, y, p] of two groups or more, "
            "got shape (2, 2): count predictions by group first",
        ),
        (
            lambda: fairness_metric("DP", [[[1, -2], [0, 0]], MALE]),
            "confusion must hold counts, got -2: pass counts, not rates",
        ),
        (
            lambda: fairness_metric("FPSF", [FEMALE, MALE], weights="size"),
            "weights must be 'examples' or 'negatives', got 'size': name one",
        ),
        (
            lambda: signed("BA", [0, 1], [0, 1], TWO, class_id=1),
            "only DP, EOFP and EOTP have signed differences, got 'BA': use fairness_bounds for "
            "the others",
        ),
        (
            lambda: signed("DP", [0, 1], [0, 1], TWO[:1], class_id=1),
            "a signed difference needs two groups, got 1: choose two, or use fairness_bounds",
        ),
        (
            lambda: upper_bound("DP", [0, 1], [0, 1], TWO, n_classes=2, class_id=2),
            "class_id must be from 0 to 1, got 2: name one of the classes",
        ),
        (
            lambda: upper_bound("DP", [0, 1], [0, 1], [[True, True], [False, True]], n_classes=2),
            "groups must share no row, but row 1 is in 2: compare the values of one attribute",
        ),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(call, sentence):
    with pytest.raises(DataError) as refusal:
        call()
    assert str(refusal.value) == sentence
