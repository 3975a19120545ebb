"""Wrong, cut off, refused, verbose: how answers ended, from the fields of real formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.commands import measured, scotoma
from tests.readers.conftest import FILES

N = 600
Row = dict[str, Any]


def drawn(side: int) -> list[Row]:
    """Answers of a model; the second is cut off, refuses and goes on for longer, in group b."""
    rng = np.random.default_rng(4)
    group, right = rng.choice(["a", "b"], N), rng.random(N) < 0.7
    cut = rng.random(N) < np.where((group == "b") & (side == 1), 0.25, 0.02)
    refused = ~cut & (rng.random(N) < 0.01 + 0.04 * side)
    reasons = np.where(cut, "length", np.where(refused, "content_filter", "stop"))
    return [
        {"id": i, "group": str(group[i]), "right": bool(right[i] and not cut[i]),
         "reason": str(reasons[i]), "tokens": int(100 + 40 * side * (group[i] == "b") + i % 7)}
        for i in range(N)
    ]  # fmt: skip


def nemo_skills(folder: Path, rows: list[Row]) -> Path:
    place = folder / "maths" / "output-rs0.jsonl"
    place.parent.mkdir(parents=True)
    lines = [
        {"problem": f"p{row['id']}", "generation": "x", "symbolic_correct": row["right"],
         "group": row["group"], "finish_reason": row["reason"],
         "num_generated_tokens": row["tokens"], "num_code_executions": row["id"] % 3}
        for row in rows
    ]  # fmt: skip
    place.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def promptfoo(folder: Path, rows: list[Row]) -> Path:
    folder.mkdir()
    results = [
        {"vars": {"q": row["id"]}, "metadata": {}, "success": row["right"], "score": 1,
         "testCase": {"metadata": {"group": row["group"]}}, "prompt": {"raw": f"p{row['id']}"},
         "provider": {"id": "m"},
         "response": {"output": "x", "tokenUsage": {"completion": row["tokens"]}}
         | ({"isRefusal": True} if row["reason"] == "content_filter"
            else {"finishReason": row["reason"]})}
        for row in rows
    ]  # fmt: skip
    place = folder / "results.json"
    place.write_text(json.dumps({"evalId": "e", "results": {"results": results}, "config": {}}))
    return place


def inspect(folder: Path, rows: list[Row]) -> Path:
    folder.mkdir()
    words = {"length": "max_tokens"}
    samples = [
        {"id": row["id"], "epoch": 1, "input": f"p{row['id']}", "target": "x",
         "metadata": {"group": row["group"]}, "scores": {"match": {"value": float(row["right"])}},
         "messages": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "x"}],
         "output": {"completion": "x", "usage": {"output_tokens": row["tokens"]},
                    "choices": [{"stop_reason": words.get(row["reason"], row["reason"])}]}}
        for row in rows
    ]  # fmt: skip
    spec = {"model": "m", "task": "maths", "config": {}}
    place = folder / "log.json"
    log = {"version": 2, "status": "success", "eval": spec, "samples": samples}
    place.write_text(json.dumps(log))
    return place


def table(folder: Path, rows: list[Row]) -> Path:
    folder.mkdir()
    place = folder / "answers.jsonl"
    lines = [
        {"id": row["id"], "score": int(row["right"]), "group": row["group"],
         "finish_reason": f"FinishReason.{row['reason'].upper()}",
         "completion_tokens": row["tokens"]}
        for row in rows
    ]  # fmt: skip
    place.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return place


@pytest.mark.parametrize("write", [nemo_skills, promptfoo, inspect, table])
def test_every_format_says_how_answers_ended(
    tmp_path: Path, write: Callable[[Path, list[Row]], Path]
) -> None:
    sides = [drawn(side) for side in range(2)]
    places = [write(tmp_path / name, own) for name, own in zip(("a", "b"), sides, strict=True)]
    (one,) = measured("compare", *places, "--group", "group")["comparisons"]
    found = {row["name"]: row for row in one["behaviours"]}
    for name, word in (("cut_off", "length"), ("refused", "content_filter")):
        before, after = (np.mean([row["reason"] == word for row in own]) for own in sides)
        assert found[name]["all"]["before"]["value"] == pytest.approx(before)
        assert found[name]["all"]["after"]["value"] == pytest.approx(after)
        change = found[name]["all"]["change"]
        assert change["low"] < after - before < change["high"]
    tokens = [np.mean([row["tokens"] for row in own]) for own in sides]
    length = found["output_tokens"]["all"]
    assert length["recovery"]["value"] == pytest.approx(tokens[1] / tokens[0])
    groups = {row["group"]: row for row in found["cut_off"]["groups"]}
    b = [[row["reason"] == "length" for row in own if row["group"] == "b"] for own in sides]
    name = next(key for key in groups if key.endswith("group=b"))
    assert groups[name]["score"]["after"]["value"] == pytest.approx(np.mean(b[1]))
    text = scotoma("compare", *places, "--group", "group")[1]
    assert "cut off: " in text
    assert "tokens of output: " in text
    assert any(line.split()[:1] == [name] for line in text.partition("cut off  ")[2].splitlines())


def test_a_stop_reason_is_gated_as_a_score_is(tmp_path: Path) -> None:
    places = [nemo_skills(tmp_path / name, drawn(side)) for side, name in enumerate("ab")]
    ask = ["compare", *places, "--group", "group", "--score", "cut_off", "--margin", "0.05"]
    (one,) = measured(*ask)["comparisons"]
    cut = [np.mean([row["reason"] == "length" for row in drawn(side)]) for side in range(2)]
    assert one["metric"] == "not cut_off"
    assert one["score"]["after"]["value"] == pytest.approx(1 - cut[1])
    assert scotoma(*ask, "--gate")[0] == 1
    (gate,) = measured(*ask)["gate"]["variants"]
    b = next(test for test in gate["tests"] if test["group"] == "group=b")
    assert (gate["verdict"], b["verdict"]) == ("FAIL", "FAIL")
    rows = [[row for row in drawn(side) if row["group"] == "b"] for side in range(2)]
    shares = [np.mean([row["reason"] == "length" for row in own]) for own in rows]
    assert b["absolute"]["value"] == pytest.approx(shares[1] - shares[0])
    (one,) = measured(*ask[:5], "--score", "output_tokens")["comparisons"]
    assert one["lower_is_better"]


def test_a_reason_that_nobody_knows_is_named_and_counts_as_neither(tmp_path: Path) -> None:
    places = []
    for side, name in enumerate("ab"):
        rows = drawn(side)
        rows[0]["reason"] = rows[1]["reason"] = "gave_up"
        places.append(nemo_skills(tmp_path / name, rows))
    found = measured("compare", *places)
    sentences = [note["sentence"] for note in found["admission"]]
    assert (
        "maths: the stop reason of 2 answers is not known ('gave_up'); they count as neither cut "
        "off nor refused nor whole" in sentences
    )
    cut = next(row for row in found["comparisons"][0]["behaviours"] if row["name"] == "cut_off")
    assert cut["all"]["n"] == N - 2


def test_reruns_of_an_example_are_one(tmp_path: Path) -> None:
    places = []
    for side, name in enumerate("ab"):
        place = nemo_skills(tmp_path / name, drawn(side)) / "maths"
        rows = (place / "output-rs0.jsonl").read_text()
        (place / "output-rs1.jsonl").write_text(rows)
        places.append(tmp_path / name)
    found = measured("compare", *places)["comparisons"][0]["behaviours"]
    assert {row["all"]["n"] for row in found} == {N}


def test_logs_without_reasons_say_so(tmp_path: Path) -> None:
    code, _, err = scotoma(
        "compare", *(FILES / "lm_eval" / name for name in ("bf16", "w4a16")), "--filter",
        "strict-match", "--task", "maths_local", "--score", "cut_off",
    )  # fmt: skip
    assert code == 2
    assert "--score cut_off needs logs that say how each answer ended" in " ".join(err.split())


def test_margins_of_log_likelihood_are_paired() -> None:
    places = [FILES / "lm_eval" / name for name in ("bf16", "w4a16")]
    ask = ["compare", *places, "--filter", "strict-match", "--task", "bbq_local"]
    (one,) = measured(*ask)["comparisons"]
    (margin,) = [row for row in one["behaviours"] if row["name"] == "margin"]
    means = []
    for place in places:
        (path,) = place.rglob("samples_bbq*.jsonl")
        own = []
        for row in map(json.loads, path.read_text().splitlines()):
            ll = [float(option[0]) for option in row["filtered_resps"]]
            right = ll.pop(int(row["target"]))
            own.append(right - max(ll))
        means.append(np.mean(own))
    assert margin["all"]["before"]["value"] == pytest.approx(means[0])
    assert margin["all"]["change"]["value"] == pytest.approx(means[1] - means[0])
    assert one["metric"] == "acc"
