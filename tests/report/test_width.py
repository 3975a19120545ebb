"""Every command's output fits a terminal of 80 columns.

Messages on stderr are one sentence on one line, which a terminal wraps and `grep` finds whole.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.cells import cell_len

from tests.helpers.commands import scotoma

pytestmark = pytest.mark.slow


DOCS = Path(__file__).resolve().parents[2] / "docs"
RUN = (
    ("gate", "run"),
    ("show", "run", "examples"),
    ("show", "run", "examples", "--unlabelled"),
    ("show", "run", "examples", "--out", "gallery"),
    ("compare", "run", "other"),
    ("show", "run"),
    ("show", "run", "groups"),
    ("verify", "run"),
    ("show", "run", "paper:cie"),
    ("show", "run", "paper:pie"),
    ("show", "run", "paper:clarify"),
    ("show", "run", "paper:variance"),
    ("show", "run", "paper:autoslicer"),
    ("evidence", "run"),
    ("tidy", "run"),
    ("compare", "a=run", "b=other", "--techniques"),
    ("compare", "base.csv", "int8.csv", "--label", "label", "--group", "sex"),
)
TABLE = (
    ("compare", "t.csv", "--label", "y", "--predicted", "m*", "--group", "sex",
     "--positive", "yes"),
    ("compare", "t.csv", "--label", "y", "--predicted", "m*", "--baseline", "b*", "--group", "sex",
     "--positive", "yes", "--all"),
    ("compare", "t.csv", "--label", "y", "--predicted", "m*", "--group", "sex", "--positive", "yes",
     "--four-fifths"),
    ("compare", "--explain"),
    ("slices", "t.csv", "--outcome", "wrong"),
    ("compare", "runs.csv", "--techniques"),
    ("init", "t.csv"),
    ("audit", "--plan", "missing.yaml"),
    ("compare", "t.csv", "--label", "z", "--predicted", "m*", "--group", "sex"),
)  # fmt: skip
HEADINGS = re.findall(r"^## scotoma (.+)$", (DOCS / "commands.md").read_text("utf-8"), re.M)


@pytest.fixture(scope="module")
def home(make_audit: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished audit whose names are long, a copy of it, and two tables."""
    home: Path = tmp_path_factory.mktemp("width")
    audit = make_audit(
        ("cat", "a class whose name is much longer than others"),
        ("a group whose name alone takes more than half of a line", "b"),
        examples=60, sparsities=(0.9,), members=5,
    )  # fmt: skip
    for name in ("run", "other"):
        shutil.copytree(audit.run.root, home / name)
    rng = np.random.default_rng(0)
    y = rng.choice(["yes", "no"], 300)
    columns = {
        f"{kind}{i}": np.where(rng.random(300) < 0.9, y, "yes") for kind in "mb" for i in range(2)
    }
    sex = rng.choice(["female", "a value that nobody would call short, and still it is one"], 300)
    wrong = (rng.random(300) < 0.2).astype(int)
    pl.DataFrame({"y": y, "sex": sex, "wrong": wrong, **columns}).write_csv(home / "t.csv")
    for name in ("base", "int8"):
        given = np.where(rng.random(300) < 0.9, y, "no")
        compared = {"id": range(300), "label": y, "predicted": given, "sex": sex}
        pl.DataFrame(compared).write_csv(home / f"{name}.csv")
    pl.DataFrame(
        {
            "technique": ["a", "b"] * 10,
            "metric": ["accuracy"] * 20,
            "run": range(20),
            "value": rng.random(20),
        }
    ).write_csv(home / "runs.csv")
    return home


@pytest.mark.parametrize(
    "command", [*RUN, *TABLE, *((*name.split(), "--help") for name in HEADINGS)], ids=str
)
def test_output_fits_80_columns(
    home: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setenv("COLUMNS", "80")
    _, out, err = scotoma(*command)
    assert out + err
    assert [line for line in out.splitlines() if cell_len(line) > 80] == []


# --- what a reader has to scroll through before anything is unfolded, and how folds open ----------


HIGHEST = {1400: 3900, 390: 7300}  # pixels at a width


@pytest.fixture(scope="module")
def file(make_audit: Callable[..., Any]) -> Path:
    """A page of the default audit's shape: ten classes, groups, three sparsities and int8."""
    audit = make_audit(
        tuple("0123456789"), ("minority", "majority"), "exposure", examples=300, members=5,
        sparsities=(0.5, 0.9, 0.95),
    )  # fmt: skip
    file: Path = audit.run.path("report.html")
    return file


@pytest.fixture
def page(browser: Any, file: Path) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1400, "height": 900}, offline=True)
    page = context.new_page()
    page.goto(file.as_uri(), timeout=120_000)
    yield page
    context.close()


