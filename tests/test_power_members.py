"""How many members would decide: planted truth, known variances, what cannot be told."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import t as student

from scotoma.bias import GroupChange, amplification
from scotoma.errors import DataError
from scotoma.power import (
    Design,
    PlantedGroup,
    Probit,
    expected_variance,
    members_needed,
    planted_audit,
    promised_power,
)
from scotoma.uncertainty import Estimate, Variance

pytestmark = pytest.mark.slow


def fpr_change(design: Design, relative: float, seed: int) -> GroupChange:
    """The change of the FPR that `amplification` sees in one audit with planted truth."""
    k, k_c = design.sizes
    men = PlantedGroup(
        name="men", n=design.group_n, rate=design.rate, relative=relative, positives=0
    )
    audit = planted_audit(
        [men], members=k, compressed_members=k_c, errors=design.errors, paired=design.paired,
        seed=seed,
    )  # fmt: skip
    changes = amplification(
        audit.labels, audit.dense, audit.compressed, audit.groups, audit.names, positive=1,
        n_classes=2, paired=design.paired, level=design.level,
    )  # fmt: skip
    return next(change for change in changes if change.metric == "fpr")


def true_members(design: Design, distance: float) -> int:
    """Members at which the average audit's interval is as long as the distance."""
    for k in range(2, 256):
        variance = expected_variance(replace(design, members=k), 0.2)
        if student.ppf(0.975, variance.df) * math.sqrt(variance.total) <= distance:
            return k
    raise AssertionError("no number of members")


