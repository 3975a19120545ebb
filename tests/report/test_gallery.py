"""The gallery: cards, images within their budget, and by what they can be sifted."""

from __future__ import annotations

import base64

import pytest

from tests.report.drawing import render
from tests.report.reading import Page

pytestmark = pytest.mark.slow


def test_dense_and_compressed_votes_stand_below_each_image(audit):
    pair = audit.content["gallery"]["prune-0.9"][0]
    page = Page(audit.page)
    cards = " ".join(text for where, text in page.texts if "figcaption" in where)
    cards = " ".join(cards.split())
    mark = {True: "✓", False: "✗"}
    for kind, card in (("CIE", pair["cie"]), ("Not a CIE", pair["non_cie"])):
        assert (
            f"{kind} Dense {mark[card['dense_modal'] == card['label']]} {card['dense_modal']} "
            f"{card['dense_votes']}/10 "
            f"Compressed {mark[card['compressed_modal'] == card['label']]} "
            f"{card['compressed_modal']} {card['compressed_votes']}/10 "
            f"side {card['attributes']['side']} "
        ) in cards
    image = base64.b64encode(audit.images[pair["cie"]["example_id"]]).decode()
    shown = [attributes for tag, attributes in page.tags if tag == "img"]
    assert any(attributes["src"] == f"data:image/png;base64,{image}" for attributes in shown)
    assert all(attributes["alt"] and attributes["class"] == "small" for attributes in shown)


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
