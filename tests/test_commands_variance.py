from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.cells import cell_len
from scipy.stats import mannwhitneyu

from scotoma import published
from scotoma.variance import compare_family, spread
from tests.commands import scotoma

HOSTILE = "\x1b[31mred\u202e\n"


def long_table(runs: dict[tuple[str, str], np.ndarray]) -> pl.DataFrame:
    """One row a run and metric, and class where values have two dimensions."""
    rows = []
    for (technique, metric), values in runs.items():
        table = np.asarray(values, float)
        for run, row in enumerate(table.reshape(len(table), -1)):
            rows += [(technique, metric, run, f"c{c}", value) for c, value in enumerate(row)]
    names = ["technique", "metric", "run", "class", "value"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    return frame if frame["class"].n_unique() > 1 else frame.drop("class")


RNG = np.random.default_rng(0)
RUNS = {
    (technique, metric): RNG.normal(mean, sd, 8).round(5)
    for technique, mean, sd in (("base", 0.3, 0.02), ("mixup", 0.22, 0.02), ("noise", 0.3, 0.09))
    for metric in ("DP", "EOTP")
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "runs.csv"
    long_table(RUNS).write_csv(path)
    return path


# Qian et al. 2021: 16 runs a technique (lin-tan/fairness-variance) and the tests that were printed.
def test_published_tests_of_the_study_are_reproduced_by_the_command(tmp_path):
    runs = published.fairness_runs()
    names = [tuple(name.split("|")) for name in runs.bias if name.startswith("S-")]
    study = {name: runs.values(*name)[:, -1] for name in names}
    path = tmp_path / "study.parquet"
    long_table(study).write_parquet(path)
    code, out, _ = scotoma(
        "variance", path, "--base", "S-Base", "--protocol", "published", "--json"
    )
    assert code == 0
    found = {
        (row["technique"], row["metric"]): row["comparison"]
        for row in json.loads(out)["comparisons"]
    }
    tests = [test for test in published.fairness_variance().tests if test.base == "S-Base"]
    assert len(tests) > 50
    for printed in tests:
        one = found[printed.technique, printed.metric]
        assert round(one["u_p"], 5) == printed.u_p
        assert round(one["levene_p"], 5) == printed.levene_p
        if printed.abs_cohen_d is not None:
            assert round(abs(one["cohens_d"]["value"]), 2) == printed.abs_cohen_d


def test_u_of_the_sound_protocol_is_scipys(table):
    found = json.loads(scotoma("variance", table, "--base", "base", "--json")[1])
    for row in found["comparisons"]:
        sides = RUNS["base", row["metric"]], RUNS[row["technique"], row["metric"]]
        assert row["comparison"]["u_p"] == pytest.approx(
            mannwhitneyu(*sides, method="exact").pvalue
        )


def test_the_command_says_what_the_functions_say(table):
    found = json.loads(scotoma("variance", table, "--base", "base", "--json")[1])
    assert (found["protocol"], found["tests_in_family"]) == ("sound", 4)
    for row in found["spread"]:
        own = spread(RUNS[row["technique"], row["metric"]])
        assert row["spread"]["max_diff"] == pytest.approx(own.max_diff)
        assert row["spread"]["std"] == pytest.approx(own.std)
        assert row["spread"]["sigma"]["high"] == pytest.approx(own.sigma.high)
    family = compare_family(
        {
            f"{technique} {metric}": (RUNS["base", metric], values)
            for (technique, metric), values in RUNS.items()
            if technique != "base"
        }
    )
    for row in found["comparisons"]:
        own = family[f"{row['technique']} {row['metric']}"]
        assert row["comparison"]["u_p_adjusted"] == pytest.approx(own.u_p_adjusted)
        assert row["comparison"]["levene_p_adjusted"] == pytest.approx(own.levene_p_adjusted)
        assert row["comparison"]["difference"]["low"] == pytest.approx(own.difference.low)


def test_a_page_names_what_moves_and_how_far(table):
    code, out, err = scotoma("variance", table, "--base", "base")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert "Means and variances against 'base': protocol sound, 4 comparisons," in out
    moved = [line for line in lines if line.startswith("mixup      DP")]
    assert lines[lines.index(moved[1]) + 1].strip() == "mean -; huge"
    assert "[" in moved[0]  # sigma has its interval
    assert [line.split()[-1] for line in lines if line.startswith("noise      EOTP")][-1] == "+"


def test_without_a_base_nothing_is_compared_and_this_is_said(table):
    code, out, err = scotoma("variance", table)
    assert (code, err) == (0, "no --base: spreads are shown, nothing is compared\n")
    assert "Cohen" not in out
    assert scotoma("variance", table, "--quiet")[2] == ""


def test_columns_can_be_called_otherwise(table):
    other = table.with_name("other.csv")
    names = {"technique": "how", "metric": "what", "run": "seed", "value": "x"}
    pl.read_csv(table).rename(names).write_csv(other)
    asked = ("--technique", "how", "--metric", "what", "--run", "seed", "--value", "x")
    assert scotoma("variance", other, *asked, "--json") == scotoma("variance", table, "--json")


def test_order_of_rows_changes_no_number(table):
    frame = pl.read_csv(table).sample(fraction=1.0, shuffle=True, seed=3)
    shuffled = table.with_name("shuffled.csv")
    frame.write_csv(shuffled)

    def numbers(path: Path) -> dict:
        found = json.loads(scotoma("variance", path, "--base", "base", "--json")[1])
        return {
            (row["technique"], row["metric"]): row["comparison"]["levene_p_adjusted"]
            for row in found["comparisons"]
        }

    assert numbers(table) == pytest.approx(numbers(shuffled))


def test_the_class_that_moves_most_is_named(tmp_path):
    values = RNG.normal(0.2, 0.01, (6, 3))
    values[:, 1] += np.linspace(0, 0.5, 6)
    path = tmp_path / "classes.csv"
    other = values + np.array([0, 0.3, 0.6])
    long_table({("base", "DP"): values, ("mixup", "DP"): other}).write_csv(path)
    found = json.loads(scotoma("variance", path, "--class", "class", "--base", "base", "--json")[1])
    (one, other) = found["spread"]
    assert one["worst_class"] == other["worst_class"] == "c1"
    assert one["spread"]["std"] == pytest.approx(values.mean(axis=1).std())
    assert one["spread"]["class_max_diff"] == pytest.approx(np.ptp(values[:, 1]))
    assert found["comparisons"][0]["comparison"]["difference"]["value"] == pytest.approx(0.3)
    out = scotoma("variance", path, "--class", "class", "--base", "base")[1]
    assert max(map(cell_len, out.splitlines())) <= 80
    assert "class moving most" in out


def test_a_metric_that_the_base_lacks_is_shown_and_not_compared(tmp_path):
    path = tmp_path / "runs.csv"
    long_table(RUNS | {("mixup", "top-1"): np.array([0.9, 0.91])}).write_csv(path)
    found = json.loads(scotoma("variance", path, "--base", "base", "--json")[1])
    assert found["tests_in_family"] == 4
    assert {row["metric"] for row in found["spread"]} == {"DP", "EOTP", "top-1"}
    (row,) = [row for row in found["comparisons"] if row["metric"] == "top-1"]
    assert row["comparison"] is None
    assert row["reason"] == "not compared (the base has no runs of this metric)"
    assert row["reason"] in scotoma("variance", path, "--base", "base")[1]


def test_runs_that_never_vary_are_undefined_with_a_reason(tmp_path):
    path = tmp_path / "runs.csv"
    long_table({("base", "DP"): np.full(4, 0.5), ("mixup", "DP"): np.full(4, 0.5)}).write_csv(path)
    code, out, _ = scotoma("variance", path, "--base", "base")
    assert code == 0
    assert "undefined (nothing varies over 8 runs)" in " ".join(out.split())
    assert "no test of variances (nothing varies over 8 runs)" in out
    assert "nan" not in out.replace("variances", "")


def test_hostile_names_cannot_steer_the_terminal(tmp_path):
    path = tmp_path / "runs.csv"
    runs = {
        (name, metric): RNG.normal(size=5)
        for name in (HOSTILE, "貓" * 90)
        for metric in ("DP", "m" * 90)
    }
    long_table(runs).write_csv(path)
    for extra in ((), ("--json",)):
        code, out, err = scotoma("variance", path, "--base", HOSTILE, *extra)
        assert (code, err) == (0, "")
        assert all(character.isprintable() for line in out.split("\n") for character in line)
        if not extra:
            assert max(map(cell_len, out.splitlines())) <= 80
    code, out, err = scotoma("variance", path, "--base", HOSTILE * 2)
    assert (code, out) == (2, "")
    assert err.removesuffix("\n").isprintable()


def test_numbers_are_written_so_that_small_ones_can_be_read(tmp_path):
    path = tmp_path / "runs.csv"
    small = {
        ("base", "DP"): np.array([1e-6, 2e-6, 4e-6]),
        ("b", "DP"): np.array([3e-6, 5e-6, 6e-6]),
    }
    long_table(small).write_csv(path)
    out = scotoma("variance", path, "--base", "base")[1]
    assert "+2.33e-06 [" in out


def without(**values: object) -> pl.DataFrame:
    return long_table(RUNS).with_columns(**values)


BAD = {
    "column": (lambda: without().rename({"run": "seed"}), (), 2, "--run names column 'run', which "
               "is not in the table; it has 'technique', 'metric', 'seed', 'value'"),
    "base": (without, ("--base", "dropout"), 2, "--base must be one of the techniques, got "
             "'dropout': choose among 'base', 'mixup', 'noise'"),
    "protocol": (without, ("--protocol", "welch"), 2, "--protocol must be sound or published, got "
                 "'welch': choose one"),
    "level": (without, ("--level", "95"), 4, "level must be a fraction in (0, 1), got 95.0: write "
              "0.95 for 95%"),
    "empty": (lambda: without().clear(), (), 4, "table 'bad.csv' holds no rows"),
    "twice": (lambda: without(run=pl.col("run") % 7), (), 4, "technique 'base', metric 'DP', run "
                                                             "'0' is in the table more than "
                                                             "once: keep one value per run"),
    "one run": (lambda: without().filter((pl.col("technique") != "noise") | (pl.col("run") == 0)),
                (), 4, "technique 'noise', metric 'DP' has one run: a spread needs two or more"),
    "text": (lambda: without(value=pl.lit("high")), (), 4, "column 'value' must hold finite "
             "numbers, got 'high' in row 1: correct or remove the row"),
    "infinite": (lambda: without(value=pl.lit(math.inf)), (), 4, "column 'value' must hold finite "
                 "numbers, got 'inf' in row 1"),
    "missing": (lambda: without(value=pl.when(pl.col("run") > 0).then("value")), (), 4, "column "
                "'value' is empty in 6 of 48 rows, first in row 1: fill or remove them"),
    "nan": (lambda: without(value=pl.when(pl.col("run") > 0).then("value").otherwise(math.nan)), (),
            4, "column 'value' is empty in 6 of 48 rows"),
    "class": (lambda: long_table({("a", "DP"): np.ones((3, 2))}).slice(0, 5), ("--class", "class"),
              4, "technique 'a', metric 'DP' has no value of class 'c1' in run '2': give every run "
              "all classes, or leave the class out"),
    "classes": (lambda: pl.concat([long_table({("a", "DP"): np.eye(3)}), long_table({("b", "DP"):
                np.eye(2)})]), ("--class", "class", "--base", "a"), 4, "technique 'b', metric 'DP' "
                "has other classes than the base: compare means over the same classes"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_sentence_and_no_data(name, tmp_path):
    frame, asked, code, sentence = BAD[name]
    path = tmp_path / "bad.csv"
    frame().write_csv(path)
    got = scotoma("variance", path, *asked)
    assert got[:2] == (code, "")
    assert got[2].startswith(f"scotoma: {sentence}")
    assert got[2].count("\n") == 1
