from __future__ import annotations

import contextlib
import gzip
import io
import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.cells import cell_len
from sklearn.metrics import confusion_matrix

from scotoma.bias import amplification
from scotoma.bias.clarify import METRICS, all_metrics
from tests.helpers.commands import measured, scotoma

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "\x1b[31mred\u202e\n\x00"


def audit_table(seed: int = 0, n: int = 900, members: int = 3) -> pl.DataFrame:
    """Three classes, two attributes, dense and pruned members that fail the old more often."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, n)
    old = rng.random(n) < 0.3
    columns = {
        "id": [f"e{row}" for row in range(n)],
        "label": [f"c{value}" for value in label],
        "sex": np.where(rng.random(n) < 0.4, "female", "male"),
        "age": np.where(old, "old", "young"),
        "person": [f"p{row // 2}" for row in range(n)],
        "income": rng.normal(40, 9, n).round(2),
    }
    for name, error in (("dense", 0.1), ("pruned", 0.15)):
        for member in range(members):
            wrong = rng.random(n) < error * (1 + old)
            columns[f"{name}_{member}"] = [f"c{v}" for v in (label + wrong) % 3]
    return pl.DataFrame(columns)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    audit_table().write_csv(path)
    return path


ASKED = ("--label", "label", "--predicted", "pruned_*", "--group", "sex", "--group", "age")
COMPARED = (*ASKED, "--baseline", "dense_*", "--positive", "c1")
FULL = (
    *COMPARED, "--intersections", "--advantaged", "male", "--strata", "age", "--feature", "income",
    "--id", "id",
)  # fmt: skip


def test_groups_are_named_one_by_one_or_with_commas_between(table):
    assert scotoma("compare", table, *ASKED[:4], "--group", "sex,age") == scotoma(
        "compare", table, *ASKED
    )


# --- against things we did not write --------------------------------------------------------------


def test_rates_of_a_group_are_those_of_scikit_learns_confusion_matrix(table):
    frame = audit_table()
    found = measured("compare", table, *ASKED, "--positive", "c1")
    for group, rows in {
        "sex=female": frame["sex"] == "female",
        "age=old": frame["age"] == "old",
    }.items():
        part = frame.filter(rows)
        expected = {"fpr": [], "fnr": [], "error": [], "selected": []}
        for member in range(3):
            (tn, fp), (fn, tp) = confusion_matrix(
                part["label"] == "c1", part[f"pruned_{member}"] == "c1"
            )
            expected["fpr"].append(fp / (fp + tn))
            expected["fnr"].append(fn / (fn + tp))
            expected["error"].append((fp + fn) / len(part))
            expected["selected"].append((part[f"pruned_{member}"] == "c1").mean())
        for row in found["subgroups"]:
            if row["group"] == group:
                assert row["predicted"]["value"] == pytest.approx(np.mean(expected[row["metric"]]))
                assert (
                    row["predicted"]["low"] < row["predicted"]["value"] < row["predicted"]["high"]
                )


# AWS blog "Learn How Amazon SageMaker Clarify Helps Detect Bias": confusion matrices of XGBoost on
# the 30,162 training rows of UCI Adult without gaps, and the values it prints.
BLOG = {
    ("Female", ">50K", ">50K"): 433, ("Female", "<=50K", ">50K"): 10,
    ("Female", ">50K", "<=50K"): 679, ("Female", "<=50K", "<=50K"): 8660,
    ("Male", ">50K", ">50K"): 2718, ("Male", "<=50K", ">50K"): 84,
    ("Male", ">50K", "<=50K"): 3678, ("Male", "<=50K", "<=50K"): 13900,
}  # fmt: skip
PRINTED = {"DPL": 0.20, "KL": 0.143, "DPPL": 0.092, "RD": 0.036, "DAR": -0.007, "TE": 24.114}


def test_the_command_prints_the_values_of_the_blog(tmp_path):
    path = tmp_path / "adult.parquet"
    rows = [cell for cell, count in BLOG.items() for _ in range(count)]
    pl.DataFrame(rows, schema=["sex", "income", "xgboost"], orient="row").write_parquet(path)
    asked = (
        "--label", "income", "--predicted", "xgboost", "--positive", ">50K", "--group", "sex",
        "--advantaged", "Male",
    )  # fmt: skip
    found = {row["metric"]: row for row in measured("compare", path, *asked)["clarify"]}
    assert list(found) == list(METRICS)
    for name, value in PRINTED.items():
        assert round(found[name]["predicted"]["value"], 2 if name == "DPL" else 3) == value, name
    assert found["DPPL"]["predicted"]["n"] == 30_162
    assert found["FT"]["lacks"] == "--feature"
    out = scotoma("compare", path, *asked, "--all")[1]
    assert re.search(r"^DPPL .* 30,162 +0\.092 \[0\.0\d\d, 0\.\d{3}\]$", out, re.MULTILINE)


def test_the_running_example_of_the_study_is_reproduced(tmp_path):
    # Qian et al. 2021, Section 2.2: 100 positive and 100 negative examples a group.
    path = tmp_path / "example.csv"
    cells = {
        ("female", "0", "0"): 80, ("female", "0", "1"): 20, ("female", "1", "0"): 10,
        ("female", "1", "1"): 90, ("male", "0", "0"): 60, ("male", "0", "1"): 40,
        ("male", "1", "0"): 70, ("male", "1", "1"): 30,
    }  # fmt: skip
    rows = [cell for cell, count in cells.items() for _ in range(count)]
    pl.DataFrame(rows, schema=["sex", "y", "p"], orient="row").write_csv(path)
    found = measured("compare", path, "--label", "y", "--predicted", "p", "--group", "sex")
    values = [round(100 * row["predicted"]["value"], 1) for row in found["fairness"]]
    assert values == [20.0, 33.6, 10.0, 20.0, 40.0, 40.0, 10.1]
    asked = ("--label", "y", "--predicted", "p", "--group", "sex", "--positive", "1")
    of_class = {row["metric"]: row for row in measured("compare", path, *asked)["fairness"]}
    assert of_class["EOTP"]["predicted"]["value"] == pytest.approx(0.9 - 0.3)
    assert of_class["EOTP"]["predicted_signed"]["value"] == pytest.approx(0.9 - 0.3)
    assert of_class["EOFP"]["predicted_signed"]["value"] == pytest.approx(0.2 - 0.4)


def test_the_command_says_what_the_functions_say(tmp_path):
    frame, table = audit_table(n=300), tmp_path / "table.csv"
    frame.write_csv(table)
    label = frame["label"].str.slice(1).cast(pl.Int64).to_numpy()
    dense, pruned = (
        np.stack([frame[f"{name}_{m}"].str.slice(1).cast(pl.Int64) for m in range(3)], axis=1)
        for name in ("dense", "pruned")
    )
    women = (frame["sex"] == "female").to_numpy()
    clusters = frame["person"].str.slice(1).cast(pl.Int64).to_numpy()
    found = measured("compare", table, *COMPARED, "--cluster", "person", "--paired")
    (of_women,) = [
        row for row in found["subgroups"] if (row["group"], row["metric"]) == ("sex=female", "fnr")
    ]
    twin = amplification(
        label, dense, pruned, women[None], ["women"], positive=1, n_classes=3, clusters=clusters,
        paired=True,
    )[2]  # fmt: skip
    assert of_women["relative"] == pytest.approx(twin.relative.as_dict())
    assert of_women["absolute"] == pytest.approx(twin.absolute.as_dict())
    table_of = all_metrics(d=women, y=label == 1, p=pruned == 1, clusters=clusters)
    shown = [row for row in found["clarify"] if row["disadvantaged"] == "female"]
    assert {row["metric"]: row["predicted"]["low"] for row in shown} == {
        name: pytest.approx(estimate.as_dict()["low"]) for name, estimate in table_of.items()
    }


# --- laws -----------------------------------------------------------------------------------------


def test_order_of_rows_and_columns_changes_nothing(tmp_path):
    said = []
    for seed in (None, 1):
        frame = audit_table()
        if seed is not None:
            frame = frame.sample(fraction=1.0, shuffle=True, seed=seed)
            frame = frame.select(sorted(frame.columns, reverse=True))
        path = tmp_path / "table.csv"
        frame.write_csv(path)
        said.append(measured("compare", path, *COMPARED, "--intersections"))
    assert said[0]["groups"] == said[1]["groups"]
    # Upper bounds draw members by their place, so that only the values are free of it.
    for one, other in zip(said[0]["fairness"], said[1]["fairness"], strict=True):
        assert one["predicted"]["value"] == pytest.approx(other["predicted"]["value"], rel=1e-9)
    for one, other in zip(said[0]["subgroups"], said[1]["subgroups"], strict=True):
        assert one["absolute"]["low"] == pytest.approx(other["absolute"]["low"], rel=1e-9)


def test_several_favourable_labels_count_as_one_class(tmp_path):
    frame = audit_table()
    labels = pl.col("label", "^(dense|pruned)_.$").replace(["c1", "c2"], "c1 or c2")
    frame.write_csv(tmp_path / "table.csv")
    frame.with_columns(labels).write_csv(tmp_path / "merged.csv")
    both = measured("compare", tmp_path / "table.csv", *COMPARED, "--positive", "c2")
    compared = (*ASKED, "--baseline", "dense_*", "--positive", "c1 or c2")
    assert both == measured("compare", tmp_path / "merged.csv", *compared)
    assert both["positive"] == "c1 or c2"
    code, _, err = scotoma("compare", tmp_path / "merged.csv", *compared, "--positive", "c0")
    assert code == 2
    assert "--positive must leave another label" in err


def test_csv_gzip_and_parquet_say_the_same(table):
    frame = audit_table()
    frame.write_parquet(table.with_suffix(".parquet"))
    with gzip.open(table.with_name("table.csv.gz"), "wb") as file:
        file.write(table.read_bytes())
    said = {
        " ".join(scotoma("compare", table.with_name(name), *FULL)[1].partition(":")[2].split())
        for name in ("table.csv", "table.csv.gz", "table.parquet")
    }
    assert len(said) == 1
    odd = table.rename(table.with_name("table[1]*.csv"))  # a name, and no pattern
    assert " ".join(scotoma("compare", odd, *FULL)[1].partition(":")[2].split()) in said


def test_rows_of_one_source_count_once(tmp_path):
    frame = audit_table(n=150).with_columns(source=pl.col("id"))
    once, twice = tmp_path / "once.csv", tmp_path / "twice.csv"
    frame.write_csv(once)
    pl.concat([frame, frame]).write_csv(twice)
    found = [measured("compare", path, *COMPARED, "--cluster", "source") for path in (once, twice)]
    assert [one["clusters"] for one in found] == [150, 150]
    for one, other in zip(found[0]["subgroups"], found[1]["subgroups"], strict=True):
        assert one["absolute"]["n"] == other["absolute"]["n"]
        assert one["absolute"]["low"] == pytest.approx(other["absolute"]["low"])


def test_every_number_has_its_n_and_its_interval_or_a_reason(table):
    found = measured("compare", table, *FULL)
    estimates = [
        value
        for section in ("subgroups", "clarify", "fairness")
        for row in found[section]
        for value in row.values()
        if isinstance(value, dict)
    ]
    assert len(estimates) > 200
    for estimate in estimates:
        assert isinstance(estimate["n"], int)
        whole = None not in (estimate["value"], estimate["low"], estimate["high"])
        assert whole or estimate["reason"], estimate


def test_a_page_is_at_most_80_columns_wide_and_has_every_section(table):
    code, out, err = scotoma("compare", table, *FULL, "--all")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert lines[0] == (
        "table.csv: 900 examples, 3 models against 3 models, positive 'c1', intervals 95%"
    )
    assert {line.split()[0] for line in lines if line} >= {
        *METRICS,
        "fairness.DP",
        "fairness.DI",
        "fairness.BA",
    }
    assert any(line.startswith("sex=female,age=old") for line in lines)
    assert "sex: d = female, a = male" in lines
    assert "age: d = old, a = young" in lines  # without --advantaged each value in turn
    assert "age: d = young, a = old" in lines
    assert "sex: d = male, a = female" not in lines


def test_no_two_metrics_of_a_page_share_a_name(table):
    lines = scotoma("compare", table, *COMPARED, "--all")[1].splitlines()
    names = [line.split()[0] for line in lines if line and not line.startswith(" ")]
    assert "DI" in names
    assert "fairness.DI" in names
    assert not {"DP", "SPSF", "BA"} & set(names)


def test_rates_and_their_intervals_stay_between_0_and_1(tmp_path):
    """A dozen rows, among them groups without an error and without a right answer."""
    rng = np.random.default_rng(1)
    for n in (6, 12, 40):
        labels = rng.integers(2, size=n)
        columns = {f"m{i}": np.where(rng.random(n) < 0.9, labels, 1 - labels) for i in range(3)}
        path = tmp_path / f"{n}.csv"
        sex = np.where(np.arange(n) % 3, "f", "m")
        pl.DataFrame({"y": labels, "sex": sex, **columns}).write_csv(path)
        asked = ("--label", "y", "--predicted", "m*", "--group", "sex", "--positive", "1")
        found = json.loads(scotoma("compare", path, *asked, "--json")[1])
        for row in (*found["subgroups"], *found["fairness"]):
            ends = [row["predicted"][end] for end in ("low", "value", "high")]
            assert all(end is None or 0 <= end <= 1 for end in ends), row


def concluded(table, *options):
    """The sentences at the end, each on one line."""
    out = scotoma("compare", table, *options)[1]
    part = out.removesuffix("\n--all prints every rate and metric.\n").split("\n\n")[-1]
    return part.replace("\n  ", " ").splitlines()


def test_the_page_ends_with_who_is_worse_off_by_how_much_and_what_says_otherwise(tmp_path):
    """Counts by hand: women's errors are all undeserved acceptances, so outcomes favour them."""
    rows = [("no", "no", "m")] * 480 + [("no", "yes", "m")] * 20  # men: 20 errors of 1,000
    rows += [("yes", "yes", "m")] * 500
    rows += [("no", "no", "f")] * 400 + [("no", "yes", "f")] * 100  # women: 100 errors of 1,000
    rows += [("yes", "yes", "f")] * 500
    path = tmp_path / "t.csv"
    pl.DataFrame(rows, schema=["y", "p", "sex"], orient="row").write_csv(path)
    asked = ("--label", "y", "--predicted", "p", "--group", "sex", "--positive", "yes")
    decisions, first, second, third = concluded(path, *asked)
    assert re.fullmatch(
        r"FNR is highest for sex=[fm], 0\.00% \[0\.00, [\d.]+\], n 500; FPR for sex=f, 20\.00% "
        r"\[[\d.]+, [\d.]+\], n 500; the selection rate is lowest for sex=m, 52\.00% "
        r"\[[\d.]+, [\d.]+\], n 1,000\.",
        decisions,
    )
    page = scotoma("compare", path, *asked)[1]
    rates = re.findall(r"^(sex=\w|all) +(\S+) +([\d,]+) +([\d.]+)% ", page, re.M)
    assert [(group, rate) for group, rate, _, _ in rates[:9]] == [
        (group, rate) for rate in ("FNR", "FPR", "selected") for group in ("all", "sex=f", "sex=m")
    ]
    assert ("sex=f", "FPR", "500", "20.00") in rates
    assert ("sex=m", "selected", "1,000", "52.00") in rates
    assert re.fullmatch(
        r"sex=f is worst off: error 10\.00% \[[\d.]+, [\d.]+\], n 1,000; "
        r"all examples: error 6\.00% \[[\d.]+, [\d.]+\]\.",
        first,
    )
    assert re.fullmatch(
        r"Its error is \+8\.00 points \[\+[\d.]+, \+[\d.]+\] above that of m \(AD, n 2,000\): "
        r"shown at 95%, not adjusted for choosing among 2 groups\.",
        second,
    )
    # 600 of 1,000 women and 520 of 1,000 men are accepted.
    ratio = f"{0.600 / 0.520:.3f}"
    assert third.startswith(
        (f"DI says otherwise, {ratio} [", "DPPL says otherwise, \N{MINUS SIGN}0.080 [")
    )
    assert scotoma("compare", path, *asked, "--all")[1].count("DPPL") >= 2


