from __future__ import annotations

import csv
import gzip
import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy, hypergeom

from scotoma import published
from scotoma.bias.clarify import METRICS, all_metrics, metric
from scotoma.bias.clarify.distances import DISTANCES
from scotoma.errors import DataError

# AWS blog "Learn How Amazon SageMaker Clarify Helps Detect Bias": UCI Adult, women disadvantaged,
# income of 50K and more positive; XGBoost on the 30,162 training rows without gaps.
BLOG = {
    "women": {"TP": 433, "FP": 10, "FN": 679, "TN": 8660},
    "men": {"TP": 2718, "FP": 84, "FN": 3678, "TN": 13900},
}
BLOG_VALUES = {
    "DPL": 0.20, "KL": 0.143, "DPPL": 0.092, "RD": 0.036, "DAR": -0.007, "TE": 24.114,
}  # fmt: skip
# The blog subtracts rounded rates here; the matrices give the value beside it.
BLOG_FROM_ROUNDED = {
    "CI": (0.352, 0.3514), "DI": (0.328, 0.3294), "AD": (-0.115, -0.1142),
    "DCA": (-0.227, -0.2275),
}  # fmt: skip
# SD of the blog is a - d, against its own documentation (d - a). DRR and DCR are written out as
# 0.927 - 0.791 = -0.136 and 0.796 - 0.928 = 0.132: each one side of its equation is d - a.
BLOG_SLIPS = {"SD": (-0.005, 0.0049), "DRR": (-0.136, 0.1365), "DCR": (0.132, 0.1328)}


def expand(groups: dict[str, dict[str, int]]) -> dict[str, np.ndarray]:
    """Examples behind two confusion matrices, the disadvantaged facet first."""
    rows = [
        (first, cell in ("TP", "FN"), cell in ("TP", "FP"), count)
        for first, matrix in zip((True, False), groups.values(), strict=True)
        for cell, count in matrix.items()
    ]
    d, y, p, counts = (list(column) for column in zip(*rows, strict=True))
    return {name: np.repeat(values, counts) for name, values in (("d", d), ("y", y), ("p", p))}


# --- published values -----------------------------------------------------------------------------


def test_the_blogs_confusion_matrices_give_its_values():
    adult = expand(BLOG)
    for name, printed in BLOG_VALUES.items():
        digits = 2 if name == "DPL" else 3
        assert round(metric(name, **adult), digits) == printed, name


def test_where_the_blog_subtracts_rounded_rates_the_formula_wins():
    adult = expand(BLOG)
    for name, (printed, exact) in BLOG_FROM_ROUNDED.items():
        assert round(metric(name, **adult), 4) == exact
        assert abs(exact - printed) < 0.0015
        assert round(metric(name, **adult), 3) != printed


def test_where_the_blog_slips_in_sign_the_documented_sign_wins():
    adult = expand(BLOG)
    for name, (printed, ours) in BLOG_SLIPS.items():
        assert round(metric(name, **adult), 4) == ours
        assert abs(abs(printed) - ours) < 0.001  # the blog subtracts rates of three digits


def test_the_typed_values_are_the_published_ones():
    typed = BLOG_VALUES | {name: pair[0] for name, pair in (BLOG_FROM_ROUNDED | BLOG_SLIPS).items()}
    assert published.load("clarify").metrics == typed


# Values of the public reference implementation, release 0.5, run on the 36 rows below. Label 3
# occurs in one facet only, where the reference drops it.
ROWS = {
    "d": "010101000000010000010011000000001101",
    "y": "100110010000001000000010011001011111",
    "p": "000110000010011000000010001001011111",
    "strata": "010011101111111011001110001110000101",
    "labels": "210202122102230021022011102200112112",
}
FEATURES = """
    17 -117 -88 289 -16 -141 61 14 63 -118 -151 163 -57 -311 -76 107 117 -77 -115 45 -144 -71 35 14
    -99 19 63 -113 -81 111 -172 -72 61 -38 41 -16 -88 151 91 28 -177 -111 156 39 1 -16 74 59 1 177
    56 151 -217 -21 235 -41 10 -57 -12 -31 -169 72 197 202 46 31 121 -16 195 -129 49 43
"""
REFERENCE = {
    "CI": 0.444444444444, "DPL": -0.153846153846, "KL": -0.23387663926, "JS": 0.0134614927363,
    "LP": 0.201913919206, "TVD": 0.142307692308, "KS": 0.153846153846, "CDDL": -0.160119047619,
    "DPPL": -0.330769230769, "DI": 2.22857142857, "AD": -0.0538461538462, "RD": -0.333333333333,
    "DAR": 0.0238095238095, "DCA": 0.452380952381, "SD": -0.141176470588, "DRR": 0.157894736842,
    "DCR": 0.355263157895, "TE": -3, "CDDPL": -0.285256410256, "FT": 0.6, "GE": 0.0730612244898,
}  # fmt: skip


