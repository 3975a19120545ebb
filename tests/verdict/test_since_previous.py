"""No worse than last time: two audits, both uncertain, one gate."""

from __future__ import annotations

import copy
import datetime
import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scotoma.audit import as_text, parse_gate
from scotoma.audit.previous import Comparable, PreviousAudit
from scotoma.config.gate import parse_rules
from scotoma.errors import ConfigError, DataError
from scotoma.numbers import Estimate, none_seen, undefined
from scotoma.power.simulate import PlantedGroup, planted_audit
from scotoma.run import read_json
from scotoma.run.mirror import Mirror
from scotoma.steps.judging.previous import leave_previous
from scotoma.steps.verdict import give_verdict
from scotoma.verdict.documents import markdown
from scotoma.verdict.since_previous import changes, judged, rise_since
from tests.helpers.audits import judge, previous, whole

TODAY = datetime.date(2027, 3, 1)
RATE = Estimate.on_scale(0.1, 0.01, 9.0, n=900, members=5)
RULES = parse_rules("rules: [{id: since, metric: since_previous, margin: 0.02}]", "gate.yaml")


def test_a_difference_of_means_is_welchs() -> None:
    before = Estimate.on_scale(0.030, 0.004, 6.0, n=900, members=7)
    after = Estimate.on_scale(0.052, 0.007, 10.0, n=500, members=11)
    found = rise_since(before, after)
    welch = stats.ttest_ind_from_stats(
        0.052, 0.007 * math.sqrt(11), 11, 0.030, 0.004 * math.sqrt(7), 7, equal_var=False
    )
    interval = welch.confidence_interval(0.95) if hasattr(welch, "confidence_interval") else None
    assert found.p_above(0.0) == pytest.approx(welch.pvalue / 2, rel=1e-9)
    assert interval is None or (found.low, found.high) == pytest.approx(tuple(interval))
    assert (found.n, found.members) == (500, 7)


def test_a_rate_on_the_logit_scale_comes_back_as_the_rate_it_is() -> None:
    """One model: a proportion, whose standard error is the binomial one to first order."""
    rate, n = 0.2, 400
    se = math.sqrt(rate * (1 - rate) / (n - 1))
    logit = Estimate.on_scale(
        rate, se / (rate * (1 - rate)), n - 1.0, n=n, members=1, events=80.0, scale="logit"
    )
    found = rise_since(logit, logit)
    assert (found.value, found.se) == (0.0, pytest.approx(se * math.sqrt(2)))
    assert found.events == 80


@given(
    values=st.tuples(*[st.floats(0.01, 0.5)] * 2),
    errors=st.tuples(*[st.floats(1e-4, 0.1)] * 2),
    free=st.tuples(*[st.floats(2, 500)] * 2),
)
def test_turning_time_round_turns_the_sign(
    values: tuple[float, float], errors: tuple[float, float], free: tuple[float, float]
) -> None:
    one, other = (
        Estimate.on_scale(value, se, df, n=300, members=5)
        for value, se, df in zip(values, errors, free, strict=True)
    )
    there, back = rise_since(one, other), rise_since(other, one)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert min(free) - 1e-6 <= there.df <= sum(free) + 1e-6  # Welch's bounds


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (undefined("no negatives", n=0, members=5), RATE, "previous audit: no negatives"),
        (RATE, undefined("no negatives", n=0, members=5), "no negatives"),
        (replace(RATE, se=0.0), replace(RATE, se=0.0), "nothing varies"),
    ],
)
def test_what_one_audit_lacks_has_no_interval(
    before: Estimate, after: Estimate, reason: str
) -> None:
    found = rise_since(before, after)
    assert math.isnan(found.low)
    assert found.reason == reason


@pytest.mark.parametrize("n", [40, 400])
def test_a_rate_that_nobody_or_everybody_shows_is_compared_with_care(n: int) -> None:
    """Beside a rate known well, the interval holds the exact one of an unseen event, and more."""
    known = Estimate.on_scale(0.5, 1e-6, math.inf, n=10**6, members=5)
    for seen, ends in ((0.0, {"lowest": 0.0}), (1.0, {"highest": 1.0})):
        found = rise_since(known, none_seen(seen, n=n, members=5, **ends))
        exact = 1 - 0.025 ** (1 / n)  # Clopper and Pearson
        reached = (found.high + 0.5) if seen == 0 else (0.5 - found.low)
        assert exact < reached < 3 * exact
        assert found.p_above(0.0) > 0.999 if seen == 0 else found.p_above(0.0) < 1e-3


def month(seed: int, relative: float = 0.0, *, rates_only: Any, n: int = 900) -> dict[str, Any]:
    """An audit with models and examples of its own."""
    groups = [PlantedGroup(name=name, n=n, rate=0.1, relative=relative * (name == "old"))
              for name in ("old", "young")]  # fmt: skip
    found: dict[str, Any] = rates_only(planted_audit(groups, members=8, seed=seed))
    unmeasured = undefined("not measured", n=n, members=8).as_dict()
    found["divergence"]["prune-0.9"]["cie"]["excess"] = unmeasured
    return found


