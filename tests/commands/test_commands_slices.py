from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.cells import cell_len

from scotoma.answers.values import infer_type
from scotoma.processes import progress
from tests.slices.asking import measured, scotoma, with_settings
from tests.slices.searching import find_slices

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "\x1b[31mred\u202e\n\x00"
PLANTED = "job = Sales and shift = night"


def people(seed: int = 0, n: int = 3000, harm: float = 0.3) -> pl.DataFrame:
    """Dense and int8 models; the latter, and `wrong`, fail on the night shift of Sales."""
    rng = np.random.default_rng(seed)
    job = rng.choice(["Sales", "Craft", "Clerk", "Tech"], n)
    shift = rng.choice(["day", "late", "night"], n)
    bad = (job == "Sales") & (shift == "night")
    label = rng.random(n) < 0.4
    columns = {
        "id": [f"p{row}" for row in range(n)],
        "age": rng.integers(18, 80, n),
        "job": job,
        "shift": shift,
        "label": np.where(label, "yes", "no"),
        "wrong": (rng.random(n) < 0.1 + harm * bad).astype(int),
        "loss": rng.gamma(2, 0.1, n) * (1 + 5 * harm * bad),
    }
    for name, more in (("dense", 0.0), ("int8", harm)):
        for member in range(3):
            flipped = label ^ (rng.random(n) < 0.08 + more * bad)
            columns[f"{name}_{member}"] = np.where(flipped, "yes", "no")
    return pl.DataFrame(columns)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    people().write_csv(path)
    return path


FEATURES = ("--feature", "age", "--feature", "job", "--feature", "shift", "--permutations", "3")
ERRORS = ("--outcome", "wrong", *FEATURES)
COMPARED = ("--outcome", "int8_*", "--baseline", "dense_*", "--label", "label", *FEATURES)
SCORED = ("--outcome", "loss", "--metric", "loss", *FEATURES)


# --- against things we did not write --------------------------------------------------------------


def test_a_planted_slice_is_found_with_the_numbers_that_polars_counts(table):
    (found,) = measured("slices", table, *ERRORS, "--id", "id")["slices"]
    inside = people().filter(job="Sales", shift="night")
    assert found["text"] == PLANTED
    assert found["size"] == len(inside)
    assert found["rows"] == inside["id"].to_list()
    assert found["support"] == pytest.approx(len(inside) / 3000)
    assert found["effect"]["low"] < 0.3 < found["effect"]["high"]
    assert found["q"] <= 0.05
    assert found["confirmation"]["p"] == found["p"]


def test_inside_and_outside_of_a_slice_are_the_rates_that_polars_counts(table):
    for one in measured("slices", table, *ERRORS, "--mode", "batch")["slices"]:
        if one["text"] in (PLANTED, "job = Sales"):
            flag = (pl.col("job") == "Sales") & (
                (pl.col("shift") == "night") | (one["text"] != PLANTED)
            )
            rates = people().group_by(flag.alias("in")).agg(pl.col("wrong").mean()).sort("in")
            assert one["outside"]["value"] == pytest.approx(rates["wrong"][0])
            assert one["inside"]["value"] == pytest.approx(rates["wrong"][1])
            break
    else:
        raise AssertionError


def test_a_slice_of_adult_has_the_error_that_polars_counts_and_shuffled_errors_have_none(
    shared, tmp_path
):
    adult = pl.read_csv(shared / "data" / "adult" / "adult.csv.gz", infer_schema=False)
    adult = adult.filter(split="test").sample(3918, seed=0).drop("split", "education", "fnlwgt")
    adult = adult.with_columns(pl.col("income").str.strip_chars_end("."))
    rich = (pl.col("education-num").cast(int) >= 13) & (pl.col("relationship") == "Husband")
    rule = pl.when(rich).then(pl.lit(">50K")).otherwise(pl.lit("<=50K"))
    adult.with_columns(rule=rule).write_csv(tmp_path / "adult.csv")
    asked = ("--label", "income", "--max-cross", "2", "--permutations", "2")
    found = measured("slices", tmp_path / "adult.csv", "--outcome", "rule", *asked)
    assert found["settings"]["examples"] == 3918
    assert found["null"]["any"] == 0
    sizes = {one["text"]: one["size"] for one in found["slices"]}
    married = adult.filter(pl.col("marital-status") == "Married-civ-spouse")
    assert sizes["marital-status = Married-civ-spouse"] == len(married)
    overall = adult.with_columns(rule=rule).select((pl.col("rule") != pl.col("income")).mean())
    assert found["overall"]["value"] == pytest.approx(overall.item())

    shuffled = adult.drop("income").with_columns(
        wrong=np.random.default_rng(1).permutation(np.arange(3918) < 500).astype(int)
    )
    shuffled.write_csv(tmp_path / "shuffled.csv")
    asked = ("--outcome", "wrong", "--max-cross", "2", "--permutations", "0")
    assert measured("slices", tmp_path / "shuffled.csv", *asked)["slice_count"] == 0


