"""Whom compression harms most, in worlds whose numbers are counted by hand."""

from __future__ import annotations

import datetime
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from scotoma.audit import Audit
from scotoma.audit.findings import Findings
from scotoma.audit.reading import LoggedAudit
from scotoma.bias import amplification, gap
from scotoma.document.jsonable import jsonable
from scotoma.document.text import document_text
from scotoma.impact.groups_section import whom
from scotoma.impact.worst_change import (
    _p_beyond_rest,
    gap_words,
    highest_error,
    largest_gap,
    shown_gaps,
    worst_change,
)
from scotoma.report.summary import summary
from scotoma.tracking.trend import audited
from scotoma.verdict.frontier import frontier_rows
from scotoma.verdict.section import verdict_section
from tests.helpers.audits import gate_file, rows_at, whole
from tests.helpers.sections import table, texts

# Examples, errors of the dense model, errors of the compressed one: the dense errors stay.
WORLD = {
    "majority": (4000, 56, 100),  # +1.10 points, +78.6%
    "minority": (1200, 120, 160),  # +3.33 points, +33.3%
}


def told(audit: Audit) -> str:
    """What the terminal says of an audit."""
    return document_text(summary(audit, gate_file({"variants": [{"name": "v"}]})))


def line_of(audit: Audit) -> str:
    """The line of the compressed variant on the terminal."""
    (line,) = (one for one in told(audit).split("\n") if one.split()[1:2] == ["v"])
    return line


KNOWN = {"value": 0.9, "low": 0.88, "high": 0.92, "n": 9}


def audit_of(world: dict[str, tuple[int, int, int]]) -> Audit:
    """The audit of one dense model and a compressed copy of it."""
    group = np.repeat(list(world), [n for n, _, _ in world.values()])
    dense, compressed = (
        np.concatenate([np.arange(counts[0]) < counts[which] for counts in world.values()])
        for which in (1, 2)
    )
    masks = {"all": group == group} | {name: group == name for name in world}
    y, before, after = np.zeros(len(group), int), dense[:, None] * 1, compressed[:, None] * 1
    changes = amplification(
        y, before, after, np.stack(list(masks.values())), list(masks), n_classes=2, paired=True
    )
    first, second, *_ = list(world)
    contrast = gap(
        y, before, after, masks[first], masks[second],
        names=(first, second), n_classes=2, paired=True,
    )  # fmt: skip
    subgroups = [vars(row) for row in changes if row.class_id is None]
    facts = {"attribute": "kind", "group_a": first, "group_b": second}
    address = {"variant": "v", "metric": "error", "facts": facts}
    content: dict[str, Any] = {
        "variants": [{"name": "dense", "members": 1}, {"name": "v", "members": 1}],
        "groups": [
            {"key": name, "name": name, "n": int(mask.sum())} for name, mask in masks.items()
        ],
        "examples": {"test": len(group), "clusters": len(group)},
        "subgroups": {"v": subgroups},
        "rows": {"gaps": rows_at(address, jsonable(contrast) | {"p": 0.01, "p_adjusted": None})},
        "accuracy": {"dense": {"top1": KNOWN}, "v": {"top1": KNOWN}},
        "divergence": {"v": {"cie": {"paired": True}, "flips": KNOWN}},
    }
    return whole(jsonable(content))


def worst_group(audit: Audit) -> str | None:
    worst = worst_change(audit, "v")
    return worst["absolute"].group if worst else None


def test_the_most_affected_group_has_the_largest_rise_in_points_not_the_largest_ratio() -> None:
    audit = audit_of(WORLD)
    _, majority, minority = audit.at("rates", "v")
    assert [own["relative"].group for own in (majority, minority)] == ["majority", "minority"]
    # A ratio would name the majority, whose error was low.
    first, second = majority["relative"].number, minority["relative"].number
    assert first.value == pytest.approx(25 / 14 - 1)
    assert second.value == pytest.approx(40 / 30 - 1)
    assert (first.low or 0.0) > (second.low or 0.0)
    worst = worst_change(audit, "v")
    assert worst == minority
    assert worst["absolute"].number.value == pytest.approx(10 / 300)


def test_the_surest_rise_counts_and_not_the_largest() -> None:
    # 150 of 3,000 flip: +5.0 points, about ±0.8. 10 of 100 flip: +10 points, about ±6.
    audit = audit_of({"sure": (3000, 300, 450), "small": (100, 20, 30), "calm": (3000, 300, 300)})
    small = audit.at("rates", "v")[2]
    assert small["absolute"].number.value == pytest.approx(0.1)  # more than 5.0 points
    assert worst_group(audit) == "sure"


def test_a_loss_that_all_share_names_no_group() -> None:
    """Both lose 5 points, surely: neither is more affected than the other."""
    audit = audit_of({"men": (2000, 200, 300), "women": (2000, 200, 304)})
    rises = audit.numbers("rates", "v", what="absolute")
    assert all((row.number.low or 0.0) > 0.03 for row in rises)
    assert worst_group(audit) == "all"
    assert line_of(audit).endswith("  all (+51.0%)")