def rows() -> dict[str, np.ndarray]:
    digits = {name: np.array([int(digit) for digit in text]) for name, text in ROWS.items()}
    found = {name: digits[name] == 1 for name in ("d", "y", "p")}
    features = np.array(FEATURES.split(), float).reshape(-1, 2)
    return found | {"strata": digits["strata"], "labels": digits["labels"], "features": features}


def test_compat_prints_the_reference_implementations_numbers():
    for name, value in REFERENCE.items():
        assert metric(name, **rows(), compat="smclarify") == pytest.approx(value, rel=1e-11), name


def test_without_compat_only_the_known_slips_differ():
    ours = {name: metric(name, **rows()) for name in REFERENCE}
    differ = {name for name, value in REFERENCE.items() if ours[name] != pytest.approx(value)}
    assert differ == {"FT", *DISTANCES}
    assert metric("KL", **rows()) == math.inf
    assert metric("FT", **rows()) == -REFERENCE["FT"]


# The reference implementation's own unit tests: F disadvantaged, 12 rows.
TWELVE = {
    "d": np.array(list("MFFMFMFFMMFF")) == "F",
    "y": np.array(list("011110001000")) == "1",
    "p": np.array(list("111000110100")) == "1",
}


def test_the_reference_implementations_unit_tests_pass_here():
    expected = {
        "CI": -1 / 6, "DI": 10 / 7, "DCA": 1 / 4, "DCR": 1 / 3, "RD": -2 / 3, "AD": -13 / 35,
        "DAR": -1 / 2,
    }  # fmt: skip
    for name, value in expected.items():
        assert metric(name, **TWELVE) == pytest.approx(value), name


def test_compat_divides_by_zero_as_the_reference_does():
    d = np.array([True, True, False, False])
    y = np.array([True, False, True, False])
    nobody = np.zeros(4, bool)
    some = np.array([True, False, False, False])
    slip = {"compat": "smclarify"}
    assert metric("DI", d=d, p=nobody, **slip) == 0.0
    assert metric("DI", d=d, p=some, **slip) == math.inf
    assert metric("DCA", d=d, y=y, p=nobody, **slip) == 0.0  # two infinities
    assert metric("DCA", d=d, y=y, p=some, **slip) == math.inf
    assert metric("DAR", d=d, y=y, p=some, **slip) == -1.0
    assert metric("TE", d=d, y=y, p=some, **slip) == -math.inf
    assert metric("CDDL", d=d, y=y, strata=[0, 0, 1, 1], **slip) == 0.0
    assert metric("CDDL", d=d, y=y, strata=[0, 1, 0, 0], **slip) == -1 / 8


# --- other packages -------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=2, max_size=60))
def test_distances_are_those_of_scipy(pairs):
    d = np.array([one for one, _ in pairs])
    labels = np.array([label for _, label in pairs])
    assume(d.any() and not d.all())
    shares = [[np.mean(labels[side] == c) for c in range(5)] for side in (~d, d)]
    a, b = np.array(shares)
    expected = {
        "KL": entropy(a, b),
        "JS": jensenshannon(a, b) ** 2,
        "LP": np.linalg.norm(a - b),
        "TVD": np.abs(a - b).sum() / 2,
        "KS": np.abs(a - b).max(),
    }
    for name, value in expected.items():
        assert metric(name, d=d, labels=labels) == pytest.approx(value, abs=1e-12), name


@pytest.mark.parametrize("rows_in_a", [1, 8, 9, 10, 40])
def test_the_fliptest_is_that_of_scikit_learns_neighbours(rows_in_a):
    neighbours = pytest.importorskip("sklearn.neighbors")
    rng = np.random.default_rng(rows_in_a)
    d = rng.permutation(np.arange(rows_in_a + 25) >= rows_in_a)
    x, p = rng.normal(size=(d.size, 3)), rng.random(d.size) < 0.5
    k = 1 if rows_in_a <= 9 else 5
    knn = neighbours.KNeighborsClassifier(k).fit(x[~d], p[~d]).predict(x[d]).astype(bool)
    expected = (np.sum(~p[d] & knn) - np.sum(p[d] & ~knn)) / d.sum()
    assert metric("FT", d=d, p=p, features=x) == pytest.approx(expected)


