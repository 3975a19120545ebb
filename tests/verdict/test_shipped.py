"""Fewer than five models a side: a verdict on these very models, however few they are."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest

from scotoma.config.gate import GateRules, default_rules, parse_rules
from scotoma.run import Run
from scotoma.run.judging import Judging
from tests.helpers.audits import judge

TODAY = datetime.date(2027, 3, 1)
GROUPS = "rules: [{id: fpr, metric: fpr, over: groups, max_increase: {relative: 0.2}}]\n"
Audits = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def harmed(whole_audit: Audits) -> dict[str, Any]:
    """One model a side; compression triples the errors of women."""
    return whole_audit({"men": 0.0, "women": 2.0}, members=1, n=4000)


def verdict(audit: dict[str, Any], rules: GateRules) -> dict[str, str]:
    (variant,) = judge(audit, rules, TODAY).variants
    return {f.where: f.verdict for f in variant.tests}


def test_these_two_models_are_judged_without_a_gate_file(harmed: dict[str, Any]) -> None:
    found = verdict(harmed, default_rules(positive=True, shipped=True))
    assert found["FPR women"] == "FAIL"
    assert "CIE excess" not in found


def test_a_harmless_copy_passes(whole_audit: Audits) -> None:
    audit = whole_audit({"men": 0.0, "women": 0.0}, members=1, n=20_000, paired=True, rate=0.1)
    rules = parse_rules(GROUPS, "gate.yaml")
    assert set(verdict(audit, rules).values()) == {"PASS"}


def test_a_file_that_asks_for_more_models_is_obeyed(harmed: dict[str, Any]) -> None:
    asked = parse_rules(f"min: {{models: 5}}\n{GROUPS}", "gate.yaml")
    (variant,) = judge(harmed, asked, TODAY).variants
    assert {f.verdict for f in variant.tests} == {"UNSURE"}
    assert "1 model a variant, min.models asks for 5" in variant.tests[0].reason
    # A file that only names the events leaves the number of models open.
    assert (
        verdict(harmed, parse_rules(f"min: {{effective_events: 10}}\n{GROUPS}", "g"))["FPR women"]
        == "FAIL"
    )


@pytest.mark.parametrize(
    ("text", "models"),
    [
        (GROUPS, 1),
        (f"min: {{effective_events: 12}}\n{GROUPS}", 1),
        (f"min: {{models: 5}}\n{GROUPS}", 5),
    ],
)
def test_rules_are_recorded_as_they_were_applied(
    harmed: dict[str, Any], text: str, models: int
) -> None:
    judged = judge(harmed, parse_rules(text, "gate.yaml"), TODAY)
    recorded = parse_rules(judged.rules.model_dump_json(), "gate.json")
    assert recorded.min.models == models
    assert judge(harmed, recorded, TODAY) == judged


@pytest.mark.parametrize("members", [2, 3, 4])
def test_two_to_four_models_are_judged_at_least_as_well_as_one(
    whole_audit: Audits, members: int
) -> None:
    audit = whole_audit({"men": -0.3, "women": 2.0}, members=members, n=4000)
    findings = verdict(audit, parse_rules(GROUPS, "gate.yaml"))
    assert findings == {"FPR men": "PASS", "FPR women": "FAIL"}


@pytest.mark.parametrize("asked", ["", "min: {models: 5}\n"])
def test_what_a_file_names_is_known_to_the_step_that_judges(asked: str, tmp_path: Any) -> None:
    from scotoma.config import default_config

    run = Run.create(tmp_path / "run", default_config())
    left = Judging(parse_rules(asked + GROUPS, "gate.yaml"), TODAY)
    left.leave(run)
    found = Judging.of(run)
    assert found == left
    assert found.digest == left.digest
    assert ("models" in found.rules.min.model_fields_set) == bool(asked)
