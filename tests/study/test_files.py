"""Answers without the server: a single file, Label Studio, CSV, backups."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from scotoma.audit.study import read_study
from scotoma.study.bundles import bundles, stamp_of
from scotoma.study.plan import StudyFolder
from scotoma.study.store import AnswerStore, Event
from tests.commands import scotoma
from tests.study.serving import Client, invite, serving
from tests.study.test_result import planted_events
from tests.study.test_study_browser import answer_all, violations

pytestmark = pytest.mark.slow


@pytest.fixture
def study(planned: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(planned, tmp_path / "study"))


def exported(study: Path, *options: str) -> list[dict[str, Any]]:
    code, out, err = scotoma("study", "export", study, "--json", *options)
    assert code == 0, err
    files: list[dict[str, Any]] = json.loads(out)["files"]
    return files


def few_events(folder: StudyFolder, annotator: int) -> list[Event]:
    """Answers to the first images, few enough for a server's limits."""
    places = {f"m{number}" for number in range(8)}
    events = planted_events(folder, annotator)
    return [one for one in events if one.annotator == annotator and one.place in places]


def sent(event: Event) -> dict[str, Any]:
    return {name: value for name, value in vars(event).items() if name != "annotator"}


def answer_file(root: Path, number: int, answers: list[Event], **changed: Any) -> Path:
    """What the page of an annotator downloads, without a browser."""
    folder = StudyFolder(root)
    content = {
        "study": folder.plan().sha256, "annotator": number, "part": 1, "parts": 1,
        "consent": True, "events": [sent(one) for one in answers], **changed,
    }  # fmt: skip
    text = json.dumps(content)
    stamp = stamp_of(folder.offline_keys()[number], text)
    path = root.parent / f"answers-{number}-{len(list(root.parent.iterdir()))}.json"
    outer = {"format": "scotoma study answers", "version": 1, "content": text, "stamp": stamp}
    path.write_text(json.dumps(outer))
    return path


def test_files_and_server_give_the_same_result_byte_for_byte(study: Path, planned: Path) -> None:
    there = study.parent / "there"
    shutil.copytree(planned, there)
    events = {number: few_events(StudyFolder(study), number) for number in (1, 2, 3)}
    tokens = invite(there)
    with serving("study", "serve", there) as (address, _):
        for number, own in events.items():
            client = Client(address)
            client.enter(tokens[str(number)])
            for one in own:
                assert client.ask("POST", "/answer", sent(one)).status == 200
    for number, own in events.items():
        exported(study, "--single-file", "--annotator", str(number))
        code, out, err = scotoma("study", "import", study, answer_file(study, number, own))
        assert (code, err) == (0, "")
        assert out.endswith(": 48 answers taken\n")
    for folder in (there, study):
        assert scotoma("study", "result", folder)[0] == 0
    assert (there / "result.json").read_bytes() == (study / "result.json").read_bytes()


