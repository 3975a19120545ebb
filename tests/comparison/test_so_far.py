"""`scotoma compare --so-far`: a verdict while the evaluation goes on."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.commands import measured, scotoma

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
    assert "FAIL    int8: right answers (score) fall beyond the margin, in points: group=b" in text
    assert "The other 2,100 examples are not needed for this verdict." in text
    assert "A PASS" not in text


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


def test_a_task_that_has_not_begun_holds_a_pass_back(tmp_path: Path) -> None:
    for side in ("original", "int8"):
        for task in ("sums", "words"):
            write(tmp_path / side / f"{task}.jsonl", N, task=task)
    ask = ["compare", tmp_path / "original", tmp_path / "int8", "--so-far", "--margin", "0.03"]
    assert scotoma(*ask)[1].count("PASS    int8") == 1
    write(tmp_path / "original" / "last.jsonl", 300, task="last")
    (one,) = measured(*ask)["comparisons"]
    rows = {row["group"]: row for row in one["rows"]}
    assert list(rows) == ["all", "task=last", "task=sums", "task=words"]
    assert (one["verdict"], one["total"], one["more"]) == ("UNSURE", 2 * N + 300, None)
    assert (rows["task=last"]["n"], rows["task=last"]["harm"]) == (0, "inconclusive")
    _, text, err = scotoma(*ask)
    assert "UNSURE  int8: no PASS before task=last has answers." in text
    assert "left out" not in err
    assert "task last has not begun: int8 has no answers of it yet" in " ".join(err.split())
    assert measured(*ask, "--tasks", "sums,last")["comparisons"][0]["verdict"] == "UNSURE"
    named = [*ask, "--tasks", "sums, words"]
    assert measured(*named)["comparisons"][0]["verdict"] == "PASS"


def test_a_named_task_that_no_log_has_begun_holds_a_pass_back(tmp_path: Path) -> None:
    for side in ("original", "int8"):
        write(tmp_path / side / "sums.jsonl", N, task="sums")
    ask = ["compare", tmp_path / "original", tmp_path / "int8", "--so-far", "--margin", "0.03"]
    assert measured(*ask, "--tasks", "sums")["comparisons"][0]["verdict"] == "PASS"
    (one,) = measured(*ask, "--tasks", "sums,words")["comparisons"]
    assert (one["verdict"], one["more"], one["awaited"]) == ("UNSURE", None, ["words"])
    rows = {row["group"]: row for row in one["rows"]}
    assert (rows["all"]["harm"], rows["task=words"]["harm"]) == ("ruled out", "inconclusive")
    assert rows["task=words"]["n"] == 0
    _, text, err = scotoma(*ask, "--tasks", "sums,words")
    assert "UNSURE  int8: no PASS before task=words has answers." in text
    assert "task words has not begun: original has no answers of it yet" in " ".join(err.split())
    write(tmp_path / "original" / "words.jsonl", N, task="words")
    code, _, err = scotoma(*ask, "--tasks", "words")  # nothing at all to judge
    assert (code, "int8 has no answers to task 'words' yet, and those to sums; wait" in err) == (
        4, True,
    )  # fmt: skip
    later = threading.Timer(3.0, lambda: write(tmp_path / "int8" / "words.jsonl", N, task="words"))
    later.start()
    code, out, _ = scotoma(*ask, "--tasks", "words", "--watch", "0.3")
    later.join()
    assert (code, "PASS    int8" in out) == (0, True)


def groups_of(path: Path, groups: list[str], right: np.ndarray[Any, Any], n: int) -> Path:
    lines = [f"q{i},{groups[i]},yes,{'yes' if right[i] else 'no'}" for i in range(n)]
    path.write_text("\n".join(["id,group,label,predicted", *lines]) + "\n")
    return path


def small_group(folder: Path, seed: int, *, original: int, n: int, total: int) -> list[Path]:
    """Two tables; the compressed model loses 30 points in a group of about 1.3% of the examples.

    The group's first answers by the original are all right, as 9 of 9 are by luck.
    """
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b", "small"], total, p=[0.4935, 0.4935, 0.013]).tolist()
    small = np.array(groups) == "small"
    before = rng.random(total) < 0.8
    before[np.flatnonzero(small)[:12]] = True
    after = np.where(rng.random(total) < 0.002, ~before, before)
    after &= ~(small & (rng.random(total) < 0.375))
    return [
        groups_of(folder / "original.csv", groups, before, original),
        groups_of(folder / "int8.csv", groups, after, n),
    ]


@pytest.mark.parametrize("original", [6_000, 900])
def test_a_group_that_looks_too_small_early_holds_a_pass_back(
    tmp_path: Path, original: int
) -> None:
    """80 of 6,000 can be judged, and lose 30 points: what is seen of them first must not hide it.

    With the original's log complete their number is known from the start; else it may be anything.
    """
    options = ["--so-far", "--of", "6000", "--group", "group", "--margin", "0.02", "--gate"]
    for seed in range(3):
        paths = small_group(tmp_path, seed, original=original, n=900, total=6_000)
        (one,) = measured("compare", *paths, *options)["comparisons"]
        assert one["verdict"] == "UNSURE"
        assert {row["group"]: row["harm"] for row in one["rows"]} == {
            "all": "ruled out", "group=a": "ruled out", "group=b": "ruled out",
            "group=small": "inconclusive",
        }  # fmt: skip
        assert "Not decided yet: group=small." in scotoma("compare", *paths, *options)[1]


def test_a_group_is_too_small_only_where_that_is_certain(tmp_path: Path) -> None:
    """Of 20 rows in all no PASS can be had: known once the original's log is complete."""
    for original, verdict, harm in (
        (6_000, "PASS", "too small to judge"), (5_990, "PASS", "too small to judge"),
        (3_000, "UNSURE", "inconclusive"),
    ):  # fmt: skip
        groups = ["few" if i % 300 == 7 else "most" for i in range(6_000)]
        right = np.arange(6_000) % 5 > 0
        paths = [
            groups_of(tmp_path / "original.csv", groups, right, original),
            groups_of(tmp_path / "int8.csv", groups, right, 3_000),
        ]
        options = ["--so-far", "--of", "6000", "--group", "group", "--margin", "0.02"]
        (one,) = measured("compare", *paths, *options)["comparisons"]
        assert (one["verdict"], one["rows"][1]["harm"]) == (verdict, harm)
        text = scotoma("compare", *paths, *options)[1]
        assert ("Too small to judge, even at the end: group=few." in text) == (verdict == "PASS")


