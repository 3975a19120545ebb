"""A whole study by keyboard, in the system's Chromium."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scotoma.study.plan import StudyFolder
from tests.study.serving import invite, serving

pytest.importorskip("starlette", reason="the extra study is not installed")


@pytest.fixture(scope="module")
def axe() -> str:
    package = pytest.importorskip("axe_playwright_python", reason="axe-core is not installed")
    return (Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def served(
    planned: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, dict[str, str], Path]]:
    """Address, tokens and folder of a study of its own."""
    folder = tmp_path_factory.mktemp("served") / "study"
    shutil.copytree(planned, folder)
    StudyFolder(folder).key_file.unlink()  # which the server must not need
    tokens = invite(folder) | invite(folder, "--annotator", "4")
    with serving("study", "serve", folder) as (address, _):
        yield address, tokens, folder


def violations(page: Any, axe: str) -> list[str]:
    """Faults of accessibility that axe-core finds."""
    found = page.evaluate(f"async () => {{ {axe}; return (await axe.run()).violations }}")
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found]


def answer_all(page: Any, keys: str = "ynuyny") -> None:
    for key in keys:
        page.keyboard.press(key)
    page.keyboard.press("Enter")


def test_the_first_images_by_keyboard(
    served: tuple[str, dict[str, str], Path], browser: Any
) -> None:
    address, tokens, folder = served
    questions = set(StudyFolder(folder).plan().questions)
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(f"{address}/#{tokens['4']}")
    page.get_by_role("heading", name="Before you begin").wait_for()
    page.keyboard.press("Enter")
    for number in range(6):
        page.get_by_role("heading", name=f"Practice image {number + 1} of 6").wait_for()
        answer_all(page)
    page.get_by_role("heading", name="Ready").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Image 1 of").wait_for()
    context.set_offline(True)
    page.keyboard.press("y")
    page.get_by_text("not saved yet").wait_for()
    context.set_offline(False)
    answer_all(page)
    page.get_by_role("heading", name="Image 2 of").wait_for()
    page.keyboard.press("s")
    page.get_by_role("heading", name="Image 3 of").wait_for()
    page.get_by_text("All answers saved").wait_for()
    page.reload()
    page.get_by_role("heading", name="Image 3 of").wait_for()
    context.close()
    answers = final_answers(folder, 4)
    assert answers["m0"].keys() == questions
    assert answers["m1"] == {"skip": "yes"}


@pytest.mark.thorough
def test_a_whole_study_by_keyboard(
    served: tuple[str, dict[str, str], Path], browser: Any, axe: str
) -> None:
    address, tokens, folder = served
    token = tokens["1"]
    plan, orders = StudyFolder(folder).plan(), StudyFolder(folder).orders(1)
    shown = len(orders.main)
    context = browser.new_context(viewport={"width": 390, "height": 800}, bypass_csp=True)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{address}/#{token}")
    page.get_by_role("heading", name="Before you begin").wait_for()
    assert violations(page, axe) == []
    assert token not in page.url
    assert context.cookies() == []  # no consent, no cookie
    page.keyboard.press("Enter")
    for number in range(len(orders.practice)):
        page.get_by_role("heading", name=f"Practice image {number + 1} of 6").wait_for()
        if number == 0:
            assert violations(page, axe) == []
            alternative = page.locator("img").get_attribute("alt")
            assert not any(name in alternative for name in ("cat", "dog", "owl", "fox"))
            page.keyboard.press("?")
            assert violations(page, axe) == []
            page.keyboard.press("Escape")
        answer_all(page)
    page.get_by_role("heading", name="Ready").wait_for()
    assert f"{shown} images, about" in page.inner_text("main")
    page.keyboard.press("Enter")
    for number in range(len(orders.main)):
        page.get_by_role("heading", name=f"Image {number + 1} of {shown}").wait_for()
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        if number == 2:  # a second thought: question 1 again, and the image before
            page.keyboard.press("1")
            page.keyboard.press("n")
            page.keyboard.press("Backspace")
            page.get_by_role("heading", name=f"Image 2 of {shown}").wait_for()
            page.keyboard.press("Enter")
            page.get_by_role("heading", name=f"Image 3 of {shown}").wait_for()
        if number == 5:  # the network fails, and comes back
            context.set_offline(True)
            page.keyboard.press("y")
            page.get_by_text("not saved yet").wait_for()
            context.set_offline(False)
        if number == 7:
            page.keyboard.press("s")
            continue
        if number == 10:  # reload in the middle of an image
            page.keyboard.press("y")
            page.get_by_text("All answers saved").wait_for()
            page.reload()
            page.get_by_role("heading", name=f"Image 11 of {shown}").wait_for()
            assert page.locator("fieldset").first.locator("[aria-pressed=true]").count() == 1
        answer_all(page)
    page.get_by_role("heading", name="A second pass").wait_for()
    page.keyboard.press("Enter")
    for number in range(len(orders.guess)):
        page.get_by_role("heading", name=f"Second pass: image {number + 1} of 6").wait_for()
        answer_all(page, "u")
    page.get_by_role("heading", name="Thank you").wait_for()
    page.get_by_text("All answers saved").wait_for()
    assert violations(page, axe) == []
    assert errors == []
    context.close()
    answers = final_answers(folder)
    assert answers["m7"] == {"skip": "yes"}
    assert answers["m2"]["q1"] == "no"
    for place in [f"m{number}" for number in range(shown) if number != 7]:
        assert answers[place].keys() >= set(plan.questions), place
    assert all(answers[f"g{number}"] == {"guess": "cant-tell"} for number in range(6))


def final_answers(folder: Path, annotator: int = 1) -> dict[str, dict[str, str]]:
    """The last answer at each place, read while the server is up."""
    connection = sqlite3.connect(f"file:{folder / 'answers.sqlite'}?mode=ro", uri=True)
    rows = connection.execute(
        "SELECT place, question, value FROM events WHERE annotator = ? ORDER BY number",
        (annotator,),
    )
    answers: dict[str, dict[str, str]] = {}
    for place, question, value in rows:
        answers.setdefault(place, {})[question] = value
    connection.close()
    return answers


@pytest.mark.parametrize(
    "options",
    [
        {"viewport": {"width": 320, "height": 640}, "color_scheme": "dark"},
        *(
            pytest.param(more, marks=pytest.mark.thorough)
            for more in (
                {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"},
                {"viewport": {"width": 720, "height": 450}, "device_scale_factor": 2},  # 200% zoom
                {"viewport": {"width": 800, "height": 600}, "forced_colors": "active"},
                {"viewport": {"width": 800, "height": 600}, "reduced_motion": "reduce"},
            )
        ),
    ],
    ids=["320px-dark", "1440px-light", "zoomed", "forced-colours", "reduced-motion"],
)
def test_pages_fit_and_are_accessible(
    served: tuple[str, dict[str, str], Path], browser: Any, axe: str, options: dict[str, Any]
) -> None:
    address, tokens, _ = served
    token = tokens["2"]
    context = browser.new_context(bypass_csp=True, **options)
    page = context.new_page()
    page.goto(f"{address}/#{token}")
    page.locator("#next").wait_for()
    if page.get_by_role("heading", name="Before you begin").count():
        page.keyboard.press("Enter")
    page.get_by_role("heading", name="Practice image 1 of 6").wait_for()
    assert violations(page, axe) == []
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Zoom").click()
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    context.close()


def test_two_tabs_keep_the_last_answer_and_letters_can_be_turned_off(
    served: tuple[str, dict[str, str], Path], browser: Any
) -> None:
    address, tokens, folder = served
    token = tokens["3"]
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{address}/#{token}")
    page.get_by_role("button", name="I agree, begin").click()
    page.get_by_role("heading", name="Practice image 1 of 6").wait_for()
    other = context.new_page()
    other.goto(address)
    other.get_by_role("heading", name="Practice image 1 of 6").wait_for()
    for tab, key in ((page, "y"), (other, "n")):
        tab.keyboard.press(key)
        tab.get_by_text("All answers saved").wait_for()
        tab.wait_for_timeout(200)
    assert final_answers(folder, 3)["p0"]["q1"] == "no"
    context.set_offline(True)  # unsent answers of both tabs wait side by side
    for tab, key in ((page, "2n"), (other, "3y")):
        tab.keyboard.press(key[0])
        tab.keyboard.press(key[1])
        tab.get_by_text("not saved yet").wait_for()
    assert page.evaluate("Object.keys(localStorage).filter((n) => n.includes('queue')).length") == 2
    other.close()
    context.set_offline(False)
    page.get_by_text("All answers saved").wait_for()
    assert final_answers(folder, 3)["p0"] == {"q1": "no", "q2": "no", "q3": "yes"}
    page.route("**/answer", lambda one: one.fulfill(status=400, json={"error": "no such place"}))
    page.keyboard.press("4")
    page.keyboard.press("y")
    page.get_by_text("1 refused (no such place): tell the person who asked you").wait_for()
    page.get_by_role("button", name="Help").click()
    page.get_by_label("Single-letter keys").uncheck()
    page.keyboard.press("Escape")
    before = json.dumps(final_answers(folder, 3))
    page.keyboard.press("y")
    page.wait_for_timeout(200)
    assert json.dumps(final_answers(folder, 3)) == before
    context.close()
