from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scotoma.audit.gate import Margins
from scotoma.audit.gate import TestResult as Answer
from scotoma.config.gate import GateRules, parse_rules
from scotoma.numbers import (
    Estimate,
    Variance,
    benjamini_hochberg,
    holm,
    multipliers,
    undefined,
)
from scotoma.numbers.estimate import none_seen
from scotoma.verdict.deciding import decide
from scotoma.verdict.evidence import Rise
from scotoma.verdict.gate_test import GateTest, rise_test, unanswered

TODAY = datetime.date(2027, 3, 1)
RULE = "rules: [{id: fpr, metric: fpr, max_increase: {relative: 0.2, absolute: 0.005}}]\n"


def rules(text: str = "") -> GateRules:
    return parse_rules(RULE + text, "gate.yaml")


def question(
    ratio: float = 1.0,
    se: float = 0.1,
    *,
    rate: float = 0.05,
    relative: float | None = 0.2,
    absolute: float | None = 0.005,
    events: float = 40.0,
    members: int = 10,
    df: float = 20.0,
    clearing: float | None = None,
    **known: Any,
) -> GateTest:
    """A rate of 5% that rose by a ratio, known to a standard error of its logarithm."""
    common: dict[str, Any] = {"n": 2000, "members": members, "events": events}
    log = Variance(se**2, 0.6 * se**2, 0.6 * se**2, 0.2 * se**2, df)
    values: dict[str, Any] = {
        "dense": Estimate.on_scale(rate, 0.1, df, scale="logit", **common),
        "compressed": Estimate.on_scale(rate * ratio, 0.1, df, scale="logit", **common),
        "relative": Estimate.on_scale(ratio - 1, se, df, scale="log", **common),
        "absolute": Estimate.on_scale(rate * (ratio - 1), rate * se, df, **common),
        "relative_variance": log,
        "absolute_variance": log.scaled(rate),
    }
    changed = {"dense": "dense", "relative_change": "relative", "absolute_change": "absolute"}
    values |= {changed[name]: known.pop(name) for name in list(known) if name in changed}
    margins = Margins(relative=relative, absolute=absolute, clearing=clearing)
    return rise_test("fpr", "fpr", "FPR old", Rise(**values), margins, **known)


def one(asked: GateTest, text: str = "") -> Answer:
    (found,) = decide([asked], rules(text))
    return found


# --- one question ---------------------------------------------------------------------------------


def test_harm_beyond_both_margins_fails() -> None:
    assert one(question(2.0)).verdict == "FAIL"


def test_no_change_that_is_known_well_passes() -> None:
    assert one(question(1.0, 0.03)).verdict == "PASS"


def test_no_change_that_is_hardly_known_is_unsure() -> None:
    assert one(question(1.0, 0.5)).verdict == "UNSURE"


def test_a_large_ratio_of_small_rates_does_not_fail() -> None:
    """Three times 0.1% is 0.3%: beyond the relative margin, inside the absolute."""
    found = one(question(3.0, 0.1, rate=0.001))
    assert found.verdict == "PASS"
    assert found.decided_by is not None
    assert found.decided_by.kind == "absolute"


def test_a_large_difference_of_large_rates_does_not_fail() -> None:
    """From 50% to 55%: beyond the absolute margin, inside the relative."""
    found = one(question(1.1, 0.01, rate=0.5))
    assert found.verdict == "PASS"
    assert found.decided_by is not None
    assert found.decided_by.kind == "relative"


def test_p_values_are_those_of_student() -> None:
    """Twin: harm is the larger of the two, no harm the smaller of the opposite two."""
    ratio, se, rate, df = 1.35, 0.12, 0.05, 20.0
    t = stats.t(df)
    log = (math.log(ratio) - math.log(1.2)) / se
    points = (rate * (ratio - 1) - 0.005) / (rate * se)
    found = one(question(ratio, se))
    assert found.harm_p == pytest.approx(max(t.sf(log), t.sf(points)))
    assert found.noninferiority_p == pytest.approx(min(t.cdf(log), t.cdf(points)))


@pytest.mark.parametrize("kind", ["relative", "absolute"])
def test_a_single_margin_has_its_own_p_value(kind: str) -> None:
    asked = question(1.35, 0.12, **{"relative": None, "absolute": None} | {kind: 0.004})
    estimate = asked.harms[0].estimate
    found = one(asked)
    assert found.harm_p == pytest.approx(estimate.p_above(0.004))
    assert found.noninferiority_p == pytest.approx(estimate.p_below(0.004))