def test_a_small_group_that_loses_much_is_waited_for(tmp_path: Path) -> None:
    """No PASS can be had of it, but its harm may be shown yet; once all is seen, it is named."""
    groups = ["few" if i % 300 == 7 else "most" for i in range(6_000)]
    before = np.arange(6_000) % 5 > 0
    after = before & ~((np.array(groups) == "few") & (np.arange(6_000) < 1_000))
    options = ["--so-far", "--group", "group", "--margin", "0.02"]
    ends = {}
    for n in (1_000, 2_999, 6_000):
        paths = [
            groups_of(tmp_path / "original.csv", groups, before, 6_000),
            groups_of(tmp_path / "int8.csv", groups, after, n),
        ]
        (one,) = measured("compare", *paths, *options)["comparisons"]
        ends[n] = (one["verdict"], one["rows"][1]["harm"])
    assert ends[1_000][1] == ends[2_999][1] == "inconclusive"
    assert ends[2_999][0] == "UNSURE"
    assert ends[6_000] == ("PASS", "too small to judge")


def test_looking_earlier_makes_no_margin_of_a_pass_coarser(tmp_path: Path) -> None:
    """Neither with the whole original, whose margins stay, nor while both logs grow."""
    margins = []
    for original, n in ((6_000, 400), (6_000, 6_000), (400, 400), (2_000, 2_000), (5_000, 5_000)):
        paths = small_group(tmp_path, 1, original=original, n=n, total=6_000)
        options = ["--so-far", "--of", "6000", "--group", "group", "--margin", "0.005"]
        (one,) = measured("compare", *paths, *options)["comparisons"]
        margins.append({row["group"]: row["pass_margin"] for row in one["rows"]})
        assert {row["margin"] for row in one["rows"]} == {0.005}
    assert margins[0] == margins[1]
    growing = [*margins[2:], margins[1]]
    for group in margins[1]:
        ends = [one[group] for one in growing]
        assert ends == sorted(ends)
    assert margins[1]["group=small"] > 0.06


