"""The page of an annotator, opened from its file in the system's Chromium, without a network."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scotoma.study.plan import StudyFolder
from tests.study.answering import page_data, planted_events, result, sent
from tests.study.conftest import VARIANT, make_run, new_study

pytestmark = pytest.mark.slow
SCRIPT = "<script>alert(1)</script>"
SIZES = [
    {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark"},
    *(
        pytest.param(more, marks=pytest.mark.thorough)
        for more in (
            {"viewport": {"width": 320, "height": 640}, "color_scheme": "light"},
            {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"},
            {"viewport": {"width": 720, "height": 450}, "device_scale_factor": 2},  # 200% zoom
            {"viewport": {"width": 800, "height": 600}, "forced_colors": "active"},
            {"viewport": {"width": 800, "height": 600}, "reduced_motion": "reduce"},
        )
    ),
]


@pytest.fixture(scope="module")
def axe() -> str:
    package = pytest.importorskip("axe_playwright_python", reason="axe-core is not installed")
    return (Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of which one class is named like a script."""
    folder = tmp_path_factory.mktemp("page")
    run = make_run(folder / "run", classes=(SCRIPT, "dog", "owl", "fox"))
    new_study(run, folder / "study")
    return folder / "study"


@pytest.fixture
def opened(study: Path, browser: Any) -> Iterator[Any]:
    """Opens a page of the first annotator in a browser of its own, and holds it to its silence."""
    contexts, wrong = [], []

    def page(**options: Any) -> Any:
        context = browser.new_context(**{"offline": True, **options})
        contexts.append(context)
        one = context.new_page()
        one.on("pageerror", lambda error: wrong.append(str(error)))
        one.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
        one.on("request", lambda sent: wrong.append(sent.url) if sent.url[0] == "h" else None)
        one.on("dialog", lambda shown: (wrong.append(shown.message), shown.dismiss()))
        one.goto((study / "send" / "annotator-1.html").as_uri())
        return one

    yield page
    for context in contexts:
        context.close()
    assert wrong == []


def violations(page: Any, axe: str) -> list[str]:
    """Faults of accessibility that axe-core finds."""
    found = page.evaluate(f"async () => {{ {axe}; return (await axe.run()).violations }}")
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found]


def answer_all(page: Any, keys: str = "ynuyny") -> None:
    for key in keys:
        page.keyboard.press(key)
    page.keyboard.press("Enter")


def downloaded(page: Any, path: Path) -> Path:
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download answers").first.click()
    waiting.value.save_as(path)
    return path


def kept(page: Any) -> dict[str, dict[str, str]]:
    """The last answers at each place that the browser holds."""
    rows = page.evaluate(
        "() => Object.keys(localStorage).filter((name) => name.includes('-event-')).sort()"
        ".map((name) => JSON.parse(localStorage.getItem(name)))"
    )
    answers: dict[str, dict[str, str]] = {}
    for row in rows:
        answers.setdefault(row["place"], {})[row["question"]] = row["value"]
    return answers