def height(browser: Any, file: Path, width: int) -> int:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(file.as_uri(), timeout=120_000)
    found: int = page.evaluate("document.documentElement.scrollHeight")
    page.close()
    return found


@pytest.mark.parametrize("width", HIGHEST)
def test_the_page_is_short_before_anything_is_unfolded(
    browser: Any, file: Path, width: int
) -> None:
    assert 900 < height(browser, file, width) <= HIGHEST[width]


@pytest.mark.thorough
def test_the_page_of_the_default_audit_is_short(browser: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    subprocess.run(
        [sys.executable, "-m", "scotoma", "audit", "--out", str(run), "--quiet"],
        check=True, cwd=tmp_path,
    )  # fmt: skip
    for width, highest in HIGHEST.items():
        assert height(browser, run / "report.html", width) <= highest
    shutil.rmtree(run)


def test_the_first_screen_has_verdict_variants_and_what_to_do(page: Any) -> None:
    for found in ("#verdict", "#t-variants", ".next"):
        box = page.locator(found).bounding_box()
        assert box["y"] + min(box["height"], 40) <= 900, found


def test_a_link_and_an_address_open_what_they_lead_to(page: Any, file: Path) -> None:
    fold = "document.querySelector('{}').closest('details').open"
    assert not page.evaluate(fold.format("#gate"))
    page.locator("nav a[href='#gate']").click()
    assert page.evaluate(fold.format("#gate"))
    assert not page.evaluate(fold.format("#card"))
    page.goto(f"{file.as_uri()}#card")
    assert page.evaluate(fold.format("#card"))


def test_the_section_in_view_is_marked_in_the_navigation(page: Any) -> None:
    marked = "[...document.querySelectorAll('nav a[aria-current=location]')].map(a => a.hash)"
    assert page.evaluate(marked) == ["#verdict"]
    for section in ("#gallery", "#groups"):
        page.evaluate(
            "id => document.querySelector(id).scrollIntoView({behavior: 'instant'})", section
        )
        page.wait_for_function(f"() => {marked}.join() === '{section}'")


def test_a_table_that_scrolls_says_so(page: Any) -> None:
    hinted = (
        "() => [...document.querySelectorAll('.frame')].filter(one => one.checkVisibility())"
        ".every(one => one.hasAttribute('data-scrolls') "
        "=== (one.scrollWidth > one.clientWidth + 1))"
    )
    for width in (1400, 390):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(hinted)
    assert page.evaluate("document.querySelectorAll('.frame[data-scrolls]').length") > 0


def test_on_a_phone_each_variant_is_a_block_that_does_not_scroll(page: Any) -> None:
    sizes = "f => [f.scrollWidth, f.clientWidth]"
    page.set_viewport_size({"width": 390, "height": 844})
    frame = page.locator(".frame[aria-labelledby=t-variants]")
    scrolled, shown = frame.evaluate(sizes)
    assert scrolled <= shown
    cells = frame.locator("td").all()
    assert all(cell.bounding_box()["width"] <= shown for cell in cells)
    labels = [cell.get_attribute("data-label") for cell in cells]
    assert {"Gate", "Predictions that change"} <= set(labels)
    assert None not in labels


def test_folded_parts_are_printed(page: Any) -> None:
    page.emulate_media(media="print")
    for id_ in ("#figure-gate", "#t-topline", "#t-classes", "#methods"):
        assert page.locator(id_).bounding_box()["height"] > 10, id_
    assert page.locator("nav").bounding_box() is None


def test_the_unfolded_page_is_no_book(page: Any) -> None:
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert page.evaluate("document.documentElement.scrollHeight") <= 20_000
    assert page.evaluate("document.body.innerText.split(/\\s+/).length") <= 6_000
    assert page.locator("table").count() <= 18


def test_no_name_in_a_chart_is_slanted_or_cut(page: Any) -> None:
    turned = page.locator(".plot svg text").evaluate_all(
        "all => all.map(one => one.getAttribute('transform') ?? '')"
        ".filter(one => /rotate\\((?!-90|0)/.test(one))"
    )
    assert turned == []
    names = page.locator("#figure-rates .plot").first.locator("svg text").all_text_contents()
    assert {"minority", "majority"} <= set(names)