def test_permuted_outcomes_yield_nothing(tmp_path):
    path, found = tmp_path / "permuted.csv", 0
    for seed in range(40):
        order = np.random.default_rng(seed).permutation(3000)
        people().with_columns(wrong=pl.col("wrong").gather(order)).write_csv(path)
        found += measured("slices", path, *ERRORS, "--permutations", "0")["slice_count"] > 0
    assert found <= 6  # of 40 at alpha 0.05: more in 3 of 1,000 such tests


def two_slices(seed: int, n: int = 4000) -> dict[str, np.ndarray]:
    """Outcomes that are worse in two slices, of which one holds part of the other."""
    rng = np.random.default_rng(seed)
    columns = {name: rng.choice(list("abcd"), n) for name in ("f", "g", "h")}
    first = (columns["f"] == "a") & (columns["g"] == "b")
    second = ((columns["f"] == "a") & (columns["g"] == "c")) | (columns["h"] == "d")
    label = rng.random(n) < np.where(columns["f"] == "a", 0.1, 0.5)
    loss = rng.pareto(1.5, n) * 10 + 60 * first + 12 * second
    return columns | {
        "label": label.astype(int),
        "int8": (label ^ (rng.random(n) < 0.1 + 0.3 * first + 0.15 * second)).astype(int),
        "dense": (label ^ (rng.random(n) < 0.1)).astype(int),
        "wrong": (rng.random(n) < 0.1 + 0.3 * first + 0.1 * second).astype(int),
        "loss": loss,
        "dense_loss": loss - 60 * first * rng.random(n) - 12 * second * (1 + loss % 1 / 10),
        "score": label + rng.normal(0, 1 + 2 * first + second),
    }


