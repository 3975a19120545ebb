"""What the sections on outcomes and on missing answers show: cells of their tables."""

from __future__ import annotations

from typing import Any

from scotoma.audit.findings import Findings
from scotoma.bias.four_fifths import HIGHEST
from scotoma.bias.section import clarify_section, unanswered_section
from scotoma.document import Facts, Section
from tests.helpers.audits import rows_at, whole
from tests.helpers.sections import kept, table, texts, unlabelled

VARIANTS = [{"name": "dense"}, {"name": "int8"}, {"name": "pruned"}]
GROUPS = [{"key": "all", "name": "everyone"}, {"key": "s=f", "name": "women"},
          {"key": "s=m", "name": "men"}]  # fmt: skip
PAIR = {"attribute": "s", "disadvantaged": "s=f", "advantaged": "s=m"}
BOUND = "upper bound only: a distance is never negative, so no interval around it can hold 0"
NEEDS = "not computed (needs label.positive)"


def number(value: float | None, n: int = 0, **more: Any) -> dict[str, Any]:
    ends = {} if value is None else {"low": value - 0.02, "high": value + 0.01}
    return {"value": value, "n": n} | ends | more


def facets(name: str, numbers: dict[str, Any], variant: str | None = None, **more: str) -> Any:
    return rows_at({"variant": variant, "metric": name, "facts": more | PAIR}, numbers)


def model(variant: str, name: str, change: float | None, reason: str = "") -> Any:
    cells = {
        "dense": number(0.2, reason=reason) if change is not None else number(None, reason=reason),
        "compressed": number(0.3) if change is not None else number(None, reason=reason),
        "change": number(change, 700, reason=reason),
    }
    return facets(name, cells, variant)


def selected(variant: str, group: str, n: int, rate: float, ratio: dict[str, Any]) -> Any:
    address = {
        "variant": variant,
        "metric": "selected",
        "group": group,
        "facts": {"attribute": "s"},
    }
    return rows_at(address, {"examples": n, "rate": number(rate), "ratio": ratio})


DATA = [
    *facets("KL", {"labels": number(0.4, 50, note=BOUND)}, split="test"),
    *facets("CI", {"labels": number(0.5, 900)}, split="training"),
]
MODELS = [
    *model("int8", "DPPL", 0.1), *model("int8", "DI", 0.06), *model("int8", "FT", None, NEEDS),
    *model("pruned", "DPPL", -0.04), *model("pruned", "FT", None, NEEDS),
    *selected("dense", "s=m", 400, 0.6, {"value": 1, "low": 1, "high": 1, "note": HIGHEST}),
    *selected("dense", "s=f", 300, 0.4, number(0.66)),
    *selected("int8", "s=m", 400, 0.5, number(0.9)),
]  # fmt: skip


def section(clarify: list[Any], focus: str = "pruned") -> Section:
    audit = whole({"variants": VARIANTS, "groups": GROUPS, "rows": {"clarify": clarify}})
    made = clarify_section(Findings(audit, focus=focus))
    assert made is not None
    return made


SHOWN = section([*DATA, *MODELS])


def test_the_metrics_to_start_with_stand_on_the_page_and_all_others_in_the_file() -> None:
    metrics = table(SHOWN, "clarify")
    assert metrics.most == 3
    assert texts(metrics)[:3] == [
        ["CI", "women", "men", "training labels", "900", "0.500 [0.480, 0.510]", "", "", ""],
        ["DPPL", "women", "men", "pruned", "700", "", "0.200 [0.180, 0.210]",
         "0.300 [0.280, 0.310]", "−0.040 [−0.060, −0.030]"],
        ["DPPL", "women", "men", "int8", "700", "", "0.200 [0.180, 0.210]",
         "0.300 [0.280, 0.310]", "+0.100 [+0.080, +0.110]"],
    ]  # fmt: skip
    assert [row[0] for row in texts(metrics)[3:]] == ["KL", "FT", "DI", "FT"]
    assert texts(metrics)[3][5] == "0.400 [0.380, 0.410]"


def test_what_is_not_computed_is_said_once() -> None:
    assert SHOWN.answer[-1] == f"FT: {NEEDS}."


def test_every_question_says_where_to_start_and_what_the_sign_means() -> None:
    (guide,) = (part for part in SHOWN.parts if isinstance(part, Facts))
    assert guide.rows[0] == (
        "Is one group too rare in the data to learn or measure anything about it?",
        "CI (+ d is the smaller facet): it counts examples and nothing else; a rare group has wide "
        "intervals everywhere below.",
    )


def test_selection_stands_by_group_with_the_ratio_and_its_standing() -> None:
    assert texts(table(SHOWN, "selection")) == [
        ["men", "dense", "400", "60.00% [58.00, 61.00]", "1.000", "selected most"],
        ["men", "int8", "400", "50.00% [48.00, 51.00]", "0.900 [0.880, 0.910]", "kept"],
        ["women", "dense", "300", "40.00% [38.00, 41.00]", "0.660 [0.640, 0.670]", "below 4/5"],
    ]


def test_labels_alone_have_no_columns_of_models() -> None:
    made = section(DATA)
    assert [column.key for column in table(made, "clarify").columns][-1] == "value"
    assert len(made.parts) == 2


def test_without_pairs_of_groups_there_is_no_section() -> None:
    assert clarify_section(Findings(whole({"variants": VARIANTS}))) is None


def test_who_gets_no_answer_has_both_shares_and_their_change() -> None:
    row = {"metric": "unanswered", "dense": number(0.02), "compressed": number(0.09)}
    rows = {
        name: [row | {"group": "s=f", "absolute": number(change, 300)}]
        for name, change in (("int8", 0.07), ("pruned", 0.05))
    }
    content = {"variants": VARIANTS, "groups": GROUPS, "unanswered": rows}
    made = unanswered_section(Findings(whole(content), focus="pruned"))
    assert made is not None
    assert texts(table(made, "unanswered")) == [
        ["pruned", "women", "300", "2.00% [0.00, 3.00]", "9.00% [7.00, 10.00]",
         "+5.00 [+3.00, +6.00]"],
        ["int8", "women", "300", "2.00% [0.00, 3.00]", "9.00% [7.00, 10.00]",
         "+7.00 [+5.00, +8.00]"],
    ]  # fmt: skip
    said, read = kept(made)
    assert said == read
    other = unanswered_section(Findings(unlabelled(content)))
    assert other is not None
    assert other.answer == ["An example without an answer counts as changed."]
    assert unanswered_section(Findings(whole({}))) is None


def test_it_says_what_a_reviewer_has_read() -> None:
    said, read = kept(SHOWN)
    assert said == read