def test_a_file_is_answered_by_keyboard_and_what_it_downloads_is_taken(
    study: Path, browser: Any
) -> None:
    axe = Path(pytest.importorskip("axe_playwright_python").__file__).parent / "axe.min.js"
    (file,) = exported(study, "--single-file", "--annotator", "3")
    assert len(file["items"]) == 30
    context = browser.new_context(viewport={"width": 320, "height": 640}, offline=True)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
    page.on("request", lambda one: wrong.append(one.url) if one.url.startswith("http") else None)
    address = Path(file["file"]).as_uri()
    page.goto(address)
    page.get_by_role("heading", name="Before you begin").wait_for()
    assert "other pages opened from files on this computer can read them" in page.inner_text("main")
    page.keyboard.press("Enter")
    for number in range(6):
        page.get_by_role("heading", name=f"Practice image {number + 1} of 6").wait_for()
        assert page.evaluate("() => document.querySelector('img').naturalWidth") == 256
        answer_all(page)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Image 1 of 27").wait_for()
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    answer_all(page)
    page.get_by_role("heading", name="Image 2 of 27").wait_for()
    page.keyboard.press("y")
    page.reload()
    page.get_by_role("heading", name="Image 2 of 27").wait_for()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download answers").click()
    answers = study.parent / "answers.json"
    waiting.value.save_as(answers)
    keys = page.evaluate("() => Object.keys(localStorage)")
    plan = StudyFolder(study).plan()
    assert all(plan.sha256[:16] + "-3-1" in key for key in keys if key != "scotoma-letters")
    assert wrong == []
    context.close()
    checked = browser.new_context(bypass_csp=True, color_scheme="dark").new_page()
    checked.goto(address)
    assert violations(checked, axe.read_text(encoding="utf-8")) == []
    checked.context.close()
    code, out, err = scotoma("study", "import", study, answers)
    assert (code, err) == (0, "")
    assert out.endswith(": 43 answers taken\n")
    with AnswerStore.opened(study / "answers.sqlite") as store:
        main = [one for one in store.events(3) if one.place[0] == "m"]
    assert [(one.place, one.question, one.value) for one in main[-2:]] == [
        ("m0", "q6", "yes"), ("m1", "q1", "yes"),
    ]  # fmt: skip


def test_an_ended_file_is_cleared_only_after_its_download(study: Path, browser: Any) -> None:
    (file,) = exported(study, "--single-file", "--annotator", "3")
    page = browser.new_context().new_page()
    page.goto(Path(file["file"]).as_uri())
    folder = StudyFolder(study)
    events = [sent(one) for one in planted_events(folder, 3) if one.annotator == 3]
    practice = [
        {**events[0], "key": f"{n:032x}", "place": f"p{n}", "question": "skip", "value": "yes"}
        for n in range(6)
    ]
    name = f"scotoma-study-{folder.plan().sha256[:16]}-3-1"
    page.evaluate(
        "([name, events]) => { const kept = scotoma.records(`${name}-event-`);"
        " JSON.parse(events).forEach((one) => kept.add(one));"
        " localStorage.setItem(`${name}-consent`, 'yes'); }",
        [name, json.dumps([*practice, *events])],
    )
    page.reload()
    page.get_by_role("heading", name="Thank you").wait_for()
    clear = page.get_by_role("button", name="Delete them from this browser")
    assert clear.is_disabled()
    with page.expect_download():
        page.keyboard.press("Enter")
    clear.click()
    page.get_by_text("Answers deleted from this browser").wait_for()
    assert page.evaluate("() => Object.keys(localStorage).length") == 0
    page.context.close()


def test_a_file_names_no_arm_and_its_policy_allows_itself_alone(study: Path) -> None:
    (file,) = exported(study, "--single-file", "--annotator", "1")
    text = Path(file["file"]).read_text()
    without = re.sub(r'"[A-Za-z0-9+/=]{500,}"', '""', text)
    words = ["prune", "secret-", "taxicab", "modal", "example_id", '"arm"', "CIE", "key.json"]
    assert [word for word in words if word in without] == []
    assert "default-src 'none'" in without.replace("&#39;", "'")
    assert len(set(map(len, re.findall(r'"([A-Za-z0-9+/=]{500,})"', text)))) == 1
    assert oct((study / "offline_keys.json").stat().st_mode)[-3:] == "600"


