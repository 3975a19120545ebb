"""The gate file: what it may hold, and what is said where it does not."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from scotoma.audit.schemas import file_schema
from scotoma.config.gate import METRICS, GateRules, Rule, default_rules, load_rules, parse_rules
from scotoma.config.gate_changes import ChangeRule
from scotoma.config.gate_levels import LEVEL_METRICS
from scotoma.errors import ConfigError
from scotoma.verdict.rules import KINDS

WHOLE = """\
alpha: 0.05
correct: holm
min: {effective_events: 10, models: 5}
on_unsure: warn
rules:
  - {id: fpr_groups, metric: fpr, over: groups, max_increase: {relative: 0.20, absolute: 0.005}}
  - {id: cie, metric: cie_share_excess, max: 0.01}
  - {id: classes, metric: classes_hurt, margin: 0.01}
  - {id: slices, metric: slices_hurt, margin: 0.01}
waivers:
  - {rule: fpr_groups, variant: prune-0.99, reason: "not shipped", until: 2027-03-01}
"""
SOME = (
    "cie_share_excess, labels_changed, classes_hurt, fpr, fnr, error, unanswered, cut_off, "
    "refused, tool_call, output_tokens, error_gap, slices_hurt, mean_score, robustness_loss, "
    "overconfidence, unnoticed_pictures, since_previous, "
    "clarify.DI, fairness.DI and 26 more of Clarify and fairness"
)
FAULTS = {
    "an unknown key": (
        "on_unsure: warn",
        "on_unsur: warn",
        "gate.yaml:4 on_unsur is not a key here; known are version, alpha, correct, min, "
        "coarsest, must, on_unsure, margin, rules, waivers; did you mean 'on_unsure'?",
    ),
    "an unknown key of a limit": (
        "relative: 0.20",
        "relativ: 0.20",
        "gate.yaml:6 rules.0.max_increase.relativ is not a key here; known are relative, "
        "absolute; did you mean 'relative'?",
    ),
    "an unknown key of a minimum": (
        "models: 5",
        "model: 5",
        "gate.yaml:3 min.model is not a key here; known are effective_events, models; did you mean "
        "'models'?",
    ),
    "an unknown key of a waiver": (
        'reason: "not shipped", ',
        'reason: "not shipped", why: x, ',
        "gate.yaml:11 waivers.0.why is not a key here; known are rule, variant, group, "
        "reason, until",
    ),
    "an unknown metric": (
        "metric: fpr,",
        "metric: frp,",
        f"gate.yaml:6 rules.0.metric must be one of {SOME}, got 'frp'; did you mean 'fpr'?",
    ),
    "no metric": (
        "metric: classes_hurt, ",
        "",
        f"gate.yaml:8 rules.2.metric is missing; it is one of {SOME}",
    ),
    "per cent for a fraction": (
        "relative: 0.20",
        "relative: 20",
        "gate.yaml:6 rules.0.max_increase.relative must be less than 10.0, got 20; write 0.2 "
        "for +20%",
    ),
    "points for a fraction": (
        "absolute: 0.005",
        "absolute: 1",
        "gate.yaml:6 rules.0.max_increase.absolute must be less than 1.0, got 1",
    ),
    "no limit": (
        "{relative: 0.20, absolute: 0.005}",
        "{}",
        "gate.yaml:6 max_increase needs relative, absolute or both; add one of them",
    ),
    "a limit below zero": (
        "max: 0.01",
        "max: -0.01",
        "gate.yaml:7 rules.1.max must be at least 0.0, got -0.01",
    ),
    "a limit that is no number": (
        "max: 0.01",
        "max: .nan",
        "gate.yaml:7 rules.1.max should be a finite number, got NaN",
    ),
    "an alpha in per cent": (
        "alpha: 0.05",
        "alpha: 5",
        "gate.yaml:1 alpha must be less than 0.5, got 5",
    ),
    "a correction that is none": (
        "correct: holm",
        "correct: bonferroni",
        "gate.yaml:2 correct should be 'holm', 'bh' or 'none', got 'bonferroni'",
    ),
    "an id twice": (
        "id: cie",
        "id: classes",
        "gate.yaml:5 rules has the id classes twice; keep one of them",
    ),
    "a waiver of no rule": (
        "rule: fpr_groups",
        "rule: fpr_group",
        "gate.yaml:10 a waiver names the rule 'fpr_group', which is not among ['fpr_groups', "
        "'cie', 'classes', 'slices']; did you mean 'fpr_groups'?",
    ),
    "a waiver without a reason": (
        '"not shipped"',
        '""',
        "gate.yaml:11 waivers.0.reason must not be empty, got ''; write what it is",
    ),
    "a waiver without an end": (
        ", until: 2027-03-01",
        "",
        "gate.yaml:11 waivers.0.until is missing; it has no default",
    ),
    "a day that is none": (
        "2027-03-01",
        "2027-02-30",
        "gate.yaml:11 waivers.0.until must be a day such as 2027-03-01, got '2027-02-30'",
    ),
    "the error over classes": (
        "metric: fpr, over: groups",
        "metric: error, over: classes",
        "gate.yaml:6 rule 'fpr_groups' asks for the error over classes, which is the fnr of each; "
        "write metric: fnr",
    ),
    "groups chosen over classes": (
        "metric: fpr, over: groups",
        "metric: fpr, over: classes, exclude: [sex=male]",
        "gate.yaml:6 rule 'fpr_groups' asks over classes and chooses groups with exclude; write "
        "over: groups or remove exclude",
    ),
    "attributes of all": (
        "over: groups",
        "over: all, attributes: [sex]",
        "gate.yaml:6 rule 'fpr_groups' asks over all and chooses groups with attributes; write "
        "over: groups or remove attributes",
    ),
    "no attribute": (
        "over: groups",
        "over: groups, attributes: []",
        "gate.yaml:6 rules.0.attributes must hold at least one entry, got none",
    ),
    "fewer than no examples": (
        "over: groups",
        "over: groups, min_examples: -1",
        "gate.yaml:6 rules.0.min_examples must be at least 0, got -1",
    ),
    "a margin coarser than everything": (
        "alpha: 0.05",
        "coarsest: 10",
        "gate.yaml:1 coarsest must be less than 1.0, got 10",
    ),
    "no models": (
        "models: 5",
        "models: 0",
        "gate.yaml:3 min.models must be at least 1, got 0",
    ),
    "a key twice": (
        "correct: holm",
        "alpha: 0.01",
        "gate.yaml:2 alpha stands twice; keep one of them",
    ),
    "no list": ("rules:\n", "rules: 3\nwavers:\n", "gate.yaml:5 rules should be a valid array"),
}


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_rules(text, "gate.yaml")
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_whole_file_is_read() -> None:
    found = parse_rules(WHOLE, "gate.yaml")
    assert [rule.id for rule in found.rules] == ["fpr_groups", "cie", "classes", "slices"]
    assert found.waivers[0].until.isoformat() == "2027-03-01"
    assert (found.min.effective_events, found.min.models) == (10, 5)


def test_what_a_file_leaves_out_has_its_default() -> None:
    rules = parse_rules("rules: [{id: fpr, metric: fpr, max_increase: {relative: 0.2}}]", "g.yaml")
    assert (rules.alpha, rules.correct, rules.on_unsure) == (0.05, "holm", "warn")
    assert (rules.min.effective_events, rules.min.models) == (10, 1)
    assert (rules.coarsest, rules.must, rules.waivers) == (0.10, [], [])
    (rule,) = rules.rules
    assert isinstance(rule, ChangeRule)
    assert (rule.over, rule.attributes, rule.exclude, rule.min_examples) == ("groups", None, [], 0)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_sentence_with_its_line(name: str) -> None:
    old, new, sentence = FAULTS[name]
    assert WHOLE.count(old) >= 1
    assert refused(WHOLE.replace(old, new, 1)).startswith(sentence)


def test_every_fault_is_named_at_once() -> None:
    said = refused(WHOLE.replace("alpha: 0.05", "alpha: 5").replace("max: 0.01", "max: 2"))
    assert re.findall(r"gate\.yaml:(\d+)", said) == ["1", "7"]


@pytest.mark.parametrize("text", ["", "- 1", "[1", "a: *b", "1", "\x00", "? [1]\n: 2\n"])
def test_what_is_no_gate_file_is_refused(text: str) -> None:
    assert refused(text).startswith("gate.yaml")


@given(text=st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    said = ""
    try:
        parse_rules(text, "gate.yaml")
    except ConfigError as error:
        said = str(error)
    assert "\n" not in said


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match=r"gate file .* cannot be read: No such file"):
        load_rules(tmp_path / "nowhere.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"rules: [{id: \xe9}]")
    with pytest.raises(ConfigError, match="cannot be read: it is not UTF-8 text"):
        load_rules(tmp_path / "latin.yaml")


DEFAULTS = {
    # positive class, groups, fewer than five models: the rules
    (True, True, False): ["fpr_groups", "fnr_groups", "cie"],
    (True, True, True): ["fpr_groups", "fnr_groups"],
    (True, False, False): ["fpr_all", "fnr_all", "cie"],
    (True, False, True): ["fpr_all", "fnr_all"],
    (False, True, False): ["error_groups", "cie", "classes"],
    (False, True, True): ["error_groups", "classes"],
    (False, False, False): ["error_all", "cie", "classes"],
    (False, False, True): ["error_all", "classes"],
}


@pytest.mark.parametrize("kind", DEFAULTS)
def test_the_default_rules_ask_what_an_audit_can_answer(kind: tuple[bool, bool, bool]) -> None:
    """The recalls of two classes are FPR and FNR; without groups all examples are judged."""
    positive, groups, shipped = kind
    rules = default_rules(positive=positive, groups=groups, shipped=shipped).rules
    assert [rule.id for rule in rules] == DEFAULTS[kind]
    over = {rule.over for rule in rules if isinstance(rule, ChangeRule)}
    assert over == {"groups" if groups else "all"}


@pytest.mark.parametrize("kind", DEFAULTS)
def test_the_default_rules_carry_margins(kind: tuple[bool, bool, bool]) -> None:
    positive, groups, shipped = kind
    found = default_rules(positive=positive, groups=groups, shipped=shipped)
    assert (found.alpha, found.correct, found.on_unsure) == (0.05, "holm", "warn")
    for rule in found.rules:
        limits = rule.model_dump(include={"max", "margin"})
        if "max_increase" in rule.model_fields_set:
            limits = rule.model_dump()["max_increase"]
            assert limits == {"relative": 0.2, "absolute": 0.005}
        assert all(limit > 0 for limit in limits.values())


# --- what editors complete from -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["config", "gate"])
def test_every_key_of_a_schema_that_is_ours_refuses_others(kind: str) -> None:
    found = file_schema(kind)
    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    open_to_others = {
        name
        for name, part in {**found["$defs"], "": found}.items()
        if part.get("type") == "object" and part.get("additionalProperties") is not False
    }
    assert open_to_others == ({"GroupSection"} if kind == "config" else set())


def test_the_schema_takes_the_whole_gate_file_and_refuses_its_faults() -> None:
    validator = Draft202012Validator(file_schema("gate"))

    def valid(text: str) -> bool:
        values = yaml.load(text, Loader=yaml.BaseLoader)  # days stay text, as editors read them
        return bool(validator.is_valid(_numbers(values)))

    assert valid(WHOLE)
    for name in ("an unknown key", "an unknown metric", "no metric", "a limit below zero"):
        old, new, _ = FAULTS[name]
        assert not valid(WHOLE.replace(old, new, 1)), name


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    try:
        return float(value) if "." in value else int(value)
    except ValueError:
        return value


def test_the_model_is_what_the_schema_says() -> None:
    assert file_schema("gate")["properties"].keys() == GateRules.model_fields.keys()


def test_every_rule_has_an_entry_in_the_table_of_kinds() -> None:
    classes = get_args(get_args(Rule)[0])
    named = {one for rule in classes for one in get_args(rule.model_fields["metric"].annotation)}
    assert named == set(METRICS)
    assert {name.partition(" ")[0] for name in KINDS} == set(METRICS) - set(LEVEL_METRICS)