def test_all_metrics_on_adult_come_out_in_range_and_near_the_blogs(shared):
    linear_model = pytest.importorskip("sklearn.linear_model")
    with gzip.open(shared / "data" / "adult" / "adult.csv.gz", "rt") as file:
        people = [row for row in csv.DictReader(file) if all(row.values())]
    people = [row for row in people if row["split"] == "train"]
    assert len(people) == 30_162
    columns = ("age", "education-num", "hours-per-week", "capital-gain", "capital-loss")
    x = np.array([[float(row[column]) for column in columns] for row in people])
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    y = np.array([row["income"].startswith(">50K") for row in people])
    p = linear_model.LogisticRegression(max_iter=200).fit(x, y).predict(x)
    d = np.array([row["sex"] == "Female" for row in people])
    table = all_metrics(
        d=d, y=y, p=p, features=x, labels=[row["income"] for row in people],
        strata=[row["race"] for row in people],
    )  # fmt: skip
    assert list(table) == list(METRICS)
    assert len(table) == 21
    for name, shown in table.items():
        assert math.isfinite(shown.value), name
        assert shown.low <= shown.value <= shown.high, name
        assert not shown.reason, name
    # The blog's data metrics need no model, so they must agree; its model is another one.
    assert round(table["CI"].value, 4) == 0.3514
    assert round(table["DPL"].value, 2) == 0.20
    assert round(table["KL"].value, 3) == 0.143
    assert table["TVD"].value == pytest.approx(table["DPL"].value)
    assert table["FT"].low < 0 < table["FT"].high  # a model that does not see sex: likes are alike
    assert table["DI"].high < 0.8  # and yet


def test_the_fliptest_on_adult_counts_every_choice_of_tied_neighbours_alike(shared):
    """Against a brute-force NumPy version, and against the same five neighbours in any order."""
    with gzip.open(shared / "data" / "adult" / "adult.csv.gz", "rt") as file:
        people = [row for row in csv.DictReader(file) if all(row.values())][::12]
    x = np.array([[float(row[c]) for c in ("age", "hours-per-week")] for row in people])
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    p = np.array([row["marital-status"].startswith("Married") for row in people])
    d = np.array([row["sex"] == "Female" for row in people])
    likes, votes = x[~d], p[~d].astype(int)
    distinct, whose = np.unique(x[d], axis=0, return_inverse=True)
    far = np.linalg.norm(distinct[:, None] - likes, axis=2)
    kth = np.partition(far, 4, axis=1)[:, 4:5]
    sure, tied = far < kth - 1e-9, abs(far - kth) <= 1e-9
    inside, edge = sure.sum(axis=1), tied.sum(axis=1)
    chance = hypergeom.sf(2 - sure @ votes, edge, tied @ votes, 5 - inside)
    whole = np.mean(chance[whose] - p[d])
    assert (edge > 5 - inside).mean() > 0.5  # most have more likes at the same distance than seats
    shown = metric("FT", d=d, p=p, features=x)
    assert shown == pytest.approx(whole, abs=1e-12)
    rng, drawn = np.random.default_rng(0), []
    for _ in range(40):  # the five that come first, as a library takes them, in a random order
        order = rng.permutation(len(likes))
        first = np.argsort(far[:, order].round(9), axis=1, kind="stable")[:, :5]
        drawn.append(np.mean((votes[order][first].sum(axis=1) > 2)[whose] - p[d].astype(int)))
    # Likes of one distance share their draw here, so single orders lie far apart.
    assert min(drawn) < shown - 0.005 < shown + 0.005 < max(drawn)
    assert np.mean(drawn) == pytest.approx(shown, abs=3 * np.std(drawn) / 40**0.5)
    shuffled = rng.permutation(d.size)
    again = metric("FT", d=d[shuffled], p=p[shuffled], features=x[shuffled])
    assert again == pytest.approx(shown, abs=1e-12)


# --- slow twins -----------------------------------------------------------------------------------


