"""Wrong, cut off, refused, verbose: how answers ended, from the fields of real formats."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from scotoma.audit.groups import ENDING_NAMES
from tests.helpers.commands import measured, scotoma
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


def nemo_gym(folder: Path, rows: list[Row]) -> Path:
    """Rollouts, whose `response` is one of OpenAI's Responses API."""
    folder.mkdir()
    reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
    lines = [
        {"responses_create_params": {"input": f"p{row['id']}"}, "reward": float(row["right"]),
         "group": row["group"], "agent_ref": {"name": "maths"}, "_ng_task_index": row["id"],
         "response": {
             "model": "m", "object": "response", "usage": {"output_tokens": row["tokens"]},
             "status": "incomplete" if row["reason"] in reasons else row.get("status", "completed"),
             "incomplete_details": {"reason": reasons[row["reason"]]}
             if row["reason"] in reasons else None,
             "output": [{"type": "function_call", "name": "f"}] * row.get("calls", 0)
             + [{"type": "message", "content": [{"type": "output_text", "text": "x"}]}]}}
        for row in rows
    ]  # fmt: skip
    place = folder / "rollouts.jsonl"
    place.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return place


def promptfoo(folder: Path, rows: list[Row], models: tuple[str, ...] = ("m",)) -> Path:
    folder.mkdir()
    results = [
        {"vars": {"q": row["id"]}, "metadata": {}, "success": row["right"], "score": 1,
         "testCase": {"metadata": {"group": row["group"]}}, "prompt": {"raw": f"p{row['id']}"},
         "provider": {"id": model},
         "response": {"output": "x", "tokenUsage": {"completion": row["tokens"]}}
         | ({"isRefusal": True} if row["reason"] == "content_filter"
            else {"finishReason": row["reason"]})}
        for model in models for row in rows
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


def plain_table(folder: Path, rows: list[Row]) -> Path:
    folder.mkdir()
    place = folder / "answers.jsonl"
    lines = [
        {"id": row["id"], "score": int(row["right"]), "finish_reason": row["reason"]}
        | {"group": row["group"]}
        | {"completion_tokens": row["tokens"], "tool_calls": row.get("calls", 1)}
        for row in rows
    ]  # fmt: skip
    place.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return place


@pytest.mark.parametrize("write", [nemo_skills, nemo_gym, promptfoo, inspect, table])
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
        "maths: 2 of 600 examples of b have no known stop reason ('gave_up'); cut off and refused "
        "leave them out" in sentences
    )
    cut = next(row for row in found["comparisons"][0]["behaviours"] if row["name"] == "cut_off")
    assert (cut["all"]["n"], cut["lacking"]) == (N - 2, [2, 2])


def without(rows: list[Row], n: int, **lacking: Any) -> list[Row]:
    """Rows of which the first n say something else, or nothing."""
    return [row | lacking if place < n else row for place, row in enumerate(rows)]


def alike(folder: Path, write: Callable[[Path, list[Row]], Path], n: int, **lacking: Any) -> Any:
    """Two models that answer alike, all whole; n answers of the second say something else."""
    rows = [row | {"reason": "stop"} for row in drawn(0)]
    return write(folder / "a", rows), write(folder / "b", without(rows, n, **lacking))


@pytest.mark.parametrize("write", [nemo_skills, promptfoo, plain_table])
@pytest.mark.parametrize(("n", "reason", "why"), [
    (180, "banana", " ('banana')"), (180, None, ""), (N, None, ""), (N, "banana", " ('banana')"),
    (7, " ", ""),
])  # fmt: skip
def test_no_pass_where_too_many_reasons_are_not_known(
    tmp_path: Path, write: Callable[[Path, list[Row]], Path], n: int, reason: str | None, why: str
) -> None:
    places = alike(tmp_path, write, n, reason=reason)
    ask = ["compare", *places, "--score", "cut_off", "--margin", "0.05", "--gate"]
    code, out, err = scotoma(*ask)
    said = " ".join(err.split())
    assert (code, "PASS" in out) == (4, False)
    assert f"{n} of 600 examples of b have no known stop reason{why}; evaluate again" in said
    assert "pass --allow-missing" in said
    if n < N:
        (gate,) = measured(*ask, "--allow-missing")["gate"]["variants"]
        assert gate["verdict"] == "UNSURE"
        (blocked,) = gate["blocked"]
        assert f"{n} of 600 examples of b have no known stop reason{why}" in blocked
        assert blocked.endswith("they are left out, and no PASS is given")
    assert scotoma("compare", *places, "--margin", "0.05", "--gate")[0] == 0  # another question