UNDECIDED = {
    "10 members": (Design(group_n=1_000, rate=0.05, members=10), 0.13),
    "5 members": (Design(group_n=1_000, rate=0.05, members=5), 0.14),
    "6, runs that differ much": (
        Design(group_n=2_000, rate=0.05, members=6, errors=Probit(run_sd=0.25)),
        0.22,
    ),
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_range_of_members_holds_the_number_that_decides(name):
    design, relative = UNDECIDED[name]
    truth = true_members(design, math.log1p(relative))
    assert truth > design.members
    answers = [
        members_needed(fpr_change(design, relative, seed), relative=0.0, assumed=relative)
        for seed in range(80)
    ]
    undecided = [answer for answer in answers if not answer.decided]
    assert len(undecided) > 50
    held = np.mean([answer.low <= truth <= answer.high for answer in undecided])
    assert held >= 0.8, held
    middle = np.median([answer.high for answer in undecided]) / (
        2.0 if design.members < 10 else 1.6
    )
    assert middle == pytest.approx(truth, rel=0.25)


def test_as_many_members_as_named_decide_half_of_the_audits():
    # An interval just as long as the distance decides when the estimate errs upwards: 50%.
    design, relative = UNDECIDED["10 members"]
    needed = replace(design, members=true_members(design, math.log1p(relative)))
    lows = [fpr_change(needed, relative, seed).relative.low for seed in range(300)]
    assert abs(np.mean([low > 0 for low in lows]) - 0.5) <= 3 * 0.029
    assert promised_power(needed, relative) == pytest.approx(0.5, abs=0.03)


def planted_change(*, parts=None, **said):
    """A change whose variance is known: K = 10, n = 900, V_A = .012, the runs' own part .004."""
    known = {"value": 50.0, "n": 900, "members": 10, "events": 60.0, "dense": 0.04} | said
    parts = parts or Variance(total=0.024, examples=0.02, members=0.012, residual=0.008, df=20.0)
    if known["members"] == 1:
        parts = Variance(total=0.02, examples=0.02, members=0.0, residual=0.0, df=60.0)
    sizes = {name: known[name] for name in ("n", "members", "events")}
    value, p = known["value"] / 100, known["dense"]
    df = parts.df
    return GroupChange(
        group="men", metric="fpr", class_id=None,
        dense=Estimate.on_scale(p, 0.1, df, scale="logit", **sizes),
        compressed=Estimate.on_scale(p * (1 + value), 0.1, df, scale="logit", **sizes),
        relative=Estimate.on_scale(100 * value, math.sqrt(parts.total), df, scale="log", **sizes),
        absolute=Estimate.on_scale(p * value, p * math.sqrt(parts.total), df, **sizes),
        relative_variance=parts, absolute_variance=parts.scaled(p),
    )  # fmt: skip


def test_members_needed_solves_the_equation_of_the_variance():
    # V(K) = .012 + .12/K, V_ex = .012 + .08/K, V_mod = .12/K; K* solves t(df) sqrt(V) = D.
    distance, star = math.log(1.5 / 1.18), 20.0
    for _ in range(100):
        total, examples, members = 0.012 + 0.12 / star, 0.012 + 0.08 / star, 0.12 / star
        df = total**2 / (examples**2 / 60 + members**2 / (2 * (star - 1)))
        star = (0.024 - 0.012) * 10 / ((distance / student.ppf(0.975, df)) ** 2 - 0.012)
    found = members_needed(planted_change(), relative=0.18)
    assert (found.low, found.high) == (math.floor(0.6 * star), math.ceil(1.6 * star))
    assert 25 < found.low < 40
    assert (found.towards, found.members, found.n) == ("harm", 10, 900)
    assert str(found) == f"about {found.low} to {found.high} members would settle this (10 now)"
    wider = members_needed(planted_change(members=7), relative=0.18)
    assert wider.high / wider.low == pytest.approx(4, rel=0.05)
    assert (
        str(replace(found, low=123, high=1_234))
        == "about 130 to 1,300 members would settle this (10 now)"
    )


def test_members_needed_reckons_with_the_degrees_of_freedom_that_they_would_give():
    # Runs alone vary: V(K) = .5/K, df = 2(K - 1), so that K* = .5 (t/D)^2.
    parts = Variance(total=0.1, examples=1e-9, members=0.1, residual=1e-9, df=8.0)
    found = members_needed(planted_change(parts=parts, value=100.0, members=5), relative=0.17)
    star = brentq(
        lambda k: k - 0.5 * (student.ppf(0.975, 2 * (k - 1)) / math.log(2 / 1.17)) ** 2, 3, 100
    )
    assert (found.low, found.high) == (6, math.ceil(2 * star))


def test_an_assumed_truth_takes_the_place_of_the_estimate():
    for limit in ({"relative": 0.18}, {"absolute": 0.01}, {"relative": 0.7, "absolute": 0.03}):
        known = members_needed(planted_change(value=50.0), **limit)
        assumed = members_needed(planted_change(value=3.0), **limit, assumed=0.5)
        assert str(assumed) == str(known) != str(members_needed(planted_change(value=3.0), **limit))


def test_where_no_number_of_members_decides_examples_are_named():
    # D = log(1.5/1.25): (D/t(20))^2 = .00764 < V_A = .012; n' = 900 * .02 / (.00764 - .004).
    found = members_needed(planted_change(), relative=0.25)
    enough = (math.log(1.5 / 1.25) / student.ppf(0.975, 20)) ** 2
    assert found.low == found.high == math.inf
    assert found.examples == pytest.approx(900 * 0.02 / (enough - 0.004))
    assert str(found) == (
        "more models cannot settle this; about 5,000 test examples would (900 now)"
    )
    # D = log(1.5/1.4): (D/t)^2 = .0011 < .004, what runs alone leave: both are needed.
    nearer = members_needed(planted_change(), relative=0.4)
    assert nearer.both
    assert nearer.examples > 900 * 0.012 * (1.96 / math.log(1.5 / 1.4)) ** 2
    assert "test examples, and more members, would (900 now)" in str(nearer)


def test_that_no_number_of_members_decides_is_true_and_the_examples_do():
    design, relative = Design(group_n=250, rate=0.05, members=10, errors=Probit(run_sd=0.0)), 0.08
    endless = expected_variance(replace(design, members=255), relative)
    assert 1.96 * math.sqrt(endless.total) > math.log1p(relative)
    answers = [
        members_needed(fpr_change(design, relative, seed), relative=0.0, assumed=relative)
        for seed in range(60)
    ]
    assert np.mean([math.isinf(answer.low) for answer in answers]) > 0.8
    examples = np.median([answer.examples for answer in answers if math.isinf(answer.low)])
    larger = replace(design, group_n=round(examples))
    assert promised_power(larger, relative) == pytest.approx(0.5, abs=0.15)


def test_an_audit_that_decides_needs_no_more_members():
    found = members_needed(planted_change(value=80.0), relative=0.2)
    assert found.decided
    assert str(found) == "settled with the present 10 members"
    assert planted_change(value=80.0).harm_p(relative=0.2) <= 0.025
    below = members_needed(planted_change(value=-40.0), relative=0.2)
    assert (below.decided, below.towards) == (True, "clear")


def test_both_limits_ask_for_the_harder_harm_and_the_easier_all_clear():
    change = planted_change()
    near, far = {"absolute": 0.004}, {"relative": 0.15}
    alone = [members_needed(change, **limit).high for limit in (near, far)]
    both = members_needed(change, **near, **far)
    assert both.high == max(alone) > min(alone)
    # 0.025 above 0.04 is a rise of 62.5%, so that the change lies below this limit alone.
    clear = members_needed(change, relative=0.1, absolute=0.028)
    assert clear.towards == "clear"
    # An all-clear by either of two limits is asked at half the error, and the easier one counts.
    limits = {"relative": 0.9, "absolute": 0.036}
    single = [
        members_needed(change, **{name: limit}, level=0.975) for name, limit in limits.items()
    ]
    either = members_needed(change, **limits)
    assert (
        either.high == min(answer.high for answer in single) < max(answer.high for answer in single)
    )
    assert either.towards == "clear"


def test_few_effective_events_are_no_matter_of_members():
    found = members_needed(planted_change(events=6.0), relative=0.1, min_events=10)
    assert found.examples == pytest.approx(900 * 10 / 6)
    assert "more models cannot settle this; about 1,500 test examples" in str(found)
    rare = Design(group_n=60, rate=0.02, members=10)
    changes = [fpr_change(rare, 0.5, seed) for seed in range(20)]
    carried = [change for change in changes if "effective event" in change.relative.reason]
    assert carried
    for change in carried:
        assert members_needed(change, relative=0.1).examples == 60 * 5 / change.events


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            planted_change(members=1),
            "one training run does not tell how many members are needed, train at least 5; for "
            "these models alone about 2,200 examples of this group would decide",
        ),
        (planted_change(members=3), "3 members do not tell how many are needed: train at least 5"),
        (
            planted_change(value=25.0),
            "more models cannot settle this, and no number of examples: the change lies at the "
            "limit",
        ),
    ],
)
def test_what_members_needed_cannot_tell_is_a_sentence(change, sentence):
    assert str(members_needed(change, relative=0.25)) == sentence


