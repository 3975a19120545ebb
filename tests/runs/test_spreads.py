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
from scotoma.runs import compare_runs, spread
from tests.helpers.commands import scotoma

Rows = dict[tuple[str, str], dict[str, dict]]


def rows_of(out: str, question: str = "comparison") -> Rows:
    """Technique and metric to its rows by what they are of."""
    found: Rows = {}
    for row in json.loads(out)["rows"]:
        if row["question"] == question:
            found.setdefault((row["group"], row["metric"]), {})[row["what"]] = row
    return found


def runs_of(*arguments: str | Path) -> tuple[int, str, str]:
    return scotoma("compare", *arguments, "--techniques")


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
    runs = published.load("fairness_variance_runs")
    names = [tuple(name.split("|")) for name in runs.bias if name.startswith("S-")]
    study = {name: published.fairness_values(*name)[:, -1] for name in names}
    path = tmp_path / "study.parquet"
    long_table(study).write_parquet(path)
    code, out, _ = runs_of(path, "--base", "S-Base", "--protocol", "published", "--json")
    assert code == 0
    found = rows_of(out)
    tests = [test for test in published.load("fairness_variance").tests if test.base == "S-Base"]
    assert len(tests) > 50
    for printed in tests:
        one = found[printed.technique, printed.metric]
        assert round(one["one-sided U p"]["value"], 5) == printed.u_p
        assert round(one["relative Levene p"]["value"], 5) == printed.levene_p
        if printed.abs_cohen_d is not None:
            assert round(abs(one["Cohen's d"]["value"]), 2) == printed.abs_cohen_d


def test_u_of_the_sound_protocol_is_scipys(table):
    found = rows_of(runs_of(table, "--base", "base", "--json")[1])
    assert len(found) == 4
    for (technique, metric), one in found.items():
        sides = RUNS["base", metric], RUNS[technique, metric]
        exact = mannwhitneyu(*sides, method="exact").pvalue
        assert one["U p"]["value"] == pytest.approx(exact)


def test_the_command_says_what_the_functions_say(table):
    out = runs_of(table, "--base", "base", "--json")[1]
    assert json.loads(out)["protocol"] == "sound"
    spreads = {key: spread(values)[0] for key, values in RUNS.items()}
    others = {key: values for key, values in RUNS.items() if key[0] != "base"}
    family = compare_runs({key: (RUNS["base", key[1]], values) for key, values in others.items()})
    for question, expected in (("spread", spreads), ("comparison", family)):
        found = rows_of(out, question)
        assert found.keys() == expected.keys()
        for key, numbers in expected.items():
            assert found[key].keys() == numbers.keys()
            for what, own in numbers.items():
                row = found[key][what]
                for end in ("value", "low", "high"):
                    number = math.nan if row[end] is None else row[end]
                    assert number == pytest.approx(getattr(own, end), nan_ok=True), (key, what, end)
                assert (row["n"], row["models"], row["reason"]) == (own.n, own.members, own.reason)
                assert row["condition"] == ("against=base" if question == "comparison" else None)


def test_a_page_names_what_moves_and_how_far(table):
    code, out, err = runs_of(table, "--base", "base")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert "Means and variances against 'base': protocol sound, 4 comparisons," in out
    moved = [line for line in lines if line.startswith("mixup      DP")]
    assert lines[lines.index(moved[1]) + 1].strip() == "U p <0.001; mean lower; huge"
    assert "[" in moved[0]  # sigma has its interval
    assert [line.split()[-1] for line in lines if line.startswith("noise      EOTP")][
        -1
    ] == "higher"


def test_without_a_base_nothing_is_compared_and_this_is_said(table):
    code, out, err = runs_of(table)
    assert (code, err) == (0, "no --base: spreads are shown, nothing is compared\n")
    assert "Cohen" not in out
    assert runs_of(table, "--quiet")[2] == ""


def test_order_of_rows_changes_no_number(table):
    frame = pl.read_csv(table).sample(fraction=1.0, shuffle=True, seed=3)
    shuffled = table.with_name("shuffled.csv")
    frame.write_csv(shuffled)

    def numbers(path: Path) -> dict:
        found = rows_of(runs_of(path, "--base", "base", "--json")[1])
        return {key: one["raw Levene p, adjusted"]["value"] for key, one in found.items()}

    assert numbers(table) == pytest.approx(numbers(shuffled))