def test_selection_and_its_change_are_those_that_numpy_counts(table):
    frame = audit_table()
    found = measured("compare", table, *COMPARED, "--positive", "c1")
    rows = [row for row in found["subgroups"] if row["metric"] == "selected"]
    assert len(rows) == len(found["groups"])
    for row in rows:
        part = frame
        if row["group"] != "all":
            for condition in row["group"].split(","):
                name, value = condition.split("=")
                part = part.filter(pl.col(name).fill_null("(missing)").cast(pl.String) == value)
        shares = {
            side: np.mean([(part[f"{side}_{member}"] == "c1").mean() for member in range(3)])
            for side in ("dense", "pruned")
        }
        assert row["baseline"]["value"] == pytest.approx(shares["dense"])
        assert row["predicted"]["value"] == pytest.approx(shares["pruned"])
        assert row["absolute"]["value"] == pytest.approx(shares["pruned"] - shares["dense"])
        assert row["absolute"]["n"] == len(part)


def test_the_four_fifths_rule_needs_no_label(tmp_path):
    rows = [("yes", "m")] * 60 + [("no", "m")] * 40 + [("yes", "f")] * 30 + [("no", "f")] * 70
    path = tmp_path / "t.csv"
    pl.DataFrame(rows, schema=["p", "sex"], orient="row").write_csv(path)
    asked = ("compare", path, "--predicted", "p", "--group", "sex", "--positive", "yes")
    (table,) = measured(*asked, "--four-fifths")["tables"]
    ratios = {row["group"]: row["ratio"] and row["ratio"]["value"] for row in table["groups"]}
    assert ratios["sex=f"] == pytest.approx(0.5)
    assert "below 4/5" in scotoma(*asked, "--four-fifths")[1]
    code, _, err = scotoma(*asked)
    assert code == 2
    assert "--label is missing; name the column of the true labels, one of 'p', 'sex'" in err
    code, _, err = scotoma(*asked[:-1], "maybe", "--four-fifths")
    assert code == 2
    assert "--positive must be a value of the predictions, got 'maybe'" in err


