"""`scotoma compare --so-far`: a verdict while the evaluation goes on."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.commands import measured, scotoma

N = 3_000


def write(
    path: Path, n: int, *, harm: float = 0.0, sort: bool = False, start: int = 0, task: str = ""
) -> Path:
    """Write a table of right and wrong answers; the compressed model loses in group b."""
    rng = np.random.default_rng(8)
    group, before = rng.choice(list("abc"), N), rng.random(N) < 0.8
    lost = np.where(group == "b", harm, 0.0) + 0.005
    after = np.where(before, rng.random(N) >= lost, rng.random(N) < 0.02)
    right = before if path.name.startswith("original") else after
    order = np.argsort(group, kind="stable") if sort else np.arange(N)
    rows = [
        {"id": f"{task}{i}", "group": group[i], "score": int(right[i]), "prompt": f"{task} {i}"}
        for i in order[start : start + n]
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))
    return path


def pair(folder: Path, n: int, **how: Any) -> tuple[Path, Path]:
    original = write(folder / "original.jsonl", N, sort=how.get("sort", False))
    return original, write(folder / "int8.jsonl", n, **how)


def asked(folder: Path, n: int, *options: str, **how: Any) -> dict[str, Any]:
    found = measured("compare", *pair(folder, n, **how), "--group", "group", "--so-far", *options)
    (one,) = found["comparisons"]
    return {**one, "notes": [note["sentence"] for note in found["admission"]]}


def test_a_harmed_group_fails_before_the_end(tmp_path: Path) -> None:
    one = asked(tmp_path, 900, "--margin", "0.02", harm=0.3)
    assert (one["verdict"], one["seen"], one["total"], one["more"]) == ("FAIL", 900, N, None)
    rows = {row["group"]: row for row in one["rows"]}
    assert rows["group=b"]["harm"] == "shown"
    assert rows["group=b"]["change"]["high"] < -0.02
    low, high = rows["group=b"]["together"]
    assert low < rows["group=b"]["change"]["low"]
    assert rows["group=b"]["change"]["high"] < high
    code, text, _ = scotoma("compare", *pair(tmp_path, 900, harm=0.3), "--group", "group",
                            "--so-far", "--gate")  # fmt: skip
    assert code == 1
    assert "FAIL    int8: right answers fall beyond the margin, in points: group=b" in text
    assert "The other 2,100 examples are not needed for this verdict." in text


def test_the_built_in_rules_need_both_margins(tmp_path: Path) -> None:
    """A rise of 4 points is more than half a point, and less than a fifth of 40%."""
    rng = np.random.default_rng(2)
    wrong = rng.random(N) < 0.4
    after = wrong | (rng.random(N) < 0.06)
    places = []
    for name, own in (("original", wrong), ("int8", after)):
        rows = [{"id": i, "prompt": str(i), "score": int(not one)} for i, one in enumerate(own)]
        places.append(tmp_path / f"{name}.jsonl")
        places[-1].write_text("".join(json.dumps(row) + "\n" for row in rows))
    (both,), (one,) = (
        measured("compare", *places, "--so-far", *options)["comparisons"]
        for options in ([], ["--margin", "0.005"])
    )
    assert (both["verdict"], one["verdict"]) == ("PASS", "FAIL")
    assert both["rows"][0]["margin"] == pytest.approx(0.2 * wrong.mean())


def test_a_lossless_model_passes_before_the_end_and_not_at_once(tmp_path: Path) -> None:
    few, many = (asked(tmp_path / str(n), n, "--margin", "0.03") for n in (60, 1_800))
    assert (few["verdict"], many["verdict"]) == ("UNSURE", "PASS")
    assert {row["harm"] for row in many["rows"]} == {"ruled out"}
    assert 60 < few["more"] < N
    text = scotoma("compare", *pair(tmp_path, 60), "--so-far", "--of", "70")[1]
    text = " ".join(text.split())
    assert "more examples decide, if rates stay as they are, more than the 10 that are left" in text


def test_the_number_of_examples_that_is_said_to_decide_does(tmp_path: Path) -> None:
    """Repeating what was seen, the rates stay as they are."""
    original, int8 = pair(tmp_path, 200)
    for path in (original, int8):
        rows = [json.loads(line) for line in path.read_text().splitlines()][:200]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ask = ["compare", original, int8, "--so-far", "--margin", "0.02", "--of", "100000"]
    (one,) = measured(*ask)["comparisons"]
    assert one["verdict"] == "UNSURE"
    times = 1 + int(np.ceil(one["more"] / 200))
    for path in (original, int8):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        more = [row | {"id": f"{t}-{row['id']}", "prompt": f"{t} {row['prompt']}"}
                for t in range(times) for row in rows]  # fmt: skip
        path.write_text("".join(json.dumps(row) + "\n" for row in more))
    (later,) = measured(*ask)["comparisons"]
    assert later["verdict"] == "PASS"


def test_order_is_told_where_a_log_is_sorted(tmp_path: Path) -> None:
    assert not [note for note in asked(tmp_path / "a", 1_500)["notes"] if "sorted" in note]
    (note,) = [
        note for note in asked(tmp_path / "b", 2_900, sort=True)["notes"] if "sorted" in note
    ]
    assert note.startswith(
        "examples are sorted by group: 3 runs of equal values where random order"
    )


def test_watching_ends_when_the_verdict_is_certain(tmp_path: Path) -> None:
    original, int8 = pair(tmp_path, 30, harm=0.3)
    later = threading.Timer(2.0, lambda: write(int8, 1_200, harm=0.3))
    later.start()
    code, out, err = scotoma(
        "compare", original, int8, "--group", "group", "--so-far", "--watch", "0.5", "--margin",
        "0.02",
    )  # fmt: skip
    later.join()
    assert code == 0
    assert "1,200 of 3,000 examples" in out
    assert "int8 UNSURE after 30" in err


def test_tasks_are_rows_and_one_that_has_not_begun_is_named(tmp_path: Path) -> None:
    for side in ("original", "int8"):
        for task in ("sums", "words"):
            write(tmp_path / side / f"{task}.jsonl", 400, task=task)
    write(tmp_path / "original" / "last.jsonl", 300, task="last")
    found = measured("compare", tmp_path / "original", tmp_path / "int8", "--so-far")
    (one,) = found["comparisons"]
    assert [row["group"] for row in one["rows"]] == ["all", "task=sums", "task=words"]
    sentences = [note["sentence"] for note in found["admission"]]
    assert "task last is in the log of original only, and is left out" in sentences


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--so-far", "--of", "100"], "--of must count the examples of the whole evaluation, got "
         "100, and 900 are answered"),
        (["--so-far", "--rules", "gate.yaml"], "--rules is for"),
        (["--so-far", "--out", "run"], "--out is for"),
        (["--watch", "1"], "--watch is for logs of evaluations that go on"),
        (["--so-far", "--of", "0"], "--of must be at least 1, got 0"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_sentence(
    tmp_path: Path, options: list[str], message: str
) -> None:
    code, _, err = scotoma("compare", *pair(tmp_path, 900), *options)
    assert code == 2
    assert message in " ".join(err.split())


def test_scores_that_are_numbers_are_refused(tmp_path: Path) -> None:
    original, int8 = pair(tmp_path, 900)
    for path in (original, int8):
        path.write_text(path.read_text().replace('"score": 1', '"score": 0.7'))
    code, _, err = scotoma("compare", original, int8, "--so-far")
    assert code == 2
    assert "--so-far needs right and wrong answers, and score score is a number" in err
    assert scotoma("compare", original, int8, "--so-far", "--right-from", "0.5")[0] == 0
