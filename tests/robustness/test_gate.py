"""The gate's rule on corrupted pictures: shown, ruled out, or what would decide."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from scotoma.audit.base import rows_at
from scotoma.config.gate import parse_rules
from scotoma.errors import ConfigError
from scotoma.numbers import Variance, of_variance, undefined
from scotoma.verdict.gate_section import rule_words
from tests.helpers.audits import judge

RULE = """\
rules:
  - {id: robust, metric: robustness_loss, scale: relative, over: groups, kinds: [noise],
     max_increase: {points: 2.0}}
"""


def content(relative: float, deviation: float, n: int = 600) -> dict[str, Any]:
    """An audit of one group whose loss on noise, a fraction, has this standard error."""
    parts = deviation**2 * 0.8, deviation**2 * 0.3, deviation**2 * 0.1
    variance = Variance(deviation**2, *parts, df=20.0)
    estimate = of_variance(relative, variance, n=n, members=10, events=200.0)
    nothing = undefined("not asked", n=n, members=10)
    numbers = {"absolute": nothing, "relative": estimate, "log_odds": nothing}
    address = {"variant": "prune-0.9", "group": "sex=male", "metric": "error"}
    address["facts"] = {"family": "noise"}
    others = [{}, {"group": "all"}, {"facts": {"family": "blur"}}, {"metric": "fpr"}]
    rows = [
        row | {"number": row["number"].as_dict()}
        for other in others
        for row in rows_at(address | other, numbers, "losses.", {"relative": variance.as_dict()})
    ]
    report = {
        "corruptions": [{"kind": "shot_noise", "family": "noise", "standard": True}],
        "severities": [1],
    }
    return {
        "variants": [{"name": "dense", "members": 10}, {"name": "prune-0.9", "members": 10}],
        "groups": [{"key": "all", "name": "all"}, {"key": "sex=male", "name": "male"}],
        "divergence": {"prune-0.9": {}},
        "robustness": report,
        "rows": {"robustness": rows},
    }


@pytest.mark.parametrize(
    ("relative", "deviation", "verdict"),
    [(0.06, 0.01, "FAIL"), (0.001, 0.005, "PASS"), (0.004, 0.0085, "UNSURE")],
)
def test_a_loss_is_judged_on_the_declared_scale(
    relative: float, deviation: float, verdict: str
) -> None:
    gate = judge(content(relative, deviation), parse_rules(RULE, "g"), datetime.date(2027, 1, 1))
    (finding,) = gate.variants[0].tests
    assert finding.verdict == verdict
    assert finding.where == "relative robustness lost under noise by male"
    if verdict == "UNSURE":
        (said,) = gate.variants[0].sentences
        assert "margin +2.00 points, probably harmless" in said
        assert "test examples would settle it (600 now)" in said or "models would settle it" in said


def test_a_group_of_few_examples_is_too_small_to_judge() -> None:
    rules = parse_rules(RULE, "g")
    gate = judge(content(0.01, 0.02, n=30), rules, datetime.date(2027, 1, 1))
    (finding,) = gate.variants[0].tests
    assert (finding.verdict, finding.reason) == (
        "NOT JUDGED",
        "30 corrupted examples, 50 are needed",
    )
    must = parse_rules("must: [sex]\n" + RULE, "g")
    assert judge(content(0.01, 0.02, n=30), must, datetime.date(2027, 1, 1)).verdict == "UNSURE"


def test_without_corrupted_pictures_nothing_is_judged() -> None:
    bare = content(0.01, 0.02) | {"robustness": None, "rows": {}}
    gate = judge(bare, parse_rules(RULE, "g"), datetime.date(2027, 1, 1))
    assert gate.verdict == "UNSURE"
    assert "add robustness to its configuration" in gate.variants[0].tests[0].reason


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("noise]", "nois]", "'noise'"),
        ("{points: 2.0}", "{relative: 0.2}", "points"),
        ("scale: relative", "scale: log_odds", "'absolute' or 'relative'"),
    ],
)
def test_a_wrong_rule_is_refused(old: str, new: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_rules(RULE.replace(old, new), "g")
    assert sentence in str(refused.value)


def test_the_rule_reads_as_a_sentence() -> None:
    (rule,) = parse_rules(RULE, "g").rules
    assert rule_words(rule) == (
        "any group loses more relative robustness under noise than with dense models, by more "
        "than 2 points"
    )


PART = Variance(1e-4, 8e-5, 3e-5, 1e-5, df=20.0)


def rise(value: float, n: int = 600) -> dict[str, Any]:
    return of_variance(value, PART, n=n, members=10).as_dict()


PICTURES = [
    {"variant": "prune-0.9", "group": group, "facts": facts, "what": f"confidence.{what}",
     "number": rise(change)}
    for group, facts, what, change in [
        ("all", {"family": "noise"}, "rows.gap_change", 0.06),
        ("all", {"family": "clean"}, "rows.gap_change", 0.9),
        ("all", {"family": "all"}, "rows.gap_change", 0.9),
        ("sex=male", {"family": "noise"}, "rows.gap_change", 0.0),
        ("all", {"pictures": "noise", "measure": "confidence"}, "detection.auroc_change", -0.06),
        ("all", {"pictures": "noise", "measure": "energy"}, "detection.auroc_change", -0.06),
        ("all", {"name": "noise", "measure": "confidence"}, "detection.auroc_change", 0.0),
    ]
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "where", "verdict"),
    [
        ("overconfidence", "confidence less accuracy under noise", "FAIL"),
        ("overconfidence, over: groups", "confidence less accuracy of male under noise", "PASS"),
        ("overconfidence, kinds: [all]", "confidence less accuracy under corruption", "FAIL"),
        ("unnoticed_pictures", "corrupted pictures that pass as familiar under noise", "FAIL"),
        ("unnoticed_pictures, kinds: [blur]", None, "UNSURE"),
        ("unnoticed_pictures, over: groups", None, "UNSURE"),
    ],
)  # fmt: skip
def test_confidence_is_judged_beside_dense(rule: str, where: str | None, verdict: str) -> None:
    one = content(0.0, 0.01)
    one["rows"]["robustness"] += PICTURES
    text = f"rules: [{{id: pictures, metric: {rule}, max_increase: {{points: 3.0}}}}]"
    rules = parse_rules(text, "g")
    gate = judge(one, rules, datetime.date(2027, 1, 1))
    (finding,) = gate.variants[0].tests
    assert finding.verdict == verdict
    if where is not None:
        assert finding.where == where
    if verdict == "UNSURE":
        assert "to robustness" in finding.reason
    assert rule_words(rules.rules[0]).endswith("by more than 3 points")


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("overconfidence, scale: relative", "scale"),
        ("tempered_overconfidence", "got 'tempered_overconfidence'; did you mean 'overconfidence'"),
        ("sequence_flips", "got 'sequence_flips'"),
        ("activations_beyond", "got 'activations_beyond'"),
    ],
)
def test_keys_of_other_metrics_and_metrics_that_left_are_refused(rule: str, sentence: str) -> None:
    text = f"rules: [{{id: pictures, metric: {rule}, max_increase: {{points: 3.0}}}}]"
    with pytest.raises(ConfigError) as refused:
        parse_rules(text, "g")
    assert sentence in str(refused.value)
