"""What `scotoma study result` makes of answers: of the page, of Label Studio, and of neither."""

from __future__ import annotations

import csv
import io
import json
import shutil
import stat
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scotoma.audit.study import read_study
from scotoma.run import Run
from scotoma.study.answers import Event
from scotoma.study.plan import StudyFolder
from tests.helpers.commands import scotoma
from tests.study.answering import answer_file, answered, planted_events, result, sent
from tests.study.conftest import new_study

pytestmark = pytest.mark.slow


@pytest.fixture
def study(planned: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(planned, tmp_path / "study"))


def test_a_planted_difference_is_shown_and_nothing_else(study: Path) -> None:
    out = " ".join(result(study, *answered(study, 3)).split())
    found = read_study(study / "result.json")
    effects = {(one.key, name): e for one in found.questions for name, e in one.effects.items()}
    shown = {name for name, one in effects.items() if (one.adjusted_p or 1) < 0.05}
    assert shown == {("q1", "A-B"), ("q1", "A-C")}
    primary = effects["q1", "A-C"]
    assert primary.low is not None
    assert primary.value == 0.75
    assert 0.3 < primary.low < 0.75 < (primary.high or 0)
    assert primary.items == (8, 8)
    assert "more answers “label 1 is wrong or inadequate” among changed images" in out
    assert (found.flow.sampled, found.flow.answered) == (24, 3 * 24 * 6)
    bang = found.blinding.bang["A"]
    assert bang.low is not None
    assert bang.value == bang.high == 1.0
    assert bang.low < 0.5  # 3 people and 2 images: few, though all were right
    assert found.blinding.james.value == pytest.approx(0)
    assert "3 annotators: the claim is about these annotators. Arm A is 8 of the " in out
    odds = found.questions[0].odds["A-C"]
    assert odds.low is not None
    assert odds.low > 1
    assert [one.groups for one in found.questions] == 6 * [{}]


