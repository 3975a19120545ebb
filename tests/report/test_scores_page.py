"""The page of an audit of scores, in a browser: no fault of accessibility, nothing from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.audit.test_score_audits import audited, write
from tests.report.test_browser import opened


@pytest.mark.parametrize(
    ("width", "scheme"), [(360, "dark"), pytest.param(1440, "light", marks=pytest.mark.thorough)]
)
def test_a_page_of_scores_has_no_fault(
    browser: Any, axe: str, tmp_path: Path, width: int, scheme: str
) -> None:
    run = audited(write(tmp_path))
    page_file = run.path("report.html").as_uri()
    with opened(browser, page_file, width, color_scheme=scheme) as found:
        page = found.page
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.evaluate(axe)
        faults = page.evaluate(
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa'], resultTypes: ['violations']})"
            ".then(found => found.violations.map(f => [f.id, f.nodes.length, f.nodes[0].html]))"
        )
        links = page.evaluate(
            "[...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.getAttribute('href'))"
            ".filter(href => !document.querySelector(href))"
        )
    assert faults == []
    assert links == []
    assert found.complaints == []
    assert [url for url in found.requests if not url.startswith("data:")] == [page_file]