def test_the_class_that_moves_most_is_named(tmp_path):
    values = RNG.normal(0.2, 0.01, (6, 3))
    values[:, 1] += np.linspace(0, 0.5, 6)
    path = tmp_path / "classes.csv"
    other = values + np.array([0, 0.3, 0.6])
    long_table({("base", "DP"): values, ("mixup", "DP"): other}).write_csv(path)
    out = runs_of(path, "--base", "base", "--json")[1]
    one, other = rows_of(out, "spread").values()
    for own in (one, other):
        assert own["MaxDiff of class"]["class"] == own["STDEV of class"]["class"] == "c1"
        assert own["MaxDiff"]["class"] is own["sigma"]["class"] is None
    assert one["STDEV"]["value"] == pytest.approx(values.mean(axis=1).std())
    assert one["MaxDiff of class"]["value"] == pytest.approx(np.ptp(values[:, 1]))
    assert rows_of(out)["mixup", "DP"]["difference"]["value"] == pytest.approx(0.3)
    out = runs_of(path, "--base", "base")[1]
    assert max(map(cell_len, out.splitlines())) <= 80
    assert "class moving most" in out


def test_a_metric_that_the_base_lacks_is_shown_and_not_compared(tmp_path):
    path = tmp_path / "runs.csv"
    long_table(RUNS | {("mixup", "top-1"): np.array([0.9, 0.91])}).write_csv(path)
    out = runs_of(path, "--base", "base", "--json")[1]
    assert {metric for _, metric in rows_of(out, "spread")} == {"DP", "EOTP", "top-1"}
    (row,) = rows_of(out)["mixup", "top-1"].values()
    assert row["value"] is None
    assert row["reason"] == "not compared (the base has no runs of this metric)"
    shown = runs_of(path, "--base", "base")[1]
    assert row["reason"] in shown
    assert "protocol sound, 4 comparisons, " in shown


def test_runs_that_never_vary_are_undefined_with_a_reason(tmp_path):
    path = tmp_path / "runs.csv"
    long_table({("base", "DP"): np.full(4, 0.5), ("mixup", "DP"): np.full(4, 0.5)}).write_csv(path)
    code, out, _ = runs_of(path, "--base", "base")
    assert code == 0
    assert "undefined (nothing varies over 8 runs)" in " ".join(out.split())
    assert "no test of variances (nothing varies over 8 runs)" in " ".join(out.split())
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
        code, out, err = runs_of(path, "--base", HOSTILE, *extra)
        assert (code, err) == (0, "")
        assert all(character.isprintable() for line in out.split("\n") for character in line)
        if not extra:
            assert max(map(cell_len, out.splitlines())) <= 80
    code, out, err = runs_of(path, "--base", HOSTILE * 2)
    assert (code, out) == (2, "")
    assert err.removesuffix("\n").isprintable()


def test_numbers_are_written_so_that_small_ones_can_be_read(tmp_path):
    path = tmp_path / "runs.csv"
    small = {
        ("base", "DP"): np.array([1e-6, 2e-6, 4e-6]),
        ("b", "DP"): np.array([3e-6, 5e-6, 6e-6]),
    }
    long_table(small).write_csv(path)
    out = runs_of(path, "--base", "base")[1]
    assert "+0.00000233 [" in out


def without(**values: object) -> pl.DataFrame:
    return long_table(RUNS).with_columns(**values)


BAD = {
    "column": (lambda: without().rename({"run": "seed"}), (), 2, "--techniques names column "
               "'run', which is not in the table; it has 'technique', 'metric', 'seed', 'value'"),
    "base": (without, ("--base", "dropout"), 2, "--base must be one of the techniques, got "
             "'dropout': choose among 'base', 'mixup', 'noise'"),
    "protocol": (without, ("--protocol", "welch"), 2, "--protocol should be 'sound' or "
                 "'published', got 'welch'"),
    "level": (without, ("--level", "95"), 2, "--level must be less than 1.0, got 95"),
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
    "class": (lambda: long_table({("a", "DP"): np.ones((3, 2))}).slice(0, 5), (),
              4, "technique 'a', metric 'DP' has no value of class 'c1' in run '2': give every run "
              "all classes, or leave the class out"),
    "classes": (lambda: pl.concat([long_table({("a", "DP"): np.eye(3)}), long_table({("b", "DP"):
                np.eye(2)})]), ("--base", "a"), 4, "technique 'b', metric 'DP' "
                "has other classes than the base: compare means over the same classes"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_sentence_and_no_data(name, tmp_path):
    frame, asked, code, sentence = BAD[name]
    path = tmp_path / "bad.csv"
    frame().write_csv(path)
    got = runs_of(path, *asked)
    assert got[:2] == (code, "")
    assert got[2].startswith(f"scotoma: {sentence}")
    assert got[2].count("\n") == 1
