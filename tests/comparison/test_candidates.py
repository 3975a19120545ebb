"""`scotoma compare BASE A B C`: which of several candidates is the one to take?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

from tests.helpers.commands import measured, scotoma

N = 1200
HARM = {"int8": (0.02, 0.02), "awq": (0.01, 0.12), "gptq": (0.06, 0.06)}  # of groups a and b
SIZES = {"int8": 8.0, "awq": 4.0, "gptq": 4.5}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home, rng = tmp_path_factory.mktemp("candidates"), np.random.default_rng(2)
    label, group = rng.choice(["x", "y"], N), rng.choice(["a", "b"], N)
    base = np.where(rng.random(N) < 0.1, np.where(label == "x", "y", "x"), label)
    table = {"id": range(N), "label": label, "team": group}
    pl.DataFrame(table | {"predicted": base}).write_csv(home / "base.csv")
    for name, (a, b) in HARM.items():
        flipped = rng.random(N) < np.where(group == "a", a, b)
        own = np.where(flipped & (base == label), np.where(label == "x", "y", "x"), base)
        pl.DataFrame(table | {"predicted": own}).write_csv(home / f"{name}.csv")
    costs = pl.DataFrame({"model": [*SIZES], "size": [*SIZES.values()], "ms": [5.0, 6.0, 6.0]})
    costs.write_csv(home / "costs.csv")
    return home


def losses(home: Path, name: str) -> dict[str, np.ndarray]:
    """What each answer loses, of all and of both groups."""
    base, own = (pl.read_csv(home / f"{one}.csv") for one in ("base", name))
    right = [(one["label"] == one["predicted"]).to_numpy().astype(float) for one in (base, own)]
    lost, team = right[0] - right[1], base["team"].to_numpy()
    return {"all": lost, "team=a": lost[team == "a"], "team=b": lost[team == "b"]}


def test_candidates_are_in_the_order_of_their_worst_group(home: Path) -> None:
    paths = [home / f"{name}.csv" for name in ("base", *HARM)]
    found = measured("compare", *paths, "--group", "team", "--costs", home / "costs.csv")
    rows = {row["model"]: row for row in found["candidates"]}
    level = 1 - 0.05 / 9  # three candidates, all and two groups
    most = {}
    for name, row in rows.items():
        own = losses(home, name)
        intervals = {
            key: stats.ttest_1samp(lost, 0).confidence_interval(level) for key, lost in own.items()
        }
        worst = max(("team=a", "team=b"), key=lambda key: intervals[key].high)
        assert row["worst"] == worst
        assert row["worst_loss"]["value"] == pytest.approx(own[worst].mean())
        assert row["loss"]["value"] == pytest.approx(own["all"].mean())
        half = intervals[worst].high - own[worst].mean()
        # The floor of flips that were not seen makes it no shorter, and little longer.
        reach = row["worst_loss"]["high"] - row["worst_loss"]["value"]
        assert 0.98 * half <= reach <= 1.4 * half
        most[name] = intervals[worst].high
    assert [row["model"] for row in found["candidates"]] == sorted(most, key=most.get)
    places = {
        name: (row["loss"]["value"], row["worst_loss"]["value"], *row["costs"].values())
        for name, row in rows.items()
    }
    assert rows["awq"]["costs"] == {"size": 4.0, "ms": 6.0}
    for name, own in places.items():
        beaten = any(
            all(np.array(other) <= own) and any(np.array(other) < own)
            for which, other in places.items()
            if rows[which]["verdict"] != "FAIL"
        )
        assert rows[name]["frontier"] is (rows[name]["verdict"] != "FAIL" and not beaten)
    gates = {one["name"]: one["verdict"] for one in found["gate"]["variants"]}
    assert {name: row["verdict"] for name, row in rows.items()} == gates


def written(home: Path, teams: list[str], answers: dict[str, np.ndarray]) -> list[Path]:
    """Tables of models whose answers are right where flagged."""
    table = {"id": range(len(teams)), "label": ["x"] * len(teams), "team": teams}
    for name, right in answers.items():
        own = pl.DataFrame(table | {"predicted": np.where(right, "x", "y")})
        own.write_csv(home / f"{name}.csv")
    return [home / f"{name}.csv" for name in answers]


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A candidate that is nearly the original, and one whose answers flip both ways."""
    rng, n = np.random.default_rng(4), 1500
    teams = [f"{'abc'[i % 3]}" for i in range(n)]
    base = rng.random(n) < 0.8
    answers = {"base": base, "noisy": base ^ (rng.random(n) < 0.3), "same": base.copy()}
    answers["noisy"] |= rng.random(n) < 0.5
    answers["same"][:12] = False  # of every group some
    return written(tmp_path_factory.mktemp("noise"), teams, answers)


