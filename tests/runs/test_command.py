"""`scotoma compare --techniques`: files of any layout, finished audits, what goes in wrong."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from scotoma import published
from scotoma.runs import baselines, compare_techniques
from scotoma.runs.table import bias_and_accuracy, read_runs
from scotoma.runs.tournament import unstable
from tests.helpers import external_predictions
from tests.helpers.audits import addresses
from tests.helpers.commands import measured, scotoma
from tests.runs.test_study import METRICS, runs_of_the_study

pytestmark = pytest.mark.slow

RUNS = runs_of_the_study()
NAMES = list(dict.fromkeys(name for name, _ in RUNS))


def command(*arguments: str | Path) -> tuple[int, str, str]:
    return scotoma("compare", *arguments, "--techniques")


def long_table(path: Path) -> Path:
    """The study as any user could bring it: one row a run and metric, in any order."""
    rows = [
        (technique, f"{run:02d}", metric, value)
        for (technique, metric), values in RUNS.items()
        for run, value in enumerate(values)
    ]
    table = pl.DataFrame(rows, schema=["technique", "run", "metric", "value"], orient="row")
    table.sample(fraction=1, shuffle=True, seed=1).write_csv(path)
    return path


def sheets(folder: Path) -> Path:
    """The study in the layout of its artefact: overall/TECHNIQUE.yaml, DI called `DI bar`."""
    (folder / "overall").mkdir(parents=True)
    for name in NAMES:
        own = {metric: values.tolist() for (of, metric), values in RUNS.items() if of == name}
        content = {{"DI": "DI bar", "accuracy": "perf"}.get(m, m): v for m, v in own.items()}
        content["perf"] = [100 * value for value in content["perf"]]
        sheet = folder / "overall" / f"{name}.yaml"
        sheet.write_text(yaml.safe_dump(content, sort_keys=False))
    return folder


def arrays(folder: Path) -> Path:
    """Two .npz files, a value of each class and their mean a run."""
    folder.mkdir()
    raw = published.load("fairness_variance_runs")
    for task in "SA":
        held: dict[str, Any] = {
            f"{name}|{metric}": published.fairness_values(name, metric)
            for name in raw.accuracy for metric in METRICS if name.startswith(task)
        }  # fmt: skip
        held |= {f"{name}|perf": of for name, of in raw.accuracy.items() if name.startswith(task)}
        np.savez(folder / f"{task}.npz", **held)
    return folder


def test_an_adversary_whose_runs_differ_is_named_with_how_much() -> None:
    """Of the study's table: BA of S-GR 8.67 (1.30), of S-UC (0.65), of S-Base 7.39 (0.19)."""
    names = ("S-Base", "S-GR", "S-UC", "S-DD4")
    own = {key: values for key, values in RUNS.items() if key[0] in names}
    tournament = compare_techniques(own, baselines(names))
    uc, gr = sorted(unstable(tournament, ["S-GR", "S-UC"]), reverse=True)
    assert gr.startswith("'S-GR' steps the network in every third epoch: BA varies 6.")
    assert uc.startswith("'S-UC' steps the network in every third epoch: BA varies 3.")
    assert unstable(tournament, []) == []


def test_every_layout_is_read_alike(tmp_path: Path) -> None:
    makers = {"runs.csv": long_table, "sheets": sheets, "npz": arrays}
    for name, make in makers.items():
        seen = bias_and_accuracy(read_runs([make(tmp_path / name)]))
        assert seen.keys() == RUNS.keys()
        for key, values in RUNS.items():
            np.testing.assert_allclose(seen[key], values, rtol=1e-14 * (key[1] == "accuracy"))


def test_json_holds_every_cell_and_both_totals(tmp_path: Path) -> None:
    of = baselines(NAMES)
    expected = compare_techniques(RUNS, of, protocol="published")
    found = measured(
        "compare", "--raw", long_table(tmp_path / "runs.csv"), "--protocol", "published",
    )  # fmt: skip
    assert found["totals"] == expected.totals
    assert found["published_totals"] == published.load("fairness_variance").totals
    by_cell = {(cell["technique"], cell["metric"]): cell for cell in found["cells"]}
    numbers = {(r["group"], r["metric"], r["what"]): r for r in found["rows"]
               if r["question"] == "bias"}  # fmt: skip
    assert len(numbers) == sum(len(cell.numbers) for cell in expected.cells)
    runs: dict[tuple[str, str], list[float]] = {}
    for run in found["runs"]:
        runs.setdefault((run["technique"], run["metric"]), []).append(run["value"])
    assert runs == {key: values.tolist() for key, values in RUNS.items()}
    for cell in expected.cells:
        key = cell.technique, cell.metric
        for what, number in cell.numbers.items():
            ends = [number.value, number.low, number.high]
            row = numbers[*key, what]
            assert [row[end] for end in ("value", "low", "high")] == [
                None if np.isnan(one) else one for one in ends
            ]
        seen = by_cell[key]
        assert (seen["verdict"], tuple(seen["costs"])) == (cell.verdict, cell.costs)