def test_too_few_effective_events_show_no_harm_but_may_rule_it_out() -> None:
    """Harm needs events; no harm needs none, for its variance has a floor where few changed."""
    harmed, same = one(question(9.0, 0.01, events=9.8)), one(question(1.0, 0.001, events=9.8))
    assert (harmed.verdict, same.verdict) == ("UNSURE", "PASS")
    assert harmed.harm_p is None
    assert harmed.harm_p_adjusted is None
    assert one(question(9.0, 0.01, events=10.0)).verdict == "FAIL"
    assert one(question(9.0, 0.01, events=9.8), "min: {effective_events: 9}").verdict == "FAIL"


def test_one_model_is_judged_unless_the_rules_ask_for_more() -> None:
    assert one(question(9.0, 0.01, members=1)).verdict == "FAIL"
    assert one(question(1.0, 0.01, members=1)).verdict == "PASS"
    asked = "min: {models: 5}"
    for ratio in (1.0, 9.0):
        few = one(question(ratio, 0.01, members=4), asked)
        assert (few.verdict, few.reason) == ("UNSURE", "4 models a variant, min.models asks for 5")
        assert few.decided_by is None
    assert one(question(9.0, 0.01, members=1), asked).reason.startswith("1 model a variant")
    assert one(question(9.0, 0.01, members=5), asked).verdict == "FAIL"


def test_a_pass_keeps_the_sampling_margin_and_a_fail_exceeds_that_of_the_rule() -> None:
    """A rise of 0.6 points, known to 0.2: above the limit of 0.5, below what n can tell."""
    rise: dict[str, Any] = {"rate": 0.05, "relative": None, "absolute": 0.005}
    assert one(question(1.12, 0.04, **rise)).verdict == "UNSURE"
    wide = one(question(1.12, 0.04, clearing=0.0105, **rise))
    assert wide.verdict == "PASS"
    assert wide.decided_by is not None
    assert wide.decided_by.margin == 0.0105
    assert one(question(1.3, 0.04, relative=None, clearing=0.04)).verdict == "FAIL"


def test_what_is_not_judged_blocks_no_pass_and_still_fails() -> None:
    small = {"too_small": "too small to judge: 9 examples allow no margin below 30 points"}
    opened = one(question(1.0, 0.5, **small))
    assert (opened.verdict, opened.reason) == ("NOT JUDGED", small["too_small"])
    assert opened.outlook is None
    # What is too small before compression does not become large enough by a lucky draw.
    assert one(question(1.0, 0.001, **small)).verdict == "NOT JUDGED"
    assert one(question(9.0, 0.01, **small)).verdict == "FAIL"


def test_what_was_not_measured_is_unsure() -> None:
    asked = GateTest(unanswered("s", "slices_hurt", "slices"), reason="no slices")
    assert (one(asked).verdict, one(asked).reason) == ("UNSURE", "no slices")


def test_a_number_without_interval_is_unsure_with_its_reason() -> None:
    gone = undefined("relative change not estimable", n=9, members=10, events=40.0)
    asked = question(2.0, absolute=None, dense=gone, relative_change=gone, min_events=0)
    found = one(asked, "min: {effective_events: 0}")
    assert (found.verdict, found.reason) == ("UNSURE", "relative change not estimable")


def rare(dense: float, compressed: float, n: int = 100, events: float | None = None) -> GateTest:
    """A rate that hardly occurs in the dense models; `events` are those after compression."""
    own = {"dense": n * dense, "compressed": n * compressed if events is None else events}
    moved = math.sqrt(compressed / n) + 0.01
    common: dict[str, Any] = {"n": n, "members": 1}
    nothing = Variance(math.nan, math.nan, math.nan, math.nan, math.nan)
    change = Rise(
        dense=none_seen(0.0, lowest=0.0, highest=1.0, events=0.0, **common)
        if dense == 0
        else Estimate.on_scale(dense, 0.3, math.inf, scale="logit", events=own["dense"], **common),
        compressed=Estimate.on_scale(
            compressed, 0.3, math.inf, scale="logit", events=own["compressed"], **common
        ),
        relative=undefined("relative change not estimable", events=0.0, **common),
        absolute=Estimate.on_scale(
            compressed - dense, moved, math.inf, events=min(own.values()), **common
        ),
        relative_variance=nothing,
        absolute_variance=Variance(moved**2, moved**2, 0.0, 0.0, math.inf),
    )
    margins = Margins(relative=0.2, absolute=0.005, clearing=None)
    return rise_test("error", "error", "error old", change, margins)


