"""The whole gallery as pages, and two audits side by side."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from scotoma.audit import read_gate
from scotoma.commands.diff.runs import run_diff
from scotoma.commands.examples.pages import write_gallery
from scotoma.errors import ConfigError
from scotoma.report import gallery
from scotoma.report.pages import gallery_pages
from scotoma.report.side_by_side import changed_verdicts, side_by_side
from scotoma.run import checksums
from tests.report.drawing import audit_of, readable
from tests.report.reading import HOSTILE, Page

pytestmark = pytest.mark.slow


def test_the_folder_holds_every_cie_of_every_variant_once(
    audit: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "gallery"
    write_gallery(str(audit.run.root), folder, None, [], quiet=False)
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
    assert f"gallery {shown} CIEs" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="--html needs a new or empty folder"):
        write_gallery(str(audit.run.root), folder, None, [], quiet=True)
    with pytest.raises(ConfigError, match="--html writes every CIE; leave --csv out"):
        write_gallery(str(audit.run.root), tmp_path / "new", None, ["--csv"], quiet=True)


def test_a_page_holds_a_hundred_pairs_and_names_are_text(audit: Any) -> None:
    content = audit_of(audit.content)
    pair = content.gallery["prune-0.9"][0]
    card = pair.cie.model_copy(update={"attributes": {"side": HOSTILE}})
    pairs = {"prune-0.9": [pair.model_copy(update={"cie": card})] * 150}
    pages = gallery_pages(content, pairs, audit.images)
    assert list(pages) == ["index.html", "v2-1.html", "v2-2.html"]
    assert [text.count('<li class="pair"') for text in pages.values()] == [0, 100, 50]
    assert "CIEs 101 to 150 of 150" in " ".join(Page(pages["v2-2.html"]).text.split())
    assert "<script>alert" not in pages["v2-1.html"]


def test_without_images_changed_examples_are_rows_with_the_most_telling_feature_first(
    audit: Any,
) -> None:
    content = audit_of(audit.content)
    pair = content.gallery["prune-0.9"][0]
    two = pair.cie.model_copy(update={"attributes": {"age": "old", "side": "b"}})
    pairs = {"prune-0.9": [pair.model_copy(update={"cie": two})]}
    page = Page(gallery_pages(content, pairs, {})["v2-1.html"])
    (rows,) = page.tables.values()
    assert rows[0][0] == "Example"
    ratio = gallery.telling(content)["prune-0.9"]["side=b"]
    assert ratio > 1  # it is found more often among CIEs; nothing is known of `age`
    assert rows[1][5] == "side b; age old"
    assert "img" not in {tag for tag, _ in page.tags}


def test_of_many_attributes_the_most_telling_are_shown(audit: Any) -> None:
    content = audit_of(audit.content)
    pair = content.gallery["prune-0.9"][0]
    many = {f"a{number:03d}": "yes" for number in range(200)} | {"side": "b"}
    card = pair.cie.model_copy(update={"attributes": many})
    pairs = {"prune-0.9": [pair.model_copy(update={"cie": card})]}
    (rows,) = Page(gallery_pages(content, pairs, {})["v2-1.html"]).tables.values()
    assert rows[1][5].startswith("side b; a000 yes; ")
    assert rows[1][5].endswith("a018 yes; 181 more")


def test_pairs_are_shared_out_rank_by_rank_where_they_are_too_many(audit: Any) -> None:
    content = readable(audit.content)
    pair = content.gallery["prune-0.9"][0]
    many = {"a": [pair] * 90, "b": [pair] * 5, "c": [pair] * 90}
    shown = gallery.pairs(many, list(many), gallery.Album({}), {}, most=105)
    assert {name: len(rows) for name, rows in shown.items()} == {"a": 50, "b": 5, "c": 50}


def test_one_model_of_each_audit_stands_in_one_row_however_it_is_called(audit: Any) -> None:
    one = audit_of(audit.content).model_copy(update={"scope": "shipped"})
    kept = tuple(v.model_copy(update={"members": 1}) for v in one.variants)
    one, gate = one.model_copy(update={"variants": kept}), read_gate(audit.run.path("gate.json"))
    names = [variant.name for variant in gate.variants]
    renamed = {names[0]: names[1]}
    text = side_by_side((one, one), (gate, gate), ("a", "b"), [], 9, [], renamed)
    page = Page(text)
    both = f"{names[0]}, then {names[1]}"
    assert both in page.table("Each variant in both audits")
    assert "One training run: says nothing about the next one." in page.text
    words = [variant.verdict for variant in gate.variants]
    turned = changed_verdicts(gate, gate, renamed)
    assert ((both, words[0], words[1]) in turned) is (words[0] != words[1])


def test_two_audits_side_by_side_say_which_verdicts_changed(
    audit: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = shutil.copytree(audit.run.root, tmp_path / "other")
    judged = json.loads((other / "gate.json").read_text())
    (changed,) = (one for one in judged["variants"] if one["name"] == "prune-0.9")
    before = changed["verdict"]
    changed["verdict"] = "PASS"
    (other / "gate.json").write_text(json.dumps(judged))
    checksums.amend(type(audit.run).open(other).mirror, ["gate.json"])
    html = tmp_path / "diff.html"
    run_diff(str(audit.run.root), str(other), html=html, as_json=False, quiet=True)
    told = capsys.readouterr().out
    assert told.startswith(f"verdict changed: prune-0.9 {before} -> PASS\n")
    text = html.read_text(encoding="utf-8")
    page = Page(text)
    shown = " ".join(page.text.split())
    assert re.search(rf"1 verdict changed prune-0.9 : \S {before} became \S PASS", shown)
    rows = page.table("Each variant in both audits")
    assert list(rows) == [variant["name"] for variant in audit.gate["variants"]]
    assert [word.split()[-1] for word in rows["prune-0.9"][:2]] == [before, "PASS"]
    assert "0 worse of" in shown
    run_diff(str(audit.run.root), str(other), as_json=True, quiet=True)
    content = json.loads(capsys.readouterr().out)
    assert content["verdicts"] == [{"variant": "prune-0.9", "before": before, "after": "PASS"}]