def test_the_comparison_with_the_rest_agrees_with_the_measured_gap() -> None:
    """From the rows of audit.json alone; the gap between two groups has their influences."""
    for women in (143, 150, 165):
        audit = audit_of({"men": (2000, 200, 300), "women": (1000, 100, women)})
        gap = audit.at("gaps", "v")[0]["gap"].number
        z = (gap.value or 0.0) / (gap.se or 1.0)
        whole, own, women_row = audit.at("rates", "v")
        for row, sign in ((own, -1), (women_row, 1)):
            p = _p_beyond_rest(audit, row, whole)
            assert NormalDist().inv_cdf(1 - p) == pytest.approx(sign * z, abs=0.15)


def test_groups_that_lose_alike_are_seldom_named() -> None:
    """Four groups with one true loss; after Holm 2.5% are expected, and at most 8 of 150 bar."""
    rng = np.random.default_rng(0)
    named = 0
    for _ in range(150):
        world = {}
        for place, n in enumerate((300, 600, 900, 1500)):
            errors = int(rng.binomial(n, 0.1))
            world[f"g{place}"] = (n, errors, errors + int(rng.binomial(n - errors, 0.08)))
        named += worst_group(audit_of(world)) != "all"
    assert named <= 8


@pytest.mark.parametrize(("flips", "named"), [(9, "all"), (10, "small")])
def test_a_rise_that_fewer_than_ten_examples_carry_is_never_the_worst(
    flips: int, named: str
) -> None:
    audit = audit_of({"large": (2000, 20, 50), "small": (30, 0, flips)})
    small = audit.at("rates", "v")[-1]
    assert small["compressed"].number.effective_events == pytest.approx(flips)
    assert (small["absolute"].number.low or 0.0) > 0.1
    assert worst_group(audit) == named
    highest = highest_error(audit, "v")
    assert highest is not None
    assert highest["compressed"].group == named


def test_the_highest_error_need_not_be_the_one_that_rises() -> None:
    audit = audit_of({"steady": (400, 200, 200), "harmed": (400, 20, 60)})
    highest, worst = highest_error(audit, "v"), worst_change(audit, "v")
    assert highest is not None
    assert worst is not None
    rate = highest["compressed"]
    assert (rate.group, worst["absolute"].group) == ("steady", "harmed")
    assert (rate.number.value, rate.number.n) == (pytest.approx(0.5), 400)


@pytest.mark.parametrize("world", [WORLD, dict(reversed(WORLD.items()))])
def test_the_largest_gap_names_first_the_group_whose_error_rises_more(
    world: dict[str, tuple[int, int, int]],
) -> None:
    found = largest_gap(audit_of(world), "v")
    assert found is not None
    facts, number = found["gap"].facts, found["gap"].number
    assert (facts["group_b"], facts["group_a"]) == ("minority", "majority")
    assert number.value == pytest.approx(10 / 300 - 11 / 1000)
    assert found["rise_b"].number.value == pytest.approx(10 / 300)
    assert found["rise_a"].number.value == pytest.approx(11 / 1000)
    # Independent groups whose flips all go one way: p (1 - p) / n each.
    variance = sum(p * (1 - p) / n for p, n in ((10 / 300, 1200), (11 / 1000, 4000)))
    assert number.low is not None
    assert number.high is not None
    assert number.high - number.low >= 2 * 1.95 * variance**0.5


def test_without_intervals_nobody_is_the_worst() -> None:
    audit = whole({"variants": [{"name": "dense"}, {"name": "v"}]})
    assert worst_change(audit, "v") is None
    assert highest_error(audit, "v") is None
    assert largest_gap(audit, "v") is None


def test_terminal_and_page_give_points_first_and_the_ratio_beside_them() -> None:
    audit = audit_of(WORLD)
    line = line_of(audit)
    assert "+3.3 [+" in line
    assert line.endswith("minority (+33.3%)")
    findings = Findings(audit, None, "v")
    (row,) = texts(table(verdict_section(findings), "variants"))
    assert row[-1].startswith("+3.33 [")
    assert "(error of minority; n " in row[-1]
    text = " ".join(whom(findings))
    assert "Highest error after compression: minority, 13.33% [" in text
    assert "], n 1,200." in text
    assert "Most affected: error of minority, +3.33 [" in text
    (sentence,) = [gap_words(audit, gap) for gap in shown_gaps(audit, "v")]
    assert sentence.startswith("error rises 2.2 points [")
    assert sentence[1:] in text
    assert sentence in " ".join(told(audit).split())


def test_the_frontier_and_the_trend_name_the_same_group_in_points() -> None:
    audit, gate = audit_of(WORLD), gate_file({"variants": [{"name": "v", "verdict": "FAIL"}]})
    row = frontier_rows(audit, gate, {})[1].worst
    assert row is not None
    at = datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC)
    (measured,) = audited(LoggedAudit(at, "finished", "run", "", audit, gate)).variants
    assert (row.group, measured["where"]) == ("minority", "error minority")
    assert row.absolute == measured["worst"]
    assert row.relative == measured["worst_relative"]
    assert row.absolute.value == pytest.approx(10 / 300)
    assert row.relative.value == pytest.approx(1 / 3)