def test_at_most_six_sentences_conclude(table):
    for options in (FULL, COMPARED, ASKED):
        sentences = concluded(table, *options)
        assert 1 <= len(sentences) <= 6
        assert sentences == concluded(table, *options, "--all")


def test_one_model_says_what_its_intervals_cannot(table):
    asked = ("--label", "label", "--predicted", "pruned_0", "--group", "sex", "--positive", "c1")
    out = scotoma("compare", table, *asked)[1]
    assert "Few training runs: intervals cover another test set" in out
    assert out.count("training run") == 2  # and not again in every row


def test_hostile_names_cannot_steer_the_terminal(tmp_path):
    frame = audit_table(n=300).with_columns(
        pl.when(pl.col("sex") == "female")
        .then(pl.lit(HOSTILE))
        .otherwise(pl.lit("貓" * 80))
        .alias(HOSTILE)
    )
    path = tmp_path / f"{'t' * 120}\x1b[2J.parquet"
    frame.write_parquet(path)
    asked = ("--label", "label", "--predicted", "pruned_*", "--baseline", "dense_*", "--group")
    asked += ("sex", "--intersections")  # some are empty, and their reasons name them
    for extra in ((), ("--positive", "c1"), ("--json",)):
        code, out, err = scotoma("compare", path, *asked, "--group", HOSTILE, *extra)
        assert code == 0
        assert all(character.isprintable() for line in out.split("\n") for character in line)
        assert all(character.isprintable() for character in err.replace("\n", ""))
        if "--json" not in extra:
            assert max(map(cell_len, out.splitlines())) <= 80
    for wrong in (("--group", f"{HOSTILE}x"), ("--group", HOSTILE, "--advantaged", HOSTILE + "x")):
        code, out, err = scotoma("compare", path, *asked, *wrong)
        assert (code, out) == (2, "")
        assert err.removesuffix("\n").isprintable()


