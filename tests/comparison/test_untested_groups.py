"""A group without an interval is no test: it takes no part in the correction over groups."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np

from tests.helpers.commands import scotoma


def write(path: Path, scores: np.ndarray, group: np.ndarray) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "group", "score"])
        writer.writerows(zip(range(len(scores)), group, scores, strict=True))


def test_a_group_of_one_example_is_left_out_of_holms_family(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    group = np.array(["large"] * 200 + ["small"] * 200)
    before = rng.normal(0.5, 0.1, 400)
    after = before - 0.02 * (group == "small") + rng.normal(0, 0.05, 400)

    def ps(lonely: int) -> dict[str, float]:
        names = np.concatenate([group, [f"alone {i}" for i in range(lonely)]])
        more = np.full(lonely, 0.5)
        folder = tmp_path / str(lonely)
        folder.mkdir()
        write(folder / "a.csv", np.concatenate([before, more]), names)
        write(folder / "b.csv", np.concatenate([after, more]), names)
        code, out, err = scotoma(
            "compare", str(folder / "a.csv"), str(folder / "b.csv"), "--id", "id", "--group",
            "group", "--score", "score", "--json", "--quiet",
        )  # fmt: skip
        assert code == 0, err
        (found,) = json.loads(out)["comparisons"]
        return {one["group"]: one["p_adjusted"] for one in found["groups"]}

    alone, among = ps(0), ps(5)
    assert 0 < alone["group=small"] < 1
    for name in alone:
        assert abs(among[name] - alone[name]) < 0.3 * alone[name], (alone, among)
    assert all(among[f"group=alone {i}"] is None for i in range(5))


def test_a_pass_says_that_a_group_too_small_to_judge_fell(tmp_path: Path) -> None:
    """All 8 of a group are lost: no test of it can fail, and no interval exceeds 100 points."""
    n = 2_000
    group = np.where(np.arange(n) < 8, "tiny", np.where(np.arange(n) % 2, "a", "b"))
    before = np.random.default_rng(0).random(n) < 0.9
    before[:8] = True
    write(tmp_path / "a.csv", before * 1, group)
    write(tmp_path / "b.csv", before & (group != "tiny"), group)
    places = tmp_path / "a.csv", tmp_path / "b.csv"
    ask = ("compare", *places, "--group", "group", "--margin", "0.02")
    code, out, err = scotoma(*ask, "--gate")
    text = " ".join(out.split())
    assert (code, "PASS b: No rise beyond its margin" in text) == (0, True), err
    assert "Too small to judge: error tiny (8 examples). note b: error tiny has too few" in text
    assert "but it rises by at least 67.33 points (margin 2); look at it." in text
    assert "group=tiny 8 100.00% 0.00% −100.00 [−100.00, −67.33] *" in text
    (one,) = json.loads(scotoma(*ask, "--json")[1])["comparisons"]
    (tiny,) = [own for own in one["groups"] if own["group"] == "group=tiny"]
    assert (tiny["score"]["change"]["low"], tiny["score"]["change"]["se"] > 0) == (-1.0, True)
