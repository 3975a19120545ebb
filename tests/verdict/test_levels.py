"""Rules about levels: what they refuse, what they rest on, and one bad model among good ones."""

from __future__ import annotations

import datetime
import json
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from scotoma.audit.findings import Findings
from scotoma.audit.gate import TestResult as Answer
from scotoma.audit.reading import parse_gate
from scotoma.bias.clarify import METRICS, all_metrics
from scotoma.bias.clarify.estimates import member_metrics
from scotoma.bias.fairness import NAMES
from scotoma.bias.member_fairness import MOST_GROUPS, member_fairness
from scotoma.config.gate import parse_rules
from scotoma.config.gate_levels import LEVEL_METRICS, OF_LABELS, neutral
from scotoma.document.jsonable import jsonable
from scotoma.errors import ConfigError
from scotoma.numbers import Estimate
from scotoma.tracking.records import audit_records
from scotoma.verdict.documents import junit, markdown
from scotoma.verdict.gate_section import gate_section
from scotoma.verdict.levels import mean_of_runs, next_run, spread_of
from tests.helpers.audits import addresses, judge, rows_at, whole
from tests.helpers.sections import table

TODAY = datetime.date(2027, 3, 1)
SEX = {"attribute": "sex", "disadvantaged": "sex=female", "advantaged": "sex=male"}
GROUPS = ("all", "sex=female", "sex=male")


def rules(text: str, more: str = "") -> Any:
    return parse_rules(f"rules: [{{id: level, {text}}}]\n{more}", "gate.yaml")


def measured(predicted: np.ndarray[Any, Any], women: np.ndarray[Any, Any]) -> dict[str, Any]:
    """An audit of what int8 models predict, which are the dense ones; every label is 1 or 0."""
    labels = np.arange(len(women)) % 4 < 2
    hits = predicted.astype(bool)
    mean = all_metrics(d=women, y=labels, p=hits, only=["DI", "RD"])
    member = member_metrics(d=women, y=labels, p=hits, only=["DI", "RD"])
    fair = member_fairness(
        labels.astype(int), hits.astype(int), [women, ~women], n_classes=2, class_id=1
    )
    rows = [
        {"variant": "int8", "metric": name, "facts": SEX, "what": what, "number": one.as_dict()}
        | ({"models": values, "models_se": se} if what == "compressed" else {})
        for (name, one), (values, se) in zip(mean.items(), member.values(), strict=True)
        for what in ("dense", "compressed")
    ]
    runs = [
        {"variant": variant, "metric": name, "facts": {"attribute": "sex"}, "what": "mean",
         "number": {"reason": one.reason}, "models": one.values, "models_se": one.se}
        for variant in ("dense", "int8") for name, one in fair.items()
    ]  # fmt: skip
    names = ("dense", "int8")
    content = {
        "groups": [{"key": key, "name": key.rpartition("=")[2]} for key in GROUPS],
        "variants": [{"name": name, "members": hits.shape[1]} for name in names],
        "examples": {"test": len(women), "clusters": len(women)},
        "rows": {"clarify": rows, "fairness": runs},
    }
    found: dict[str, Any] = json.loads(json.dumps(jsonable(content)))
    return found


def population(impacts: Any, n: int = 6_000, seed: int = 0) -> dict[str, Any]:
    """Men are accepted by half, women by as much times the impact of each model."""
    rng = np.random.default_rng(seed)
    women = np.arange(n) % 2 == 0
    chance = np.where(women[:, None], 0.5 * np.asarray(impacts), 0.5)
    shared, own = rng.random((n, 1)), rng.random(chance.shape)
    # A model follows the opinion that all share on four examples of five.
    opinion = np.where(rng.random(chance.shape) < 0.8, shared, own)
    return measured(opinion < chance, women)


def only(audit: dict[str, Any], text: str) -> Answer:
    (variant,) = judge(audit, rules(text), TODAY).variants
    (finding,) = variant.tests
    return finding


# --- the rules ------------------------------------------------------------------------------------


