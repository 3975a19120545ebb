"""What others named comes out as text, and the same verdict as the same bytes."""

from __future__ import annotations

import copy
import datetime
import unicodedata
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from scotoma.audit import GateFile
from scotoma.config.gate import parse_rules
from scotoma.document.text import document_text
from scotoma.printable import code_span, printable
from scotoma.report.summary import summary
from scotoma.verdict.documents import junit, markdown
from scotoma.verdict.words import level_words
from tests.helpers.audits import judge, whole

TODAY = datetime.date(2027, 3, 1)
HOSTILE = [
    "<script>alert(1)</script>",
    "=cmd()|' /C calc'!A0",
    "\x1b[31mred\x1b[2J",
    "a\x00b\x08c\ufffe",
    "\u202eturned\u200f",
    "x" * 300,
    "\U0001f600 \U0001f468\u200d\U0001f469",
    "../../x",
    "a | b \\| c \\\\| d",
    "`code` ``two`` end`",
    "two\nlines\r\n# heading",
    "]]> <!-- & &amp; \"'",
    "**bold** [link](http://x.y) ![i](http://x.y/z.png) http://x.y www.x.y a@b.c @someone",
]


@pytest.fixture(scope="module")
def mixed(whole_audit: Any) -> dict[str, Any]:
    """Three variants: one that fails, one that passes, one that is open."""
    failing = whole_audit({"men": 0.0, "women": 1.5}, n=4000, variants=("prune-0.9",))
    for name, other in (
        ("int8", whole_audit(n=12_000, paired=True, variants=("int8",))),
        ("prune-0.5", whole_audit({"men": 0.3, "women": 0.5}, n=1500, variants=("prune-0.5",))),
    ):
        for part in ("subgroups", "divergence", "accuracy"):
            failing[part][name] = other[part][name]
        failing["rows"]["impact"] += other["rows"]["impact"]
        kind = name.partition("-")[0]
        failing["variants"].append({"name": name, "kind": kind, "sparsity": 0.5, "members": 10})
    return failing


def named(audit: dict[str, Any], name: str) -> dict[str, Any]:
    """The audit with one name for all that has a name of its own."""
    found = copy.deepcopy(audit)
    found["project"] = name
    for group in found["groups"]:
        group["name"] = name
    for place, variant in enumerate(found["variants"][1:]):
        old, variant["name"] = variant["name"], f"{name}{place}"
        for part in ("subgroups", "divergence", "accuracy"):
            found[part][f"{name}{place}"] = found[part].pop(old)
        for row in found["rows"]["impact"]:
            row["class"] = name
            row["variant"] = variant["name"] if row["variant"] == old else row["variant"]
    return found


def judged(audit: dict[str, Any], extra: str = "") -> GateFile:
    text = (
        "rules:\n"
        "  - {id: fpr, metric: fpr, max_increase: {relative: 0.2, absolute: 0.005}}\n"
        "  - {id: fnr, metric: fnr, max_increase: {relative: 0.2, absolute: 0.005}}\n"
        "  - {id: classes, metric: classes_hurt, margin: 0.01}\n"
    )
    return judge(audit, parse_rules(text + extra, "gate.yaml"), TODAY)


def test_the_three_verdicts_are_told_apart(mixed: dict[str, Any]) -> None:
    assert [v.verdict for v in judged(mixed).variants] == ["FAIL", "PASS", "UNSURE"]


# --- junit.xml ------------------------------------------------------------------------------------


def cases(gate: GateFile) -> dict[str, list[tuple[str, str]]]:
    """Suite to name and outcome of its cases, as a parser of XML reads them."""
    root = ElementTree.fromstring(junit(gate).encode("utf-8"))
    return {
        suite.attrib["name"]: [
            (case.attrib["name"], case[0].tag if len(case) else "passed")
            for case in suite.findall("testcase")
        ]
        for suite in root.findall("testsuite")
    }


def test_a_fail_is_a_failure_and_an_unsure_is_skipped(mixed: dict[str, Any]) -> None:
    gate = judged(mixed)
    tags = {"FAIL": "failure", "UNSURE": "skipped", "PASS": "passed"}
    for variant in gate.variants:
        assert cases(gate)[variant.name] == [
            (f"{f.rule}: {f.where}", tags[f.verdict]) for f in variant.tests
        ]