def test_groups_have_results_of_their_own_where_the_plan_has_groups(
    seen_run: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "study"
    new_study(seen_run, folder, "--group", "side")
    key = StudyFolder(folder).key().items
    arms = [Counter((e.class_name, e.group) for e in key.values() if e.arm == a) for a in "ABC"]
    assert arms[0] == arms[1] == arms[2]
    result(folder, *answered(folder, 3))
    found = read_study(folder / "result.json")
    assert found.group == "side"
    left, right = found.questions[0].groups["A-C"]
    assert (left.group, right.group) == ("side=left", "side=right")
    assert left.effect.items[0] + right.effect.items[0] == 8
    assert right.interaction is None
    assert left.interaction is not None
    gap = (left.effect.value or 0) - (right.effect.value or 0)
    assert left.interaction.value == pytest.approx(gap)


def test_the_same_answers_give_the_same_bytes_in_any_order(study: Path) -> None:
    files = answered(study, 3)
    result(study, *files)
    first = (study / "result.json").read_bytes()
    result(study, *reversed(files))
    assert (study / "result.json").read_bytes() == first


def test_two_annotators_are_described_without_interval(study: Path) -> None:
    result(study, *answered(study, 2))
    found = read_study(study / "result.json")
    effect = found.questions[0].effects["A-C"]
    assert (effect.low, effect.p) == (None, None)
    assert effect.reason == "2 of 3 annotators needed to see how much they differ"
    assert found.flow.annotators == 2
    assert "2 annotators answered; 3 were planned." in found.deviations


def test_cant_tell_is_left_out_and_counted_three_ways(study: Path) -> None:
    key = StudyFolder(study).key()
    events = planted_events(study, 1)
    events += [
        Event(1, f"m{n}", item, "q1", "cant-tell", 900)
        for n, item in enumerate(key.orders[0].main)
        if key.items[item].arm == "A"
    ]
    others = [answer_file(study, one, planted_events(study, one)) for one in (2, 3)]
    result(study, answer_file(study, 1, events), *others)
    question = read_study(study / "result.json").questions[0]
    by_treatment = {name: one.value for name, one in question.sensitivity["A-B"].items()}
    assert question.arms[0].cant_tell == 8
    larger = by_treatment["can't tell counted for a larger difference"]
    smaller = by_treatment["can't tell counted for a smaller difference"]
    assert larger is not None
    assert smaller is not None
    assert smaller < (question.effects["A-B"].value or 0) <= larger + 0.1


def test_a_matched_arm_stands_for_no_population(seen_run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "study"
    code, _, err = scotoma(
        "study", "new", seen_run.root, "--variant", "prune-0.9", "--out", folder, "--quiet"
    )
    assert code == 0, err
    plan = StudyFolder(folder).plan()
    assert plan.matched
    result(folder, *answered(folder, 3))
    a, b, c = read_study(folder / "result.json").questions[0].arms
    assert (a.population.value, c.population.value) == (None, None)
    assert a.population.reason == "arm A is matched, not drawn at random"
    assert b.population.value is not None


def test_of_two_downloads_the_longer_counts_and_others_are_refused(study: Path) -> None:
    events = planted_events(study, 1)
    early, late = answer_file(study, 1, events[:20]), answer_file(study, 1, events)
    others = [answer_file(study, one, planted_events(study, one)) for one in (2, 3)]
    result(study, late, *others)
    alone = (study / "result.json").read_bytes()
    result(study, late, *others, early)
    assert (study / "result.json").read_bytes() == alone
    (study / "result.json").unlink()
    other = answer_file(study, 1, [*events[:19], Event(**{**vars(events[19]), "shown_ms": 7})])
    code, out, err = scotoma("study", "result", study, late, other)
    assert (code, out) == (4, "")
    assert "must be of two people, got annotator 1 in both" in err
    assert not (study / "result.json").exists()


def test_a_file_of_an_edited_plan_is_refused(study: Path) -> None:
    files = answered(study, 1)
    folder = StudyFolder(study)
    folder.write_plan(folder.plan().model_copy(update={"primary": ("q2", "A-B")}))
    code, _, err = scotoma("study", "result", study, *files)
    assert code == 4
    assert "must answer this study, whose plan is" in err


def damaged(path: Path, change: Callable[[Any], Any]) -> Path:
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    return path


def test_other_and_damaged_files_are_refused_in_one_sentence(study: Path) -> None:
    events = planted_events(study, 1)
    first = sent(events[0])
    turned = "no" if first["value"] == "yes" else "yes"
    (study.parent / "deep.json").write_text("[" * 100_000)
    (study.parent / "bytes.json").write_bytes(b"\xff\xfe")
    cases = [
        (answer_file(study, 1, events, study="0" * 64), "must answer this study"),
        (answer_file(study, 9, events), "must be of an annotator from 1 to 3"),
        (answer_file(study, 1, events, annotator=True), "must be of an annotator from 1 to 3"),
        (answer_file(study, 1, events, consent=False), "holds no consent of annotator 1"),
        (answer_file(study, 1, events, events=[]), "holds no answer yet"),
        (answer_file(study, 1, events, events=5), "must hold study, annotator, consent"),
        (
            damaged(
                answer_file(study, 1, events),
                lambda one: one | {"content": one["content"].replace(first["value"], turned, 1)},
            ),
            "must be as the page left it, got another checksum",
        ),
        (damaged(answer_file(study, 1, events), lambda one: one | {"sha256": 5}), "checksum"),
        (damaged(answer_file(study, 1, events), lambda _: 5), "must be answers that the page"),
        (study / "plan.json", "must be answers that the page"),
        (study.parent / "deep.json", "must be answers that the page"),
        (study.parent / "bytes.json", "must be answers that the page"),
        (study / "absent.json", "cannot be read"),
        (study, "must be a file of answers, got a folder"),
    ]
    for path, sentence in cases:
        code, out, err = scotoma("study", "result", study, path)
        assert (code in (2, 4), out) == (True, ""), sentence
        assert sentence in err
        assert err.count("\n") == 1
        assert not (study / "result.json").exists()


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"item": "0" * 32}, "item is not at this place"),
        ({"place": "m99999"}, "place is none of this annotator's"),
        ({"place": "m-1"}, "place is none of this annotator's"),
        ({"place": "m٠"}, "place is none of this annotator's"),
        ({"question": "arm"}, "question is not asked here"),
        ({"question": "guess"}, "question is not asked here"),
        ({"value": "maybe"}, "value is not one of the answers"),
        ({"value": ["yes"]}, "the fields of an answer must be texts"),
        ({"shown_ms": -1}, "shown_ms must be whole milliseconds within a day"),
        ({"shown_ms": True}, "shown_ms must be whole milliseconds within a day"),
        ({"annotator": 2}, "an answer must have the fields"),
        ({"question": "comment", "value": "x" * 501}, "a comment has at most 500 characters"),
    ],
)
def test_an_answer_has_a_closed_set_of_values(
    study: Path, changed: dict[str, Any], sentence: str
) -> None:
    one = sent(planted_events(study, 1)[0])
    file = answer_file(study, 1, [], events=[one, {**one, **changed}])
    code, _, err = scotoma("study", "result", study, file)
    assert code == 4
    assert f"answer 2: {sentence}" in err