def test_a_group_without_a_dense_error_can_fail() -> None:
    """16 of 100 lost where the baseline is right on all: on the rise in points alone."""
    found = one(rare(0.0, 0.16))
    assert found.verdict == "FAIL"
    assert found.decided_by is not None
    # The relative margin is that of the highest dense rate that 100 examples without error allow.
    assert (found.decided_by.kind, found.decided_by.margin) == (
        "absolute",
        pytest.approx(0.2 * 0.03),
    )
    assert found.harm_p == pytest.approx(stats.norm.sf((0.16 - 0.006) / 0.05))


def test_nine_events_after_compression_show_no_harm() -> None:
    found = one(rare(0.0, 0.2, events=9.0))
    assert (found.verdict, found.reason) == (
        "UNSURE", "9 effective events are too few to show harm (10 are needed)"
    )  # fmt: skip


def test_ten_dense_events_are_judged_by_their_ratio_too() -> None:
    """Where the ratio is known, both margins must be exceeded as ever."""
    asked = question(1.35, 0.12)
    assert [(bound.kind, bound.limit) for bound in asked.harms] == [
        ("relative", 0.2), ("absolute", 0.005)
    ]  # fmt: skip


def test_the_interval_beside_an_unsure_is_the_one_that_decides() -> None:
    """Beyond the margin at 95%, and not at the level of a family of tests: no FAIL, no puzzle."""
    others = [question(1.0, 0.2) for _ in range(11)]
    first, *_ = decide([question(1.44, 0.085), *others], rules())
    assert first.verdict == "UNSURE"
    assert first.decided_by is not None
    assert first.decided_by.kind == "relative"
    assert first.relative is not None
    assert first.relative.low > 0.2  # the pointwise interval reads as a FAIL
    assert first.decided_by.interval.low < 0.2 == first.decided_by.margin
    assert first.decided_by.interval.level == pytest.approx(1 - 0.05 / 12)
    # Of a rise inside the margins it is the interval that would have cleared it.
    assert decide([question(1.1, 0.2)], rules())[0].decided_by.interval.level == 0.95  # type: ignore[union-attr]


def test_the_same_predictions_on_both_sides_pass() -> None:
    """No example differs: bounds by the rule of three, which have no standard error."""
    same = none_seen(0.0, n=2000, members=10, lowest=-1.0, highest=1.0, events=40.0)
    ratio = none_seen(0.0, n=2000, members=10, lowest=-1.0, events=40.0, unit=1 / 0.05)
    found = one(question(1.0, absolute_change=same, relative_change=ratio))
    assert found.verdict == "PASS"
    assert found.decided_by is not None
    assert found.decided_by.interval.high < found.decided_by.margin


@given(n=st.integers(20, 5000), alpha=st.sampled_from([0.01, 0.05, 0.2]))
def test_picture_and_verdict_agree_where_no_example_differs(n: int, alpha: float) -> None:
    common: dict[str, Any] = {"n": n, "members": 10, "events": 12.0}
    same = none_seen(0.0, lowest=-1.0, highest=1.0, **common)
    ratio = none_seen(0.0, lowest=-1.0, unit=1 / 0.05, **common)
    asked = question(1.0, absolute_change=same, relative_change=ratio)
    found = one(asked, f"alpha: {alpha}")
    assert found.decided_by is not None
    inside = found.decided_by.interval.high < found.decided_by.margin
    assert found.verdict == ("PASS" if inside else "UNSURE")


# --- many questions: one family -------------------------------------------------------------------

FAMILY = st.lists(
    st.one_of(st.just(0.0), st.floats(1e-12, 1.0), st.sampled_from([0.01, 0.02, 0.5])), max_size=12
)


@given(p=FAMILY, gaps=st.integers(0, 3))
def test_multipliers_are_those_of_holm_and_of_benjamini_and_hochberg(
    p: list[float], gaps: int
) -> None:
    family = np.array([*p, *[math.nan] * gaps])
    for correct, oracle in (("holm", holm), ("bh", benjamini_hochberg)):
        adjusted = np.minimum(1.0, family * multipliers(family, correct))  # type: ignore[arg-type]
        np.testing.assert_allclose(adjusted, oracle(family), rtol=1e-12)
    assert np.all(multipliers(np.array(p), "none") == 1.0)