def test_what_does_not_fit_goes_into_the_next_file(study: Path) -> None:
    folder = StudyFolder(study)
    items = pl.read_parquet(folder.items_file)
    images = dict(items.select("id", "image").iter_rows())
    labels = dict(items.select("id", "labels").iter_rows())
    orders = folder.orders(1)
    one = len(next(iter(images.values()))) * 4 // 3
    made = bundles(
        folder.plan(), orders, images, labels, annotator=1, key=b"k", largest=200_000 + 11 * one
    )
    assert len(made) > 3
    assert all(len(page) <= 200_000 + 11 * one for page, _ in made)
    states = [
        json.loads(re.search(r'id="bundle">(.*?)</script>', page.decode())[1])["state"]
        for page, _ in made
    ]
    for name, own in (("p", orders.practice), ("m", orders.main), ("g", orders.guess)):
        assert [item for state in states for item in state["parts"][name]] == list(own)
        for state in states:
            first, part = state["first"][name], state["parts"][name]
            assert list(own[first : first + len(part)]) == part
            assert state["total"][name] == len(own)


def damaged(path: Path, change: Any) -> Path:
    outer = json.loads(path.read_text())
    path.write_text(json.dumps(change(outer)))
    return path


def test_other_and_damaged_files_are_refused_in_one_sentence(study: Path) -> None:
    exported(study, "--single-file", "--annotator", "1")
    events = few_events(StudyFolder(study), 1)
    item = {**sent(events[0]), "item": "0" * 32}
    cases = [
        (answer_file(study, 1, events, study="0" * 64), "another study or an edited plan"),
        (answer_file(study, 1, events, annotator=2), "an annotator for whom no file was exported"),
        (answer_file(study, 1, events, consent=False), "holds no consent of annotator 1"),
        (answer_file(study, 1, events, events=[]), "holds no answer yet"),
        (answer_file(study, 1, events, events=[item]), "answer 1: item is not at this place"),
        (answer_file(study, 1, events, events=[5]), "answer 1: an answer must have the fields"),
        (
            damaged(
                answer_file(study, 1, events),
                lambda one: one | {"content": one["content"].replace('"no"', '"yes"', 1)},
            ),
            "is damaged (its stamp does not hold)",
        ),
        (damaged(answer_file(study, 1, events), lambda _: []), "must be a file of answers"),
        (damaged(answer_file(study, 1, events), lambda one: one | {"stamp": 5}), "must be a file"),
        (study / "plan.json", "must be a file of answers"),
        (study / "absent.json", "cannot be read"),
    ]
    for path, sentence in cases:
        code, out, err = scotoma("study", "import", study, path)
        assert (code in (2, 4), out) == (True, ""), sentence
        assert sentence in err
        assert err.count("\n") == 1
    whole = answer_file(study, 1, events)
    assert scotoma("study", "import", study, whole)[0] == 0
    code, _, err = scotoma("study", "import", study, whole)
    assert code == 4
    assert "was imported before" in err
    assert scotoma("study", "erase", study, "--annotator", "1")[0] == 0
    assert "annotator 1 was erased" in scotoma("study", "import", study, whole)[2]
    again = scotoma("study", "export", study, "--single-file", "--annotator", "1")
    assert "annotator 1 was erased" in again[2]


def annotations(study: Path, people: int) -> list[dict[str, Any]]:
    """What Label Studio exports of the tasks, see https://labelstud.io/guide/task_format."""
    tasks = json.loads((study / "exports" / "label-studio.json").read_text())
    key = StudyFolder(study).key()
    exported = []
    for number, task in enumerate(tasks):
        arm = key[task["data"]["scotoma_item"]].arm
        said = {"q1": "No" if arm == "A" else "Yes", "q2": "Yes", "q5": "Can't tell"}
        result = [
            {"from_name": one, "to_name": "image", "type": "choices", "value": {"choices": [text]}}
            for one, text in said.items()
        ]
        result.append(
            {"from_name": "comment", "to_name": "image", "type": "textarea",
             "value": {"text": ["=HYPERLINK(1)"]}}
        )  # fmt: skip
        own = [
            {"id": 100 * number + person, "completed_by": 7 + person, "lead_time": 4.288,
             "was_cancelled": number == 0, "result": result, "updated_at": "2027-01-01T00:00:00Z"}
            for person in range(people)
        ]  # fmt: skip
        exported.append({"id": number, "data": task["data"], "annotations": own})
    return exported