def test_every_metric_of_clarify_and_of_the_study_can_be_held() -> None:
    assert (*(f"clarify.{n}" for n in METRICS), *(f"fairness.{n}" for n in NAMES)) == LEVEL_METRICS
    assert [neutral(f"clarify.{name}") for name in METRICS] == [m.neutral for m in METRICS.values()]
    labels = [f"clarify.{name}" for name, m in METRICS.items() if m.stage == "pre-training"]
    assert list(OF_LABELS) == labels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metric: DI, min: 0.8", "must say which DI, got 'DI'; write clarify.DI, fair at 1 or "
         "fairness.DI, fair at 0"),
        ("metric: EOTP, max: 0.1", "must say which EOTP, got 'EOTP'; write fairness.EOTP"),
        ("metric: fairness.DI, min: 0.8", "forbids fairness: fairness.DI is 0 where groups are "
         "treated alike, got min: 0.8; write max or clarify.DI, which is fair at 1"),
        ("metric: clarify.DI", "rule 'level' needs min, max or both"),
        ("metric: clarify.DI, min: 0.9, max: 0.8", "min 0.9 above max 0.8"),
        ("metric: clarify.CI, max: 0.5, of: mean", "describes the training data; remove of"),
        ("metric: fairness.DP, max: 0.5, of: mean, next_runs: 3", "asks for no single run"),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_meant_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=r"gate\.yaml:1 .*") as refused:
        rules(text)
    assert message in str(refused.value)


def test_a_verdict_keeps_its_rules_with_every_default_filled_in() -> None:
    audit = population([0.9] * 5, n=400)
    chosen = rules("metric: clarify.CI, max: 0.5")
    text = judge(audit, chosen, TODAY).model_dump_json(by_alias=True)
    assert parse_gate(text.encode(), "gate.json").rules == chosen


# --- what a PASS rests on -------------------------------------------------------------------------


def test_one_next_run_has_the_classical_prediction_interval() -> None:
    """mean +- t s sqrt(1 + 1/n), of values whose examples add nothing (Hahn and Meeker, 4.4)."""
    values = [51.4, 49.5, 48.7, 49.3, 51.6]  # their example: mean 50.10, s 1.31
    mean = Estimate.on_scale(50.1, 1.31 / math.sqrt(5) + 1e-4, 4.0, n=9, members=5)
    spread = spread_of(values, mean, single=True)
    assert spread is not None
    one = next_run(mean, spread)
    assert (one.low, one.high) == pytest.approx((46.1, 54.1), abs=0.05)


def test_all_of_the_next_runs_lie_within_as_often_as_is_said() -> None:
    """Against 2,000 populations of 8 runs, and 16 more: the bound is to hold in 97.5% and more."""
    rng, held = np.random.default_rng(5), 0
    for _ in range(2_000):
        values, examples = rng.normal(0.9, 0.02, 8), rng.normal(0, 0.01)
        mean = Estimate.on_scale(
            float(values.mean()), math.hypot(values.std(ddof=1) / math.sqrt(8), 0.01), 20.0,
            n=900, members=8,
        )  # fmt: skip
        spread = spread_of(list(values), mean, single=True)
        assert spread is not None
        low = next_run(mean, spread).at(1 - 2 * 0.025 / 16).low
        held += (rng.normal(0.9, 0.02, 16) + examples).min() >= low
    assert 0.968 <= held / 2_000 <= 0.997


def test_the_mean_of_lifted_values_takes_nothing_off_for_averaging() -> None:
    mean = mean_of_runs([0.1] * 20, [0.03] * 20, n=500, reason="")
    assert mean.se == pytest.approx(0.03)


# --- verdicts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_one_bad_model_of_16_is_found_and_none_where_there_is_none(seed: int) -> None:
    """benchmarks/levels.py has 200 populations of each."""
    rng = np.random.default_rng(seed)
    good = rng.normal(0.9, 0.01, 16)
    found = only(population([*good[:15], 0.6], seed=seed), "metric: clarify.DI, min: 0.8")
    assert found.verdict == "FAIL"
    assert found.decided_by is not None
    assert found.decided_by.subject == "member 15"
    assert found.decided_by.interval.high < 0.8
    assert only(population(good, seed=seed), "metric: clarify.DI, min: 0.8").verdict != "FAIL"
    held = only(population(good, seed=seed), "metric: clarify.DI, min: 0.7")
    assert held.verdict == "PASS"
    assert held.decided_by is not None
    assert held.decided_by.subject == "the next 16 runs"
    assert held.decided_by.interval.low > 0.7
    # The mean forgives the one model.
    forgiving = "metric: clarify.DI, min: 0.7, of: mean"
    assert only(population([*good[:15], 0.6], seed=seed), forgiving).verdict == "PASS"


def test_few_models_leave_it_open_and_say_how_many_would_settle_it() -> None:
    rng = np.random.default_rng(2)
    asked = "metric: clarify.DI, min: 0.72"
    few = only(population(rng.normal(0.9, 0.02, 3)), asked)
    assert few.verdict == "UNSURE"
    assert few.reason.endswith("train at least 5 models, better 16")
    audit = population(rng.normal(0.9, 0.02, 5))
    some = only(audit, asked)
    assert some.verdict == "UNSURE"
    assert "models would settle it (5 now)" in some.outlook.sentence
    wider = only(audit, asked + ", next_runs: 200")
    assert wider.noninferiority_p > some.noninferiority_p


