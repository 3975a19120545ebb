"""Means, flips and groups of two models against other routes to the same numbers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scotoma.bias import amplification
from scotoma.comparison.flips import answer_codes, flips
from scotoma.comparison.means import (
    affected,
    all_lose_alike,
    group_effects,
    mean_change,
    score_table,
)
from scotoma.comparison.measure import sliced
from scotoma.comparison.reruns import align_reruns, rerun_floor
from scotoma.errors import DataError
from scotoma.numbers import holm

RNG = np.random.default_rng(5)


def answers(n: int, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Right answers of two models that find the same examples hard."""
    rng = np.random.default_rng(seed)
    hard = rng.normal(size=n)
    return hard < 1.0, 0.95 * hard + 0.31 * rng.normal(size=n) < 0.9


def test_change_of_right_answers_is_mcnemars_with_four_flips_added() -> None:
    """(c - b)/n, its variance over examples, and four flips as Agresti and Coull add them."""
    before, after = answers(500)
    lost, won, n = int((before & ~after).sum()), int((~before & after).sum()), 500
    found = mean_change(before, after)
    difference = (won - lost) / n
    variance = ((won + lost) / n - difference**2) / (n - 1) + 4 / (n + 4) ** 2
    assert found.change.value == pytest.approx(difference, abs=1e-12)
    assert found.change.se**2 == pytest.approx(variance, rel=2e-3)  # psi is centred on its mean
    assert found.recovery.value == pytest.approx(after.mean() / before.mean())


@pytest.mark.parametrize("clusters", [None, RNG.integers(0, 150, 600)])
def test_change_of_errors_is_that_of_the_audit(clusters: np.ndarray | None) -> None:
    before, after = answers(600, seed=1)
    masks = np.stack([np.ones(600, bool), np.arange(600) % 3 == 0])
    names = ["all", "third"]
    rows = amplification(
        np.zeros(600, int), (~before).astype(int)[:, None], (~after).astype(int)[:, None], masks,
        names, n_classes=2, clusters=clusters,
    )  # fmt: skip
    expected = {row.group: row.absolute for row in rows if row.metric == "error"}
    table = score_table(~before, ~after, clusters)
    for effect in group_effects(table, dict(zip(names, masks, strict=True))):
        other = expected[effect.group]
        found = effect.score.change
        assert [found.value, found.low, found.high, found.n] == pytest.approx(
            [other.value, other.low, other.high, other.n], rel=1e-9
        )


def test_continuous_scores_have_the_paired_t_interval() -> None:
    from scipy import stats

    before = RNG.gamma(2.0, size=300)
    after = before + RNG.normal(0.1, 0.5, 300)
    found = mean_change(before, after)
    paired = stats.ttest_rel(after, before)
    assert found.change.value / found.change.se == pytest.approx(paired.statistic)
    assert found.p == pytest.approx(paired.pvalue, rel=0.05)


def test_a_group_that_loses_as_the_rest_does_is_not_named() -> None:
    """Both surely lose a tenth: to be named, a group must lose more than the other."""
    row = np.arange(4_000)
    odd = row % 2 == 1
    table = score_table(np.ones(4_000), row % 20 >= 2)
    effects = group_effects(table, {"odd": odd, "even": ~odd})
    assert all(one.p_adjusted < 1e-6 for one in effects)
    assert affected(effects) == []
    # The gap between the two is that of two independent shares.
    shares = [(table.before - table.after)[mask].mean() for mask in (odd, ~odd)]
    assert effects[0].beyond_rest.value == pytest.approx(shares[1] - shares[0])


def test_groups_that_lose_surely_are_ordered_by_their_least_loss() -> None:
    n = 3_000
    group = np.arange(n) % 3
    before = np.ones(n, bool)
    after = np.where(
        group == 0, np.arange(n) % 5 > 0, np.where(group == 1, np.arange(n) % 4 > 0, True)
    )
    table = score_table(before, after)
    effects = group_effects(table, {name: group == g for g, name in enumerate("abc")})
    assert [one.group for one in affected(effects)] == ["b", "a"]
    assert not affected(effects, higher_is_better=False)
    assert [one.p_adjusted for one in effects] == pytest.approx(
        holm([one.score.p for one in effects]).tolist()
    )


def test_flips_count_both_ways_and_other_wrong_answers() -> None:
    right_before = np.array([True, True, False, False, False])
    right_after = np.array([True, False, True, False, False])
    codes = answer_codes(right_before, right_after, list("abcde"), list("xbcdz"))
    counts = {one.kind: one.count for one in flips(np.zeros(5, int), *codes)}
    expected = {"changed": 3, "right_to_wrong": 1, "wrong_to_right": 1, "wrong_to_other": 1}
    assert counts == pytest.approx(expected)


def test_floor_of_reruns_is_the_share_of_pairs_that_differ() -> None:
    rng = np.random.default_rng(3)
    before = (rng.random((400, 3)) < 0.1).astype(int)
    after = (rng.random((400, 2)) < 0.3).astype(int)
    floor = rerun_floor([before], [after])
    within = np.mean([before[:, i] != before[:, j] for i, j in ((0, 1), (0, 2), (1, 2))])
    across = np.mean([before[:, i] != after[:, j] for i in range(3) for j in range(2)])
    assert floor.within.value == pytest.approx(within)
    assert floor.across.value == pytest.approx(across)
    assert floor.excess.low < across - within < floor.excess.high
    assert floor.within.low < floor.within.value < floor.within.high


@given(before=st.integers(1, 12), after=st.integers(1, 12))
def test_every_rerun_stands_beside_another(before: int, after: int) -> None:
    first, second = align_reruns(before, after)
    for side, reruns in ((first, before), (second, after)):
        times = np.bincount(side, minlength=reruns)
        assert times.min() >= 1
        assert np.ptp(times) <= (len(first) == max(before, after))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda: mean_change([0.5, np.nan], [0.5, 0.5]), "got 1 rows without one"),
        (lambda: mean_change([1, 0], [1, 0, 1]), "got 2 and 3 rows; pair them by id"),
        (lambda: mean_change([], []), "at least one example"),
        (lambda: rerun_floor([[[1], [0]]], [[[1], [0]]]), "evaluate the dense model again"),
        (lambda: align_reruns(0, 1), "at least 1 a model"),
    ],
)
def test_what_cannot_be_compared_is_refused(change, sentence: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match=sentence):
        change()


def test_scores_that_are_all_equal_have_no_interval_and_say_so() -> None:
    found = mean_change(np.ones(50), np.ones(50))
    assert np.isnan(found.before.low)
    assert "all 50 scores are 1" in found.before.reason
    assert found.change.low < 0 < found.change.high  # a flip that was not seen may come
    nothing = mean_change(np.zeros(50), np.zeros(50))
    assert "recovery not defined" in nothing.recovery.reason


@pytest.mark.parametrize("planted", [False, True])
def test_slices_are_named_where_they_lose_more_than_the_rest_not_where_all_lose(
    planted: bool,
) -> None:
    rng = np.random.default_rng(5)
    n = 4_000
    kind = rng.choice(list("abcd"), n)
    before = rng.random(n) < 0.9
    lost = rng.random(n) < np.where((kind == "a") & planted, 0.3, 0.1)
    table = score_table(before, before & ~lost)
    found = sliced(pl.DataFrame({"kind": kind}), table, None, lower_is_better=False)
    assert found.against_rest
    assert [one.text for one in found.slices] == (["kind = a"] if planted else [])
    effects = group_effects(table, {one: kind == one for one in "abcd"})
    alike = all_lose_alike(table.change().change, effects, lower_is_better=False)
    assert alike is not planted
