"""Class-level impact: Welch against scipy, the sound test against explicit influences."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm, ttest_ind

from scotoma.errors import DataError
from scotoma.impact import class_impact
from scotoma.numbers import benjamini_hochberg, holm
from tests.helpers.crossed import crossed_variance
from tests.helpers.worlds import AUDITS, worlds


def draw(rng, sizes, k, other, *, correlation=0.9, harm=()):
    """Labels and the ids that two populations give them; classes in `harm` lose much."""
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    z = rng.standard_normal((y.size, 1))
    z2 = correlation * z + np.sqrt(1 - correlation**2) * rng.standard_normal((y.size, 1))
    z2 = z2 + 1.5 * np.isin(y, harm)[:, None]
    ids = []
    for side, members in ((z, k), (z2, other)):
        run = 0.1 * rng.standard_normal(members)
        errs = 1.5 * side - 1.3 + run + rng.standard_normal((y.size, members)) > 0
        ids.append((y[:, None] + errs * rng.integers(1, len(sizes), errs.shape)) % len(sizes))
    return y, *ids


SIZES = (40, 25, 60, 8)


def table(*arguments, **options):
    """The rows of the classes as columns."""
    rows = class_impact(*arguments, **options)
    parts = ("value", "low", "high", "n", "se", "df", "events", "reason")
    return SimpleNamespace(
        **{part: np.array([getattr(row.loss, part) for row in rows]) for part in parts},
        **{
            name: np.array([getattr(row, name) for row in rows])
            for name in ("p", "p_adjusted", "significant", "dense_recall", "compressed_recall")
        },
        floor=np.array([row.loss_variance.floor for row in rows]),
    )


def shifted(ids, y):
    """The paper's samples, one class and member after another: recall_c - accuracy, turned."""
    return [
        [np.mean(ids[:, m] == y) - np.mean(ids[y == c, m] == c) for m in range(ids.shape[1])]
        for c in range(len(SIZES))
    ]


@pytest.mark.parametrize(("level", "models"), [(0.95, (6, 9)), (0.8, (6, 9)), (0.95, (2, 4))])
def test_published_is_welchs_test_on_recall_minus_accuracy(level, models):
    y, dense, compressed = draw(np.random.default_rng(0), SIZES, *models)
    found = table(dense, compressed, y, n_classes=4, protocol="published", level=level)
    oracle = ttest_ind(shifted(compressed, y), shifted(dense, y), axis=1, equal_var=False)
    np.testing.assert_allclose(found.p, oracle.pvalue, rtol=1e-9)
    np.testing.assert_allclose(found.df, oracle.df, rtol=1e-9)
    interval = oracle.confidence_interval(level)
    np.testing.assert_allclose(found.low, interval.low, rtol=1e-9)
    np.testing.assert_allclose(found.high, interval.high, rtol=1e-9)
    np.testing.assert_array_equal(found.p_adjusted, found.p)
    np.testing.assert_array_equal(found.significant, oracle.pvalue <= 1 - level)


def influences(ids, y, c, clusters):
    """What each unit adds to recall_c - accuracy of each member, from the definition of a ratio."""
    hit = (ids == y[:, None]).astype(float)
    in_class = (y == c).astype(float)[:, None]
    units = np.unique(clusters)
    total = np.zeros((units.size, ids.shape[1]))
    recall = (hit * in_class).sum(0) / in_class.sum()
    own = in_class * (hit - recall) / in_class.sum() - (hit - hit.mean(0)) / y.size
    for place, unit in enumerate(units):
        total[place] = units.size * own[clusters == unit].sum(0)
    return total + recall - hit.mean(0)


def slow_floor(dense, compressed, y, c, clusters):
    """The floor of recall of class c less accuracy, a sum over classes of weighed recalls."""
    return sum(
        ((j == c) - np.mean(y == j)) ** 2 * slow_recall_floor(dense, compressed, y, j, clusters)
        for j in np.unique(y)
    )


