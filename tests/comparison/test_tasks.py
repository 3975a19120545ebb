"""`scotoma compare --tasks 'mmlu_*,gsm8k'`: several tasks at once, each with its repeats."""

from __future__ import annotations

import json
import re
import shutil
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.commands import measured, scotoma
from tests.readers.conftest import FILES

TASKS = {
    "mmlu_law": (120, 4, 0.2),
    "mmlu_art": (90, 2, 0.4),
    "gsm8k": (150, 3, 0.0),
    "arc": (80, 1, 0.0),
}  # fmt: skip  questions, repeats, and how many right answers are lost
Answers = dict[str, dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def answers() -> Answers:
    rng, found = np.random.default_rng(4), {}
    for task, (n, times, lost) in TASKS.items():
        able = rng.beta(5, 1, (n, 1))
        before = rng.random((n, times)) < able
        again = rng.random((n, times)) < able
        found[task] = {"bf16": before, "int4": again & (rng.random((n, times)) >= lost)}
    return found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, answers: Answers) -> Path:
    """Files as NeMo-Skills writes them: one a task and repeat."""
    home = tmp_path_factory.mktemp("tasks")
    for (task, sides), model in product(answers.items(), ("bf16", "int4")):
        folder = home / model / task
        folder.mkdir(parents=True)
        for repeat, right in enumerate(sides[model].T):
            rows = [{"problem": f"{task} {i}", "generation": "", "symbolic_correct": bool(one)}
                    for i, one in enumerate(right)]  # fmt: skip
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / f"output-rs{repeat}.jsonl").write_text(text)
    return home


def test_tasks_have_one_verdict_and_each_its_own(home: Path, answers: Answers) -> None:
    found = measured("compare", home / "bf16", home / "int4", "--margin", "0.05")
    (one,) = found["comparisons"]
    for row in one["tasks"]:
        sides = answers[row["group"]]
        change = sides["int4"].mean() - sides["bf16"].mean()
        assert row["score"]["change"]["value"] == pytest.approx(change)
        assert row["score"]["n"] == TASKS[row["group"]][0]
    (variant,) = found["gate"]["variants"]
    failed = {test["group"] for test in variant["tests"] if test["verdict"] == "FAIL"}
    assert failed >= {"task=mmlu_law", "task=mmlu_art"}
    assert not failed & {"task=gsm8k", "task=arc"}


def test_the_floor_takes_the_repeats_of_each_task_as_they_come(
    home: Path, answers: Answers
) -> None:
    (one,) = measured("compare", home / "bf16", home / "int4")["comparisons"]
    within, across = [], []
    for task, (_, times, _) in TASKS.items():
        d, c = answers[task]["bf16"], answers[task]["int4"]
        if times > 1:
            pairs = combinations(range(times), 2)
            within.append(np.mean([d[:, i] != d[:, j] for i, j in pairs], axis=0))
            both = product(range(times), repeat=2)
            across.append(np.mean([d[:, i] != c[:, j] for i, j in both], axis=0))
    assert one["floor"]["n"] == 120 + 90 + 150  # a task without repeats has no floor
    assert one["floor"]["within"]["value"] == pytest.approx(np.concatenate(within).mean())
    assert one["floor"]["across"]["value"] == pytest.approx(np.concatenate(across).mean())


def test_a_pattern_names_a_family_that_is_judged(home: Path, answers: Answers) -> None:
    sides = home / "bf16", home / "int4"
    found = measured("compare", *sides, "--tasks", "mmlu_*,gsm8k")
    (one,) = found["comparisons"]
    assert {row["group"] for row in one["tasks"]} == {"mmlu_law", "mmlu_art", "gsm8k"}
    groups = {row["group"]: row for row in one["groups"]}
    assert set(groups) == {"family=mmlu_*", "family=gsm8k"}
    law, art = (answers[task] for task in ("mmlu_law", "mmlu_art"))
    rows = np.concatenate([one["int4"] * 1.0 - one["bf16"] for one in (law, art)], None)
    assert groups["family=mmlu_*"]["score"]["change"]["value"] == pytest.approx(rows.mean())
    judged = {test["group"] for test in found["gate"]["variants"][0]["tests"]}
    assert {"family=mmlu_*", "task=mmlu_law"} <= judged
    code, _, err = scotoma("compare", *sides, "--tasks", "mmmu_*")
    assert code == 2
    assert "task 'mmmu_*' is not in " in " ".join(err.split())