def test_noise_is_not_rewarded(noise: list[Path]) -> None:
    found = measured("compare", *noise, "--group", "team")["candidates"]
    home, level = noise[0].parent, 1 - 0.05 / 8
    least = {}
    for name in ("noisy", "same"):
        lost = {key: one for key, one in losses(home, name).items() if key != "all"}
        ends = [stats.ttest_1samp(one, 0).confidence_interval(level) for one in lost.values()]
        least[name] = (max(one.low for one in ends), max(one.high for one in ends))
    assert least["noisy"][0] < least["same"][0]  # its lower end is the lower one, as it is wide
    assert [row["model"] for row in found] == sorted(least, key=lambda name: least[name][1])


def test_no_group_loses_more_than_the_sentence_says(tmp_path: Path) -> None:
    """A small group may lose most, though a large one surely loses more."""
    rng, n = np.random.default_rng(6), 2000
    teams = ["small" if i % 40 == 0 else "large" for i in range(n)] + ["one"]
    base = np.append(rng.random(n) < 0.8, True)
    answers = {"base": base}
    for name, share in (("a", 0.04), ("b", 0.08)):
        answers[name] = base & ~(np.append(rng.random(n), 0.9) < share)
    paths = written(tmp_path, teams, answers)
    found = measured("compare", *paths, "--group", "team")["candidates"]
    for row in found:
        base_right, right = answers["base"], answers[row["model"]]
        lost = base_right.astype(float) - right
        small = lost[np.array(teams) == "small"]
        end = stats.ttest_1samp(small, 0).confidence_interval(1 - 0.05 / 8).high
        assert row["worst"] == "team=small"
        assert row["worst_loss"]["high"] >= end * 0.999
        assert row["unbounded"] == ["team=one"]
    shown = " ".join(scotoma("compare", *paths, "--group", "team")[1].split())
    assert f"loses at most +{100 * found[0]['worst_loss']['high']:.2f} points. " in shown
    assert "Too small for an interval, and in no order: team=one. " in shown
    assert "of those that do not fail: no other is as good in every number" in shown
    assert "These numbers are about these 3 models" in shown


def test_groups_of_one_example_make_no_candidate_first(tmp_path: Path) -> None:
    answers = {"base": np.ones(2, bool), "a": np.array([True, False]), "b": np.ones(2, bool)}
    paths = written(tmp_path, ["u", "v"], answers)
    shown = " ".join(scotoma("compare", *paths, "--group", "team")[1].split())
    assert "No group is large enough to say which candidate is first." in shown


def test_the_table_is_shown_in_every_form(home: Path) -> None:
    paths = [home / f"{name}.csv" for name in ("base", "int8", "awq")]
    code, out, _ = scotoma("compare", *paths, "--group", "team")
    assert code == 0
    shown = " ".join(out.split())
    assert "int8 is first: its worst group, " in shown
    assert "Intervals hold for all 2 candidates and their groups together" in shown
    table = scotoma("compare", *paths, "--group", "team", "--csv", "--quiet")[1]
    assert "# candidates" in table
    assert "candidates" not in measured("compare", *paths[:2], "--group", "team")


@pytest.mark.parametrize(
    ("table", "code", "sentence"),
    [
        ({"name": ["int8"], "size": [1.0]}, 2, "must have the column model, and numbers"),
        ({"model": ["int8", "awq"], "size": ["big", "small"]}, 2, "must have the column model"),
        ({"model": ["int8"], "size": [1.0]}, 4, "one row of each candidate, got 0 of awq"),
        (
            {"model": ["int8", "awq"], "size": [1.0, None]},
            4,
            "must hold size of awq, got no number",
        ),
    ],
)
def test_costs_that_do_not_fit_are_refused(
    home: Path, tmp_path: Path, table: dict[str, list[object]], code: int, sentence: str
) -> None:
    pl.DataFrame(table).write_csv(tmp_path / "costs.csv")
    paths = [home / f"{name}.csv" for name in ("base", "int8", "awq")]
    ended, _, err = scotoma("compare", *paths, "--costs", tmp_path / "costs.csv")
    assert sentence in " ".join(err.split())
    assert ended == code


def test_costs_of_one_candidate_are_refused(home: Path) -> None:
    paths = [home / "base.csv", home / "int8.csv"]
    code, _, err = scotoma("compare", *paths, "--costs", home / "costs.csv")
    assert code == 2
    assert "--costs is for several candidates, got one; leave it out" in " ".join(err.split())