def test_messages_go_to_stderr_unless_quiet(table):
    assert "no --positive" in scotoma("compare", table, *ASKED)[2]
    assert scotoma("compare", table, *ASKED, "--quiet")[2] == ""
    assert json.loads(scotoma("compare", table, *ASKED, "--json")[1])["positive"] is None


# --- the page about it ----------------------------------------------------------------------------


def test_python_in_the_page_on_metrics_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    blocks = re.findall(
        r"^```python\n(.*?)^```\n+```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL
    )
    assert blocks
    names: dict[str, object] = {}
    for code, printed in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, "docs/metrics.md", "exec"), names)
        assert out.getvalue() == printed


def test_the_page_on_metrics_has_every_metric_with_its_sign():
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    for name, metric in METRICS.items():
        assert f"| {name} | {metric.question} | {metric.sign} |\n" in page


@pytest.mark.parametrize("name", ["label", "Target", "y"])
def test_the_label_of_one_table_is_guessed_by_its_name_and_said(tmp_path, name):
    rows = [("yes", "no", "m")] * 40 + [("no", "no", "m")] * 60 + [("yes", "yes", "f")] * 50
    rows += [("no", "no", "f")] * 50
    path = tmp_path / "t.csv"
    pl.DataFrame(rows, schema=[name, "p", "sex"], orient="row").write_csv(path)
    asked = ("compare", path, "--predicted", "p", "--group", "sex")
    code, out, err = scotoma(*asked)
    assert code == 0
    assert f"no --label: column '{name}' is taken for the true labels" in out + err
    guessed, named = measured(*asked), measured(*asked, "--label", name)
    assert guessed["subgroups"] == named["subgroups"]
