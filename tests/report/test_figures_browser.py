"""The figures in Chromium: live under the page's policy, moved by keys, hostile names as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.report.drawing import render
from tests.report.reading import HOSTILE

pytestmark = pytest.mark.slow

LONG = "n" * 300
DOTTED = """a.b[0] "'\\ \u05e9\u05dc\u05d5\u05dd \U0001f600"""
FIGURE = "#figure-{}"
FIGURES = 8  # on the page of the audit that the fixture writes


@pytest.fixture(scope="module")
def written(
    make_audit: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, Path]:
    """An audit whose names are code, paths, right to left, and too long; and its page."""
    audit = make_audit(
        (HOSTILE, "dog", "owl"), (DOTTED, f"{HOSTILE} 2{LONG}"), sparsities=(0.5, 0.9)
    )
    file = tmp_path_factory.mktemp("figures") / "report.html"
    page = render(audit.content, {}, audit.gate, audit.measurements)
    file.write_text(page, encoding="utf-8")
    return audit, file


@pytest.fixture
def open_page(browser: Any, written: tuple[Any, Path]) -> Iterator[Callable[..., Any]]:
    """Opens the page, or one that frames it, and fails on what the console says."""
    contexts, said = [], []

    def opened(file: Path, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": 1440, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
        page.goto(file.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert said == []


def live(page: Any) -> Any:
    """The page unfolded, every figure drawn."""
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    page.wait_for_function(
        "() => [...document.querySelectorAll('figure.figure .plot')]"
        ".every(plot => plot.dataset.live !== undefined)"
    )
    return page


def texts(page: Any, slug: str) -> list[str]:
    return page.locator(f"{FIGURE.format(slug)} .plot svg text").all_text_contents()


def test_every_figure_is_live_and_axe_finds_no_fault_in_it(
    open_page: Callable[..., Any], written: tuple[Any, Path], axe: str
) -> None:
    page = live(open_page(written[1]))
    figures = page.locator("figure.figure")
    assert figures.count() == FIGURES
    assert page.locator("figure.figure .plot[data-live] .live svg[role=img]").count() == FIGURES
    assert page.locator("figure.figure .still").count() == 0
    page.evaluate(axe)
    faults = page.evaluate(
        "axe.run('figure.figure', {runOnly: ['wcag2a', 'wcag2aa']})"
        ".then(found => found.violations.map(f => [f.id, f.nodes[0].html]))"
    )
    assert faults == []


def test_figures_are_live_in_a_frame_without_an_origin(
    open_page: Callable[..., Any], written: tuple[Any, Path], tmp_path: Path
) -> None:
    around = tmp_path / "around.html"
    around.write_text(f'<iframe sandbox="allow-scripts" src="{written[1].as_uri()}"></iframe>')
    frame = open_page(around).frame_locator("iframe")
    frame.locator("html[data-figures=live]").wait_for()
    assert frame.locator(".plot[data-live]").count() == 1  # the others are drawn when unfolded
    frame.locator("#gate").click()
    frame.locator("#figure-gate .plot[data-live]").wait_for()


def test_threshold_moved_by_keys_says_what_lies_beyond_it(
    open_page: Callable[..., Any], written: tuple[Any, Path]
) -> None:
    audit, file = written
    page = live(open_page(file))
    figure = page.locator(FIGURE.format("taxicab"))
    slider, variant = figure.locator("input[type=range]"), figure.locator("select")
    variant.select_option(label="prune-0.9")
    found = audit.content["divergence"]["prune-0.9"]["taxicab"]
    rows = list(
        zip(
            found["distance"], found["examples"], found["dense_right"], found["compressed_right"],
            strict=True,
        )
    )  # fmt: skip
    slider.focus()
    slider.press("Home")
    for moves in (0, 2, 1):
        for _ in range(moves):
            slider.press("ArrowRight")
        threshold = float(slider.input_value())
        beyond = [row for row in rows if row[0] >= threshold]
        examples = sum(row[1] for row in beyond)
        right = [100 * sum(row[i] for row in beyond) / (10 * examples) for i in (2, 3)]
        page.wait_for_function(
            "([slug, text]) => document.querySelector(slug).textContent.includes(text)",
            arg=[f"{FIGURE.format('taxicab')} .live svg", f"{examples} of {found['n']} examples"],
        )
        shown = "".join(texts(page, "taxicab"))
        assert f"{100 * examples / found['n']:.1f}%" in shown
        assert f"dense right {right[0]:.1f}%" in shown
        assert f"compressed right {right[1]:.1f}%" in shown
    assert threshold > 0


def test_picked_variant_is_the_one_drawn(
    open_page: Callable[..., Any], written: tuple[Any, Path]
) -> None:
    audit, file = written
    page = live(open_page(file))
    for variant in ("prune-0.5", "prune-0.9"):
        page.locator(FIGURE.format("rates")).locator("select").select_option(label=variant)
        (row,) = (
            row
            for row in audit.content["subgroups"][variant]
            if (row["group"], row["metric"], row["class"]) == ("all", "error", None)
        )
        said = f"{100 * row['absolute']['value']:+.2f}".replace("-", "\N{MINUS SIGN}")
        page.wait_for_function(
            "([slug, text]) => document.querySelector(slug).textContent.includes(text)",
            arg=[f"{FIGURE.format('rates')} .live svg", said],
        )


@pytest.mark.parametrize("scripts", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_hostile_names_are_text_in_drawings_and_tables(
    open_page: Callable[..., Any], written: tuple[Any, Path], scripts: bool
) -> None:
    page = open_page(written[1], java_script_enabled=scripts)
    if scripts:
        live(page)
    drawn = "\n".join(texts(page, "gate") + texts(page, "slices") + texts(page, "rates"))
    assert HOSTILE[:12] in drawn
    assert DOTTED[:8] in drawn
    assert LONG not in drawn  # cut there, whole in the table
    table = page.locator(FIGURE.format("rates")).locator("tbody").text_content()
    assert HOSTILE + " 2" in table
    assert LONG in table
    assert page.locator("figure.figure img, figure.figure a").count() == 0


def test_on_a_telephone_the_page_stays_narrow_and_what_is_wider_scrolls_by_keys(
    open_page: Callable[..., Any], written: tuple[Any, Path]
) -> None:
    page = live(open_page(written[1]))
    page.set_viewport_size({"width": 360, "height": 800})
    page.wait_for_function(
        "() => [...document.querySelectorAll('.plot')]"
        ".every(plot => plot.scrollWidth <= plot.clientWidth || plot.tabIndex === 0)"
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for slug in ("gate", "rates", "over_index", "slices"):
        plot = page.locator(f"{FIGURE.format(slug)} .plot")
        assert plot.evaluate("one => one.scrollWidth <= one.clientWidth + 1"), slug
