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
