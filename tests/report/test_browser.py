"""The page in Chromium: no fault, no request, keys alone, no scripts, a sandboxed frame."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.report.drawing import render
from tests.report.reading import HOSTILE

pytestmark = pytest.mark.slow

SETTLED = "document.readyState === 'complete'"


@dataclass
class Opened:
    """A page that is open, what it complained of and what it asked for."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def file(make_audit: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with long and hostile words, which must neither widen it nor run."""
    audit = make_audit(
        ("cat", 60 * "dog"), ("a", f"{HOSTILE} {60 * 'b'}"), examples=60, sparsities=(0.9,)
    )
    audit.content["project"] = 80 * "W"
    file = tmp_path_factory.mktemp("page") / "report.html"
    page = render(audit.content, audit.images, audit.gate, audit.measurements)
    file.write_text(page, encoding="utf-8")
    return file


@contextmanager
def opened(browser: Any, address: str, width: int = 1440, **options: Any) -> Iterator[Opened]:
    context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, **options)
    found = Opened(context.new_page())
    found.page.on("console", lambda message: found.complaints.append(message.text))
    found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
    found.page.on("request", lambda request: found.requests.append(request.url))
    found.page.goto(address, timeout=120_000)
    try:
        yield found
    finally:
        context.close()


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (360, "dark"),
        pytest.param(1440, "light", marks=pytest.mark.thorough),
        pytest.param(360, "light", marks=pytest.mark.thorough),
        pytest.param(1440, "dark", marks=pytest.mark.thorough),
    ],
)
def test_browser_finds_no_fault(
    browser: Any, axe: str, file: Path, width: int, scheme: str
) -> None:
    """Console, policy, network, overflow and axe; unfolded where that is most likely to show."""
    with opened(browser, file.as_uri(), width, color_scheme=scheme) as found:
        page = found.page
        if (width, scheme) == (360, "dark"):
            page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.evaluate(axe)
        faults = page.evaluate(
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa'], resultTypes: ['violations']})"
            ".then(found => found.violations.map(f => [f.id, f.nodes.length, f.nodes[0].html]))"
        )
        pictures = page.evaluate(
            "[...document.images].filter(one => !one.naturalWidth).map(one => one.alt)"
        )
    assert faults == []
    assert pictures == []
    assert found.complaints == []
    assert [url for url in found.requests if not url.startswith("data:")] == [file.as_uri()]


def test_without_scripts_every_section_and_drawing_can_be_read(browser: Any, file: Path) -> None:
    with opened(browser, file.as_uri(), java_script_enabled=False) as found:
        page = found.page
        assert page.locator("main h2").count() >= 12
        assert page.locator("figure.figure .still svg").count() >= 5
        assert page.locator("figure.figure .still svg").first.is_visible()
        page.locator("label[for=figure-rates-2]").click()
        assert page.locator("#figure-rates .plot").nth(1).is_visible()
        assert not page.locator("#filters").is_visible()  # it would do nothing
        page.locator("#gate").click()
        assert page.locator("#figure-gate .still svg").first.is_visible()
    assert found.complaints == []


def test_keys_alone_reach_and_use_the_gallery(browser: Any, file: Path) -> None:
    with opened(browser, file.as_uri()) as found:
        page = found.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.locator("select[data-filter=flip]").focus()
        assert page.evaluate("document.activeElement.dataset.filter") == "flip"
        page.keyboard.press("ArrowDown")
        count = page.evaluate("document.querySelectorAll('.pair:not([hidden])').length")
        whole = page.evaluate("document.querySelectorAll('.pair').length")
        assert page.locator("#filtered").text_content() == f"{count} of {whole} examples"
        assert 0 < count < whole
        page.keyboard.press("ArrowUp")
        pairs = "document.querySelector('.pairs')"
        page.evaluate(f"{pairs}.querySelector('[tabindex=\"0\"]').focus()")
        steps = (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("Home", 0))
        for key, at in steps:
            page.keyboard.press(key)
            assert page.evaluate(f"[...{pairs}.children].indexOf(document.activeElement)") == at
        assert page.evaluate(f"{pairs}.querySelectorAll('[tabindex=\"0\"]').length") == 1
    assert found.complaints == []


def test_filters_leave_the_pairs_that_match_all_choices(browser: Any, file: Path) -> None:
    with opened(browser, file.as_uri()) as found:
        page = found.page
        page.select_option("select[data-filter=class]", "0")
        page.select_option("select[data-filter=group]", "1")
        kept = page.evaluate(
            "[...document.querySelectorAll('.pair')].map(one =>"
            " [one.hidden, one.dataset.class, one.dataset.group.split(' ')])"
        )
    assert any(not hidden for hidden, *_ in kept)
    for hidden, of_class, groups in kept:
        assert hidden != (of_class == "0" and "1" in groups)


def test_in_a_sandboxed_frame_variants_are_picked_and_folds_open(
    browser: Any, file: Path, tmp_path: Path
) -> None:
    """As MLflow's viewer shows it: no origin, no leave to save files."""
    around = tmp_path / "around.html"
    around.write_text(
        f'<iframe sandbox="allow-scripts" src="{file.as_uri()}" width="1200" height="800"></iframe>'
    )
    with opened(browser, around.as_uri()) as found:
        frame = found.page.frame_locator("iframe")
        frame.locator("#filters").wait_for()
        drawn = frame.locator("#figure-rates .plot")
        assert drawn.count() == 2
        assert [drawn.nth(place).is_visible() for place in (0, 1)] == [True, False]
        frame.locator("label[for=figure-rates-2]").click()
        assert [drawn.nth(place).is_visible() for place in (0, 1)] == [False, True]
        frame.locator("#gate").click()
        assert frame.locator("#figure-gate svg").first.is_visible()
    assert found.complaints == []


def test_kubeflow_shows_the_page_as_it_is(browser: Any, file: Path, tmp_path: Path) -> None:
    """Its viewer fills a frame by `srcdoc`, with scripts and without the origin of its page."""
    around = tmp_path / "kubeflow.html"
    around.write_text('<iframe src="javascript:void(0);" sandbox="allow-scripts" width="1200">')
    with opened(browser, around.as_uri()) as found:
        fill = "text => { document.querySelector('iframe').srcdoc = text }"
        found.page.evaluate(fill, file.read_text(encoding="utf-8"))
        frame = found.page.frame_locator("iframe")
        frame.locator("figure.figure svg").first.wait_for(state="attached")
        assert frame.locator("h1").is_visible()
        links = frame.locator('nav a[href^="#"]')
        assert links.count() >= 10
        for link in (links.first, links.last):
            target = link.get_attribute("href")
            link.evaluate("one => one.click()")
            assert frame.locator(f"{target}:focus").count() == 1, target
            assert frame.locator(target).is_visible()
    assert found.complaints == []
    asked = [url for url in found.requests if not url.startswith("data:")]
    assert asked == [around.as_uri()]


def test_policy_stops_what_does_not_belong_to_the_page(
    browser: Any, file: Path, tmp_path: Path
) -> None:
    """Guards the guard: a script or a foreign style in the same page is refused."""
    foreign = "<script>document.title = 'run'</script><style>main { display: none }</style></body>"
    text = file.read_text(encoding="utf-8")
    changed = tmp_path / "report.html"
    changed.write_text(re.sub("</body>", foreign, text), encoding="utf-8")
    with opened(browser, changed.as_uri()) as found:
        assert found.page.title().startswith("WWW")
        assert found.page.locator("main").is_visible()
    assert sum("Content Security Policy" in text for text in found.complaints) == 2