def test_label_studio_takes_tasks_and_gives_answers_that_are_stamped(study: Path) -> None:
    files = exported(study, "--label-studio")
    tasks = json.loads(Path(files[0]["file"]).read_text())
    assert len(tasks) == 24
    assert all(one["data"]["image"].startswith("data:image/png;base64,") for one in tasks)
    interface = ElementTree.parse(files[1]["file"])
    asked = [one.get("name") for one in interface.iter("Choices")]
    assert asked == ["q1", "q2", "q3", "q4", "q5", "q6"]
    back = study.parent / "back.json"
    back.write_text(json.dumps(annotations(study, 3)))
    code, out, err = scotoma("study", "import", study, back, "--label-studio")
    assert (code, err) == (0, "")
    assert out.endswith(f": {3 * (23 * 4 + 1)} answers taken\n")
    assert "imported before" in scotoma("study", "import", study, back, "--label-studio")[2]
    assert scotoma("study", "result", study)[0] == 0
    found = read_study(study / "result.json")
    effect = found.questions[0].effects["A-C"]
    assert effect.value is not None
    assert effect.value > 0.8
    assert (found.flow.annotators, found.flow.skipped) == (3, 3)
    assert any(
        "3 annotators answered in Label Studio: their blinding" in d for d in found.deviations
    )
    assert "answered with another tool" in scotoma("study", "invite", study, "--annotator", "50")[2]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "must be tasks with annotations"),
        ("[5]", "must be tasks with annotations"),
        ("[]", "holds no annotation yet"),
        ('[{"data": {"scotoma_study": "0", "scotoma_item": "x"}}]', "is of another study"),
    ],
)
def test_what_is_no_export_of_label_studio_is_refused(
    study: Path, content: str, sentence: str
) -> None:
    exported(study, "--label-studio")
    path = study.parent / "back.json"
    path.write_text(content)
    code, _, err = scotoma("study", "import", study, path, "--label-studio")
    assert code == 4
    assert sentence in err


def test_answers_leave_as_csv_that_no_spreadsheet_calculates(study: Path) -> None:
    invite(study)
    item = StudyFolder(study).orders(1).main[0]
    comments = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "plain"]
    with AnswerStore.opened(study / "answers.sqlite") as store:
        store.append(
            Event(1, f"{n:032x}", "m0", item, "comment", text, 5) for n, text in enumerate(comments)
        )
    (file,) = exported(study, "--answers")
    text = Path(file["file"]).read_text()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["value"] for row in rows] == [*(f"'{text}" for text in comments[:4]), "plain"]
    assert not any(word in text for word in ("arm", "secret-"))


def test_a_backup_is_made_while_a_server_writes(study: Path) -> None:
    token = invite(study)["1"]
    events = few_events(StudyFolder(study), 1)[:3]
    with serving("study", "serve", study) as (address, _):
        client = Client(address)
        client.enter(token)
        for one in events:
            assert client.ask("POST", "/answer", sent(one)).status == 200
        (file,) = exported(study, "--backup")
    with AnswerStore.opened(Path(file["file"])) as copy:
        assert copy.events(1) == events


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "give one of --single-file, --label-studio, --answers, --backup, got none"),
        (("--answers", "--backup"), "got --answers, --backup"),
        (("--single-file",), "--single-file and --annotator go together"),
        (("--single-file", "--annotator", "99"), "must be a number from 1 to 50, got 99"),
        (("--backup",), "answers.sqlite cannot be copied"),
        (("--answers",), "has no answers yet"),
    ],
)
def test_what_cannot_be_exported_is_one_sentence(
    study: Path, options: tuple[str, ...], sentence: str
) -> None:
    code, _, err = scotoma("study", "export", study, *options)
    assert code in (2, 4)
    assert sentence in err
    assert err.count("\n") == 1
