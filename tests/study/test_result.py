"""What the answers of planted annotators give: `scotoma study result`, `erase`, the store."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from scotoma.audit.study import read_study
from scotoma.errors import ConfigError, DataError
from scotoma.run import Run
from scotoma.study.plan import StudyFolder
from scotoma.study.store import AnswerStore, Event, back_up
from tests.commands import scotoma
from tests.study.conftest import new_study
from tests.study.serving import invite

pytestmark = pytest.mark.slow


def planted_events(folder: StudyFolder, annotators: int) -> list[Event]:
    """Answers in which label 1 is wrong on most of arm A, rarely elsewhere; all else is random."""
    key, plan = folder.key(), folder.plan()
    rng = np.random.default_rng(0)
    events = []
    for annotator in range(1, annotators + 1):
        orders = folder.orders(annotator)
        for number, item in enumerate(orders.main):
            for question in plan.questions:
                chance = 0.9 if key[item].arm == "A" else 0.1
                chance = chance if question == "q1" else 0.5
                value = "no" if rng.random() < chance else "yes"
                events.append(event(annotator, f"m{number}", item, question, value))
        for number, item in enumerate(orders.guess):
            value = "yes" if key[item].arm == "A" else "no"
            events.append(event(annotator, f"g{number}", item, "guess", value))
    return events


def event(annotator: int, place: str, item: str, question: str, value: str) -> Event:
    return Event(annotator, secrets.token_hex(16), place, item, question, value, 1500)


@pytest.fixture
def answered(planned: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "study"
    shutil.copytree(planned, folder)
    invite(folder)
    with AnswerStore.opened(folder / "answers.sqlite") as store:
        store.append(planted_events(StudyFolder(folder), 3))
    return folder


def test_a_planted_difference_is_shown_and_nothing_else(answered: Path) -> None:
    code, out, err = scotoma("study", "result", answered)
    assert code == 0, err
    found = read_study(answered / "result.json")
    effects = {(one.key, name): e for one in found.questions for name, e in one.effects.items()}
    shown = {name for name, one in effects.items() if (one.adjusted_p or 1) < 0.05}
    assert shown == {("q1", "A-B"), ("q1", "A-C")}
    primary = effects["q1", "A-C"]
    assert primary.low is not None
    assert primary.low < 0.8 < (primary.high or 0)
    assert primary.items == (8, 8)
    assert "more answers “label 1 is wrong or inadequate” among changed images" in out
    assert found.flow.sampled == 24
    assert found.flow.answered == 3 * 24 * 6
    assert found.blinding.bang["A"] is not None
    assert found.blinding.bang["A"][0] == found.blinding.bang["A"][2] == 1.0
    assert found.blinding.bang["A"][1] < 0.5  # 3 people and 2 images: few, though all were right
    assert found.blinding.james is not None
    assert found.blinding.james[0] == pytest.approx(0)
    assert "3 annotators: the claim is about these annotators." in out


def test_groups_have_results_of_their_own_where_the_plan_has_groups(
    seen_run: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "study"
    new_study(seen_run, folder, "--group", "side")
    key = StudyFolder(folder).key()
    arms = [Counter((e.class_name, e.group) for e in key.values() if e.arm == a) for a in "ABC"]
    assert arms[0] == arms[1] == arms[2]
    invite(folder)
    with AnswerStore.opened(folder / "answers.sqlite") as store:
        store.append(planted_events(StudyFolder(folder), 3))
    code, _, err = scotoma("study", "result", folder)
    assert code == 0, err
    found = read_study(folder / "result.json")
    assert found.group == "side"
    left, right = found.questions[0].groups["A-C"]
    assert (left.group, right.group) == ("side=left", "side=right")
    assert left.effect.items[0] + right.effect.items[0] == 8
    assert right.interaction is None
    assert left.interaction is not None
    gap = (left.effect.value or 0) - (right.effect.value or 0)
    assert left.interaction.value == pytest.approx(gap)


def test_without_groups_in_the_plan_there_are_none(answered: Path) -> None:
    scotoma("study", "result", answered)
    found = read_study(answered / "result.json")
    assert [one.groups for one in found.questions] == 6 * [{}]
    odds = found.questions[0].odds["A-C"]
    assert odds.low is not None
    assert odds.low > 1


def test_the_same_answers_give_the_same_bytes(answered: Path, planned: Path) -> None:
    scotoma("study", "result", answered)
    first = (answered / "result.json").read_bytes()
    scotoma("study", "result", answered)
    assert (answered / "result.json").read_bytes() == first


def test_two_annotators_are_described_without_interval(answered: Path) -> None:
    code, out, err = scotoma("study", "erase", answered, "--annotator", "3")
    assert code == 0, err
    assert out == "168 answers of annotator 3 are deleted\n"
    scotoma("study", "result", answered)
    found = read_study(answered / "result.json")
    effect = found.questions[0].effects["A-C"]
    assert (effect.low, effect.p) == (None, None)
    assert effect.reason == "2 of 3 annotators needed to see how much they differ"
    assert (found.flow.annotators, found.flow.erased) == (2, 1)
    assert "2 annotators answered; 3 were planned." in found.deviations
    assert b'"annotator": 3' not in (answered / "answers.sqlite").read_bytes()


def test_cant_tell_is_left_out_and_counted_three_ways(answered: Path) -> None:
    folder = StudyFolder(answered)
    key = folder.key()
    unsure = [
        event(1, f"m{n}", item, "q1", "cant-tell")
        for n, item in enumerate(folder.orders(1).main)
        if key[item].arm == "A"
    ]
    with AnswerStore.opened(folder.answers_file) as store:
        store.append(unsure)
    scotoma("study", "result", answered)
    question = read_study(answered / "result.json").questions[0]
    by_treatment = {one.treatment: one.value for one in question.sensitivity["A-B"]}
    assert question.arms[0].cant_tell == 8
    larger = by_treatment["can't tell counted for a larger difference"]
    smaller = by_treatment["can't tell counted for a smaller difference"]
    assert larger is not None
    assert smaller is not None
    assert smaller < (question.effects["A-B"].value or 0) <= larger + 0.1


def test_nobody_has_answered_yet(planned: Path, tmp_path: Path) -> None:
    folder = tmp_path / "study"
    shutil.copytree(planned, folder)
    for _ in range(2):
        code, _, err = scotoma("study", "result", folder)
        assert code == 4
        assert "has no answers yet" in err
        invite(folder)


def test_a_plan_changed_after_the_first_invitation_is_refused(answered: Path) -> None:
    folder = StudyFolder(answered)
    folder.write_plan(folder.plan().model_copy(update={"primary": ("q2", "A-B")}))
    code, _, err = scotoma("study", "result", answered)
    assert code == 4
    assert "the plan was changed after annotators were invited" in err


def test_an_event_sent_twice_is_kept_once_and_a_forged_key_is_refused(tmp_path: Path) -> None:
    one = event(1, "m0", "a", "q1", "yes")
    with AnswerStore.opened(tmp_path / "answers.sqlite") as store:
        store.append([one])
        store.append([one])
        assert store.events() == [one]
        with pytest.raises(DataError, match="was saved before with another content"):
            store.append([event(1, "m1", "b", "q1", "no"), Event(**{**vars(one), "value": "no"})])
        assert store.events() == [one]


def test_a_second_server_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    with AnswerStore.served(path):
        code = (
            "import sys; from pathlib import Path; from scotoma.study.store import AnswerStore\n"
            "try:\n    AnswerStore.served(Path(sys.argv[1])).__enter__()\n"
            "except Exception as error: print(error)"
        )
        done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
        assert "is served already" in done.stdout
    with pytest.raises(ConfigError), AnswerStore.served(path), AnswerStore.served(path):
        pass


def test_a_server_knows_at_once_what_commands_beside_it_changed(answered: Path) -> None:
    """Links given and withdrawn, people erased: also between a session and its answer."""
    with AnswerStore.served(answered / "answers.sqlite") as store:
        token = invite(answered, "--annotator", "2")["2"]
        assert store.holder(token) == (2, False)
        store.consent(2, "session")
        store.append([event(2, "m0", "a", "comment", "secret remark")])
        assert store.session("session") == 2
        code, _, err = scotoma("study", "invite", answered, "--annotator", "2", "--revoke")
        assert (code, err) == (0, "")
        assert (store.holder(token), store.session("session")) == (None, None)
        code, _, err = scotoma("study", "erase", answered, "--annotator", "2")
        assert (code, err) == (0, "")
        with pytest.raises(ConfigError, match="annotator 2 was erased"):
            store.append([event(2, "m0", "a", "q1", "yes")])
        assert store.events(2) == []
        code, _, err = scotoma("study", "invite", answered, "--annotator", "2")
        assert (code, "annotator 2 was erased" in err) == (2, True)
        written = [one.read_bytes() for one in answered.glob("answers.sqlite*")]
        assert not any(b"secret remark" in one for one in written)


def test_a_damaged_database_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(DataError, match="is no whole database of answers"):
        AnswerStore(path)


WRITER = """
import json, secrets, sys
from pathlib import Path
from scotoma.study.store import AnswerStore, Event, back_up
with AnswerStore.opened(Path(sys.argv[1])) as store:
    while True:
        key = secrets.token_hex(16)
        store.append([Event(1, key, "m0", "a", "q1", "yes", 5)])
        print(key, flush=True)