def test_few_unknown_reasons_are_told_and_left_out(tmp_path: Path) -> None:
    places = alike(tmp_path, nemo_skills, 6, reason="banana")  # 1% of 600
    ask = ["compare", *places, "--score", "cut_off", "--margin", "0.05", "--gate"]
    found = measured(*ask)
    assert found["gate"]["variants"][0]["verdict"] == "PASS"
    assert found["comparisons"][0]["examples"] == N - 6
    (note,) = [one for one in found["admission"] if "known stop reason" in one["sentence"]]
    assert note["sentence"].endswith("examples of b have no known stop reason ('banana'); "
                                     "they are left out")  # fmt: skip
    (narrow,) = measured(*ask[:6], "0.009")["gate"]["variants"]  # which 1% may hide
    assert narrow["verdict"] == "UNSURE"
    assert narrow["blocked"][0].endswith("they are left out, and no PASS is given")
    (usual,) = measured(*ask[:5])["gate"]["variants"]
    assert usual["blocked"] == narrow["blocked"]


def test_other_spellings_of_known_reasons_are_known(tmp_path: Path) -> None:
    places = alike(tmp_path, plain_table, 180, reason=" Length ")
    (one,) = measured("compare", *places)["comparisons"]
    cut = next(row for row in one["behaviours"] if row["name"] == "cut_off")
    assert (cut["all"]["after"]["value"], cut["lacking"]) == (pytest.approx(180 / N), [0, 0])


@pytest.mark.parametrize(("score", "lacking", "says"), [
    ("output_tokens", {"tokens": None}, "no number of tokens"),
    ("tool_call", {"calls": None}, "no known number of tool calls"),
])  # fmt: skip
def test_no_count_is_no_zero(tmp_path: Path, score: str, lacking: Row, says: str) -> None:
    places = alike(tmp_path, plain_table, 200, **lacking)
    (one,) = measured("compare", *places)["comparisons"]
    own = next(row for row in one["behaviours"] if row["name"] == score)
    assert (own["all"]["n"], own["lacking"]) == (N - 200, [0, 200])
    assert own["all"]["change"]["value"] == 0
    assert "n 400; not known: 200 of b" in " ".join(scotoma("compare", *places)[1].split())
    code, _, err = scotoma("compare", *places, "--score", score)
    assert code == 4
    assert f"200 of 600 examples of b have {says}" in " ".join(err.split())


CALLS = {  # cells of own tables, of so many calls
    "a count": lambda n: n,
    "OpenAI's list, null without one": lambda n: [{"type": "function", "id": "f"}] * n or None,
    "names": lambda n: ["f"] * n,
    "JSON text": lambda n: json.dumps([{"name": "f"}] * n),
    "a list as pandas writes it": lambda n: str([{"name": "f"}] * n),
    "a truth": bool,
    "a truth in text": lambda n: str(bool(n)).lower(),
    "one call alone": lambda n: {"name": "f"} if n else None,
    "an unknown form": lambda n: "some" if n else "no call",
}  # fmt: skip