def test_an_unsure_is_a_failure_where_the_rules_say_so(mixed: dict[str, Any]) -> None:
    gate = judged(mixed, "on_unsure: fail\n")
    assert "skipped" not in str(cases(gate))
    failed = {name for name, found in cases(gate).items() if "failure" in dict(found).values()}
    assert failed == {v.name for v in gate.variants if v.verdict != "PASS"}


def test_counts_are_those_of_the_cases(mixed: dict[str, Any]) -> None:
    root = ElementTree.fromstring(junit(judged(mixed)))
    for element in (root, *root.findall("testsuite")):
        found = list(element.iter("testcase"))
        assert int(element.attrib["tests"]) == len(found)
        for tag, count in (("failure", "failures"), ("skipped", "skipped")):
            expected = sum(case.find(tag) is not None for case in found)
            assert int(element.attrib[count]) == expected


def test_what_is_waived_is_skipped_with_the_reason(mixed: dict[str, Any]) -> None:
    waived = "waivers: [{rule: fpr, variant: prune-0.9, reason: not sold, until: 2027-03-01}]"
    text = junit(judged(mixed, waived))
    assert "waived until 2027-03-01: not sold (FAIL: " in text


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text_in_junit(mixed: dict[str, Any], name: str) -> None:
    found = cases(judged(named(mixed, name)))
    plain = {
        suite.replace(printable(name), "NAME"): [
            (case.replace(printable(name), "NAME"), outcome) for case, outcome in rows
        ]
        for suite, rows in found.items()
    }
    calm = cases(judged(named(mixed, "NAME")))
    assert plain == calm


@given(name=st.text())
def test_any_name_makes_an_xml_document(name: str) -> None:
    gate = GateFile.model_construct(project=name, variants=())
    root = ElementTree.fromstring(junit(gate).encode("utf-8"))
    assert root.attrib["name"] == printable(name)


# --- summary.md -----------------------------------------------------------------------------------


