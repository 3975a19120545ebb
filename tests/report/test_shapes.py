"""Audits of unusual shape: each still a good page."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from tests.helpers.audits import addresses
from tests.report.drawing import render
from tests.report.reading import Page

pytestmark = pytest.mark.slow

LEAKED = re.compile(r"\b(nan|None|null|inf|undefined)\b(?! \()")
Parts = tuple[dict[str, Any], dict[str, bytes], dict[str, Any], dict[str, Any]]


def one_variant(content: dict[str, Any], images: Any, gate: Any, measured: Any) -> Parts:
    name = "prune-0.9"
    content["variants"] = [v for v in content["variants"] if v["name"] in ("dense", name)]
    for part in ("divergence", "slices", "gallery"):
        content[part] = {name: content[part][name]}
    content["rows"] = {
        question: [row for row in rows if row.get("variant") in (None, "dense", name)]
        for question, rows in content["rows"].items()
    }
    content["parity"] = {}
    content["parity"] = {k: row for k, row in content["parity"].items() if k in ("dense", name)}
    content["one_model"]["variants"] = {name: content["one_model"]["variants"][name]}
    gate["variants"] = [v for v in gate["variants"] if v["name"] == name]
    measured["frontier"] = [r for r in measured["frontier"] if r["variant"] in ("dense", name)]
    return content, images, gate | {"variants_tried": 1}, measured


def no_groups(content: dict[str, Any], images: Any, gate: Any, measured: Any) -> Parts:
    content["groups"] = content["groups"][:1]
    content["rows"] |= {"gaps": [], "clarify": []}
    for question in ("rates", "divergence"):
        content["rows"][question] = [
            row
            for row in content["rows"][question]
            if row.get("group") in (None, "all") and row["what"] != "over_index.change"
        ]
    for name in content["divergence"]:
        content["divergence"][name]["over_index"] = []
        for pair in content["gallery"][name]:
            for card in filter(None, pair.values()):
                card["attributes"] = {}
    for row in measured["frontier"]:
        row["worst"] = None
    return content, images, gate, measured


def no_images(content: dict[str, Any], images: Any, gate: Any, measured: Any) -> Parts:
    return content, {}, gate, measured


def no_gate(content: dict[str, Any], images: Any, gate: Any, measured: Any) -> Parts:
    return content, images, None, None


def many_classes(content: dict[str, Any], images: Any, gate: Any, measured: Any) -> Parts:
    names = [f"class {i}" for i in range(300)]
    content["examples"]["classes"] = names
    for question in ("impact", "rates"):
        rows = content["rows"][question]
        of_class = [row for row in rows if "class" in row]
        whole = [row for row in rows if "class" not in row]
        first = [row for row in of_class if row["class"] == of_class[0]["class"]]
        content["rows"][question] = whole + [
            {**row, "class": one} for one in names for row in first
        ]
    return content, images, gate, measured


def many_groups(content: dict[str, Any], images: Any, gate: Any, measured: Any) -> Parts:
    group = content["groups"][1]
    for i in range(58):
        content["groups"].append({**group, "key": f"side.g{i}", "name": f"group {i}"})
    for question in ("rates", "divergence"):
        rows = content["rows"][question]
        mine = [row for row in rows if row.get("group") == group["key"]]
        rows += [{**row, "group": f"side.g{i}"} for i in range(58) for row in mine]
    known = {"attribute": group["key"]}
    mine = [row for row in rows if row.get("facts") == known]
    rows += [{**row, "facts": {"attribute": f"side.g{i}"}} for i in range(58) for row in mine]
    for found in content["divergence"].values():
        row = next(row for row in found["over_index"] if row["attribute"] == group["key"])
        found["over_index"] += [{**row, "attribute": f"side.g{i}"} for i in range(58)]
    return content, images, gate, measured


SECTIONS = {"verdict", "gate", "topline", "groups", "cies", "gallery", "clarify"}
SECTIONS |= {"methods"}
SHAPES = (one_variant, no_groups, no_images, no_gate, many_classes, many_groups)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_every_shape_of_an_audit_has_a_whole_page(audit: Any, shape: Any) -> None:
    given = (audit.content, audit.images, audit.gate, audit.measurements)
    text = render(*shape(*copy.deepcopy(given)))
    whole_page(text, without={no_gate: "gate", no_groups: "clarify"}.get(shape, ""))
    if shape is no_images:  # and no empty boxes in their place
        assert "<img" not in text
        assert 'class="missing"' not in text


def test_a_class_that_nobody_predicts_has_its_loss_and_no_page_breaks(make_audit: Any) -> None:
    never = make_audit(members=3, sparsities=(0.9,), never=2)
    (owl,) = addresses(never.content, "impact", variant="prune-0.9", **{"class": "owl"})
    assert (
        owl["compressed"]["number"]["value"] == 0.0
    )  # measured, not undefined: owls are there and are missed
    text = render(never.content, never.images, never.gate, never.measurements)
    whole_page(text)
    assert "owl" in Page(text).text


def whole_page(text: str, *, without: str = "") -> None:
    page = Page(text)  # which refuses what is not closed
    assert not LEAKED.search(page.text)
    ids = [attributes["id"] for _, attributes in page.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    targets = {
        attributes["href"][1:]
        for tag, attributes in page.tags
        if tag == "a" and (attributes["href"] or "").startswith("#")
    }
    assert targets - {"gate"} <= set(ids)
    assert len(text.encode()) < 5_000_000
    assert SECTIONS - set(ids) == ({without} if without else set())
