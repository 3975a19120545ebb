"""The page as a whole: its bytes, its policy, names as text."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from scotoma.run import Run, checksums
from scotoma.steps.report import draw
from tests.helpers.audits import rates
from tests.report.drawing import render
from tests.report.reading import HOSTILE, Page

pytestmark = pytest.mark.slow


def test_the_report_step_writes_what_render_returns(audit):
    assert render(audit.content, audit.images, audit.gate, audit.measurements) == audit.page


def test_the_variant_in_focus_is_drawn_first(audit):
    page = Page(audit.page)
    chosen = [a["id"] for tag, a in page.tags if tag == "input" and "checked" in a]
    assert len(chosen) >= 5
    assert all(one.endswith("-1") for one in chosen)
    labels = re.findall(r'<label for="figure-rates-1"><bdi>(.*?)</bdi>', audit.page)
    assert labels == ["prune-0.9"]
    assert not any(is_open for is_open, _ in page.details)


def test_names_from_the_data_are_text_and_nothing_else(make_audit):
    plain = make_audit(classes=("x", "y"), values=("g", "h"), attribute="k", ids="i")
    hostile = make_audit(
        classes=(f"x{HOSTILE}", f"y{HOSTILE}"),
        values=(f"g{HOSTILE}", f"h{HOSTILE}"),
        attribute=f"k{HOSTILE}",
        ids=f"i{HOSTILE}",
    )
    hostile.content["project"] = HOSTILE
    page = Page(render(hostile.content, hostile.images, hostile.gate, hostile.measurements))
    drawn = {"svg", "g", "path", "text", "tspan", "rect", "line", "circle"}  # names are wrapped
    plain_tags = [tag for tag, _ in Page(plain.page).tags if tag not in drawn]
    assert [tag for tag, _ in page.tags if tag not in drawn] == plain_tags
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    texts = {text for _, text in page.texts}
    assert {HOSTILE, f"x{HOSTILE}", f"g{HOSTILE}"} <= texts
    assert any(text.startswith(f"k{HOSTILE} ") for text in texts)
    assert any(text.startswith(f"i{HOSTILE}-") for text in texts)


def test_notes_on_the_data_stand_among_the_methods_as_text_and_nothing_else(audit):
    content = copy.deepcopy(audit.content)
    assert content["examples"]["notes"] == []
    assert "The data" not in {text for _, text in Page(audit.page).texts}
    content["examples"]["notes"] = ["attribute 'age' is missing in 3 of 9 test rows", HOSTILE]
    page = Page(render(content, {}))
    inside = {text for where, text in page.texts if where[-2:] == ("li", "bdi")}
    assert {"attribute 'age' is missing in 3 of 9 test rows.", f"{HOSTILE}."} <= inside
    assert "The data" in {text for _, text in page.texts}


def test_page_needs_nothing_from_outside_and_its_policy_allows_nothing_else(audit):
    page = Page(audit.page)
    (policy,) = (a["content"] for _, a in page.tags if a.get("http-equiv"))
    styles = re.findall("<style>(.*?)</style>", audit.page, re.DOTALL)
    scripts = re.findall("<script>(.*?)</script>", audit.page, re.DOTALL)

    def allowed(texts):
        digests = (hashlib.sha256(text.encode()).digest() for text in texts)
        return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)

    assert policy == (
        f"default-src 'none'; img-src data:; style-src {allowed(styles)}; "
        f"script-src {allowed(scripts)}; base-uri 'none'; form-action 'none'"
    )
    assert not {"iframe", "object", "form"} & {tag for tag, _ in page.tags}
    running = [a for tag, a in page.tags if tag == "script" and a.get("type") is None]
    assert len(running) == len(scripts)
    for tag, attributes in page.tags:
        assert tag == "svg" or "style" not in attributes
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:", "tables/"))
    for style in styles:
        assert "url(" not in style
        assert "@import" not in style


def test_equal_inputs_give_equal_bytes_whatever_the_order_of_their_keys(audit):
    def turned(value):
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return [turned(item) for item in value] if isinstance(value, list) else value

    images = dict(reversed(audit.images.items()))
    others = turned(audit.gate), turned(audit.measurements)
    assert render(turned(audit.content), images, *others) == audit.page
    for pair in (content := copy.deepcopy(audit.content))["gallery"]["prune-0.9"]:
        pair["cie"]["attributes"] |= {"age": "old"}  # a second one, so that they have an order
    assert render(turned(content), images) == render(content, images)


def test_names_in_the_verdict_are_text(audit):
    gate = audit.gate | {"warnings": ["<script>alert(1)</script>"]}
    assert "<script>alert" not in render(audit.content, audit.images, gate)


# --- the gallery: images within their budget, and only of kinds that can do nothing ---------------


def test_images_are_left_out_before_the_page_grows_too_large(audit):
    large = {example_id: b"\xff\xd8\xff" + bytes(400_000) for example_id in audit.images}
    page = render(audit.content, large)
    assert len(page.encode()) < 4_000_000
    assert page.count("<img") == 4
    assert "image left out to keep this page small" in page


def test_an_svg_is_no_image_here(audit):
    page = render(audit.content, dict.fromkeys(audit.images, b"<svg xmlns='x' onload='alert(1)'/>"))
    assert "<img" not in page
    assert "no image (of its kind: PNG, JPEG, GIF and WebP are shown)" in page


# --- the CSV files of a run's tables, read back by another program --------------------------------


def test_every_table_that_the_page_links_lies_in_the_run(audit: Any) -> None:
    links = set(re.findall(r'href="(tables/[^"]+)"', audit.page))
    files = {f"tables/{path.name}" for path in audit.run.path("tables").iterdir()}
    assert links == files
    assert {"tables/groups.csv", "tables/gate.csv", "tables/examples.csv"} <= files
    for name in files:
        assert audit.run.path(*name.split("/")).read_bytes().startswith(b"\xef\xbb\xbf")


def test_files_hold_every_row_unrounded(audit: Any) -> None:
    groups = pl.read_csv(audit.run.path("tables", "groups.csv"), infer_schema_length=None)
    names = {group["key"]: group["name"] for group in audit.content["groups"]}
    wanted = [
        (variant, row)
        for variant in (one["name"] for one in audit.content["variants"][1:])
        for row in rates(audit.content, variant)
        if row["class"] is None
    ]
    assert groups.height == len(wanted)
    for variant, row in wanted:
        (found,) = groups.filter(variant=variant, group=names[row["group"]]).to_dicts()
        assert found["n"] == row["absolute"]["n"]
        for part, key in (("dense", "dense"), ("compressed", "compressed"), ("absolute", "change")):
            ends = (found[key], found[f"{key}_low"], found[f"{key}_high"])
            assert ends == (row[part]["value"], row[part]["low"], row[part]["high"])
            assert (found[f"{key}_reason"] or "") == row[part]["reason"]
    tests = sum(len(variant["tests"]) for variant in audit.gate["variants"])
    gate = pl.read_csv(audit.run.path("tables", "gate.csv"), infer_schema_length=None)
    assert gate.height == tests


def test_drawn_again_they_are_written_and_sealed_again(audit: Any, tmp_path: Path) -> None:
    run = Run.open(shutil.copytree(audit.run.root, tmp_path / "run"))
    checksums.seal(run.mirror)
    before = run.path("tables", "groups.csv").read_bytes()
    shutil.rmtree(run.path("tables"))
    draw(run)
    assert run.path("tables", "groups.csv").read_bytes() == before
    sealed = json.loads((run.root / "checksums.json").read_text())
    assert "tables/groups.csv" in json.dumps(sealed)
    assert checksums.compare_checksums(run.mirror).missing == ()