def test_practice_alone_is_no_result(study: Path) -> None:
    item = StudyFolder(study).key().orders[0].practice[0]
    file = answer_file(study, 1, [Event(1, "p0", item, "q1", "yes", 900)])
    code, _, err = scotoma("study", "result", study, file)
    assert code == 4
    assert "holds practice alone" in err


def test_answers_leave_as_csv_without_arms_that_no_spreadsheet_calculates(study: Path) -> None:
    events = planted_events(study, 1)
    item = StudyFolder(study).key().orders[0].main[0]
    comments = [
        "=cmd|' /C calc'!A0", "+1", "@SUM(1)", "plain",
        "a family \U0001f469\u200d\U0001f467 \u202eright\tto left\ud800",
    ]  # fmt: skip
    events += [Event(1, "m0", item, "comment", text, 5) for text in comments]
    result(study, answer_file(study, 1, events))
    text = (study / "answers.csv").read_text()
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["question"] == "comment"]
    assert [row["value"] for row in rows] == [
        *(f"'{text}" for text in comments[:3]), "plain",
        "a family \U0001f469\U0001f467 right to left",
    ]  # fmt: skip
    assert set(rows[0]) == {"annotator", "place", "item", "question", "value", "shown_ms"}
    assert stat.S_IMODE((study / "answers.csv").stat().st_mode) == 0o600


def annotations(study: Path, people: int) -> list[dict[str, Any]]:
    """What Label Studio exports of the tasks, see https://labelstud.io/guide/task_format."""
    tasks = json.loads((study / "send" / "label-studio.json").read_text())
    key = StudyFolder(study).key().items
    exported = []
    for number, task in enumerate(tasks):
        arm = key[task["data"]["scotoma_item"]].arm
        said = {"q1": "No" if arm == "A" else "Yes", "q2": "Yes", "q5": "Can't tell"}
        regions = [
            {"from_name": one, "to_name": "image", "type": "choices", "value": {"choices": [text]}}
            for one, text in said.items()
        ]
        regions.append(
            {"from_name": "comment", "to_name": "image", "type": "textarea",
             "value": {"text": ["=HYPERLINK(1)"]}}
        )  # fmt: skip
        own = [
            {"id": 100 * number + person, "completed_by": 7 + person, "lead_time": 4.288,
             "was_cancelled": number == 0, "result": regions,
             "updated_at": "2027-01-01T00:00:00Z"}
            for person in range(people)
        ]  # fmt: skip
        exported.append({"id": number, "data": task["data"], "annotations": own})
    return exported


