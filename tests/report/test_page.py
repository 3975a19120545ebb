"""The page as a whole: its bytes, its policy, names as text."""

from __future__ import annotations

import base64
import copy
import hashlib
import re

import pytest

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