def test_all_tasks_are_judged_whether_named_or_not(home: Path) -> None:
    sides = home / "bf16", home / "int4"
    usual, named, every = (
        measured("compare", *sides, *options)["gate"]["variants"][0]["tests"]
        for options in ([], ["--tasks", "arc, gsm8k,mmlu_art,mmlu_law"], ["--tasks", "*"])
    )
    assert usual == named == every
    assert {f"task={task}" for task in TASKS} <= {test["group"] for test in usual}


def test_a_task_that_the_candidate_lacks_holds_a_pass_back(home: Path, tmp_path: Path) -> None:
    """An evaluation that broke off before its last task passes nothing but what is named."""
    base, whole = home / "bf16", tmp_path / "whole"
    shutil.copytree(base, whole)  # answers as the original does
    assert measured("compare", base, whole)["gate"]["variants"][0]["verdict"] == "PASS"
    shutil.rmtree(whole / "gsm8k")
    (one,) = measured("compare", base, whole)["gate"]["variants"]
    assert (one["verdict"], one["blocked"]) == (
        "UNSURE", ["task gsm8k is not in the log of whole, and no PASS is given: evaluate it, or "
                   "name with --tasks which to judge"],
    )  # fmt: skip
    (one,) = measured("compare", base, whole, "--tasks", "mmlu_*,arc")["gate"]["variants"]
    assert one["verdict"] == "PASS"
    found = measured("compare", whole, base)  # one that the original lacks is told
    assert found["gate"]["variants"][0]["verdict"] == "PASS"
    told = [note["sentence"] for note in found["admission"]]
    assert "task gsm8k is in the log of bf16 only, and is left out" in told


def test_repeats_that_differ_in_number_are_told(home: Path, tmp_path: Path) -> None:
    base, other = home / "bf16", tmp_path / "other"
    shutil.copytree(base, other)
    (other / "mmlu_law" / "output-rs3.jsonl").unlink()
    text = scotoma("compare", base, other, "--tasks", "mmlu_law")[1]
    assert "4 and 3 reruns" in " ".join(text.split())
    last = other / "mmlu_law" / "output-rs2.jsonl"
    last.write_text("".join(last.read_text().splitlines(keepends=True)[:100]))
    told = [note["sentence"] for note in measured("compare", base, other)["admission"]]
    assert "mmlu_law: examples have different numbers of reruns; 2 of each are compared" in told


def test_a_task_that_one_side_lacks_is_looked_for_there(tmp_path: Path) -> None:
    for name, tasks in (("a", ("law", "math")), ("b", ("law",))):
        (tmp_path / name).mkdir()
        for task in tasks:
            rows = [{"id": i, "score": i % 2, "task": task} for i in range(40)]
            path = tmp_path / name / f"{task}.jsonl"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, err = scotoma("compare", tmp_path / "a", tmp_path / "b", "--tasks", "law,math")
    assert (code, f"task 'math' is not in {tmp_path / 'b'}, which has law" in err) == (2, True)


def test_results_that_no_task_has_beside_it_are_one_note(tmp_path: Path) -> None:
    for name in ("bf16", "w4a16"):
        shutil.copytree(FILES / "lm_eval" / name, tmp_path / name)
        for path in (tmp_path / name).rglob("results_*.json"):
            path.unlink()
    ask = ["compare", tmp_path / "bf16", tmp_path / "w4a16", "--filter", "strict-match"]
    notes = [line for line in scotoma(*ask)[2].splitlines() if "few-shot examples, limit" in line]
    assert 1 <= len(notes) == len(set(notes)) <= 2
    assert all(re.match(r"note    results_\S*json is not in \S+: few-shot", one) for one in notes)


@pytest.mark.parametrize("word", ["id", "doc_id", "example_id"])
def test_a_question_is_called_as_the_user_calls_it(tmp_path: Path, word: str) -> None:
    for name in "ab":
        rows = [{"id": i, "score": i % 2, "lang": "en" if i < 20 else "ja"} for i in range(40)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ask = ["compare", *(tmp_path / f"{name}.jsonl" for name in "ab"), "--across", "lang"]
    code, _, err = scotoma(*ask, "--pair-by", word)
    assert (code, f"--pair-by {word} must find the same questions" in err) == (4, True)