@pytest.fixture(scope="module")
def calm(rates_only: Any) -> list[dict[str, Any]]:
    """Months in which nothing changed."""
    return [month(seed, rates_only=rates_only) for seed in range(201)]


def test_without_a_margin_nothing_new_seldom_fails(calm: list[dict[str, Any]]) -> None:
    """Every rate lies at its limit: 2.5% of audits fail by chance, at most 10 of 200."""
    bare = parse_rules("rules: [{id: since, metric: since_previous, margin: 0}]", "gate.yaml")
    verdicts = Counter(
        judge(after, bare, TODAY, previous(before)).verdict for before, after in pairwise(calm)
    )
    assert verdicts["FAIL"] <= 10
    assert verdicts["PASS"] == 0


def test_the_interval_holds_the_change_of_independent_audits(calm: list[dict[str, Any]]) -> None:
    """Nothing changed: 95% of intervals hold 0; 99.9% of right ones lie in 91 to 98.5% of 400."""
    found = [
        one.change
        for before, after in pairwise(calm)
        for one in changes(*(Comparable.of(whole(a)) for a in (before, after)), "prune-0.9")
        if one.metric == "error"
    ]
    held = np.mean([one.low <= 0 <= one.high for one in found])
    assert len(found) == 400
    assert 0.91 <= held <= 0.985
    width = np.mean([one.se for one in found]) / np.std([one.value for one in found])
    assert 0.9 <= width <= 1.15


def test_drift_fails_and_chance_does_not(rates_only: Any) -> None:
    verdicts: dict[str, Counter[str]] = {"calm": Counter(), "drift": Counter()}
    for seed in range(0, 60, 3):
        before = previous(month(seed, rates_only=rates_only))
        for name, relative in (("calm", 0.0), ("drift", 1.0)):
            audit = month(seed + 1 + (relative > 0), relative, rates_only=rates_only)
            gate = judge(audit, RULES, TODAY, before)
            asked = [f for f in gate.variants[0].tests if f.where.startswith("error")]
            tests = {finding.group: finding.verdict for finding in asked}
            verdicts[name][tests["old"]] += 1
            assert tests["young"] != "FAIL"
    assert verdicts["drift"]["FAIL"] >= 18
    assert verdicts["calm"]["FAIL"] == 0


def test_the_same_audit_again_is_no_worse(whole_audit: Any) -> None:
    audit = whole_audit(n=6000)
    gate = judge(audit, RULES, TODAY, previous(audit, "itself", "s0"))
    asked = {(f.where): f.verdict for f in gate.variants[0].tests}
    assert gate.verdict == "PASS", asked
    assert list(asked) == [
        *(f"{metric} {group} since the previous audit" for group in ("all", "men", "women")
          for metric in ("FPR", "FNR")),
        "CIE excess since the previous audit",
    ]  # fmt: skip
    compared = gate.previous_audit
    assert compared is not None
    assert (compared.of, compared.sha256) == ("itself", "s0")


def test_a_first_audit_is_not_judged_by_it_and_says_so(whole_audit: Any) -> None:
    gate = judge(
        whole_audit(), RULES, TODAY, PreviousAudit(audit=None, reason="there is no earlier audit")
    )
    assert gate.verdict == "PASS"
    assert gate.warnings == ("since is not judged: there is no earlier audit",)
    assert "no rule asked anything" in markdown(gate)
    assert judge(whole_audit(), RULES, TODAY).warnings == (
        "since is not judged: no previous audit was named",
    )


def test_a_last_audit_that_cannot_be_had_leaves_it_open(whole_audit: Any) -> None:
    before = PreviousAudit(audit=None, reason="the tracking server does not answer", missing=True)
    (variant,) = judge(whole_audit(), RULES, TODAY, before).variants
    assert variant.verdict == "UNSURE"
    assert variant.tests[0].reason == "the tracking server does not answer"


def test_what_the_last_audit_did_not_have_is_named(whole_audit: Any) -> None:
    audit = whole_audit(variants=("prune-0.9", "int8"))
    before = copy.deepcopy(audit)
    before["variants"] = [one for one in before["variants"] if one["name"] != "int8"]
    for part in ("accuracy", "divergence", "subgroups"):
        before[part].pop("int8")
    before["rows"] = {}
    rows = before["subgroups"]["prune-0.9"]
    before["subgroups"] = {"prune-0.9": [row for row in rows if row["group"] != "men"]}
    gate = judge(audit, RULES, TODAY, previous(before))
    assert gate.warnings == (
        "prune-0.9: the previous audit had no group men",
        "int8 is not compared with the previous audit: it was not among its variants",
    )
    other = copy.deepcopy(audit) | {"examples": audit["examples"] | {"positive": "0"}}
    (first, _) = judge(audit, RULES, TODAY, previous(other)).warnings
    assert first.endswith("its classes or its positive class differ")