def test_groups_that_are_treated_alike_seldom_break_a_limit_that_chance_lifts_them_over() -> None:
    """Absolute differences of 400 examples are about .04 by chance alone, in every model.

    At most 3 of 15: 99.9% of Binomial(15, .025); over 80 populations 0 to 3 of each.
    """
    failed: Counter[str] = Counter()
    for seed in range(15):
        audit = population([1.0] * 8, n=400, seed=seed)
        for name in ("DP", "FPSF", "EOTP", "BA"):
            for of in ("every_member", "mean"):
                finding = only(audit, f"metric: fairness.{name}, max: 0.005, of: {of}")
                assert finding.verdict != "PASS"
                failed[f"{name} of {of}"] += finding.verdict == "FAIL"
    assert max(failed.values()) <= 3
    unfair = only(population([0.4] * 8), "metric: fairness.DI, max: 0.2")
    assert unfair.verdict == "FAIL"


def test_what_is_undefined_for_one_model_never_passes() -> None:
    audit = population([0.9] * 8)
    (at,) = addresses(audit, "clarify", metric="RD")
    reason = "undefined (no positive labels in the advantaged facet for 1 of 8 members)"
    at["compressed"]["number"] |= dict.fromkeys(("value", "low", "high", "se"), None) | {
        "reason": reason
    }
    finding = only(audit, "metric: clarify.RD, max: 0.9")
    assert (finding.verdict, finding.reason) == ("UNSURE", reason)
    assert finding.noninferiority_p is None
    assert only(audit, "metric: clarify.TE, max: 9").reason == "the audit has no such groups"
    runs = next(row for row in audit["rows"]["fairness"] if row["variant"] == "int8")
    runs["models"][3], runs["number"]["reason"] = None, "undefined (no examples)"
    finding = only(audit, f"metric: fairness.{runs['metric']}, max: 0.9")
    assert (finding.verdict, finding.reason) == ("UNSURE", "undefined (no examples)")


def test_without_the_error_of_many_groups_no_level_passes() -> None:
    audit = population([0.9] * 8)
    for row in audit["rows"]["fairness"]:
        row["models_se"] = [None] * 8
    text = f"metric: fairness.{audit['rows']['fairness'][0]['metric']}, max: 0.9"
    finding = only(audit, text)
    assert finding.verdict == "UNSURE"
    assert finding.reason.endswith("of every member; run the audit again")
    audit["groups"] += [{"key": f"sex={n}", "name": str(n)} for n in range(MOST_GROUPS)]
    finding = only(audit, text)
    assert finding.verdict == "UNSURE"
    assert "of at most 50 groups, and sex has 52; put rare values together" in finding.reason


def test_labels_are_counted_and_not_estimated() -> None:
    audit = population([0.9] * 5, n=400)
    value = {"value": 0.35, "low": 0.1, "high": 0.5, "n": 60, "se": 0.1, "df": 9.0}
    address = {"metric": "CI", "facts": {"split": "training"} | SEX}
    audit["rows"]["clarify"] += rows_at(address, {"labels": value})
    assert only(audit, "metric: clarify.CI, max: 0.3").verdict == "FAIL"
    kept = only(audit, "metric: clarify.CI, max: 0.36")
    assert kept.verdict == "PASS"
    assert kept.decided_by is not None
    assert kept.decided_by.interval.low is None


# --- what readers see -----------------------------------------------------------------------------


def test_every_reader_of_a_verdict_gets_the_level_its_limit_and_the_dense_models() -> None:
    content = population([0.9] * 8 + [0.5])
    gate = judge(content, rules("metric: clarify.DI, min: 0.8, max: 3"), TODAY)
    result = gate
    low, high = result.variants[0].tests
    assert (low.verdict, high.verdict) == ("FAIL", "PASS")
    assert low.level is not None
    assert low.level.worst_member == "member 8"
    assert low.level.dense is not None
    for text in (markdown(gate), junit(gate)):
        assert "clarify.DI of female against male" in text
        assert "member 8: 0." in text
        assert "limit at least 0.800; dense 0." in text
    section = gate_section(Findings(whole(content), result, result.variants[0].name))
    assert section is not None
    first = table(section, "gate").rows[0]
    assert first["margin"] == "at least 0.8"
    assert first["level"] is not None
    int8 = audit_records(whole(content), result, "2027-03", {})[1][0]
    metrics = {name: value for name, value, _ in int8.metrics}
    level = metrics["detail/levels/clarify.DI/sex is female"]
    assert level == (low.level.mean and low.level.mean.value)