def test_a_whole_study_by_keyboard_is_what_the_result_reads(
    study: Path, opened: Any, axe: str, tmp_path: Path
) -> None:
    folder = StudyFolder(study)
    plan, orders = folder.plan(), folder.key().orders[0]
    shown = len(orders.main)
    page = opened(viewport={"width": 390, "height": 800}, bypass_csp=True)
    page.get_by_role("heading", name="Before you begin").wait_for()
    assert "other pages opened from files on this computer can read them" in page.inner_text("main")
    assert violations(page, axe) == []
    page.keyboard.press("Enter")
    for number in range(6):
        page.get_by_role("heading", name=f"Practice image {number + 1} of 6").wait_for()
        assert page.evaluate("() => document.querySelector('img').naturalWidth") == 256
        if number == 0:
            assert violations(page, axe) == []
            alternative = page.locator("img").get_attribute("alt")
            assert not any(name in alternative for name in ("dog", "owl", "fox"))
            page.keyboard.press("?")
            assert violations(page, axe) == []
            page.keyboard.press("Escape")
        answer_all(page)
    page.get_by_role("heading", name="Ready").wait_for()
    assert f"{shown} images, about" in page.inner_text("main")
    page.keyboard.press("Enter")
    for number in range(shown):
        page.get_by_role("heading", name=f"Image {number + 1} of {shown}", exact=True).wait_for()
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        if number == 2:  # a second thought: question 1 again, and the image before
            page.keyboard.press("1")
            page.keyboard.press("n")
            page.keyboard.press("Backspace")
            page.get_by_role("heading", name=f"Image 2 of {shown}", exact=True).wait_for()
            page.keyboard.press("Enter")
            page.get_by_role("heading", name=f"Image 3 of {shown}", exact=True).wait_for()
        if number == 7:
            page.keyboard.press("s")
            continue
        if number == 10:  # the page is closed in the middle of an image, and opened again
            page.keyboard.press("y")
            page.get_by_text("Kept in this browser").wait_for()
            page.reload()
            page.get_by_role("heading", name=f"Image 11 of {shown}").wait_for()
            assert page.locator("fieldset").first.locator("[aria-pressed=true]").count() == 1
            page.locator("#comment").fill("a remark")
            page.locator("h1").click()
        answer_all(page)
    page.get_by_role("heading", name="A second pass").wait_for()
    page.keyboard.press("Enter")
    for number in range(len(orders.guess)):
        page.get_by_role("heading", name=f"Second pass: image {number + 1} of 6").wait_for()
        answer_all(page, "u")
    page.get_by_role("heading", name="Thank you").wait_for()
    assert violations(page, axe) == []
    delete = page.get_by_role("button", name="Delete them from this browser")
    assert delete.is_disabled()
    file = downloaded(page, tmp_path / "answers.json")
    answers = kept(page)
    delete.click()
    page.get_by_text("Answers deleted from this browser").wait_for()
    assert page.evaluate("() => Object.keys(localStorage)") == []
    assert answers["m7"] == {"skip": "yes"}
    assert (answers["m2"]["q1"], answers["m10"]["comment"]) == ("no", "a remark")
    for place in [f"m{number}" for number in range(shown) if number != 7]:
        assert answers[place].keys() >= set(plan.questions), place
    assert all(answers[f"g{number}"] == {"guess": "cant-tell"} for number in range(6))
    result(study, file)
    text = (study / "answers.csv").read_text()
    assert "1,m7," in text
    assert ",comment,a remark," in text
    flow = json.loads((study / "result.json").read_text())["flow"]
    repeated = set(orders.main[7:]) & set(orders.main[:7])
    assert flow["skipped"] == (orders.main[7] not in repeated)
    assert (flow["sampled"], flow["annotators"]) == (24, 1)


@pytest.mark.parametrize("options", SIZES)
def test_pages_fit_and_are_accessible(opened: Any, axe: str, options: dict[str, Any]) -> None:
    page = opened(bypass_csp=True, **options)
    page.get_by_role("button", name="I agree, begin").click()
    page.get_by_role("heading", name="Practice image 1 of 6").wait_for()
    assert violations(page, axe) == []
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Zoom").click()
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_two_tabs_keep_every_answer_and_letters_can_be_turned_off(opened: Any) -> None:
    page = opened()
    page.get_by_role("button", name="I agree, begin").click()
    page.get_by_role("heading", name="Practice image 1 of 6").wait_for()
    other = page.context.new_page()
    other.goto(page.url)
    other.get_by_role("heading", name="Practice image 1 of 6").wait_for()
    for tab, keys in ((page, "1y"), (other, "1n"), (page, "2n"), (other, "3y")):
        for key in keys:
            tab.keyboard.press(key)
        tab.wait_for_timeout(20)
    assert kept(page)["p0"] == {"q1": "no", "q2": "no", "q3": "yes"}
    page.get_by_role("button", name="Help").click()
    page.get_by_label("Single-letter keys").uncheck()
    page.keyboard.press("Escape")
    before = kept(page)
    page.keyboard.press("y")
    page.wait_for_timeout(100)
    assert kept(page) == before