def test_label_studio_takes_tasks_and_gives_answers_beside_those_of_the_page(study: Path) -> None:
    tasks = json.loads((study / "send" / "label-studio.json").read_text())
    assert len(tasks) == 24
    assert all(one["data"]["image"].startswith("data:image/png;base64,") for one in tasks)
    interface = ElementTree.parse(study / "send" / "label-studio.xml")
    asked = [one.get("name") for one in interface.iter("Choices")]
    assert asked == ["q1", "q2", "q3", "q4", "q5", "q6"]
    back, later = study.parent / "back.json", study.parent / "later.json"
    back.write_text(json.dumps(annotations(study, 3)))
    result(study, back)
    found = read_study(study / "result.json")
    effect = found.questions[0].effects["A-C"]
    assert effect.value is not None
    assert effect.value > 0.8
    assert (found.flow.annotators, found.flow.skipped) == (3, 3)
    assert [one.annotator for one in found.flow.people] == [4, 5, 6]
    assert any(
        "3 annotators answered in Label Studio: their blinding" in d for d in found.deviations
    )
    changed = annotations(study, 3)
    changed[1]["annotations"][0]["updated_at"] = "2027-01-02T00:00:00Z"
    changed[1]["annotations"][0]["result"][1]["value"]["choices"] = ["No"]
    later.write_text(json.dumps(changed))
    result(study, later, back, *answered(study, 1))  # an annotation counts as it was last changed
    found = read_study(study / "result.json")
    assert found.flow.annotators == 4
    outside = [arm for arm in found.questions[1].arms if arm.no > 0]
    own = [one for one in planted_events(study, 1) if (one.question, one.value) == ("q2", "no")]
    counted = {one.item for one in own if one.place in first_places(study)}
    assert sum(arm.no for arm in outside) == len(counted) + 1


def first_places(study: Path) -> set[str]:
    """Places of annotator 1 at which an image is shown for the first time."""
    main = StudyFolder(study).key().orders[0].main
    return {f"m{main.index(item)}" for item in main}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("[5]", "must be tasks with annotations"),
        ("[]", "holds no annotation yet"),
        ('[{"data": {"scotoma_study": "0", "scotoma_item": "x"}}]', "is of another study"),
        (
            '[{"data": {"scotoma_study": "PLAN", "scotoma_item": "x"}}]',
            "holds an image that is not in the study; export the tasks again",
        ),
    ],
)
def test_what_is_no_export_of_label_studio_is_refused(
    study: Path, content: str, sentence: str
) -> None:
    path = study.parent / "back.json"
    path.write_text(content.replace("PLAN", StudyFolder(study).plan().sha256))
    code, _, err = scotoma("study", "result", study, path)
    assert code == 4
    assert sentence in err


@pytest.mark.parametrize(
    "damage",
    [
        lambda one: one.update(lead_time=float("inf")),
        lambda one: one.update(lead_time="4"),
        lambda one: one.update(result=[{"from_name": "q1", "value": {"choices": ["Maybe"]}}]),
        lambda one: one.update(result=[{"from_name": "q1", "value": {"choices": []}}]),
        lambda one: one.update(result=5),
        lambda one: one.pop("completed_by"),
    ],
    ids=["endless", "text", "other-choice", "no-choice", "no-list", "nobody"],
)
def test_a_damaged_annotation_is_one_sentence(
    study: Path, damage: Callable[[dict[str, Any]], Any]
) -> None:
    content = annotations(study, 1)
    damage(content[3]["annotations"][0])
    path = study.parent / "back.json"
    path.write_text(json.dumps(content))
    code, _, err = scotoma("study", "result", study, path)
    assert code == 4
    assert "must be tasks with annotations" in err
    assert err.count("\n") == 1
