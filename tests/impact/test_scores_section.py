"""What the sections of an audit of scores show: cells of their tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scotoma.audit.findings import Findings
from scotoma.document import Column, Section, Table
from scotoma.impact.scores_section import (
    examples_section,
    means_section,
    quantiles_section,
    scored_cells,
    scored_columns,
)
from tests.helpers.audits import rows_at, whole
from tests.helpers.sections import kept, scored, table, texts


def number(value: float, n: int = 300, **more: Any) -> dict[str, Any]:
    return {"value": value, "low": value - 0.5, "high": value + 0.75, "n": n} | more


def change(variant: str, group: str, by: float, p: float | None = 0.004) -> list[dict[str, Any]]:
    numbers = {
        "means.dense": number(20.0),
        "means.compressed": number(20.0 + by),
        "means.absolute": number(by),
        "means.worse": number(by, se=0.1),
        "means.relative": {
            "value": by / 20,
            "low": by / 20 - 0.005,
            "high": by / 20 + 0.0075,
            "n": 299,
        },
        "means.p_adjusted": p,
    }
    return rows_at({"variant": variant, "group": group}, numbers)


def quantile(group: str, share: float, by: float) -> list[dict[str, Any]]:
    ends = {"dense": number(18.0), "compressed": number(18.0 + by), "absolute": number(by)}
    address = {"variant": "pruned", "group": group, "facts": {"share": share}}
    return rows_at(address, {f"quantiles.{what}": one for what, one in ends.items()})


CONTENT = {
    "variants": [{"name": "dense"}, {"name": "int8"}, {"name": "pruned"}],
    "groups": [{"key": "all", "name": "everyone"}, {"key": "s=f", "name": "women"},
               {"key": "s=m", "name": "men"}],
    "rows": {"scores": [
        *change("int8", "all", 0.25, None), *change("pruned", "all", 2.0),
        *change("pruned", "s=m", 1.0), *change("pruned", "s=f", 4.0),
        *(row for g in ("all", "s=m", "s=f") for share in (0.1, 0.5)
          for row in quantile(g, share, 1.5)),
    ]},
}  # fmt: skip
SCORES: dict[str, Any] = {
    "name": "wer",
    "unit": "%",
    "shown": 12,
    "examples": {
        "int8": [],
        "pruned": [{"example_id": "call-7", "dense": 12.5, "compressed": 60.25,
                    "attributes": {"sex": "f", "site": "s1"}}],
    },
}  # fmt: skip


@pytest.fixture
def findings() -> Findings:
    return Findings(scored(CONTENT, SCORES), focus="pruned")


def made(section: Section | None) -> Section:
    assert section is not None
    return section


def test_means_of_all_examples_stand_before_the_groups_whose_loss_is_surest(
    findings: Findings,
) -> None:
    means = table(made(means_section(findings)), "means")
    rows = texts(means)
    assert [row[:2] for row in rows] == [
        ["pruned", "everyone"],
        ["pruned", "women"],
        ["pruned", "men"],
        ["int8", "everyone"],
    ]
    assert rows[1] == [
        "pruned", "women", "300", "20.00 [19.50, 20.75]", "24.00 [23.50, 24.75]",
        "+4.000 [+3.500, +4.750]", "+20.0% [+19.5, +20.8]", "0.004",
    ]  # fmt: skip
    assert rows[3][-1] == ""
    assert "compressed / dense - 1" in means.note
    assert means.columns[3].title == "Dense, %"


def test_what_happens_to_all_examples_is_said(findings: Findings) -> None:
    assert made(means_section(findings)).answer[0] == (
        "The mean wer of all examples goes from 20.00 to 22.00 %: +2.000 [+1.500, +2.750]."
    )


def test_where_higher_is_better_worse_is_the_other_way_round() -> None:
    other = scored(CONTENT, SCORES | {"lower_is_better": False})
    means = table(made(means_section(Findings(other, focus="pruned"))), "means")
    assert "dense / compressed - 1" in means.note


def test_examples_have_both_scores_and_their_features(findings: Findings) -> None:
    section = made(examples_section(findings))
    assert texts(table(section, "examples")) == [
        ["pruned", "call-7", "12.50", "60.25", "sex f; site s1"]
    ]
    assert section.answer[0].startswith("At most 12 a variant")
    none = scored(CONTENT, SCORES | {"examples": {"int8": [], "pruned": []}})
    assert examples_section(Findings(none)) is None


def test_quantiles_stand_in_the_order_of_the_means(findings: Findings) -> None:
    rows = texts(table(made(quantiles_section(findings)), "quantiles"))
    assert [row[1:3] for row in rows] == [
        ["everyone", "10%"], ["everyone", "50%"], ["women", "10%"], ["women", "50%"],
        ["men", "10%"], ["men", "50%"],
    ]  # fmt: skip
    assert rows[2][3:] == ["300", "18.00 [17.50, 18.75]", "19.50 [19.00, 20.25]",
                           "+1.500 [+1.000, +2.250]"]  # fmt: skip


def test_a_verdict_shows_the_mean_and_the_group_that_gets_worse_most(findings: Findings) -> None:
    audit = findings.audit
    columns = (Column("variant", "Variant"), *scored_columns(audit))
    rows = [{"variant": name, **scored_cells(audit, name)} for name in ("pruned", "int8")]
    assert texts(Table("t", "", columns, rows))[0][1:3] == [
        "22.00 [21.50, 22.75] (dense 20.00; n 300)",
        "+10.0% [+9.5, +10.8]",
    ]
    assert columns[1].title == "Mean, %"


def test_examples_with_classes_have_none_of_it() -> None:
    plain = Findings(whole(CONTENT))
    assert means_section(plain) is examples_section(plain) is quantiles_section(plain) is None


@pytest.mark.parametrize("make", [means_section, examples_section, quantiles_section])
def test_it_says_what_a_reviewer_has_read(
    findings: Findings, make: Callable[[Findings], Section | None]
) -> None:
    said, read = kept(made(make(findings)))
    assert said == read