def tags_and_text(page: str) -> tuple[list[str], str]:
    """What a renderer of GitHub's Markdown makes of a page: its kinds of element, and its words."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    kinds, words = [], []
    for token in parser.parse(page):
        for piece in [token, *(token.children or [])]:
            kinds.append(piece.type)
            if not piece.children:
                words.append(piece.content)
    return kinds, "\n".join(words)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text_in_markdown(mixed: dict[str, Any], name: str) -> None:
    kinds, words = tags_and_text(markdown(judged(named(mixed, name))))
    calm, _ = tags_and_text(markdown(judged(named(mixed, "NAME"))))
    assert kinds == calm
    shown = printable(name).replace("\\|", "\\ |").strip()
    assert shown in words


@given(text=st.text())
def test_any_text_is_one_code_span_and_one_cell(text: str) -> None:
    row = f"| a | b |\n|---|---|\n| {code_span(text)} | end |\n"
    parser = MarkdownIt("commonmark").enable("table")
    cells = [token for token in parser.parse(row) if token.type == "inline"]
    assert len(cells) == 4
    (span,) = cells[2].children or []
    assert span.type == "code_inline"
    assert cells[3].content == "end"
    # A renderer that counts backslashes in pairs sees every bar escaped too.
    assert "\\\\|" not in code_span(text).replace("\\ ", "")


def test_the_page_names_the_variants_tried_and_the_risks(mixed: dict[str, Any]) -> None:
    page = markdown(judged(mixed))
    assert page.startswith("# Gate: FAIL\n")
    assert "3 variants were judged" in page
    assert "after Holm, at 2.5%" in page
    assert "Judged as of 2027-03-01." in page


def test_very_many_open_tests_are_cut_short(whole_audit: Any) -> None:
    audit = whole_audit(n=300)
    rows = audit["subgroups"]["prune-0.9"]
    wide = {"low": -0.2, "high": 0.2, "se": 0.1, "df": 9.0, "scale": "identity"}
    row = next(row for row in rows if row["group"] == "men" and row["metric"] == "fpr")
    row["absolute"] |= wide
    row["relative"] |= {"value": None, "low": None, "high": None, "reason": "no events"}
    keys = [f"g={place}" for place in range(1000)]
    audit["groups"] += [{"key": key, "name": key, "n": 10} for key in keys]
    audit["subgroups"]["prune-0.9"] = [row | {"group": key} for key in keys]
    gate = judged(audit)
    assert [f.verdict for f in gate.variants[0].tests].count("UNSURE") >= 1000
    page = markdown(gate)
    assert page.count("`FPR g=") <= 21
    assert "more are in gate.json" in page


def test_a_rule_with_one_margin_may_hang_on_the_sampling_margin(whole_audit: Any) -> None:
    """A rise is cleared within two standard errors too: points, whatever the rule names."""
    audit = whole_audit({"men": 0.1, "women": 0.1}, n=4000)
    for limits in ("relative: 0.05", "absolute: 0.005"):
        text = f"rules: [{{id: fpr, metric: fpr, max_increase: {{{limits}}}}}]"
        gate = judge(audit, parse_rules(text, "g"), TODAY)
        findings = [f for variant in gate.variants for f in variant.tests]
        opened = [f for f in findings if f.verdict in ("FAIL", "UNSURE")]
        assert "absolute" in {f.decided_by.kind for f in opened if f.decided_by is not None}
        lines = [line for line in markdown(gate).splitlines() if "| `fpr` |" in line]
        for line, finding in zip(lines, opened, strict=True):
            assert finding.decided_by is not None
            assert (" points |" in line) == (finding.decided_by.kind == "absolute")


def test_what_was_too_small_to_judge_is_named_once_with_its_size(whole_audit: Any) -> None:
    audit = whole_audit(n=4000, variants=("int8", "prune-0.9"))
    for rows in audit["subgroups"].values():
        for row in rows:
            if row["group"] == "women":
                for part in ("dense", "compressed", "relative", "absolute"):
                    row[part]["n"] = 4
    gate = judged(audit)
    page = markdown(gate)
    assert page.count("Too small to judge: FPR women (4 examples)") == 1
    assert document_text(summary(whole(audit), gate)).count("Too small to judge") == 1
    outcomes = [outcome for rows in cases(gate).values() for _, outcome in rows]
    assert outcomes.count("skipped") == sum(
        f.verdict in ("NOT JUDGED", "UNSURE") for v in gate.variants for f in v.tests
    )
    for variant in gate.variants:
        assert "FPR women (4 examples)" in variant.too_small


# --- the terminal ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_cannot_steer_the_terminal(mixed: dict[str, Any], name: str) -> None:
    audit = named(mixed, name)
    text = document_text(summary(whole(audit), judged(audit)))
    assert not [c for c in text if unicodedata.category(c)[0] == "C" and c != "\n"]
    assert [line[:7] for line in text.split("\n") if line[:7] in ("FAIL   ", "PASS   ")]


def test_the_summary_leads_with_the_verdict_in_80_columns(mixed: dict[str, Any]) -> None:
    lines = document_text(summary(whole(mixed), judged(mixed))).split("\n")
    assert [line for line in lines if len(line) > 80] == []
    assert lines[2].split()[:2] == ["gate", "variant"]
    assert [line.split()[:2] for line in lines[3:7]] == [
        ["·", "dense"],
        ["FAIL", "prune-0.9"],
        ["PASS", "int8"],
        ["UNSURE", "prune-0.5"],
    ]
    below = [line for line in lines[7:] if line.startswith(("FAIL", "UNSURE", "PASS"))]
    assert below[0].startswith("FAIL    prune-0.9: FPR women +")
    assert below[-1].startswith("UNSURE  prune-0.5: ")
    assert " probably " in " ".join(lines)


# --- the same bytes -------------------------------------------------------------------------------


def test_the_same_inputs_give_the_same_bytes(mixed: dict[str, Any]) -> None:
    turned = {key: mixed[key] for key in reversed(mixed)}
    first, second = judged(mixed), judged(copy.deepcopy(turned))
    assert junit(first) == junit(second)
    assert markdown(first) == markdown(second)
    assert first == second


@given(nines=st.floats(0.5, 12))
def test_a_level_is_never_shown_as_certainty(nines: float) -> None:
    level = 1 - 10**-nines
    shown = level_words(level)
    assert shown.endswith("%")
    assert float(shown[:-1]) < 100
    assert abs(float(shown[:-1]) / 100 - level) <= 0.06 * (1 - level) + 5.1e-4