COUNTED = ("--outcome", "int8", "--label", "label", "--positive", "1")
OUTCOMES = {
    "error": ("--outcome", "wrong"),
    "change": ("--outcome", "int8", "--baseline", "dense", "--label", "label", "--paired"),
    "change beyond the rest": (
        "--outcome", "int8", "--baseline", "dense", "--label", "label", "--reference", "rest",
    ),
    "loss": ("--outcome", "loss", "--metric", "loss"),
    "rise of the loss": ("--outcome", "loss", "--baseline", "dense_loss", "--metric", "loss"),
    "precision": (*COUNTED, "--metric", "precision"),
    "precision beyond the rest": (
        *COUNTED, "--baseline", "dense", "--metric", "precision", "--reference", "rest",
    ),
    "f1": (*COUNTED, "--metric", "f1"),
    "recall": (*COUNTED, "--metric", "recall"),
    "auc": (
        "--outcome", "score", "--label", "label", "--positive", "1", "--metric", "auc",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTCOMES)
def test_the_interval_of_a_slice_excludes_0_as_its_test_does(name, tmp_path):
    found = 0
    for seed in range(6):
        pl.DataFrame(two_slices(seed)).write_csv(tmp_path / "t.csv")
        for mode in ("cover", "batch"):
            options = ("--mode", mode, "--max-cross", "2", "--permutations", "0", "--seed", seed)
            features = ("--feature", "f", "--feature", "g", "--feature", "h")
            report = measured("slices", tmp_path / "t.csv", *OUTCOMES[name], *options, *features)
            for one in report["slices"]:
                low, high = one["effect"]["low"], one["effect"]["high"]
                assert low > 0 or high < 0, (seed, mode, one["text"], one["q"], low, high)
                found += 1
    assert found >= 6


def test_a_slice_is_measured_on_the_examples_that_no_earlier_slice_holds():
    table = pl.DataFrame(two_slices(1))
    report = find_slices(
        table.select("f", "g", "h"), table["wrong"].to_numpy(), confirm=False, permutations=0
    )
    assert len(report.slices) >= 2
    rest = table
    for one in report.slices:
        conditions = [
            pl.col(column) == value
            for column, value in (part.split(" = ") for part in one.text.split(" and "))
        ]
        inside = rest.filter(*conditions)
        rest = rest.join(inside.unique(), on=table.columns, how="anti")
        assert (one.inside.n, one.outside.n) == (len(inside), len(rest))
        expected = inside["wrong"].mean() - rest["wrong"].mean()
        assert one.effect.value == pytest.approx(expected)


@pytest.mark.parametrize("case", ["slices-large-losses", "slices-large-losses-baseline"])
def test_losses_of_five_digits_are_printed(case, shared):
    table = shared / "data" / "cases" / case / "t.csv"
    asked = ["--outcome", "absolute_error"]
    if case.endswith("baseline"):
        asked = ["--outcome", "int8_absolute_error", "--baseline", "absolute_error", "--paired"]
    asked += ["--metric", "loss", "--feature", "region", "--feature", "type"]
    code, out, err = scotoma("slices", table, *asked)
    assert (code, err) == (0, "")
    assert "region = south" in out
    south = pl.read_csv(table).filter(region="south")[asked[1]].mean()
    row = next(line.split() for line in out.splitlines() if re.match(r"1 +\d[\d,]+  ", line))
    assert float(row[2].replace(",", "")) == pytest.approx(south, rel=0.1)  # half of the examples


@pytest.mark.parametrize("unit", [1e-60, 1e-9, 1e-3, 1e3, 1e5, 1e9, 1e60])
@pytest.mark.parametrize("baseline", [False, True])
def test_losses_of_any_unit_are_printed_in_80_columns(unit, baseline, tmp_path):
    columns = two_slices(0)
    frame = pl.DataFrame(columns).with_columns(pl.col("loss", "dense_loss") * unit)
    frame.write_csv(tmp_path / "t.csv")
    asked = ["--outcome", "loss", "--metric", "loss", "--permutations", "0"]
    asked += ["--feature", "f", "--feature", "g", "--feature", "h"]
    asked += ["--baseline", "dense_loss", "--paired"] if baseline else []
    code, out, err = scotoma("slices", tmp_path / "t.csv", *asked)
    assert (code, err) == (0, "")
    assert "of the examples)" in out
    assert max(map(cell_len, out.splitlines())) <= 80


@pytest.mark.parametrize("unit", [1e-150, 1e150, 1e300])
def test_losses_whose_powers_leave_double_precision_are_refused_in_a_sentence(unit, tmp_path):
    pl.DataFrame(two_slices(0)).with_columns(pl.col("loss") * unit).write_csv(tmp_path / "t.csv")
    code, out, err = scotoma("slices", tmp_path / "t.csv", "--outcome", "loss", "--metric", "loss")
    assert (code, out) == (4, "")
    assert "choose another unit" in err


def test_json_and_csv_hold_every_slice_with_n_and_interval_in_full_precision(table, tmp_path):
    asked = (*ERRORS, "--mode", "batch", "--alpha", "0.9", "--limit", "1")
    found = measured("slices", table, *asked)
    (tmp_path / "s.csv").write_text(scotoma("slices", table, *asked, "--csv")[1])
    assert len(found["slices"]) == found["slice_count"] > 1
    rows = pl.read_csv(tmp_path / "s.csv").to_dicts()
    assert len(rows) == found["slice_count"]
    for row, one in zip(rows, found["slices"], strict=True):
        for name in ("inside", "outside", "effect"):
            expected = [one[name][key] for key in ("value", "low", "high", "n")]
            assert [row[f"{name}{end}"] for end in ("", "_low", "_high", "_n")] == expected
        assert (row["p"], row["q"]) == (one["p"], one["q"])
        assert row["discovery_size"] == one["discovery"]["size"]


# --- what the command says ------------------------------------------------------------------------


def test_the_command_says_what_the_function_says(table):
    frame = people()
    report = find_slices(
        frame.select("age", "job", "shift"),
        frame.select(pl.col("^int8_.$")).to_numpy(),
        baseline=frame.select(pl.col("^dense_.$")).to_numpy(),
        labels=frame["label"].to_numpy(),
        ids=frame["id"].to_numpy(),
        permutations=3,
        limit=20,
    )
    found = measured("slices", table, *COMPARED, "--id", "id")
    assert [one["text"] for one in found["slices"]] == [one.text for one in report.slices]
    for one, other in zip(found["slices"], report.slices, strict=True):
        assert one["p"] == other.p
        assert one["effect"]["value"] == other.effect.value
    assert found["null"]["counts"] == list(report.null.counts)
    assert found["tested"] == report.tested


SEARCHES = {  # options of the command, and the same arguments of the function
    "batch": (
        ("--mode", "batch", "--bins", "5", "--max-categories", "2", "--bootstrap", "40"),
        {"mode": "batch", "bins": 5, "max_categories": 2, "bootstrap": 40},
    ),
    "priority": (
        ("--mode", "priority", "--budget", "9", "--iterations", "3", "--order", "random"),
        {"mode": "priority", "budget": 9, "iterations": 3, "order": "random"},
    ),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_the_options_of_autoslicer_reach_the_search(name, table):
    asked, arguments = SEARCHES[name]
    report = find_slices(
        people().select("age", "job", "shift"), people()["wrong"].to_numpy(),
        protocol="published", permutations=3, limit=20, **arguments,
    )  # fmt: skip
    found = measured("slices", table, *ERRORS, "--protocol", "published", *asked)
    assert found["settings"] == report.settings
    assert (found["nonempty"], found["tested"]) == (report.hits.nonempty, report.tested)
    assert [one["p"] for one in found["slices"]] == [one.p for one in report.slices]


def test_rows_that_share_a_cluster_are_one_unit_and_their_column_defines_no_slice(tmp_path):
    path = tmp_path / "people.csv"
    cluster = pl.Series("person", [f"s{row % 1500}" for row in range(3000)])
    people().with_columns(cluster).write_csv(path)
    options = ("--outcome", "wrong", "--permutations", "2", "--feature", "job", "--feature", "s*")
    found = measured("slices", path, *options, "--cluster", "person")
    said = find_slices(
        people().select("job", "shift"),
        people()["wrong"].to_numpy(),
        clusters=cluster.to_numpy(),
        permutations=2,
        limit=20,
    )
    assert found["slices"]
    for one, other in zip(found["slices"], said.slices, strict=True):
        assert (one["effect"]["low"], one["effect"]["high"]) == pytest.approx(
            (other.effect.low, other.effect.high)
        )
    assert found["slices"] != measured("slices", path, *options)["slices"]


def test_csv_and_parquet_say_the_same(table, tmp_path):
    people().write_parquet(tmp_path / "people.parquet")
    expected = measured("slices", table, *COMPARED)
    assert measured("slices", tmp_path / "people.parquet", *COMPARED) == expected


KINDS = {
    "errors": ERRORS,
    "change": COMPARED,
    "change beyond the others": (*COMPARED, "--reference", "rest", "--paired"),
    "loss": SCORED,
    "precision": (*COMPARED, "--metric", "precision", "--positive", "yes"),
    "fnr": (*COMPARED, "--metric", "fnr", "--positive", "yes", "--mode", "batch"),
    "auc": ("--outcome", "loss", "--label", "label", "--metric", "auc", "--positive", "yes",
            *FEATURES),
    "published": (*ERRORS, "--protocol", "published"),
    "priority": (*ERRORS, "--mode", "priority", "--direction", "both"),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_a_page_is_at_most_80_columns_wide_and_says_what_was_searched(name, table):
    code, out, err = scotoma("slices", table, *KINDS[name])
    assert (code, err) == (0, "")
    assert max(map(cell_len, out.splitlines())) <= 80
    flat = " ".join(out.split())
    assert "n shuffled outcomes the same search found" in flat
    searched = re.search(
        r"Of ([\d,]+) possible slices, (?:([\d,]+) with at least|those with at least \d+ examples? "
        r"in a half were tested there .*?: ([\d,]+) tests in the two halves)", flat,
    )  # fmt: skip
    assert searched is not None
    possible, whole, halved = (int((one or "0").replace(",", "")) for one in searched.groups())
    assert 0 < whole + halved <= possible * (2 if halved else 1)
    assert "Features: age, job, shift." in flat
    if name not in ("auc", "precision", "fnr"):
        assert "job = Sales" in flat
    assert ("do not act on these slices" in flat) == (name == "published")
    assert ("p again" in flat) == ("in the two halves" in flat and "No slice" not in flat)


def test_a_page_without_slices_does_not_say_that_there_are_none(tmp_path):
    people(harm=0.0).write_csv(tmp_path / "even.csv")
    out = scotoma("slices", tmp_path / "even.csv", *ERRORS)[1]
    assert "No slice is significantly worse" in out
    assert "exist all the same" in " ".join(out.split())


def test_a_limit_says_how_many_it_leaves_out(table):
    out = scotoma("slices", table, *ERRORS, "--mode", "batch", "--alpha", "0.9", "--limit", "1")[1]
    assert re.search(r"And \d+ more: raise limit in --settings to see them", out)


def test_leakage_and_columns_that_define_nothing_are_noted(tmp_path):
    frame = people().with_columns(copy=pl.col("wrong") * 7, country=pl.lit("here"), empty=None)
    frame.write_csv(tmp_path / "t.csv")
    asked = ("slices", tmp_path / "t.csv", "--outcome", "wrong", "--permutations", "0", "--id")
    out = " ".join(scotoma(*asked, "id", "--max-cross", "1")[1].split())
    assert "column 'copy' tells the outcome of nearly every example" in out
    assert "column 'country' is constant" in out
    assert "column 'empty' holds no value" in out


def test_columns_named_like_an_outcome_are_left_out_unless_named(table):
    asked = ("slices", table, "--outcome", "int8_0", "--label", "label", "--permutations", "0")
    found = measured(*asked, "--max-cross", "1")
    assert set(found["features"]) & {"int8_0", "int8_1", "label"} == set()
    assert any("'int8_1' is named like an outcome" in note for note in found["notes"])
    found = measured(*asked, "--feature", "int8_1", "--feature", "label", "--max-cross", "1")
    assert found["features"] == ["int8_1", "label"]


@pytest.mark.parametrize(
    ("values", "dtype", "said"),
    [
        (["1", " 2", None, "nan"], pl.Int64, ""),
        (["1.5", "1e3", "-2"], pl.Float64, ""),
        (["02139", "94103"], pl.String, ""),
        (["0", "0.5"], pl.Float64, ""),
        (["2024-02-29", "2023-01-01"], pl.Date, ""),
        (["2024-02-30", "2023-01-01"], pl.String, ""),
        (["a", "1"], pl.String, ""),
        (["inf", "1"], pl.String, ""),
        ([*map(str, range(20)), "x"], pl.String, "such as 'x'"),
        ([*map(str, range(20)), "?"], pl.Int64, ""),
        ([None, ""], pl.String, ""),
    ],
)
def test_columns_of_a_csv_get_the_type_of_what_they_hold(values, dtype, said):
    series, note = infer_type(pl.Series("x", values, dtype=pl.String))
    assert series.dtype == dtype
    assert said in note
    assert bool(said) == bool(note)


def test_truth_values_are_outcomes(tmp_path):
    frame = people().with_columns(pl.col("wrong").cast(bool))
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        assert measured("slices", tmp_path / name, *ERRORS)["slices"][0]["text"] == PLANTED


# --- files and terminals --------------------------------------------------------------------------


def test_the_csv_holds_what_the_json_holds(table, tmp_path):
    found = measured("slices", table, *ERRORS)
    (tmp_path / "slices.csv").write_text(scotoma("slices", table, *ERRORS, "--csv")[1])
    rows = pl.read_csv(tmp_path / "slices.csv").to_dicts()
    assert [row["slice"] for row in rows] == [one["text"] for one in found["slices"]]
    for row, one in zip(rows, found["slices"], strict=True):
        assert row["effect"] == pytest.approx(one["effect"]["value"])
        assert row["confirmation_p"] == pytest.approx(one["confirmation"]["p"])


@pytest.mark.parametrize("first", "=+-@")
def test_cells_that_a_spreadsheet_would_run_are_made_harmless(first, tmp_path):
    people().rename({"job": f"{first}cmd|' /C calc'!A0"}).write_csv(tmp_path / "t.csv")
    asked = ("--outcome", "wrong", "--feature", "*calc*", "--permutations", "0", "--feature")
    code, out, err = scotoma("slices", tmp_path / "t.csv", *asked, "shift", "--csv")
    assert code == 0, err
    assert pl.read_csv(io.StringIO(out))["slice"][0].startswith(f"'{first}cmd|")


def test_hostile_names_cannot_steer_the_terminal(tmp_path):
    wide = pl.when(pl.col("job") == "Sales").then(pl.lit(HOSTILE)).otherwise(pl.lit("貓" * 80))
    frame = people().with_columns(wide.alias(HOSTILE)).rename({"wrong": f"w{HOSTILE}"})
    path = tmp_path / f"{'t' * 120}\x1b[2J.parquet"
    frame.write_parquet(path)
    asked = ("slices", path, "--outcome", f"w{HOSTILE}", "--feature", "shift", "--feature")
    for extra in ((), ("--json",)):
        code, out, err = scotoma(*asked, HOSTILE, "--permutations", "1", *extra)
        assert (code, err) == (0, "")
        assert all(character.isprintable() for character in out.replace("\n", ""))
        if not extra:
            assert "red" in out
            assert max(map(cell_len, out.splitlines())) <= 80
    code, out, err = scotoma(*asked, f"{HOSTILE}x")
    assert (code, out) == (2, "")
    assert err.removesuffix("\n").isprintable()


def test_a_bar_is_shown_to_people_who_wait_and_to_nobody_else(table, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    expected = scotoma("slices", table, *ERRORS)
    assert expected[2] == ""  # stderr is no terminal
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    shown = progress.bars
    monkeypatch.setattr(progress, "bars", lambda *, quiet, after_s: shown(quiet=quiet, after_s=60))
    assert scotoma("slices", table, *ERRORS)[2] == ""  # it took less than that
    monkeypatch.setattr(progress, "bars", lambda *, quiet, after_s: shown(quiet=quiet))
    code, out, err = scotoma("slices", table, *ERRORS)
    assert (code, out) == expected[:2]
    assert "searching" in err
    assert scotoma("slices", table, *ERRORS, "--quiet")[2] == ""


def test_the_command_needs_no_torch(table):
    code = (
        "import sys; from scotoma.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'torch', 'mlflow', 'kfp', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *with_settings("slices", table, *ERRORS)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "[]"


# --- bad input ------------------------------------------------------------------------------------


def changed(**columns: pl.Expr) -> pl.DataFrame:
    return people(n=60).with_columns(**columns)


def many(n: int = 1000) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    columns = {f"f{i}x": rng.integers(0, 60, n) for i in range(110)}
    return pl.DataFrame({"wrong": rng.integers(0, 2, n)} | columns)


SMALL = (*ERRORS, "--permutations", "0")
BAD = {
    "column": (people, ("--outcome", "Wrong"), 2, "--outcome names column 'Wrong', which is not in "
               "the table; did you mean 'wrong'?"),
    "metric": (people, (*SMALL, "--metric", "eror"), 2, "--metric should be 'error', 'accuracy',"),
    "mode": (people, (*SMALL, "--mode", "best"), 2,
             "settings.yaml:1 mode must be one of cover, batch,"),
    "correction": (people, (*SMALL, "--correction", "fdr"), 2,
                   "settings.yaml:1 correction must be one of bh,"),
    "alpha": (people, (*SMALL, "--alpha", "5"), 2,
              "settings.yaml:1 alpha must be less than 1.0, got 5"),
    "iterations": (people, (*SMALL, "--iterations", "3"), 2, "settings.yaml:1 iterations is for "
                   "mode: priority, got mode: cover; leave it out"),
    "order": (people, (*SMALL, "--mode", "batch", "--order", "random"), 2, "settings.yaml:1 order "
              "is for mode: priority, got mode: batch; leave it out"),
    "order's name": (people, (*SMALL, "--mode", "priority", "--order", "depth"), 2,
                     "settings.yaml:2 order must "
                     "be one of p-value, breadth-first, random, got 'depth'"),
    "bootstrap": (people, (*SMALL, "--bootstrap", "50"), 2, "bootstrap is for p-values from a "
                  "bootstrap, got --metric error with protocol: sound, which has none: leave it"),
    "fewer candidates": (people, (*SMALL, "--max-candidates", "30"), 4, "the search must stay "
                         "within 30 candidates, got 219 candidate slices: use mode: priority, "
                         "lower max_cross, name fewer with --feature, or raise max_candidates"),
    "reference": (people, (*SMALL, "--reference", "baseline"), 2, "reference: baseline needs a "
                  "baseline, got none"),
    "twice": (people, ("--outcome", "int8_*", "--baseline", "*_0"), 2, "label, baseline and "
              "outcome must be different columns, got 'int8_0' twice: narrow the pattern"),
    "paired": (people, ("--outcome", "int8_*", "--baseline", "dense_0", "--label", "label",
               "--paired"), 2, "--paired needs as many baseline as outcome columns, got 1 and 3"),
    "label needed": (people, (*SMALL, "--metric", "fpr"), 2, "--metric fpr needs the true labels"),
    "label not needed": (people, (*SCORED, "--label", "label"), 2, "--metric loss is computed from "
                         "the outcome alone, got --label too"),
    "positive not needed": (people, (*SMALL, "--positive", "1"), 2, "--positive is for metrics of "
                            "one label"),
    "positive needed": (people, (*COMPARED, "--metric", "fpr"), 2, "--metric fpr needs labels 0 "
                        "and 1, got 'no', 'yes' in column 'label'"),
    "positive": (people, (*COMPARED, "--metric", "fpr", "--positive", "ja"), 2, "--positive must "
                 "be a value of the label, got 'ja': choose among 'no', 'yes'"),
    "feature": (people, ("--outcome", "wrong", "--feature", "wrong"), 2, "--feature must not name "
                "an outcome or a baseline, got 'wrong'"),
    "no features": (lambda: people(n=60).select("wrong"), ("--outcome", "wrong"), 2, "slices need "
                    "at least one feature, got none beside 'wrong'"),
    "rate": (lambda: changed(wrong=pl.int_range(60)), SMALL, 4, "column 'wrong' must lie in [0, 1] "
             "for --metric error, got 2 in row 3: compare predicted labels with --label"),
    "words": (people, ("--outcome", "int8_0", *FEATURES), 4, "column 'int8_0' must hold finite "
              "numbers, got 'yes' in row 1"),
    "gap": (lambda: changed(wrong=pl.when(pl.int_range(60) != 6).then("wrong")), SMALL, 4,
            "column 'wrong' is empty in 1 of 60 rows, first in row 7: fill or remove them"),
    "other names": (lambda: changed(int8_0=pl.lit("1")), COMPARED, 4, "column 'int8_0' must "
                    "answer with labels, but '1' is not among 'no', 'yes'"),
    "ids": (lambda: changed(id=pl.int_range(60) % 59), (*SMALL, "--id", "id"), 4, "example ids "
            "must be unique, but '0' stands in column 'id' 2 times"),
    "constant": (lambda: changed(age=pl.lit(1), job=pl.lit("a"), shift=pl.lit(None)), SMALL, 4,
                 "features must have a column with at least two values, got 3 without"),
    "no rows": (lambda: people(n=60).head(0), SMALL, 4, "table 'bad.csv' holds no rows"),
    "too many": (many, ("--outcome", "wrong"), 4, "the search must stay within 100,000,000 "
                 "candidates, got "),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_sentence_and_no_data(name, tmp_path):
    frame, asked, code, sentence = BAD[name]
    frame().write_csv(tmp_path / "bad.csv")
    got = scotoma("slices", tmp_path / "bad.csv", *asked)
    assert got[:2] == (code, ""), got
    assert got[2].startswith(f"scotoma: {sentence}")
    assert got[2].count("\n") == 1
    assert not re.search(r"\w='|\w+_\w+=", got[2].replace("int8_", "")), "words of Python"


def test_too_many_candidates_lead_to_the_mode_that_takes_them(tmp_path):
    many().write_csv(tmp_path / "many.csv")
    err = scotoma("slices", tmp_path / "many.csv", "--outcome", "wrong")[2]
    assert "use mode: priority, lower max_cross, name fewer with --feature" in err


# --- the page about it ----------------------------------------------------------------------------


def test_the_page_shows_what_its_commands_print(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    page = (ROOT / "docs" / "slices.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for kind, text in blocks:
        if kind == "yaml" and (name := re.match(r"# (\S+\.yaml)\n", text)):
            (tmp_path / name[1]).write_text(text)
    shown = 0
    for (_, code), (after, printed) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if after != "text":
            continue
        done = ""
        for line in code.splitlines():
            done = subprocess.run(
                line, shell=True, env=environment, capture_output=True, text=True, check=True
            ).stdout
        assert all(part in done for part in printed.split("...\n"))
        shown += 1
    assert shown == 2