"""


def killed_writers(path: Path, kills: int) -> None:
    """Kill a writer again and again: what it acknowledged is there, once."""
    rng = np.random.default_rng(0)
    acknowledged: list[str] = []
    for _ in range(kills):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            lines = [writer.stdout.readline() for _ in range(int(rng.integers(1, 40)))]
            writer.kill()
            lines += list(writer.stdout)
        acknowledged += [line.strip() for line in lines if len(line) == 33]
    with AnswerStore.opened(path) as store:
        kept = [one.key for one in store.events()]
    assert len(kept) == len(set(kept))
    assert set(acknowledged) <= set(kept)
    assert len(acknowledged) > kills


def test_killed_writers_lose_no_acknowledged_answer(tmp_path: Path) -> None:
    killed_writers(tmp_path / "answers.sqlite", 2)


@pytest.mark.thorough
def test_200_killed_writers_lose_no_acknowledged_answer(tmp_path: Path) -> None:
    killed_writers(tmp_path / "answers.sqlite", 200)


def test_a_link_can_be_withdrawn(answered: Path) -> None:
    token = invite(answered, "--annotator", "1")["1"]
    with AnswerStore.opened(answered / "answers.sqlite") as store:
        assert store.holder(token) == (1, False)
    code, out, _ = scotoma("study", "invite", answered, "--annotator", "1", "--revoke")
    assert (code, out) == (0, "the link of annotator 1 no longer works\n")
    with AnswerStore.opened(answered / "answers.sqlite") as store:
        assert store.holder(token) is None
    code, _, err = scotoma("study", "invite", answered, "--annotator", "99")
    assert code == 2
    assert "--annotator must be a number from 1 to 50, got 99" in err


def test_a_backup_holds_what_was_saved(answered: Path, tmp_path: Path) -> None:
    with AnswerStore.opened(answered / "answers.sqlite") as store:
        back_up(answered / "answers.sqlite", tmp_path / "copy.sqlite")
        expected = store.events()
    with AnswerStore.opened(tmp_path / "copy.sqlite") as copy:
        assert copy.events() == expected