@st.composite
def small_audits(draw):
    n = draw(st.integers(4, 24))
    column = st.lists(st.booleans(), min_size=n, max_size=n)
    d, y, p = (np.array(draw(column)) for _ in range(3))
    strata = np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    x = np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), float)
    assume(d.any() and not d.all())
    return {"d": d, "y": y, "p": p, "strata": strata, "features": x}


def disparity_twin(d, outcome, strata) -> float:
    """CDD = (1/n) sum_i n_i (share of d among the rejected - share of d among the accepted).

    Over the strata i in which some are rejected and some accepted; n counts their examples.
    """
    total = n = 0.0
    for i in set(strata.tolist()):
        rejected = d[(strata == i) & ~outcome]
        accepted = d[(strata == i) & outcome]
        if rejected.size == 0 or accepted.size == 0:
            continue
        total += (strata == i).sum() * (rejected.mean() - accepted.mean())
        n += (strata == i).sum()
    return total / n if n else math.nan


def fliptest_twin(d, p, x) -> float:
    """Every way to fill the seats among tied neighbours, each counting alike."""
    k = 5 if (~d).sum() > 9 else 1
    gaps = []
    for j in np.flatnonzero(d):
        far = np.abs(x[~d] - x[j])
        votes = p[~d]
        kth = np.sort(far)[k - 1]
        sure, tied = votes[far < kth], votes[far == kth]
        ways = [sure.sum() + sum(way) > k / 2 for way in combinations(tied, k - sure.size)]
        gaps.append(np.mean(ways) - p[j])
    return float(np.mean(gaps))


@given(small_audits())
def test_strata_neighbours_and_benefits_follow_the_papers_notation(audit):
    d, y, p, x = audit["d"], audit["y"], audit["p"], audit["features"]
    for name, outcome in (("CDDL", y), ("CDDPL", p)):
        twin = disparity_twin(d, outcome, audit["strata"])
        assert metric(name, **audit) == pytest.approx(twin, abs=1e-12, nan_ok=True)
    assert metric("FT", **audit) == pytest.approx(fliptest_twin(d, p, x), abs=1e-12)
    b = p.astype(float) - y + 1
    twin = ((b / b.mean()) ** 2 - 1).sum() / (2 * b.size) if b.any() else math.nan
    assert metric("GE", **audit) == pytest.approx(twin, abs=1e-12, nan_ok=True)


def test_tied_neighbours_are_averaged_over_at_scale():
    rng = np.random.default_rng(3)
    d, p = rng.random(90) < 0.4, rng.random(90) < 0.5
    grid = rng.integers(0, 4, size=90).astype(float)
    assert metric("FT", d=d, p=p, features=grid) == pytest.approx(fliptest_twin(d, p, grid))


def test_ties_beyond_the_first_search_and_small_blocks_are_exact(monkeypatch):
    grid = np.arange(-65, 66)
    circle = np.argwhere(np.add.outer(grid**2, grid**2) == 65**2) - 65.0
    assert len(circle) == 36  # integer points at distance 65: exact ties, more than are asked for
    p = np.random.default_rng(4).random(36 + 5) < 0.6
    d = np.arange(41) >= 36
    x = np.vstack([circle, np.zeros((4, 2)), [[60.0, 20.0]]])
    # Five of 36 are drawn for each of the four in the centre; the fifth has single neighbours.
    centre = hypergeom.sf(2, 36, p[:36].sum(), 5)
    near = p[np.linalg.norm(circle - x[-1], axis=1).argsort()[:5]].sum() > 2
    expected = (4 * centre + near - p[d].sum()) / 5
    assert metric("FT", d=d, p=p, features=x) == pytest.approx(expected)
    monkeypatch.setattr("scotoma.bias.clarify.fliptest._CHUNK", 1)
    assert metric("FT", d=d, p=p, features=x) == pytest.approx(expected)


# --- laws that hold for all metrics ---------------------------------------------------------------


@given(small_audits())
def test_swapping_the_facets_does_what_the_table_says(audit):
    swapped = {**audit, "d": ~audit["d"]}
    for name, row in METRICS.items():
        there, back = metric(name, **audit), metric(name, **swapped)
        if row.swap == "negates":
            assert back == pytest.approx(-there, abs=1e-12, nan_ok=True), name
        elif row.swap == "inverts" and there > 0:
            assert back == pytest.approx(1 / there), name
        elif row.swap == "keeps":
            assert back == pytest.approx(there, abs=1e-12, nan_ok=True), name