def slow_recall_floor(dense, compressed, y, c, clusters):
    """4 m2/(n+4)^2 of the recall of class c, over its units, from the changes of its rows."""
    change = {}
    for unit in np.unique(clusters[y == c]):
        rows = (y == c) & (clusters == unit)
        rise = np.mean(compressed[rows] == c, axis=1) - np.mean(dense[rows] == c, axis=1)
        change[unit] = rise.sum(), rows.sum()
    n, rows = len(change), sum(r for _, r in change.values())
    mean = sum(s for s, _ in change.values()) / rows
    squares = [((s - mean * r) * n / rows) ** 2 for s, r in change.values()]
    effective = sum(squares) ** 2 / sum(v**2 for v in squares) if any(squares) else 0.0
    assumed = max(0.0, 2 - effective / 5)  # flip in every member, where few are seen to change
    m2 = (sum(squares) + assumed) / (effective + assumed)
    return 4 * m2 / (n + 4) ** 2


@pytest.mark.parametrize(("k", "other"), [(6, 6), (6, 3), (1, 1)])
@pytest.mark.parametrize("joined", [False, True])
def test_sound_is_the_crossed_variance_of_explicit_influences(k, other, joined):
    rng = np.random.default_rng(1)
    y, dense, compressed = draw(rng, SIZES, k, other)
    # Clusters of about three rows, across classes and within.
    clusters = rng.integers(0, 44, y.size) if joined else np.arange(y.size)
    for paired in (False, True) if k == other else (False,):
        found = table(
            dense, compressed, y, n_classes=4, clusters=clusters if joined else None, paired=paired
        )
        for c in range(4):
            before, after = (influences(ids, y, c, clusters) for ids in (dense, compressed))
            variance = crossed_variance(before, after, paired=paired, unit=None)
            floor = slow_floor(dense, compressed, y, c, clusters)
            total = variance.total + floor
            assert found.floor[c] == pytest.approx(floor, rel=1e-9)
            assert found.se[c] == pytest.approx(np.sqrt(total), rel=1e-9)
            assert found.df[c] == pytest.approx(variance.df * (total / variance.total) ** 2)
            value = np.mean(shifted(compressed, y)[c]) - np.mean(shifted(dense, y)[c])
            assert found.value[c] == pytest.approx(value)
            assert found.n[c] == np.unique(clusters[y == c]).size


# Hooker et al. 2019, Table 1, ImageNet: accuracy difference, then norm and abs of the class that
# gains and of the class that loses most.
TABLE_1 = """
-0.02  2.55  2.53   -2.64  -2.66
-0.2   3.55  3.33   -4.51  -4.73
-0.8   3.41  2.60   -4.66  -5.46
-1.7   4.99  3.33   -6.94  -8.60
-4.1   8.78  4.67  -12.82 -16.93
"""


def test_a_loss_is_that_of_recall_less_that_of_accuracy_as_in_the_papers_table():
    for row in TABLE_1.split("\n")[1:-1]:
        accuracy, up, up_abs, down, down_abs = map(float, row.split())
        assert up_abs - up == pytest.approx(accuracy, abs=0.06)  # one decimal is printed
        assert down_abs - down == pytest.approx(accuracy, abs=0.06)
    y, dense, compressed = draw(np.random.default_rng(2), SIZES, 5, 5, harm=[1])
    found = table(dense, compressed, y, n_classes=4)
    accuracies = [(ids == y[:, None]).mean() for ids in (dense, compressed)]
    recalls = [[(ids[y == c] == c).mean() for c in range(4)] for ids in (dense, compressed)]
    np.testing.assert_allclose(found.dense_recall, recalls[0], rtol=1e-12)
    np.testing.assert_allclose(found.compressed_recall, recalls[1], rtol=1e-12)
    lost = np.subtract(*recalls) - np.subtract(*accuracies)
    np.testing.assert_allclose(found.value, lost, rtol=1e-9)


def test_on_new_test_images_the_published_test_finds_too_much_and_the_sound_one_does_not():
    # 50 images a class as in ImageNet, K = 30, difficulties that correlate .95, no class hurt.
    rng = np.random.default_rng(4)
    alarms = {"published": [], "sound": []}
    for _ in range(20):
        y, dense, compressed = draw(rng, (50,) * 20, 30, 30, correlation=0.95)
        for protocol, found in alarms.items():
            impact = table(dense, compressed, y, n_classes=20, protocol=protocol, correction=None)
            found.append(impact.significant)
    # 400 tests, standard error .02 of the published share (.20 in a larger simulation), .011 of
    # the nominal .05.
    assert 0.12 < np.mean(alarms["published"]) < 0.3
    assert 0.01 < np.mean(alarms["sound"]) < 0.08


