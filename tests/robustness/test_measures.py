"""Robustness measures against the published table, the jackknife, and slow twins."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from scotoma import published
from scotoma.audit import Quantity
from scotoma.audit.base import Row, by_address
from scotoma.audit.robustness import depends_on_scale
from scotoma.numbers import COMPRESSED, DENSE, Estimate, Units, undefined
from scotoma.robustness.losses import (
    SCALES,
    Answered,
    RightAnswers,
    amplified_loss,
    group_contrast,
    group_tests,
    planted_robustness,
    relative_robustness,
)
from scotoma.robustness.measure import corruption_error, relative_corruption_error
from scotoma.robustness.predict import structural_similarity

TABLE5, TABLE2 = published.load("pie").table5, published.load("pie").table2


def planted(seed: int = 3, **truth: float) -> tuple[RightAnswers, RightAnswers]:
    group = np.arange(240) < 80
    return planted_robustness(group, members=6, families=(2, 2), severities=3, seed=seed, **truth)


def amplified(pair, at_risk: np.ndarray | None = None, scale: str = "absolute"):  # type: ignore[no-untyped-def]
    """Estimate and variance of what the second population of a pair loses beyond the first."""
    return amplified_loss(*(own.means(at_risk) for own in pair), scale)  # type: ignore[arg-type]


def test_relative_columns_of_table_5_do_not_follow_from_table_2() -> None:
    beyond = {"top1": 0, "top5": 0}
    ends = []
    for row, cells in TABLE5.rows.items():
        sparsity = row.split(", ")[1]
        for metric in beyond:
            printed = TABLE5.row(row)
            clean = float(TABLE2.row(sparsity)[metric])  # type: ignore[arg-type]
            low, high = (
                float(relative_robustness([[printed[metric] + half]], [clean / 100]))
                for half in (-0.005, 0.005)
            )
            beyond[metric] += not low - 0.005 <= printed[f"{metric} relative"] <= high + 0.005
        if sparsity == "0":
            top1, relative = float(cells[0]), float(cells[2])  # type: ignore[arg-type]
            ends.append((top1 - 0.005) / (relative + 0.005) * 1e4)
            ends.append(-(top1 + 0.005) / (relative - 0.005) * 1e4)
    assert len(TABLE5.rows) == 40
    assert beyond == {"top1": 5, "top5": 1}
    clean = max(e for e in ends if e > 0), min(-e for e in ends if e < 0)
    assert [round(end, 2) for end in clean] == [76.16, 76.46]  # Table 2 says 76.68


def test_table_5_loses_most_under_noise() -> None:
    def relative(sparsity: str) -> dict[str, float]:
        rows = {row.split(", ")[0]: row for row in TABLE5.rows if row.endswith(f", {sparsity}")}
        return {name: TABLE5.row(row)["top1 relative"] for name, row in rows.items()}

    before, after = relative("0"), relative("0.9")
    falls = {name: round(after[name] - before[name], 1) for name in before}
    assert sorted(falls, key=falls.__getitem__)[:3] == [
        "impulse noise",
        "shot noise",
        "gaussian noise",
    ]
    assert round(np.mean(list(before.values())), 2) == 69.25
    assert round(np.mean(list(after.values())), 2) == 62.15


def test_scales_follow_their_formulas() -> None:
    dense, compressed = planted(extra=0.1)
    own = dense.under([0, 1]), compressed.under([0, 1])
    found = {scale: amplified(own, scale=scale)[0].value for scale in SCALES}
    a = [float(right.clean.mean()) for right in (dense, compressed)]
    k = [float(right.corrupted[:2].mean()) for right in (dense, compressed)]
    logit = [math.log(p / (1 - p)) for p in (*a, *k)]
    assert found["absolute"] == pytest.approx((a[1] - k[1]) - (a[0] - k[0]))
    relative = [
        float(relative_robustness(right.corrupted[:2].mean(axis=(0, 1, 2))[:, None], a_v))
        for right, a_v in zip((dense, compressed), ([a[0]], [a[1]]), strict=True)
    ]
    assert 100 * found["relative"] == pytest.approx(relative[0] - relative[1])
    expected = (logit[1] - logit[3]) - (logit[0] - logit[2])
    assert found["log_odds"] == pytest.approx(expected)


def without(right: Answered, row: int) -> Answered:
    parts = (np.delete(values, row, 0) for values in (right.clean, right.corrupted))
    return Answered(*parts, Units.of(len(right.clean) - 1), right.axis)


@pytest.mark.parametrize("scale", ["absolute", "relative", "log_odds"])
def test_variance_over_examples_is_that_of_the_jackknife(scale: str) -> None:
    dense, compressed = planted()
    own = dense.under([0, 1]), compressed.under([0, 1])

    def loss(right: Answered) -> float:
        a, k = right.clean.mean(), right.corrupted.mean()
        logits = math.log(a / (1 - a)) - math.log(k / (1 - k))
        return float({"absolute": a - k, "relative": 1 - k / a, "log_odds": logits}[scale])

    def value(*pair: Answered) -> float:
        return loss(pair[1]) - loss(pair[0])

    n = len(own[0].clean)
    left = np.array([value(*(without(right, row) for right in own)) for row in range(n)])
    jackknife = (n - 1) / n * ((left - left.mean()) ** 2).sum()
    known = amplified(own, scale=scale)[1]
    assert known.examples == pytest.approx(jackknife, rel=0.02)
    assert known.total >= known.examples


def test_variance_of_a_contrast_adds_that_of_the_group_and_of_the_rest() -> None:
    dense, compressed = planted()
    own = dense.under([0, 1]), compressed.under([0, 1])
    group = np.arange(240) < 80
    parts = [amplified(own, mask)[1].examples for mask in (group, ~group)]
    contrast = group_contrast(*own, group)
    value = [amplified(own, m)[0].value for m in (group, ~group)]
    assert contrast.value == pytest.approx(value[0] - value[1])
    assert contrast.se**2 >= sum(parts) * 0.98
    lost = [(right.clean - right.corrupted).mean(1) for right in own]
    apart = lost[1] - lost[0]
    psi = np.where(group, apart - apart[group].mean(), apart[~group].mean() - apart) * np.where(
        group, 240 / 80, 240 / 160
    )
    assert psi.var(ddof=1) / 240 == pytest.approx(sum(parts), rel=0.02)


@pytest.mark.parametrize("size", [1, 3])
def test_events_of_a_contrast_are_those_of_the_side_that_fewer_units_carry(size: int) -> None:
    """In 70 of 80 units of the group compression flips nothing; the rest flips everywhere."""
    clean = np.ones((240, 1))
    flips = np.where(np.arange(240) < 80, np.arange(240) % 8 == 0, np.arange(240) % 2 == 0)
    parts = [np.repeat(values, size, 0) for values in (clean, clean - flips[:, None])]
    units = Units.of(240 * size, np.repeat(np.arange(240), size))
    dense = Answered(parts[0], parts[0], units)
    compressed = Answered(*parts, units, COMPRESSED)
    contrast = group_contrast(dense, compressed, np.arange(240 * size) < 80 * size)
    assert (contrast.n, contrast.events) == (80, pytest.approx(10))


def test_clusters_of_one_change_nothing_and_doubles_count_once() -> None:
    dense, compressed = planted()
    own = dense.under([0]), compressed.under([0])
    plain = amplified(own)[0]
    alone = [replace(right, units=Units.of(240, np.arange(240))) for right in own]
    assert amplified(alone)[0] == plain
    units = Units.of(480, np.repeat(np.arange(240), 2))
    twice = [
        Answered(np.repeat(r.clean, 2, 0), np.repeat(r.corrupted, 2, 0), units, r.axis) for r in own
    ]
    doubled = amplified(twice)[0]
    assert (doubled.n, doubled.value) == (240, pytest.approx(plain.value))
    assert doubled.se == pytest.approx(plain.se, rel=1e-6)


def test_scales_that_disagree_are_reported() -> None:
    """A pruned population loses fewer points, and a larger share of what it had."""
    n = 1_000

    def right(axis: str, clean: float, corrupted: float) -> Answered:
        rank = (np.arange(n)[:, None] + 0.5) / n
        shares = ((rank < share).astype(float) for share in (clean, corrupted))
        return Answered(*shares, Units.of(n), axis)

    def lost(dense: tuple[float, float], compressed: tuple[float, float]):  # type: ignore[no-untyped-def]
        own = right(DENSE, *dense), right(COMPRESSED, *compressed)
        return [amplified(own, scale=scale)[0] for scale in SCALES]

    def disagree(numbers: list[Estimate]) -> bool:
        own = dict(zip(SCALES, map(Quantity.of, numbers), strict=True))
        (at,) = by_address(Row(what=scale, number=number) for scale, number in own.items())
        return depends_on_scale(at)

    both = lost((0.74, 0.605), (0.664, 0.534))
    assert both[0].value < 0 < both[1].value
    assert disagree(both)
    assert not disagree(lost((0.9, 0.8), (0.9, 0.7)))
    assert not disagree([undefined("no odds", n=9, members=1)] * 3)


def test_corruption_errors_are_the_sums_of_hendrycks_and_dietterich() -> None:
    dense, compressed = planted(extra=0.1)
    found = [corruption_error(dense, compressed, [k]) for k in range(4)]
    mean = corruption_error(dense, compressed, range(4))
    relative = [relative_corruption_error(dense, compressed, k).value for k in range(4)]
    errors = [1 - right.corrupted.mean(axis=(2, 3)) for right in (dense, compressed)]
    ce = errors[1].sum(1) / errors[0].sum(1)
    assert [one.value for one in found] == pytest.approx(ce.tolist())
    assert mean.value == pytest.approx(ce.mean())
    clean = [1 - right.clean.mean() for right in (dense, compressed)]
    rises = [e.sum(1) - 3 * own for e, own in zip(errors, clean, strict=True)]
    assert relative == pytest.approx((rises[1] / rises[0]).tolist())
    assert mean.low < mean.value < mean.high


def test_relative_corruption_error_of_a_harmless_corruption_is_undefined() -> None:
    dense, compressed = planted(clean=0.9, corrupted=0.9)
    found = relative_corruption_error(dense, compressed, 0)
    assert math.isnan(found.value)
    assert "may be nothing" in found.reason
    assert not math.isnan(corruption_error(dense, compressed, [0]).value)


def test_no_right_answer_on_clean_pictures_has_a_reason() -> None:
    none = Answered(np.zeros((9, 2)), np.zeros((9, 2)), Units.of(9))
    absolute, relative, log_odds = (amplified((none, none), scale=s)[0] for s in SCALES)
    assert relative.reason == "undefined (no right answer on clean pictures)"
    assert "has no odds" in log_odds.reason
    assert absolute.value == 0


def test_tests_are_adjusted_over_groups_and_families() -> None:
    group = np.arange(600) < 200
    contrasts = {}
    dense, compressed = planted_robustness(
        group, extra=0.15, members=6, families=(2, 2), severities=3, seed=0
    )
    for family, places in {"noise": [0, 1], "blur": [2, 3]}.items():
        own = dense.under(places), compressed.under(places)
        contrasts["sex=female", family] = group_contrast(*own, group)
        contrasts["sex=nobody", family] = group_contrast(*own, group & False)
    noise, nobody, blur, _ = group_tests(contrasts).values()
    assert noise[1] == pytest.approx(2 * noise[0])  # of two tests, not of four
    assert noise[1] < 0.05 < blur[1]
    assert math.isnan(nobody[1])
    assert "50 are needed" in contrasts["sex=nobody", "noise"].reason


def test_structural_similarity_is_that_of_its_paper() -> None:
    draw = np.random.default_rng(0).integers
    first, second = (draw(0, 256, (2, 3, 9, 10), dtype=np.uint8) for _ in range(2))
    luma = [np.tensordot([0.299, 0.587, 0.114], p.astype(float), (0, 1)) for p in (first, second)]
    for place in range(2):
        values = []
        for top in range(3):
            for left in range(4):
                x, y = (p[place, top : top + 7, left : left + 7].ravel() for p in luma)
                c1, c2 = 2.55**2, 7.65**2
                covariance = np.cov(x, y)
                values.append(
                    (2 * x.mean() * y.mean() + c1)
                    * (2 * covariance[0, 1] + c2)
                    / (x.mean() ** 2 + y.mean() ** 2 + c1)
                    / (covariance[0, 0] + covariance[1, 1] + c2)
                )
        assert structural_similarity(first, second)[place] == pytest.approx(np.mean(values))


def test_what_a_run_does_to_all_groups_alike_is_no_part_of_a_contrast() -> None:
    dense, compressed = planted(run_sd=1.0)
    own = dense.under([0, 1]), compressed.under([0, 1])
    group = np.arange(240) < 80
    of_members = 0.0
    for right in own:
        lost = right.clean - right.corrupted
        contrasts = lost[group].mean(axis=0) - lost[~group].mean(axis=0)
        of_members += contrasts.var(ddof=1) / 6
    of_examples = sum(amplified(own, mask)[1].examples for mask in (group, ~group))
    assert group_contrast(*own, group).se ** 2 <= 1.02 * (of_examples + of_members)