@given(small_audits())
def test_facets_that_are_copies_of_each_other_are_neutral(audit):
    half = {name: values[audit["d"]] for name, values in audit.items()}
    n = half["d"].size
    both = {name: np.concatenate([values, values]) for name, values in half.items()}
    both["d"] = np.arange(2 * n) < n
    for name, row in METRICS.items():
        if name in ("FT", "GE"):  # GE knows no facets, FT outvotes a row with its like's neighbours
            continue
        value = metric(name, **both)
        assert math.isnan(value) or value == pytest.approx(row.neutral, abs=1e-12), name


def test_every_metric_says_what_it_asks_and_which_way_it_points():
    assert len(METRICS) == 21
    for name, row in METRICS.items():
        assert row.name == name
        assert row.question.endswith("?")
        assert row.formula
        assert row.sign
        assert row.neutral == (1.0 if name == "DI" else 0.0)
    assert sum(row.stage == "pre-training" for row in METRICS.values()) == 8


# A facet d that fares worse in the way each sign describes: 20 rows a facet.
WORSE_FOR_D = {
    "DPL": ({"TP": 5, "TN": 15}, {"TP": 9, "TN": 11}),
    "DPPL": ({"TP": 5, "TN": 15}, {"TP": 9, "TN": 11}),
    "AD": ({"TP": 5, "TN": 10, "FN": 5}, {"TP": 8, "TN": 10, "FN": 2}),
    "RD": ({"TP": 5, "TN": 10, "FN": 5}, {"TP": 8, "TN": 10, "FN": 2}),
    "DAR": ({"TP": 5, "TN": 10, "FP": 5}, {"TP": 8, "TN": 10, "FP": 2}),
    "TE": ({"TP": 5, "TN": 5, "FN": 8, "FP": 2}, {"TP": 5, "TN": 5, "FN": 2, "FP": 8}),
}


@pytest.mark.parametrize("name", WORSE_FOR_D)
def test_a_positive_sign_means_what_the_table_says(name):
    assert metric(name, **expand(dict(zip("da", WORSE_FOR_D[name], strict=True)))) > 0
    assert metric("DI", **expand(dict(zip("da", WORSE_FOR_D["DPPL"], strict=True)))) < 1


# --- refusals -------------------------------------------------------------------------------------


D = np.array([True, False, True])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: metric("RD", d=D, y=D), "RD needs p, got none: pass it, or choose another metric"),
        (
            lambda: metric("CDDPL", d=D),
            "CDDPL needs p and strata, got none: pass it, or choose another metric",
        ),
        (
            lambda: metric("CI", d=[1, 0, 1]),
            "d must be true or false, got values of type int64: compare with the value that you "
            "mean",
        ),
        (
            lambda: metric("DPL", d=D, y=[True]),
            "y must have shape (3,), got (1,): pass one row per prediction, in the same order",
        ),
        (
            lambda: metric("DPPL", d=D, p=np.ones((3, 2), bool)),
            "metric takes the predictions of one model, got 2 columns: "
            "use all_metrics for a population",
        ),
        (
            lambda: metric("CDDL", d=D, y=D, strata=[1, 2]),
            "strata must hold one value per row, got shape (2,) for 3 rows: pass them in the order of the examples",  # noqa: E501
        ),
        (
            lambda: metric("FT", d=D, p=D, features=[1.0, math.nan, 2.0]),
            "features must be finite numbers, one row per example, got shape (3, 1) for 3 "
            "examples: encode text and fill gaps first",
        ),
        (
            lambda: metric("CI", d=D, compat="aif360"),
            "compat must be None or 'smclarify', got 'aif360': leave it out",
        ),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(call, sentence):
    with pytest.raises(DataError) as refusal:
        call()
    assert str(refusal.value) == sentence


def test_an_unknown_metric_is_answered_with_the_known_ones():
    with pytest.raises(DataError, match="no metric is called 'AUC': choose among CI, DPL, KL, JS"):
        metric("AUC", d=D)
    with pytest.raises(DataError, match="no metric is called 'AUC'"):
        all_metrics(d=D, only=["CI", "AUC"])


def test_only_the_metrics_asked_for_are_computed():
    assert list(all_metrics(d=D, y=D, only=("DPL", "CI"))) == ["DPL", "CI"]
