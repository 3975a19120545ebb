"""The page in Chromium."""

from __future__ import annotations

import pytest

from scotoma.report import render


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_browser_finds_no_fault(make_audit, browser, axe, tmp_path, scheme, width):
    """Console, policy, network, overflow and axe, everything unfolded."""
    audit = make_audit(("cat", 60 * "dog"), ("a", 60 * "b"), examples=60, sparsities=(0.9,))
    audit.content["project"] = 80 * "W"  # long words must not widen the page
    file = tmp_path / "report.html"
    file.write_text(render(audit.content, audit.images), encoding="utf-8")
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    page = context.new_page()
    complaints, requests = [], []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(found => { found.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(axe)
    faults = page.evaluate(
        "axe.run(document).then(found => found.violations.map(f => [f.id, f.nodes[0].html]))"
    )
    shown = page.evaluate("[...document.images].filter(image => image.naturalWidth > 0).length")
    context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith("data:")] == [file.as_uri()]
    assert shown == audit.page.count("<img")
    assert faults == []


def test_policy_stops_what_does_not_belong_to_the_page(audit, browser, tmp_path):
    """Guards the guard: a script or a foreign style in the same page is refused."""
    file = tmp_path / "report.html"
    foreign = "<script>document.title = 'run'</script><style>body { display: none }</style></body>"
    file.write_text(audit.page.replace("</body>", foreign), encoding="utf-8")
    page = browser.new_page()
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(file.as_uri())
    title, display = page.title(), page.evaluate("getComputedStyle(document.body).display")
    page.close()
    assert (title, display) == ("tiny: what compression changed", "block")
    assert sum("Content Security Policy" in text for text in complaints) == 2