@pytest.mark.parametrize(
    "broken",
    [
        "Object.defineProperty(window, 'localStorage', {get() { throw new Error('off'); }})",
        "Storage.prototype.setItem = () => { throw new Error('full'); }",
    ],
    ids=["off", "full"],
)
def test_a_browser_that_keeps_nothing_says_so(
    study: Path, browser: Any, broken: str, tmp_path: Path
) -> None:
    page = browser.new_context(offline=True).new_page()
    page.add_init_script(broken)
    page.goto((study / "send" / "annotator-1.html").as_uri())
    if page.get_by_role("heading", name="Before you begin").count():
        page.keyboard.press("Enter")
    page.get_by_role("heading", name="This file cannot be answered here").wait_for()
    assert "Allow it for this file, and open the file again" in page.inner_text("main")
    page.context.close()


def test_storage_that_fills_up_on_the_way_is_told(opened: Any) -> None:
    page = opened()
    page.get_by_role("button", name="I agree, begin").click()
    page.get_by_role("heading", name="Practice image 1 of 6").wait_for()
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new Error('full'); } }")
    page.keyboard.press("y")
    page.get_by_text("This browser keeps nothing").wait_for()


def test_a_class_named_like_a_script_is_text(opened: Any) -> None:
    page = opened()
    page.get_by_role("button", name="I agree, begin").click()
    for number in range(6):
        page.get_by_role("heading", name=f"Practice image {number + 1} of 6").wait_for()
        if SCRIPT in page.locator(".labels").inner_text():
            break
        answer_all(page)
    assert SCRIPT in page.locator(".labels").inner_text()
    assert page.locator("main script").count() == 0


def test_a_page_names_no_arm_and_its_policy_allows_itself_alone(study: Path) -> None:
    text = (study / "send" / "annotator-1.html").read_text()
    tasks = (study / "send" / "label-studio.json").read_text()
    for content in (text, tasks):
        without = re.sub(r"[A-Za-z0-9+/=]{500,}", "", content)
        words = [VARIANT, "prune", "secret-", "taxicab", "modal", "example_id", '"arm"', "CIE"]
        assert [word for word in words if word in without] == []
    assert "default-src 'none'" in text.replace("&#39;", "'")
    assert len(set(map(len, re.findall(r'"([A-Za-z0-9+/=]{500,})"', text)))) == 1
    assert page_data(study)["parts"]["m"] != page_data(study, 2)["parts"]["m"]


def test_what_is_on_the_page_does_not_depend_on_the_arm(study: Path) -> None:
    """Over all annotators, arm A stands in the middle on average, and looks like the others."""
    key, data = StudyFolder(study).key(), page_data(study)
    assert data.keys() == {
        "study", "annotator", "consent", "questions", "parts", "labels", "images",
        "pause_minutes", "longest_comment",
    }  # fmt: skip
    assert {len(names) for names in data["labels"].values()} == {3}
    assert key.items.keys() == set(data["parts"]["m"])
    assert set(data["images"]) == {*data["parts"]["p"], *data["parts"]["m"]}


def test_answers_of_another_browser_are_the_same_answers(
    study: Path, opened: Any, tmp_path: Path
) -> None:
    """What the page downloads of planted answers is what they were."""
    page = opened()
    events = planted_events(study, 1)
    name = f"scotoma-study-{StudyFolder(study).plan().sha256[:16]}-1"
    page.evaluate(
        "([name, events]) => { JSON.parse(events).forEach((one, number) =>"
        " localStorage.setItem(`${name}-event-${String(number).padStart(15, '0')}-x`,"
        " JSON.stringify(one))); localStorage.setItem(`${name}-consent`, 'yes'); }",
        [name, json.dumps([sent(one) for one in events])],
    )
    page.reload()
    page.get_by_role("heading", name="Practice image 1 of 6").wait_for()
    content = json.loads(downloaded(page, tmp_path / "answers.json").read_text())["content"]
    assert json.loads(content)["events"] == [sent(one) for one in events]