@pytest.mark.parametrize(("form", "kind"), [
    *((form, "stop.jsonl") for form in CALLS), ("a count", "none.csv"), ("JSON text", "none.csv"),
    ("a list as pandas writes it", "none.csv"), ("an unknown form", "none.parquet"),
    ("OpenAI's list, null without one", "none.parquet"), ("one call alone", "none.parquet"),
    ("a truth", "none.csv"),
])  # fmt: skip
def test_every_form_of_tool_calls_is_counted_or_not_known(
    tmp_path: Path, form: str, kind: str
) -> None:
    """Where every reason says `stop`, or none is there, the calls themselves tell."""
    reason = "stop" if kind == "stop.jsonl" else None
    for name, calls in (("a", 2), ("b", 0)):
        rows = [
            {"id": i, "score": 1, "tool_calls": CALLS[form](calls * (i < 150) + (i >= 300))}
            | ({"finish_reason": reason} if reason else {})
            for i in range(N)
        ]  # fmt: skip
        place = tmp_path / f"{name}.{kind.partition('.')[2]}"
        if place.suffix == ".jsonl":
            place.write_text("".join(json.dumps(row) + "\n" for row in rows))
        elif place.suffix == ".csv":
            pl.DataFrame(rows, infer_schema_length=None).write_csv(place)
        else:
            pl.DataFrame(rows, infer_schema_length=None).write_parquet(place)
    places = sorted(tmp_path.iterdir())
    text = "rules: [{id: calls, metric: tool_call, over: all, max_increase: {absolute: 0.1}}]"
    found = measured("compare", *places, "--rules", ruled(tmp_path, text))
    (one,) = found["gate"]["variants"]
    notes = " ".join(note["sentence"] for note in found["admission"])
    if form == "an unknown form":
        assert one["verdict"] == "UNSURE"
        assert "600 of 600 cells are neither a count nor a list, such as 'some'" in notes
        return
    assert one["tests"][0]["absolute"]["value"] == pytest.approx(150 / N)
    assert one["verdict"] == "FAIL"
    assert ("cells are empty beside lists" in notes) == (
        form in ("OpenAI's list, null without one", "one call alone")
    )


@pytest.mark.parametrize("write", [nemo_gym, plain_table])
def test_a_known_count_of_calls_needs_no_stop_reason(
    tmp_path: Path, write: Callable[[Path, list[Row]], Path]
) -> None:
    rows = [row | {"reason": None, "status": None, "calls": 0} for row in drawn(0)]
    places = write(tmp_path / "a", without(rows, 150, calls=2)), write(tmp_path / "b", rows)
    (one,) = measured("compare", *places)["comparisons"]
    own = next(row for row in one["behaviours"] if row["name"] == "tool_call")
    assert (own["all"]["n"], own["lacking"]) == (N, [0, 0])
    assert own["all"]["change"]["value"] == pytest.approx(-150 / N)


def test_a_tool_that_is_never_called_any_more_is_seen(tmp_path: Path) -> None:
    rows = drawn(0)
    called = without(rows, 150, reason="tool_calls")
    places = promptfoo(tmp_path / "a", called), promptfoo(tmp_path / "b", rows)
    (one,) = measured("compare", *places)["comparisons"]
    own = next(row for row in one["behaviours"] if row["name"] == "tool_call")
    assert own["all"]["change"]["value"] == pytest.approx(-150 / N)


