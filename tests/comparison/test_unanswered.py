"""An example that is there without an answer counts as wrong; one that was not scored stays out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.audits import rates
from tests.helpers.commands import measured, scotoma

pytestmark = pytest.mark.slow

N = 60


def inspect_log(path: Path, **changed: Any) -> Path:
    """A log of inspect_ai in which all are right, but for the first samples, which are changed."""
    samples = [
        {
            "id": number, "epoch": 1, "input": f"q{number}", "target": "a",
            "scores": {"match": {"value": "C", "answer": "a"}}, "output": {"completion": "a"},
        }
        for number in range(N)
    ]  # fmt: skip
    for sample in samples[: changed.pop("first", 0)]:
        sample |= changed
    spec = {"task": "sums", "model": path.stem, "task_id": path.stem, "created": "2026-01-01"}
    content = {"version": 2, "status": "success", "eval": spec, "samples": samples}
    path.write_text(json.dumps(content))
    return path


def lm_eval_log(folder: Path, scores: Sequence[Any], answers: Sequence[str]) -> Path:
    folder.mkdir()
    rows = [
        {
            "doc_id": number, "doc": {}, "target": "a", "arguments": [[f"q{number}", {}]],
            "resps": [[answer]], "filtered_resps": [answer], "filter": "none", "metrics": ["f1"],
            "doc_hash": f"d{number}", "f1": score,
        }
        for number, (score, answer) in enumerate(zip(scores, answers, strict=True))
    ]  # fmt: skip
    path = folder / "samples_sums_2026-01-01T00-00-00.0.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def compared(*places: Path) -> tuple[int, float, str]:
    (one,) = measured("compare", *places)["comparisons"]
    return one["examples"], one["score"]["after"]["value"], scotoma("compare", *places)[2]


def test_an_example_that_broke_off_without_an_answer_is_wrong(tmp_path: Path) -> None:
    error = {"message": "server went away"}
    gone = {"scores": {}, "error": error, "output": {"choices": [], "completion": ""}}
    before = inspect_log(tmp_path / "bf16.json")
    after = inspect_log(tmp_path / "int4.json", first=6, **gone)
    n, mean, notes = compared(before, after)
    assert (n, mean) == (N, pytest.approx(1 - 6 / N))
    told = "int4 gives no answer to 6 of 60 examples: they count as wrong"
    assert told in notes
    out = tmp_path / "run"
    assert scotoma("compare", before, after, "--out", out, "--quiet")[0] == 0
    audit = json.loads((out / "audit.json").read_text())
    silent = [note["sentence"] for note in audit["admission"] if note["rule"] == "unanswered"]
    assert silent == [told]
    assert [note["sentence"] for note in audit["admission"] if note["rule"] == "chance"] == [
        "whether dense is better than guessing was not asked: logs say what is right, and hold no "
        "labels"
    ]
    assert rates(audit, "int4", "unanswered")[0]["absolute"]["value"] == pytest.approx(6 / N)
    gate = json.loads((out / "gate.json").read_text())
    assert {"error_all", "unanswered"} <= {rule["id"] for rule in gate["rules"]["rules"]}


@pytest.mark.parametrize(
    "changed",
    [
        {"scores": {}},  # the judge gave no score to an answer
        {"scores": {"match": {"value": None, "answer": "a"}}},
        {"invalidation": {"author": "x"}, "output": {"completion": ""}},  # a person left it out
    ],
)
def test_an_answer_that_was_not_scored_stays_out(tmp_path: Path, changed: dict[str, Any]) -> None:
    before = inspect_log(tmp_path / "bf16.json")
    after = inspect_log(tmp_path / "int4.json", first=6, **changed)
    n, mean, notes = compared(before, after)
    assert (n, mean) == (N - 6, 1.0)
    assert "left out: 6 examples have no score of both models" in notes


def test_a_log_without_any_answer_does_not_say_who_gave_none(tmp_path: Path) -> None:
    silent = {"output": {"completion": ""}}
    sides = []
    for name in ("bf16", "int4"):
        path = inspect_log(tmp_path / f"{name}.json", first=N, **silent)
        content = json.loads(path.read_text())
        for number, sample in enumerate(content["samples"]):
            value = None if name == "int4" and number < 6 else "C"
            sample["scores"] = {"match": {"value": value}}
        path.write_text(json.dumps(content))
        sides.append(path)
    n, mean, notes = compared(*sides)
    assert (n, mean) == (N - 6, 1.0)
    assert "gives no answer" not in notes


def test_of_a_score_that_is_a_number_no_wrong_one_is_known(tmp_path: Path) -> None:
    half = [0.5 + number / 200 for number in range(N)]
    before = lm_eval_log(tmp_path / "bf16", half, ["a"] * N)
    after = lm_eval_log(tmp_path / "int4", [None] * 6 + half[6:], [""] * 6 + ["a"] * (N - 6))
    n, mean, _ = compared(before, after)
    assert (n, mean) == (N - 6, pytest.approx(sum(half[6:]) / (N - 6)))