@given(
    drawn=st.lists(
        st.tuples(st.floats(0.3, 4.0), st.floats(0.01, 0.6), st.sampled_from([3.0, 40.0])),
        min_size=1,
        max_size=9,
    ),
    limits=st.sampled_from([(0.2, 0.005), (0.2, None), (None, 0.005), (0.0, 0.0)]),
    correct=st.sampled_from(["holm", "bh", "none"]),
    alpha=st.sampled_from([0.01, 0.05, 0.2]),
)
def test_picture_and_verdict_never_disagree(
    drawn: list[tuple[float, float, float]],
    limits: tuple[float | None, float | None],
    correct: str,
    alpha: float,
) -> None:
    asked = [
        question(ratio, se, relative=limits[0], absolute=limits[1], events=events)
        for ratio, se, events in drawn
    ]
    for found in decide(asked, rules(f"correct: {correct}\nalpha: {alpha}")):
        assert found.decided_by is not None
        bound, estimate = found.decided_by.margin, found.decided_by.interval
        beyond, inside = estimate.low > bound, estimate.high < bound
        assert inside == (found.verdict == "PASS")
        assert beyond or found.verdict != "FAIL"
        if correct == "none" and found.harm_p is not None:
            assert beyond == (found.verdict == "FAIL")
        assert estimate.level >= 1 - alpha - 1e-12


def test_one_of_two_margins_clears_at_the_level_of_one() -> None:
    """A PASS keeps one margin of two at 2.5%: both would have to fail for a false PASS."""
    found = one(question(1.0, 0.081))
    assert found.verdict == "PASS"
    assert 0.0125 < found.noninferiority_p < 0.025


def test_the_verdicts_are_those_of_a_slow_twin() -> None:
    """FAIL by Holm over the tests with enough events, PASS by one margin, in plain loops."""
    rng = np.random.default_rng(5)
    seen = set()
    t = stats.t(20)
    for _ in range(60):
        drawn = [
            (
                float(rng.lognormal(0.2, 0.3)),
                float(rng.uniform(0.02, 0.2)),
                float(rng.choice([8.0, 40.0])),
                float(rng.choice([0.005, 0.012])),
                bool(rng.random() < 0.2),
            )
            for _ in range(int(rng.integers(1, 10)))
        ]
        asked = [
            question(ratio, se, events=events, clearing=clearing, too_small="small" * small)
            for ratio, se, events, clearing, small in drawn
        ]
        harm, clear = [], []
        for ratio, se, events, clearing, _ in drawn:
            rise, rise_se = 0.05 * (ratio - 1), 0.05 * se
            of_ratio = (math.log(ratio) - math.log(1.2)) / se
            both = max(t.sf(of_ratio), t.sf((rise - 0.005) / rise_se))
            harm.append(both if events >= 10 else None)
            clear.append(min(t.cdf(of_ratio), t.cdf((rise - clearing) / rise_se)))
        family = sorted(p for p in harm if p is not None)
        rejected = 0
        for place, p in enumerate(family):
            if p * (len(family) - place) > 0.025:
                break
            rejected += 1
        worst = family[rejected - 1] if rejected else -1.0
        for p, q, one_drawn, finding in zip(
            harm, clear, drawn, decide(asked, rules()), strict=True
        ):
            if p is not None and p <= worst:
                expected = "FAIL"
            elif one_drawn[-1]:
                expected = "NOT JUDGED"
            else:
                expected = "PASS" if q <= 0.025 else "UNSURE"
            assert finding.verdict == expected
            seen.add(expected)
    assert seen == {"PASS", "UNSURE", "FAIL", "NOT JUDGED"}


def test_more_tests_make_a_fail_harder_and_a_pass_no_harder() -> None:
    near, clear = question(1.65, 0.14), question(1.0, 0.05)
    assert one(near).verdict == "FAIL"
    assert one(clear).verdict == "PASS"
    together = decide([near, *[clear] * 30], rules())
    assert [found.verdict for found in together] == ["UNSURE", *["PASS"] * 30]


# --- what would settle it -------------------------------------------------------------------------


def test_only_an_open_question_has_an_outlook() -> None:
    assert one(question(2.0)).outlook is None
    assert one(question(1.0, 0.03)).outlook is None
    outlook = one(question(1.0, 0.09)).outlook
    assert outlook is not None
    assert outlook.leaning == "PASS"
    assert outlook.high >= outlook.low > outlook.now


def test_an_outlook_leans_where_the_estimate_lies() -> None:
    assert one(question(1.5, 0.15)).verdict == "UNSURE"
    harmful, harmless = one(question(1.5, 0.15)).outlook, one(question(1.1, 0.15)).outlook
    assert harmful is not None
    assert harmless is not None
    assert (harmful.leaning, harmless.leaning) == ("FAIL", "PASS")


def test_the_margin_that_would_pass_today_does() -> None:
    outlook = one(question(1.1, 0.15, relative=None)).outlook
    assert outlook is not None
    passing = outlook.passing_margin
    for share, verdict in ((1.001, "PASS"), (0.999, "UNSURE")):
        asked = question(1.1, 0.15, relative=None, clearing=share * passing)
        assert one(asked).verdict == verdict
