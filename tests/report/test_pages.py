"""The whole gallery as pages, and two audits side by side."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from scotoma.audit import read_gate
from scotoma.divergence.gallery_section import gallery_documents
from scotoma.document import Table
from scotoma.document.html import html_page
from scotoma.run import checksums
from scotoma.verdict.two_audits import changed_verdicts, sides_section
from tests.helpers.commands import measured, scotoma
from tests.report.drawing import audit_of
from tests.report.reading import HOSTILE, Page
from tests.report.test_browser import opened

pytestmark = pytest.mark.slow


def test_the_folder_holds_every_cie_of_every_variant_once(audit: Any, tmp_path: Path) -> None:
    folder = tmp_path / "gallery"
    code, out, err = scotoma("show", audit.run.root, "examples", "--out", folder)
    assert (code, out) == (0, f"{folder / 'index.html'}\n")
    index = Page((folder / "index.html").read_text(encoding="utf-8"))
    links = [a["href"] for tag, a in index.tags if tag == "a" and a["href"] != "index.html"]
    assert sorted(links) == sorted(p.name for p in folder.iterdir() if p.name != "index.html")
    counts = {name: one["cie"]["cie"]["count"] for name, one in audit.content["divergence"].items()}
    shown = 0
    for link in links:
        text = (folder / str(link)).read_text(encoding="utf-8")
        shown += text.count('<li class="pair"')
        assert "<img" in text
        assert len(text.encode()) < 5_000_000
    assert shown == sum(counts.values())
    assert f"gallery {shown} CIEs" in err
    again = scotoma("show", audit.run.root, "examples", "--out", folder)
    assert again[0] == 2
    assert "--out needs a new or empty folder" in again[2]
    listed = scotoma("show", audit.run.root, "examples", "--out", tmp_path / "new", "--csv")
    assert listed[0] == 2
    assert "--out writes every CIE as pages; give it with --variant alone" in listed[2]
    assert not (tmp_path / "new").exists()


def test_names_in_the_pages_are_text(audit: Any) -> None:
    content = audit_of(audit.content)
    pair = content.gallery["prune-0.9"][0]
    card = pair.cie.model_copy(update={"attributes": {"side": HOSTILE}})
    pairs = {"prune-0.9": [pair.model_copy(update={"cie": card})] * 150}
    documents = gallery_documents(content, pairs, audit.images)
    pages = {name: html_page(one) for name, one in documents.items()}
    assert [text.count('<li class="pair"') for text in pages.values()] == [0, 100, 50]
    assert "CIEs 101 to 150 of 150" in " ".join(Page(pages["v2-2.html"]).text.split())
    assert "<script>alert" not in pages["v2-1.html"]


def test_of_many_attributes_the_most_telling_are_shown(audit: Any) -> None:
    content = audit_of(audit.content)
    pair = content.gallery["prune-0.9"][0]
    many = {f"a{number:03d}": "yes" for number in range(200)} | {"side": "b"}
    card = pair.cie.model_copy(update={"attributes": many})
    pairs = {"prune-0.9": [pair.model_copy(update={"cie": card})]}
    page = html_page(gallery_documents(content, pairs, {})["v2-1.html"])
    assert "<bdi>side b; a000 yes; " in page  # more often among CIEs than in the data
    assert "a018 yes; 181 more</bdi>" in page
    assert "<img" not in page


def test_one_model_of_each_audit_stands_in_one_row_however_it_is_called(audit: Any) -> None:
    one = audit_of(audit.content).model_copy(update={"scope": "shipped"})
    kept = tuple(v.model_copy(update={"members": 1}) for v in one.variants)
    one, gate = one.model_copy(update={"variants": kept}), read_gate(audit.run.path("gate.json"))
    names = [variant.name for variant in gate.variants]
    renamed = {names[0]: names[1]}
    section = sides_section((one, one), (gate, gate), renamed)
    [table] = section.parts
    assert isinstance(table, Table)
    both = f"{names[0]}, then {names[1]}"
    words = {variant.name: variant.verdict for variant in gate.variants}
    joined = [(row["audit"], row["gate"]) for row in table.rows if row["variant"] == both]
    assert joined == [("first", words[names[0]]), ("second", words[names[1]])]
    assert section.warnings == ["One training run: says nothing about the next one."]
    turned = changed_verdicts(gate, gate, renamed)
    before, after = words[names[0]], words[names[1]]
    assert ((both, before, after) in turned) is (before != after)


def test_a_variant_of_one_audit_is_not_in_the_other(audit: Any) -> None:
    whole = audit_of(audit.content)
    fewer = whole.model_copy(update={"variants": whole.variants[:2]})
    [table] = sides_section((whole, fewer), (None, None), {}).parts
    assert isinstance(table, Table)
    absent = {row["variant"] for row in table.rows if row["flips"] == "not in this audit"}
    assert absent == {variant.name for variant in whole.variants[2:]}
    assert [column.key for column in table.columns] == [
        "variant", "audit", "accuracy", "flips", "affected",
    ]  # fmt: skip


def test_two_audits_side_by_side_say_which_verdicts_changed(audit: Any, tmp_path: Path) -> None:
    other = shutil.copytree(audit.run.root, tmp_path / "other")
    judged = json.loads((other / "gate.json").read_text())
    (changed,) = (one for one in judged["variants"] if one["name"] == "prune-0.9")
    before = changed["verdict"]
    changed["verdict"] = "PASS"
    (other / "gate.json").write_text(json.dumps(judged))
    checksums.amend(type(audit.run).open(other).mirror, ["gate.json"])
    said = scotoma("compare", audit.run.root, other)[1]
    assert f"1 verdict changed\nprune-0.9: {before} became PASS.\n" in said
    page = Page(scotoma("compare", audit.run.root, other, "--html")[1])
    shown = " ".join(page.text.split())
    assert f"prune-0.9: {before} became PASS." in shown
    assert "0 worse, 0 better, 12 undecided of 12 rates" in shown
    assert any(one.startswith("Each variant in both audits") for one in page.tables)
    content = measured("compare", audit.run.root, other)
    assert content["verdicts"] == [{"variant": "prune-0.9", "before": before, "after": "PASS"}]


@pytest.mark.parametrize(
    ("width", "scheme"),
    [(390, "dark"), pytest.param(1440, "light", marks=pytest.mark.thorough)],
)
def test_browser_finds_no_fault_with_two_audits(
    browser: Any, axe: str, audit: Any, tmp_path: Path, width: int, scheme: str
) -> None:
    html = tmp_path / "diff.html"
    html.write_text(scotoma("compare", audit.run.root, audit.run.root, "--html")[1], "utf-8")
    with opened(browser, html.as_uri(), width, color_scheme=scheme) as found:
        assert found.page.evaluate("document.documentElement.scrollWidth") <= width
        found.page.evaluate(axe)
        faults = found.page.evaluate(
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa'], resultTypes: ['violations']})"
            ".then(found => found.violations.map(f => [f.id, f.nodes.length, f.nodes[0].html]))"
        )
    assert faults == []
    assert found.complaints == []