def test_members_needed_passes_on_why_a_change_is_undefined():
    labels = np.zeros(40, int)
    groups = np.array([[True] * 20 + [False] * 20])
    same = np.zeros((40, 5), int)
    changes = amplification(labels, same, same, groups, ["men"], positive=1, n_classes=2)
    _, fpr, fnr = changes
    assert str(members_needed(fnr, relative=0.1)) == "undefined (no positives in group 'men')"
    assert "no false positive among 20 negatives" in str(members_needed(fpr, absolute=0.1))
    wrong = (np.arange(40) % 2 == 0)[:, None].astype(int).repeat(5, axis=1)
    still = amplification(labels, wrong, wrong, groups, ["men"], positive=1, n_classes=2)[1]
    assert str(members_needed(still, relative=0.1)) == (
        "members needed not estimable (nothing varies over 20 examples)"
    )
    said = members_needed(still, relative=0.1).as_dict()
    assert json.dumps(said, allow_nan=False)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (
            lambda: members_needed(planted_change()),
            "a limit on the change of group 'men' must be relative, absolute or both, got neither",
        ),
        (
            lambda: members_needed(planted_change(), relative=math.nan),
            "relative must be a rise above -1, got nan: write 0.2 for +20%",
        ),
        (
            lambda: members_needed(planted_change(), relative=0.1, assumed=-2.0),
            "assumed must be a rise above -1, got -2.0",
        ),
        (
            lambda: members_needed(planted_change(), relative=0.1, level=95),
            "level must be a fraction in (0, 1), got 95",
        ),
    ],
)
def test_what_cannot_be_asked_of_members_is_refused_in_a_sentence(ask, sentence):
    with pytest.raises(DataError) as refusal:
        ask()
    assert sentence in str(refusal.value)