def test_groups_that_have_no_answers_yet_hold_a_pass_back(tmp_path: Path) -> None:
    """Both logs are sorted: the original's names group c, whose answers are still to come."""
    options = ["--margin", "0.03"]
    one = asked(tmp_path, 2_000, *options, sort=True)
    rows = {row["group"]: row for row in one["rows"]}
    assert {row["harm"] for key, row in rows.items() if key != "group=c"} == {"ruled out"}
    assert (one["verdict"], rows["group=c"]["n"], rows["group=c"]["before"]) == ("UNSURE", 0, None)
    text = scotoma("compare", *pair(tmp_path, 2_000, sort=True), "--group", "group", "--so-far",
                   *options)[1]  # fmt: skip
    assert "UNSURE  int8: no PASS before group=c has answers." in text
    (some,) = measured("compare", *pair(tmp_path, 2_000, sort=True), "--group", "group",
                       "--so-far", "--of", "2500", *options)["comparisons"]  # fmt: skip
    assert some["verdict"] == "UNSURE"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--so-far", "--of", "100"], "--of must count the examples of the whole evaluation, got "
         "100, and 900 are answered"),
        (["--so-far", "--rules", "gate.yaml"], "--rules does not go with"),
        (["--so-far", "--out", "run"], "--out does not go with"),
        (["--watch", "1"], "leave out --watch, or add --so-far"),
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


def test_a_last_line_without_an_end_is_left_out(tmp_path: Path) -> None:
    """`q40,12,1` may become `q40,12,12`: cut off, a right answer would count as a wrong one."""
    lines = [f"q{i},12,12" for i in range(41)]
    for name in ("original", "int8"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "table.csv").write_text("\n".join(["id,label,predicted", *lines]) + "\n")
    ask = ["compare", tmp_path / "original", tmp_path / "int8", "--so-far"]
    path = tmp_path / "int8" / "table.csv"
    for text, seen in ((path.read_text(), 41), (path.read_text()[:-2], 40)):
        path.write_text(text)
        found = measured(*ask)
        (one,) = found["comparisons"]
        assert (one["seen"], one["rows"][0]["after"], one["models"]) == (
            seen, 1.0, ["original", "int8"],
        )  # fmt: skip
        cut = [note["sentence"] for note in found["admission"] if "line end" in note["sentence"]]
        assert len(cut) == 41 - seen


def test_whole_json_needs_no_line_end_and_half_of_it_is_left_out(tmp_path: Path) -> None:
    original, int8 = pair(tmp_path, 300)
    ask = ["compare", original, int8, "--so-far"]
    for cut, seen in ((1, 300), (5, 299)):
        int8.write_bytes(int8.read_bytes()[:-cut])
        assert measured(*ask)["comparisons"][0]["seen"] == seen


@pytest.mark.parametrize("start", [None, b"", b'{"id": "0", "gro'])
def test_watching_waits_for_a_log_without_answers(tmp_path: Path, start: bytes | None) -> None:
    original, int8 = pair(tmp_path, 0)
    int8.unlink()
    if start is not None:
        int8.write_bytes(start)
    later = threading.Timer(4.0, lambda: write(int8, 1_200, harm=0.3))
    later.start()
    code, out, err = scotoma(
        "compare", original, int8, "--group", "group", "--so-far", "--watch", "0.3", "--margin",
        "0.02",
    )  # fmt: skip
    later.join()
    assert code == 0
    assert "FAIL    int8" in out
    assert err.count("no answers there yet") > 1
    assert scotoma("compare", original, tmp_path / "none.jsonl", "--so-far")[0] == 2


def test_order_is_told_by_examples_and_not_by_their_reruns(tmp_path: Path) -> None:
    """Ten rows of each example beside each other are not sorted by what the example is."""
    original, int8 = pair(tmp_path, 300)
    for path in (original, int8):
        rows = [json.loads(line) for line in path.read_text().splitlines()][:300]
        path.write_text(
            "".join(json.dumps(row | {"rerun": i}) + "\n" for row in rows for i in range(10))
        )
    found = measured("compare", original, int8, "--group", "group", "--so-far", "--reruns")
    assert found["comparisons"][0]["seen"] == 300
    assert not [note for note in found["admission"] if "sorted by" in note["sentence"]]


def test_all_examples_seen_leaves_none_to_wait_for(tmp_path: Path) -> None:
    ask = ["compare", *pair(tmp_path, 300, harm=0.1), "--so-far", "--of", "300", "--group", "group"]
    text = scotoma(*ask, "--margin", "0.02")[1]
    text = " ".join(text.split())
    assert "UNSURE int8: all examples are seen; compare without --so-far" in text
    assert "more examples" not in text


def test_a_pass_names_its_coarsest_margin_and_its_score(tmp_path: Path) -> None:
    text = " ".join(
        scotoma("compare", *pair(tmp_path, N), "--group", "group", "--so-far")[1].split()
    )
    assert "PASS int8: right answers (score) fall beyond the margin in none of 4 tests;" in text
    (one,) = measured("compare", *pair(tmp_path, N), "--group", "group", "--so-far")["comparisons"]
    widest = max(one["rows"], key=lambda row: row["pass_margin"])
    assert f"coarsest margin {100 * widest['pass_margin']:.1f} points ({widest['group']})" in text