def test_excesses_are_compared_only_at_the_same_votes(whole_audit: Any) -> None:
    audit = whole_audit()
    before = copy.deepcopy(audit)
    before["divergence"]["prune-0.9"]["cie"]["votes"] = 3
    gate = judge(audit, RULES, TODAY, previous(before))
    asked = [finding.where for finding in gate.variants[0].tests]
    assert "CIE excess since the previous audit" not in asked
    assert "FPR men since the previous audit" in asked
    assert gate.warnings == (
        "prune-0.9: CIE excess is not compared with the previous audit, which measured it at 3 "
        "votes a side, not 1",
    )
    before["scope"] = "shipped"
    assert judge(audit, RULES, TODAY, previous(before)).warnings == (
        "prune-0.9: CIE excess is not compared with the previous audit, which has one model a "
        "variant",
    )


def test_words_for_a_change_are_holms() -> None:
    values = [Estimate.on_scale(v, 0.01, math.inf, n=9, members=2) for v in (0.04, -0.02, 0.02)]
    found = judged([*values, undefined("none", n=1, members=1)], 0.05)
    assert [word for _, _, word in found] == ["worse", "undecided", "undecided", "undecided"]
    assert found[1][0] < 0.05 < found[1][1] == 2 * found[1][0]  # alone it would be better
    assert math.isnan(found[3][1])


@pytest.mark.parametrize(
    ("was", "now", "data", "noted"),
    [(5, 10, "d1", True), (1, 5, "d1", True), (10, 10, "d1", False), (10, 5, "d1", False),
     (5, 10, "d2", False), (5, 10, "", False)],
)  # fmt: skip
def test_looking_again_at_the_same_examples_with_more_models_is_noted(
    whole_audit: Any, was: int, now: int, data: str, noted: bool
) -> None:
    """At the limit four looks with 5 to 30 models fail in 6% of audits, not in 2.5%."""
    before, after = (whole_audit(members=members, n=600) for members in (was, now))
    before["examples"]["dataset_sha256"] = "d1"
    after["examples"]["dataset_sha256"] = data
    warnings = judge(after, RULES, TODAY, previous(before)).warnings
    noun = "model" if was == 1 else "models"
    sentence = (
        f"the previous audit has the same test examples and {was} {noun}, this one {now}: each "
        "such look adds up to 2.5% to the chance of a false FAIL or PASS"
    )
    assert (sentence in warnings) == noted
    assert any("such look" in warning for warning in warnings) == noted


# --- the file in the run's folder -----------------------------------------------------------------


@pytest.fixture
def two(tmp_path: Path, whole_audit: Any) -> tuple[Mirror, Path]:
    here, there = tmp_path / "now", tmp_path / "before"
    content = whole_audit({"men": 0.0, "women": 1.5}, n=4000, seed=1)
    for folder, audit in ((here, content), (there, whole_audit(n=4000))):
        folder.mkdir()
        (folder / "audit.json").write_text(as_text(whole(audit)))
    return Mirror(here), there


def test_the_last_audit_is_an_input_of_the_verdict(two: tuple[Mirror, Path]) -> None:
    folder, before = two
    leave_previous(folder, str(before))
    assert read_json(folder.root / "previous.json")["margin"] == 0.01
    first = give_verdict(folder, RULES, TODAY)
    assert first.gate.rules.rules[-1].id == "since"  # the gate file has its own
    assert give_verdict(folder, RULES, TODAY).content == first.content
    by_default = give_verdict(folder, None, TODAY)
    gate = by_default.gate
    assert [rule.id for rule in gate.rules.rules][-1] == "since_previous"
    failed = {f.where for f in gate.variants[0].tests if f.verdict == "FAIL"}
    assert {name for name in failed if "since" in name and "women" in name}
    # gate.json holds the rules as they were applied: they give the same verdict again.
    recorded = parse_gate(by_default.content.encode(), "gate.json").rules
    assert give_verdict(folder, recorded, TODAY).content == by_default.content


@pytest.mark.parametrize("text", ["[]", "{", '{"variants": 3}', "{}"])
def test_what_is_no_audit_is_refused(two: tuple[Mirror, Path], text: str) -> None:
    folder, before = two
    (before / "audit.json").write_text(text)
    with pytest.raises(DataError, match=r"before/audit\.json"):
        leave_previous(folder, str(before))
    with pytest.raises(DataError, match="--previous must name a finished audit, got no"):
        leave_previous(folder, str(before / "nowhere"))
    assert not (folder.root / "previous.json").exists()
    (folder.root / "previous.json").write_text(text)
    with pytest.raises(DataError, match=r"previous\.json.*; remove it"):
        give_verdict(folder, None, TODAY)


def test_an_unknown_key_of_the_rule_is_named_with_the_one_that_exists() -> None:
    text = "rules:\n  - {id: since, metric: since_previous, margins: 0.01}"
    with pytest.raises(ConfigError, match=r"gate.yaml:2 .*margins.*did you mean 'margin'"):
        parse_rules(text, "gate.yaml")