SHARES = np.array([0.4, 0.3, 0.2, 0.1])
ERRORS = np.array([[0.15, 0.25, 0.2, 0.3], [0.17, 0.3, 0.2, 0.42]])  # dense, compressed; by class
TRUTH = (ERRORS[1] - ERRORS[0]) - (ERRORS[1] - ERRORS[0]) @ SHARES
WORLDS = {  # dense and compressed members, sd of a run's luck by class, pairs, clusters
    "5 members": (5, 5, 0.1, False, False),
    "30 members": (30, 30, 0.1, False, False),
    "5 and 10 members that differ by class": (5, 10, 0.3, False, False),
    "5 pairs": (5, 5, 0.1, True, False),
    "30 pairs": (30, 30, 0.1, True, False),
    "clusters, 10 members": (10, 10, 0.1, False, True),
    "clusters, 5 pairs": (5, 5, 0.1, True, True),
}


def planted(rng, k, other, runs, paired, clustered, n=700):
    """Labels, ids of both populations that err as often as ERRORS says, and clusters."""
    y = rng.choice(4, n, p=SHARES)
    source = rng.integers(0, n // 2, n)
    fate = rng.standard_normal(n)
    if clustered:
        fate = np.sqrt(0.8) * rng.standard_normal(n)[source] + np.sqrt(0.2) * fate
    fates = fate, 0.95 * fate + np.sqrt(1 - 0.95**2) * rng.standard_normal(n)
    luck = [rng.standard_normal((4, size)) for size in (k, other)]
    chance = [rng.standard_normal((n, size)) for size in (k, other)]
    if paired:  # a copy keeps most of its own run
        luck[1], chance[1] = (0.9 * a + np.sqrt(0.19) * b for a, b in (luck, chance))
    threshold = norm.isf(ERRORS) * np.sqrt(1 + 1.5**2 + runs**2)
    errs = [
        1.5 * fates[i][:, None] + runs * luck[i][y] + chance[i] > threshold[i][y, None]
        for i in (0, 1)
    ]
    return y, *((y[:, None] + wrong) % 4 for wrong in errs), source if clustered else None


@pytest.mark.slow
@pytest.mark.parametrize("name", worlds(WORLDS))
def test_intervals_hold_the_truth_about_as_often_as_they_say(name):
    k, other, runs, paired, clustered = WORLDS[name]
    rng = np.random.default_rng(5)
    held, values, errors = [], [], []
    for _ in range(AUDITS):
        y, dense, compressed, source = planted(rng, k, other, runs, paired, clustered)
        impact = table(
            dense, compressed, y, n_classes=4, paired=paired, clusters=source, correction=None
        )
        held.append((impact.low <= TRUTH) & (impact.high >= TRUTH))
        values.append(impact.value)
        errors.append(impact.se)
    by_class = np.mean(held, axis=0)
    assert ((by_class >= 0.91) & (by_class <= 0.995)).all(), by_class
    # The variance is what is estimated without bias, and its mean is what the audits spread; the
    # floor for examples that have not changed yet is added.
    width = np.sqrt(np.mean(np.square(errors), axis=0)) / np.std(values, axis=0, ddof=1)
    assert ((width >= 0.9) & (width <= 1.25)).all(), width


@pytest.mark.parametrize(
    ("correction", "adjust"),
    [
        ("bh", benjamini_hochberg),
        ("by", lambda p: benjamini_hochberg(p, dependence=True)),
        ("holm", holm),
        (None, lambda p: p),
    ],
)
def test_p_values_are_adjusted_over_the_classes_in_the_table(correction, adjust):
    y, dense, compressed = draw(np.random.default_rng(6), SIZES, 6, 6)
    found = table(dense, compressed, y, n_classes=6, correction=correction)
    np.testing.assert_allclose(found.p_adjusted[:4], adjust(found.p[:4]))
    assert np.isnan(found.p_adjusted[4:]).all()
    by_default = table(dense, compressed, y, n_classes=4)
    np.testing.assert_allclose(by_default.p_adjusted, benjamini_hochberg(by_default.p))


def test_a_class_without_examples_stays_undefined():
    y, dense, compressed = draw(np.random.default_rng(7), SIZES, 6, 6)
    shift = np.array([0, 2, 3, 5])
    found = table(shift[dense], shift[compressed], shift[y], n_classes=6)
    plain = table(dense, compressed, y, n_classes=4)
    np.testing.assert_allclose(found.p[shift], plain.p)
    for c in (1, 4):
        assert found.reason[c] == f"undefined (no examples of class {c})"
        assert (found.n[c], found.significant[c]) == (0, False)
        assert np.isnan([found.dense_recall[c], found.value[c], found.low[c]]).all()


def test_a_class_without_errors_has_the_interval_of_flips_that_were_not_seen():
    y = np.repeat([0, 1], 40)
    errs = np.random.default_rng(8).random((2, 80, 5)) < 0.3 * y[:, None]
    found = table(*(y[:, None] ^ errs), y, n_classes=2)
    assert found.reason.tolist() == ["", ""]
    # Half of its own recall less half of that of the other class, whose flips were seen.
    seen = slow_recall_floor(*(y[:, None] ^ errs), y, 1, np.arange(80))
    assert found.floor[0] == pytest.approx((4 / 44**2 + seen) / 4)
    assert found.se[0] > 1 / 44
    assert found.p[0] > 0.05
    never_hit = table(*(1 - (y[:, None] ^ errs)), y, n_classes=2)
    assert never_hit.reason.tolist() == ["", ""]


def test_a_single_class_and_equal_members_have_no_spread():
    zeros = np.zeros((30, 4), int)
    zeros[:3, 0] = 1
    one = table(zeros, zeros[::-1], np.zeros(30, int), n_classes=2)
    assert one.reason[0] == "p not estimable (one class: its recall is the accuracy)"
    y = np.arange(30) % 3
    ids = (y + (np.arange(30) < 7))[:, None].repeat(4, axis=1) % 3
    equal = table(ids, ids, y, n_classes=3, protocol="published")
    assert set(equal.reason) == {"p not estimable (no spread between members)"}


def test_a_loss_says_what_it_rests_on():
    y, dense, compressed = draw(np.random.default_rng(9), SIZES, 6, 5)
    rows = class_impact(dense, compressed, y, n_classes=4)
    assert [row.class_id for row in rows] == [0, 1, 2, 3]
    for row, size in zip(rows, SIZES, strict=True):
        assert (row.loss.n, row.loss.members) == (size, 5)
        assert row.loss_variance.total == pytest.approx(row.loss.se**2)
        assert 2 * min(row.loss.p_above(0), row.loss.p_below(0)) == pytest.approx(row.p)
    assert rows[3].loss.note == "few events"
    shipped = class_impact(dense[:, :1], compressed[:, :1], y, n_classes=4)
    assert "one training run" in shipped[0].loss.note


def test_a_table_is_as_long_as_there_are_classes():
    found = table([[0], [1]], [[0], [1]], [0, 1], n_classes=1000)
    assert {len(found.n), len(found.p), len(found.reason)} == {1000}


def test_classes_are_those_that_occur_unless_their_number_is_said():
    y, dense, compressed = draw(np.random.default_rng(6), SIZES, 4, 4)
    said, seen = (table(dense, compressed, y, n_classes=n) for n in (4, None))
    np.testing.assert_array_equal(said.value, seen.value)
    np.testing.assert_array_equal(said.p_adjusted, seen.p_adjusted)


def test_bad_input_is_refused_in_one_sentence():
    two, y = np.zeros((3, 2), int), [0, 1, 1]
    with pytest.raises(DataError, match=r"^protocol must be 'sound' or 'published', got 'welch': "):
        class_impact(two, two, y, n_classes=2, protocol="welch")
    with pytest.raises(
        DataError, match=r"^correction must be 'bh', 'by', 'holm' or None, got 'no'"
    ):
        class_impact(two, two, y, n_classes=2, correction="no")
    with pytest.raises(DataError, match="needs at least 2 members a population, got 1 and 2: use"):
        class_impact(two[:, :1], two, y, n_classes=2, protocol="published")
    with pytest.raises(DataError, match=r"labels must give one class id per row, got shape \(2,\)"):
        class_impact(two, two, [0, 1], n_classes=2)
    with pytest.raises(DataError, match="labels must hold class ids from 0 to 1, got 7: number"):
        class_impact(two, two, [0, 1, 7], n_classes=2)
    with pytest.raises(DataError, match=r"level must be a fraction in \(0, 1\), got 95"):
        class_impact(two, two, y, n_classes=2, level=95)