def test_text_fits_a_terminal_and_stands_beside_what_was_published(tmp_path: Path) -> None:
    place = sheets(tmp_path / "raw")
    code, out, err = command("--raw", place, "--protocol", "published", "--paired")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    flat = " ".join(out.split())
    assert "bias lower 50 103 bias higher 23 47 undecided 4 4 lower, a huge effect 45 96" in flat
    assert "the lowest correlation of two metrics is 0.989" in flat
    assert "S-DD2 S-DD3 BA 16 +0.002 [\N{MINUS SIGN}0.006, +0.009]" in flat
    assert "FPSF of S-GR: 19.92% [9.12, 39.72], n = 256 pairs" in flat
    page = command("--raw", place, "--protocol", "published", "--html")[1]
    assert "Bias is lower in 50 of 77 cells, 17 of them at a cost, higher in 23" in page


def test_csv_and_markdown_hold_every_cell(tmp_path: Path) -> None:
    place = long_table(tmp_path / "runs.csv")
    code, out, _ = command("--raw", place, "--csv")
    assert code == 0
    _, _, table = out.partition("# Bias of each technique against its baseline\n")
    rows = list(csv.DictReader(io.StringIO(table.partition("\n\n")[0])))
    assert len(rows) == 77
    best = next(row for row in rows if (row["technique"], row["metric"]) == ("S-DI2", "DP"))
    assert best["verdict"] == "better"
    assert float(best["risk"]) == 0 < float(best["risk_high"]) < 0.2
    code, out, err = command("--raw", place, "--markdown", "--quiet")
    assert (code, err) == (0, "")
    assert "published" not in out
    assert out.count("| `S-DI2` |") > 14


def test_techniques_without_a_metric_in_common_are_compared(tmp_path: Path) -> None:
    """Each with the baseline, in what both have; correlations of metrics there are none."""
    (tmp_path / "raw").mkdir()
    own = np.linspace(0.3, 0.31, 8).tolist()
    for name, metrics in (("base", ("DP", "BA")), ("a", ("DP",)), ("b", ("BA",))):
        sheet = tmp_path / "raw" / f"{name}.yaml"
        sheet.write_text(yaml.safe_dump(dict.fromkeys(metrics, own)))
    code, out, _ = command("--raw", tmp_path / "raw")
    assert code == 0
    assert "The correlation of metrics cannot be estimated over 0 runs of 0" in " ".join(
        out.split()
    )
    assert "BA of a: not compared (a has no values)." in out


BASE = 8 * [0.3, 0.31]


@pytest.mark.parametrize(
    ("files", "options", "code", "sentence"),
    [
        ({"base.yaml": {"DP": BASE}, "a.yaml": {"DP": BASE[:7]}}, (), 4,
         "a tournament needs 8 runs of each technique, got 7 of a: train more"),
        ({"base.yaml": {"DP": BASE}, "a.yaml": {"DP": "low"}}, (), 4,
         "values of 'a, DP' must be one number a run, got 'low': write numbers"),
        ({"base.yaml": {"DP": BASE}, "overall/base.yaml": {"DP": BASE}}, (), 4,
         "technique 'base', metric 'DP' is in several files, such as 'base.yaml': keep "
         "one of them"),
        ({"base.yaml": {"DP": BASE}, "a.yaml": {"perf": BASE}}, (), 4,
         "technique 'a' has no bias metric: add its values"),
        ({"base.yaml": {"DP": BASE, "perf": BASE, "mAP": BASE}}, (), 4,
         "technique 'base' must have one accuracy, got perf, mAP: keep one"),
        ({"base.yaml": {"DP": BASE, "BA": BASE[:9]}, "a.yaml": {"DP": BASE}}, (), 4,
         "technique base must have as many runs in every metric, got 16 of DP and 9 of BA: give "
         "each run every value"),
        ({"base.yaml": {"DP": BASE}, "a.yaml": {"BA": BASE}}, (), 4,
         "no technique can be compared with its baseline, DP of 'a' is not compared (a has no "
         "values): give both the same metrics, defined in every run"),
        ({"base.yaml": {"DP": BASE}, "a.yaml": {"DP": [*BASE[1:], math.nan]}}, (), 4,
         "no technique can be compared with its baseline, DP of 'a' is not compared (undefined in "
         "a run): give both the same metrics, defined in every run"),
        ({"note.txt": {}}, (), 2,
         "folder 'raw' must hold .yaml, .npz, .csv or .parquet files, got none: name the folder of "
         "the runs"),
        ({"base.yaml": {"DP": BASE}, "a.yaml": {"DP": BASE}}, ("--paired",), 2,
         "--paired compares techniques whose names differ only in a number, such as DD1 and DD2, "
         "got 'a', 'base': rename them, or leave --paired out"),
        ({"base.yaml": {"DP": BASE}, "a.yaml": {"DP": BASE}}, ("--protocol", "loud"), 2,
         "--protocol should be 'sound' or 'published', got 'loud'"),
        ({"base.yaml": {"DP": BASE}, "a.yaml": {"DP": BASE}}, ("--csv", "--markdown"), 2,
         "--csv and --markdown exclude each other; choose one"),
        ({"base.yaml": {"DP": BASE}, "a.yaml": {"DP": BASE}}, ("--seed", "1"), 2,
         "--seed does not go with values of bias and accuracy (--raw); leave out --seed or --raw"),
    ],
)  # fmt: skip
def test_what_goes_in_wrong_comes_out_as_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, Any],
    options: tuple[str, ...], code: int, sentence: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for name, content in files.items():
        (tmp_path / "raw" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "raw" / name).write_text(yaml.safe_dump(content, sort_keys=False))
    seen = command("--raw", "raw", *options)
    assert seen == (code, "", f"scotoma: {sentence}\n")