def test_one_way_to_leave_out_what_is_not_known(tmp_path: Path) -> None:
    places = []
    for side, name in enumerate("ab"):
        for rerun in range(3):
            rows = drawn(side)
            if side:  # others in each rerun
                rows = [row | {"reason": "zebra"} if row["id"] // 5 % 12 == rerun else row
                        for row in rows]  # fmt: skip
            place = nemo_skills(tmp_path / f"{name}{rerun}", rows) / "maths/output-rs0.jsonl"
            own = tmp_path / name / "maths" / f"output-rs{rerun}.jsonl"
            own.parent.mkdir(parents=True, exist_ok=True)
            place.rename(own)
        places.append(tmp_path / name)
    whole = [i for i in range(N) if i // 5 % 12 not in range(3)]
    (one,) = measured("compare", *places)["comparisons"]
    cut = next(row for row in one["behaviours"] if row["name"] == "cut_off")
    assert (cut["all"]["n"], cut["lacking"]) == (len(whole), [0, N - len(whole)])
    rows = drawn(1)
    assert cut["all"]["after"]["value"] == pytest.approx(
        np.mean([rows[i]["reason"] == "length" for i in whole])
    )
    ask = ["compare", *places, "--score", "cut_off", "--allow-missing"]
    (asked,) = measured(*ask)["comparisons"]
    assert asked["examples"] == len(whole)
    assert asked["score"]["change"]["value"] == pytest.approx(-cut["all"]["change"]["value"])
    text = " ".join(scotoma("compare", *places)[1].split())
    assert f"n {len(whole)}; not known: {N - len(whole)} of b" in text


def test_a_task_that_one_side_says_no_reasons_of_is_missing(tmp_path: Path) -> None:
    rows = [row | {"reason": "stop"} for row in drawn(0)]
    for name in "ab":
        nemo_skills(tmp_path / name, rows)
        other = nemo_skills(tmp_path / f"{name}2", without(rows, N * (name == "b"), reason=None))
        (other / "maths").rename(tmp_path / name / "algebra")
    ask = ["compare", tmp_path / "a", tmp_path / "b", "--score", "cut_off", "--gate"]
    code, _, err = scotoma(*ask)
    assert code == 4
    assert "algebra: --score cut_off needs" in " ".join(err.split())
    assert scotoma(*ask, "--tasks", "maths", "--margin", "0.05")[0] == 0


def test_an_evaluation_that_goes_on_is_not_decided_without_reasons(tmp_path: Path) -> None:
    places = alike(tmp_path, nemo_skills, 180, reason="banana")
    ask = ["compare", *places, "--score", "cut_off", "--margin", "0.1", "--so-far"]
    code, out, err = scotoma(*ask)
    assert (code, "PASS" in out) == (4, False)
    assert " ".join(err.split()).endswith(
        "180 of 600 examples of b have no known stop reason ('banana'); --so-far needs it of every "
        "answer: log it, or compare another score"
    )


def test_the_verdict_of_an_evaluation_that_goes_on_names_how_answers_end(tmp_path: Path) -> None:
    places = [nemo_skills(tmp_path / name, drawn(side)) for side, name in enumerate("ab")]
    text = scotoma("compare", *places, "--score", "cut_off", "--group", "group", "--so-far",
                   "--margin", "0.02")[1]  # fmt: skip
    assert "FAIL    b: answers that are not cut off fall beyond the margin" in text


def test_reruns_of_an_example_are_one(tmp_path: Path) -> None:
    places = []
    for side, name in enumerate("ab"):
        place = nemo_skills(tmp_path / name, drawn(side)) / "maths"
        rows = (place / "output-rs0.jsonl").read_text()
        (place / "output-rs1.jsonl").write_text(rows)
        places.append(tmp_path / name)
    (one,) = measured("compare", *places)["comparisons"]
    assert {row["all"]["n"] for row in one["behaviours"]} == {N}
    assert one["search"]["slices"]
    text = " ".join(scotoma("compare", *places)[1].split())
    assert "examples flip between two runs of a itself;" in text
    size = sum(row["group"] == "b" for row in drawn(0))
    assert re.search(rf"group = b: [^:]*, {size} examples", text), text


def test_logs_without_reasons_say_so(tmp_path: Path) -> None:
    code, _, err = scotoma(
        "compare", *(FILES / "lm_eval" / name for name in ("bf16", "w4a16")), "--filter",
        "strict-match", "--tasks", "maths_local", "--score", "cut_off",
    )  # fmt: skip
    assert code == 2
    assert "--score cut_off needs logs that say how each answer ended" in " ".join(err.split())


def test_margins_of_log_likelihood_are_paired() -> None:
    places = [FILES / "lm_eval" / name for name in ("bf16", "w4a16")]
    ask = ["compare", *places, "--filter", "strict-match", "--tasks", "bbq_local"]
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


def test_a_margin_of_a_log_likelihood_that_is_no_number_is_not_known(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("bf16", "w4a16")]
    for place in places:
        shutil.copytree(FILES / "lm_eval" / place.name, place)
    (path,) = places[1].rglob("samples_bbq*.jsonl")
    rows = [*map(json.loads, path.read_text().splitlines())]
    for row in rows[:20]:
        wrong = next(i for i in (2, 1) if i != int(row["target"]))  # never first, as max() forgets
        row["filtered_resps"][wrong][0] = float("nan")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ask = ["compare", *places, "--filter", "strict-match", "--tasks", "bbq_local"]
    (one,) = measured(*ask)["comparisons"]
    (margin,) = [row for row in one["behaviours"] if row["name"] == "margin"]
    assert margin["lacking"] == [0, 20]
    assert margin["all"]["n"] == len(rows) - 20
    code, _, err = scotoma(*ask, "--score", "margin")
    assert code == 4
    assert "examples of w4a16 have no margin of log-likelihood" in " ".join(err.split())


def test_rollouts_say_which_tools_were_called_and_no_status_is_no_reason(tmp_path: Path) -> None:
    rows = drawn(0)
    called = without(rows, 150, calls=2)
    places = nemo_gym(tmp_path / "a", called), nemo_gym(tmp_path / "b", rows)
    (one,) = measured("compare", *places)["comparisons"]
    own = next(row for row in one["behaviours"] if row["name"] == "tool_call")
    assert own["all"]["change"]["value"] == pytest.approx(-150 / N)
    whole = [row for row in rows if row["reason"] == "stop"][:50]  # converted chats have none
    silent = [row | {"status": None} if row in whole else row for row in rows]
    code, _, err = scotoma(
        "compare", places[1], nemo_gym(tmp_path / "c", silent), "--score", "cut_off"
    )
    assert code == 4
    assert "50 of 600 examples of c have no known stop reason" in " ".join(err.split())


@pytest.mark.parametrize(("score", "word", "newly", "error"), [
    ("cut_off", "length", "newly cut off", "cut off"),
    ("refused", "content_filter", "newly refused", "refused"),
])  # fmt: skip
def test_words_fit_the_score(tmp_path: Path, score: str, word: str, newly: str, error: str) -> None:
    sides = [drawn(side) for side in range(2)]
    places = [nemo_skills(tmp_path / name, own) for name, own in zip("ab", sides, strict=True)]
    _, out, err = scotoma("compare", *places, "--score", score)
    text, notes = " ".join(out.split()), " ".join(err.split())
    before, after = ([row["reason"] == word for row in own] for own in sides)
    now = sum(new and not old for old, new in zip(before, after, strict=True))
    assert f"{now} {newly}" in text
    assert f"0 {error} both times, answer changed" in text
    assert f"not {error}: {100 - 100 * np.mean(before):.2f}% to" in text
    assert f"error is the share of answers {error}" in notes + text
    for other in ("right to wrong", "recovery", "another wrong"):
        assert other not in text


def test_a_file_of_several_providers_beside_another_has_a_way_out(tmp_path: Path) -> None:
    rows = drawn(0)
    two = promptfoo(tmp_path / "two", rows, ("base", "int4"))
    three = promptfoo(tmp_path / "three", rows, ("base", "int4", "int8"))
    code, _, err = scotoma("compare", two, three)
    said = " ".join(err.split())
    assert code == 2
    assert "(base, int4); compare this file alone, whose first model is the original" in said
    assert [one["models"] for one in measured("compare", three)["comparisons"]] == [
        ["base", "int4"], ["base", "int8"],
    ]  # fmt: skip


RULES = """rules:
  - {id: error, metric: error, over: all, max_increase: {relative: 0.5, absolute: 0.2}}
  - {id: cut_off, metric: cut_off, max_increase: {absolute: 0.05}}
  - {id: refused, metric: refused, over: all, max_increase: {absolute: 0.01}}
  - {id: calls, metric: tool_call, over: all, max_increase: {absolute: 0.02}}
  - {id: length, metric: output_tokens, max_increase: {relative: 0.1}}
"""


def ruled(folder: Path, text: str = RULES) -> Path:
    path = folder / "gate.yaml"
    path.write_text(text)
    return path


def test_a_gate_file_judges_how_answers_end_beside_the_score(tmp_path: Path) -> None:
    sides, out = [drawn(side) for side in range(2)], tmp_path / "run"
    places = [nemo_skills(tmp_path / name, own) for name, own in zip("ab", sides, strict=True)]
    ask = ["compare", *places, "--group", "group", "--rules", ruled(tmp_path)]
    (one,) = measured(*ask)["gate"]["variants"]
    tests = {(test["rule"], test["group"]): test for test in one["tests"]}
    assert {key: test["verdict"] for key, test in tests.items()} == {
        ("error", "all"): "PASS", ("cut_off", "group=a"): "PASS", ("cut_off", "group=b"): "FAIL",
        ("refused", "all"): "FAIL", ("calls", "all"): "PASS", ("length", "group=a"): "PASS",
        ("length", "group=b"): "FAIL",
    }  # fmt: skip
    rows = [[row for row in own if row["group"] == "b"] for own in sides]
    cut = [np.mean([row["reason"] == "length" for row in own]) for own in rows]
    assert tests["cut_off", "group=b"]["absolute"]["value"] == pytest.approx(cut[1] - cut[0])
    tokens = [np.mean([row["tokens"] for row in own]) for own in rows]
    length = tests["length", "group=b"]["relative"]
    assert length["value"] == pytest.approx(tokens[1] / tokens[0] - 1)
    assert "share cut off b +" in " ".join(one["sentences"])
    assert scotoma(*ask, "--gate", "--out", out)[0] == 1
    for path in (ruled(tmp_path), None):
        again = measured("gate", out, "--rules", path or "built-in", code=1)
        if path:
            assert again["variants"][0]["sentences"] == one["sentences"]
    assert {test["rule"] for test in again["variants"][0]["tests"]} == {
        "error_all", "error_groups",
    }  # fmt: skip


def test_a_lost_tool_call_is_a_rise(tmp_path: Path) -> None:
    called = without(drawn(0), 150, reason="tool_calls")
    places = promptfoo(tmp_path / "a", called), promptfoo(tmp_path / "b", drawn(0))
    text = "rules: [{id: calls, metric: tool_call, over: all, max_increase: {absolute: 0.1}}]"
    (one,) = measured("compare", *places, "--rules", ruled(tmp_path, text))["gate"]["variants"]
    assert one["tests"][0]["absolute"]["value"] == pytest.approx(150 / N)
    assert one["verdict"] == "FAIL"


@pytest.mark.parametrize(("unknown", "verdict"), [(1, "PASS"), (20, "UNSURE")])
def test_endings_that_are_not_known_count_by_group(
    tmp_path: Path, unknown: int, verdict: str
) -> None:
    """20 of 600 are few, and many of a group of 150: what is missing there may be what rose."""
    rows = [row | {"reason": "stop", "group": "ab"[row["id"] < 150]} for row in drawn(0)]
    places = [nemo_skills(tmp_path / "a", rows),
              nemo_skills(tmp_path / "b", without(rows, unknown, reason="banana"))]  # fmt: skip
    text = RULES.replace("0.05", "0.03")
    ask = ["compare", *places, "--group", "group", "--rules", ruled(tmp_path, text)]
    (one,) = measured(*ask)["gate"]["variants"]
    tests = {test["group"]: test for test in one["tests"] if test["rule"] == "cut_off"}
    assert {key: test["verdict"] for key, test in tests.items()} == {
        "group=a": "PASS", "group=b": verdict,
    }  # fmt: skip
    if verdict == "UNSURE":
        assert tests["group=b"]["reason"] == "13.3% of 150 examples do not say how they ended"


LACKING = {
    "cut_off": ({"reason": "banana"}, "absolute"), "output_tokens": ({"tokens": None}, "relative"),
    "tool_call": ({"reason": None, "calls": None}, "absolute"),
}  # fmt: skip


@pytest.mark.parametrize("metric", LACKING)
@pytest.mark.parametrize("unknown", [1.0, 0.9, 0.3])
def test_a_group_whose_endings_are_hardly_known_is_not_too_small(
    tmp_path: Path, metric: str, unknown: float
) -> None:
    """With all endings known 300 examples are enough, and four are not."""
    groups, (lacking, kind) = ["x"] * 296 + ["z"] * 300 + ["few"] * 4, LACKING[metric]
    rows = [row | {"reason": "stop", "group": own, "calls": 1}
            for row, own in zip(drawn(0), groups, strict=True)]  # fmt: skip
    first, small = 296 + round(300 * (1 - unknown)), metric != "output_tokens"  # any mean is judged
    after = [row | lacking if first <= place < 596 or (small and place > 597) else row
             for place, row in enumerate(rows)]  # fmt: skip
    places = [plain_table(tmp_path / name, own) for name, own in (("a", rows), ("b", after))]
    text = f"rules: [{{id: ends, metric: {metric}, over: groups, max_increase: {{{kind}: 0.05}}}}]"
    ask = ["compare", *places, "--group", "group", "--rules", ruled(tmp_path, text)]
    (one,) = measured(*ask)["gate"]["variants"]
    tests = {test["group"]: test["verdict"] for test in one["tests"]}
    assert (one["verdict"], tests["group=z"]) == ("UNSURE", "UNSURE")
    assert not small or tests["group=few"] == "NOT JUDGED"
    said = f"{100 * unknown:.1f}% of 300 examples do not say how they ended"
    assert one["sentences"] == [f"{ENDING_NAMES[metric]} z: {said}"]
    assert scotoma(*ask, "--gate", "--out", tmp_path / "run")[0] == 0
    assert said in (tmp_path / "run" / "summary.md").read_text()


def test_few_unknown_endings_of_all_may_be_many_of_a_group(tmp_path: Path) -> None:
    rows = [row | {"reason": "stop", "group": "ab"[row["id"] < 60]} for row in drawn(0)]
    places = [nemo_skills(tmp_path / "a", rows),
              nemo_skills(tmp_path / "b", without(rows, 6, reason="banana"))]  # fmt: skip
    ask = ["compare", *places, "--score", "cut_off", "--margin", "0.05"]
    assert measured(*ask)["gate"]["variants"][0]["verdict"] == "PASS"
    (one,) = measured(*ask, "--group", "group")["gate"]["variants"]
    assert (one["verdict"], one["blocked"]) == (
        "UNSURE", ["group=b: of 6 of 60 examples it is not known how answers ended; they are left "
                   "out, and no PASS is given"],
    )  # fmt: skip


def test_rules_on_endings_that_no_log_says_are_unsure(tmp_path: Path) -> None:
    rows = without(drawn(0), N, reason=None, tokens=None)
    places = [nemo_skills(tmp_path / name, rows) for name in "ab"]
    text = "rules: [{id: cut, metric: cut_off, over: all, max_increase: {absolute: 0.05}}]"
    (one,) = measured("compare", *places, "--rules", ruled(tmp_path, text))["gate"]["variants"]
    assert (one["verdict"], one["sentences"]) == (
        "UNSURE", ["share cut off: the answers do not say how they ended"],
    )  # fmt: skip


@pytest.mark.parametrize(("rule", "says"), [
    ("metric: cut_off, over: classes, max_increase: {absolute: 0.1}",
     "which classes do not have; write over: groups or all"),
    ("metric: output_tokens, max_increase: {absolute: 0.1}",
     "asks for output_tokens, whose rise is relative; write max_increase.relative alone"),
])  # fmt: skip
def test_rules_on_endings_that_make_no_sense(tmp_path: Path, rule: str, says: str) -> None:
    places = [nemo_skills(tmp_path / name, drawn(0)) for name in "ab"]
    path = ruled(tmp_path, f"rules: [{{id: ends, {rule}}}]")
    code, _, err = scotoma("compare", *places, "--rules", path)
    assert code == 2
    assert says in " ".join(err.split())


def test_calls_that_nobody_makes_are_not_told(tmp_path: Path) -> None:
    """A reason that nobody knows says nothing of tools where none is there."""
    rows = [row | {"reason": "stop"} for row in drawn(0)]
    places = []
    for name, reason in (("a", "stop"), ("b", "zzz")):
        place = tmp_path / f"{name}.jsonl"
        lines = [{"id": row["id"], "score": int(row["right"]), "stop_reason": reason}
                 for row in rows]  # fmt: skip
        place.write_text("".join(json.dumps(line) + "\n" for line in lines))
        places.append(place)
    told = [note["sentence"] for note in measured("compare", *places)["admission"]]
    assert any("have no known stop reason ('zzz')" in one for one in told)
    assert not any("tool calls" in one for one in told)
