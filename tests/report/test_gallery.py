"""The gallery: images within their budget, and only of kinds that can do nothing."""

from __future__ import annotations

import pytest

from tests.report.drawing import render

pytestmark = pytest.mark.slow


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