def test_arrays_that_hold_objects_are_not_unpickled(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    np.savez(tmp_path / "raw" / "runs.npz", **{"base|DP": np.array([print], dtype=object)})
    code, _, err = command("--raw", tmp_path / "raw")
    assert code == 4
    assert err.startswith("scotoma: 'runs.npz' cannot be read as .npz; save the arrays with numpy")


# --- finished audits --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A baseline, and a technique that errs on women as rarely as on men while dense."""
    homes = {}
    for name in ("base", "fair"):
        home = external_predictions.write(tmp_path_factory.mktemp(name), models=8)
        examples = pl.read_csv(home / "examples.csv")
        rng = np.random.default_rng(3)
        for file in sorted((home / "preds").glob("*/*.csv")):
            table = pl.read_csv(file).join(examples, on="example_id")
            rate = 0.3 if name == "base" or file.parent.name == "int8" else 0.05
            low = (table["sex"] == "f").fill_null(False).to_numpy()
            wrong = rng.random(table.height) < np.where(low, rate, 0.05)
            predicted = np.where(wrong, "cat", table["label"])
            table.select("example_id", predicted=pl.Series(predicted)).write_csv(file)
        homes[name] = external_predictions.audited(home).root
    return homes


def test_finished_audits_play_and_survival_is_measured(
    audits: dict[str, Path], tmp_path: Path
) -> None:
    places = [f"{name}={root}" for name, root in audits.items()]
    found = measured("compare", *places, "--techniques")
    cells = {cell["metric"]: cell for cell in found["cells"]}
    assert cells["EOFP"]["verdict"] == "better"
    audit = json.loads((audits["fair"] / "audit.json").read_text())
    rows = {at["metric"]: at["mean"] for at in addresses(audit, "fairness", variant="dense")}
    values = [run["value"] for run in found["runs"]
              if (run["technique"], run["metric"]) == ("fair", "EOFP")]  # fmt: skip
    assert values == rows["EOFP"]["models"]
    eaten = {
        row["what"]: row
        for row in found["rows"]
        if (row["question"], row["variant"], row["metric"]) == ("survival", "int8", "EOFP")
    }
    assert eaten["interaction"]["low"] > 0
    assert eaten["p, adjusted"]["value"] < 0.05
    assert eaten["survival"]["high"] < 0.5
    assert eaten["p"]["n"] == 8
    code, out, _ = command(*places, "--predicted", "int8")
    assert code == 0
    assert "What compression leaves of the mitigation" in out
    assert "What compression does to the mitigation" in command(*places, "--html")[1]


def test_audits_that_cannot_be_paired_are_refused(audits: dict[str, Path], tmp_path: Path) -> None:
    base, fair = (str(root) for root in audits.values())
    assert command(f"a={base}", f"a={fair}")[2] == (
        "scotoma: technique 'a' stands twice: name runs as TECHNIQUE=FOLDER\n"
    )
    assert command(f"base={base}", f"a={fair}", "--predicted", "int4")[2] == (
        "scotoma: --predicted must be one that all runs have, got 'int4': choose among "
        "'dense', 'int8'\n"
    )
    assert command(f"base={base}", f"a={fair}", "--group", "age")[2] == (
        "scotoma: --group must be measured in all runs, got 'age': choose among 'sex'\n"
    )
