"""Rollouts of NeMo-Skills and results of promptfoo, through `scotoma compare`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.commands import scotoma, stderr_of, stdout_of
from tests.readers.conftest import FILES, Read


def write_rollouts(folder: Path, right: np.ndarray, **scored: Any) -> Path:
    """Write a benchmark as `ns eval` does: a file a repeat; `right` has shape (repeats, n)."""
    folder.mkdir(parents=True)
    for repeat, answers in enumerate(right):
        rows = [
            {
                "problem": f"What is {i} + {i}?",
                "expected_answer": str(2 * i),
                "predicted_answer": str(2 * i) if one else "0",
                "generation": f"It is {2 * i if one else 0}.",
                "num_generated_tokens": 5,
                "subset": "odd" if i % 2 else "even",
                **({"symbolic_correct": bool(one)} if not scored else scored["of"](one)),
            }
            for i, one in enumerate(answers)
        ]
        path = folder / f"output-rs{repeat}.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def answers(rng: np.random.Generator, n: int, repeats: int, loss: float = 0.0) -> np.ndarray:
    rate = np.clip(rng.beta(2, 1, n) - loss * (np.arange(n) % 2), 0, 1)
    return rng.random((repeats, n)) < rate


def test_rollouts_of_several_benchmarks_are_one_verdict(tmp_path: Path) -> None:
    for name, loss in (("bf16", 0.0), ("lossless", 0.0), ("harmed", 0.4)):
        rng = np.random.default_rng(5)
        for task, (n, repeats) in {"gpqa": (200, 8), "scicode": (300, 4), "hle": (900, 1)}.items():
            write_rollouts(tmp_path / name / task, answers(rng, n, repeats, loss))
    places = {name: str(tmp_path / name) for name in ("bf16", "lossless", "harmed")}
    asked = ("--group", "subset", "--json", "--quiet")
    _, out, err = scotoma("compare", places["bf16"], places["harmed"], *asked)
    found = json.loads(out)
    tests = found["gate"]["variants"][0]["tests"]
    assert found["gate"]["verdict"] == "FAIL", err
    assert "subset=odd" in [one["group"] for one in tests if one["verdict"] == "FAIL"]
    assert {f"task={task}" for task in ("gpqa", "scicode", "hle")} <= {
        one["group"] for one in tests
    }
    _, out, _ = scotoma("compare", places["bf16"], places["lossless"], *asked)
    assert json.loads(out)["gate"]["verdict"] == "PASS"


def test_repeats_are_reruns_of_one_model_without_being_said_to_be(
    read: Read, tmp_path: Path
) -> None:
    write_rollouts(tmp_path / "gpqa", answers(np.random.default_rng(0), 6, 3))
    log = read(tmp_path)["gpqa"]
    assert log.examples.group_by("content_hash").len()["len"].to_list() == [3] * 6
    assert sorted(set(log.examples["rerun"])) == [0, 1, 2]
    assert log.scores == ("symbolic_correct",)
    (only,) = scotoma("compare", str(tmp_path), str(tmp_path), "--list", "--json", "--quiet")[1:2]
    assert "subset" in only
    assert "predicted_answer" not in only  # what the model said describes no question


@pytest.mark.parametrize(
    ("scored", "score"),
    [
        (lambda one: {"judgement": f"So.\nJudgement: {'Yes' if one else 'No'}"}, "judge_correct"),
        (lambda one: {"judgement": "[Correct]" if one else "[Incorrect]"}, "judge_correct"),
        (lambda one: {"judgement": "Judgement: Yes" if one else "cut of"}, "judge_correct"),
        (lambda one: {"graded_list": [bool(one)]}, "accuracy"),
        (lambda one: {"status": "pass" if one else "fail"}, "accuracy"),
        (lambda one: {"is_correct": bool(one)}, "is_correct"),
        (lambda one: {"strict_eval": {"follow_all_instructions": bool(one)}}, "prompt_strict"),
    ],
)  # fmt: skip
def test_every_metric_is_read(read: Read, tmp_path: Path, scored: Any, score: str) -> None:
    right = np.array([[True, False, True, True]])
    write_rollouts(tmp_path / "task", right, of=scored)
    examples = read(tmp_path)["task"].examples
    assert examples[f"score.{score}"].to_list() == [1.0, 0.0, 1.0, 1.0]


def test_rows_without_generation_are_refused(tmp_path: Path) -> None:
    write_rollouts(tmp_path / "gpqa", np.ones((1, 3), bool))
    with (tmp_path / "gpqa" / "output-rs0.jsonl").open("a") as file:
        file.write('{"problem": "?"}\n')
    err = stderr_of("compare", str(tmp_path), str(tmp_path), code=4)
    assert "row 4 lacks generation" in err


def test_results_of_promptfoo_are_compared(read: Read) -> None:
    # Written by promptfoo 0.121.20 with --repeat 2: it doubles numbers; bf16 fails on 7, on 9 it
    # times out; w4a16 fails on each third, and times out on 9.
    files = FILES / "promptfoo"
    (log,) = read(files / "base.json").values()
    assert (log.model, log.task, log.format) == ("org/bf16", "doubles", "promptfoo")
    assert log.scores[0] == "success"
    by_number = {
        text: sorted(own["score.success"].to_list())
        for (text,), own in log.examples.group_by("prompt_hash")
    }
    assert sorted(by_number.values()) == [[0, 0]] * 2 + [[1, 1]] * 10
    assert log.examples["answered"].to_list().count(False) == 2
    models = [str(files / "base.json"), str(files / "int4.json")]
    out = stdout_of("compare", *models, "--group", "vars.kind", "--json", "--quiet")
    (found,) = json.loads(out)["comparisons"]
    assert "kind=even" in json.dumps(found)
    assert "UNSURE" in json.loads(out)["gate"]["verdict"]


def test_one_file_of_promptfoo_with_several_providers_is_compared(tmp_path: Path) -> None:
    """The first provider is the original; numbers are those of a file each."""
    files = FILES / "promptfoo"
    both = [json.loads((files / f"{name}.json").read_text()) for name in ("base", "int4")]
    both[0]["results"]["results"] += both[1]["results"]["results"]
    (tmp_path / "both.json").write_text(json.dumps(both[0]))
    out = stdout_of("compare", tmp_path / "both.json", "--json", "--quiet")
    (together,) = json.loads(out)["comparisons"]
    names = [str(files / f"{name}.json") for name in ("base", "int4")]
    (apart,) = json.loads(scotoma("compare", *names, "--json", "--quiet")[1])["comparisons"]
    assert together["models"] == ["org-bf16", "org-w4a16"]
    assert {**together, "models": apart["models"]} == apart
    err = stderr_of("compare", files / "base.json", code=2)
    assert "needs the logs of an original and a compressed model, got 1 model" in err


def test_results_of_promptfoo_without_rows_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text('{"evalId": "eval-1", "results": {"version": 3}}')
    err = stderr_of("compare", str(path), str(FILES / "promptfoo" / "base.json"), code=4)
    assert "results.results" in err
