"""Months of one project, from tables of predictions through a real MLflow store to its trend."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from scotoma.config import load_config
from scotoma.config.gate import parse_rules
from scotoma.run import Run, checksums, read_json
from scotoma.run.judging import Judging
from scotoma.steps.judging.previous import fetch_previous, leave_previous, margin_of
from scotoma.steps.runner import perform
from scotoma.steps.table import STEPS, groups
from scotoma.tracking.audits import log_failure, log_skip
from scotoma.tracking.registry import NO_MODELS
from scotoma.tracking.store import tracking_uri
from tests.helpers.commands import measured, scotoma
from tests.helpers.external_predictions import CONFIG, write

pytestmark = pytest.mark.slow

RETRAINING = """\
retraining:
  cron: "0 0 6 1 * *"
  no_worse_than_previous: 0.3
  model: faces
  keep: {audits: 1}
"""
RULES = "rules: [{id: all, metric: error, over: all, max_increase: {absolute: 0.3}}]"


def month(home: Path, name: str, *, drift: bool = False) -> tuple[Run, str]:
    """An audit of examples that no other month has, and what its last step said."""
    data = home / name
    data.mkdir()
    write(data, n=900)
    examples = pl.read_csv(data / "examples.csv").with_columns(pl.col("sex").fill_null("m"))
    harmed = examples.filter(label="cat", sex="f")["example_id"].to_list() if drift else []
    for path in data.glob("preds/*/*.csv"):
        table = pl.read_csv(path)
        if path.parent.name == "int8":
            wrong = pl.when(pl.col("example_id").is_in(harmed)).then(pl.lit("=dog()"))
            table = table.with_columns(wrong.otherwise("predicted").alias("predicted"))
        path.write_text(table.write_csv().replace("img/", f"{name}/"))
    (data / "examples.csv").write_text(examples.write_csv().replace("img/", f"{name}/"))
    (data / "audit.yaml").write_text(CONFIG.replace('tracking: {uri: "off"}\n', RETRAINING))
    run = Run.create(home / "runs" / name, load_config(data / "audit.yaml").completed())
    Judging(parse_rules(RULES, "gate.yaml"), Judging.of(run).as_of).leave(run)
    return run, stepped(run)


def stepped(run: Run) -> str:
    """All steps in this process."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        for step in (step for group in groups(run.config) for step in group):
            perform(step.name, run)
    checksums.seal(run.mirror)
    return said.getvalue()


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Run, str]]:
    """Three audits, the second of them with drift, one that failed and one with nothing new."""
    home = tmp_path_factory.mktemp("year")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SCOTOMA_TRACKING_URI", "MLFLOW_TRACKING_URI"):
            patch.delenv(name, raising=False)
        found = {"m1": month(home, "m1"), "m2": month(home, "m2", drift=True)}
        run = found["m2"][0]
        assert log_failure(run, "no images", str(tracking_uri(run, {}))) == ""
        found["m3"] = month(home, "m3")
        last = found["m3"][0]
        why = "nothing new: m3 was audited before"
        assert log_skip(last.config, "m3", why, str(tracking_uri(last, {}))) == ""
    return found


def gate_of(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = read_json(run.path("gate.json"))
    return found


def test_each_audit_is_judged_beside_the_one_before(year: dict[str, tuple[Run, str]]) -> None:
    first, second, third = (gate_of(run) for run, _ in year.values())
    assert (first["verdict"], second["verdict"], third["verdict"]) == ("PASS", "FAIL", "PASS")
    (said,) = [line for line in first["warnings"] if "since_previous" in line]
    assert said == "since_previous is not judged: the project has no earlier audit in MLflow"
    failed = [t for t in second["variants"][0]["tests"] if t["verdict"] == "FAIL"]
    assert "FNR f since the previous audit" in [test["where"] for test in failed]
    assert {test["rule"] for test in failed} == {"since_previous"}
    for before, run in (("m1", year["m2"][0]), ("m2", year["m3"][0])):
        last, tracked = read_json(run.path("previous.json")), year[before][0].path("tracking.json")
        assert last["of"] == f"MLflow run {read_json(tracked)['run']}"


def test_the_same_run_again_is_judged_as_it_was(year: dict[str, tuple[Run, str]]) -> None:
    run = year["m3"][0]
    before = {name: run.path(name).read_bytes() for name in ("gate.json", "previous.json")}
    for step in ("prepare", "verdict"):
        STEPS[step].function(run)
    assert {name: run.path(name).read_bytes() for name in before} == before


def test_the_margin_is_the_configurations(year: dict[str, tuple[Run, str]], tmp_path: Path) -> None:
    """A folder judged with one margin is judged with another where the configuration changed."""
    run, home = year["m2"][0], tmp_path / "run"
    shutil.copytree(run.root, home)
    text = (home / "config.yaml").read_text()
    (home / "config.yaml").write_text(
        text.replace("no_worse_than_previous: 0.3", "no_worse_than_previous: 1.0")
    )
    other = Run.open(home)
    fetch_previous(other)
    before, after = (read_json(folder / "previous.json") for folder in (run.root, home))
    assert (before["margin"], after["margin"]) == (0.3, 1.0)
    assert before["audit"] == after["audit"]
    leave_previous(other.mirror, str(year["m1"][0].root), margin_of(run.config))
    assert read_json(home / "previous.json")["margin"] == 0.3


def test_predictions_make_no_version_and_old_audits_give_up(
    year: dict[str, tuple[Run, str]],
) -> None:
    registered = {name: read_json(run.path("tracking.json"))["registered"]
                  for name, (run, _) in year.items()}  # fmt: skip
    # Predictions have no model that could be a version.
    assert {name: (one["version"], one["note"]) for name, one in registered.items()} == {
        "m1": ("", NO_MODELS), "m2": ("", ""), "m3": ("", NO_MODELS),
    }  # fmt: skip
    assert "deleting" not in year["m1"][1] + year["m2"][1]  # m1 is the last that passed
    deleted = [line for line in year["m3"][1].splitlines() if "deleting" in line]
    for line, name in zip(deleted, ("m2", "m1"), strict=True):
        root = year[name][0].root
        assert line.startswith(f"keep    deleting models and predictions of {root}, which ended 20")
    assert not year["m1"][0].examples.exists()


def test_a_trend_is_drawn_from_mlflow_alone(
    year: dict[str, tuple[Run, str]],
) -> None:
    runs = year["m1"][0].root.parent
    found = measured("show", "trend", "elsewhere", "--runs", runs)
    assert [(one["state"], one["verdict"]) for one in found["audits"]] == [
        ("finished", "PASS"), ("finished", "FAIL"), ("failed", ""), ("finished", "PASS"),
        ("skipped", ""),
    ]  # fmt: skip
    config = runs.parent / "m1" / "audit.yaml"
    code, page, err = scotoma("show", "trend", config, "--runs", runs, "--html")
    assert code == 0
    assert "The audit failed: no images" in page
    assert "The audit was skipped: nothing new: m3 was audited before" in page
    assert err == "note    5 audits: 2 PASS, 1 FAIL, 1 failed, 1 skipped\n"


@pytest.mark.parametrize(
    ("project", "runs", "sentence"),
    [
        ("of nobody", "runs", "'of nobody' must have an experiment in MLflow, got none at sqlite"),
        ("elsewhere", "nowhere", "got none; name the folder of mlflow.db with --runs"),
    ],
)
def test_a_trend_of_nothing_is_refused(
    year: dict[str, tuple[Run, str]], project: str, runs: str, sentence: str
) -> None:
    home = year["m1"][0].root.parents[1]
    code, out, err = scotoma("show", "trend", project, "--runs", home / runs, "--html")
    assert (code, out) == (4, "")
    assert sentence in err


def test_a_repeated_audit_is_compared_with_the_one_before_it(
    year: dict[str, tuple[Run, str]], tmp_path: Path
) -> None:
    """What failed fails again, however often it is repeated, and whatever is named."""
    failed, first = year["m2"][0], year["m1"][0]
    home = failed.root.parents[1]
    # The same examples and answers: in another order, and under another configuration.
    shutil.copytree(home / "m2", tmp_path / "m2")
    for path in (tmp_path / "m2").glob("**/*.csv"):
        table = pl.read_csv(path)
        table.sample(fraction=1, shuffle=True, seed=5).write_csv(path)
    text = (tmp_path / "m2" / "audit.yaml").read_text()
    untracked = text.replace(RETRAINING, 'tracking: {uri: "off"}\n')
    (tmp_path / "m2" / "audit.yaml").write_text(untracked)
    run = Run.create(tmp_path / "again", load_config(tmp_path / "m2" / "audit.yaml").completed())
    Judging(parse_rules(RULES, "gate.yaml"), Judging.of(run).as_of).leave(run)
    stepped(run)
    assert gate_of(run)["verdict"] == "PASS"  # beside no other audit
    (tmp_path / "gate.yaml").write_text(RULES)
    asked = ("--rules", tmp_path / "gate.yaml", "--json")
    for previous in (failed.root, run.root):  # then what this one was compared with
        code, out, _ = scotoma("gate", run.root, "--previous", previous, *asked)
        assert (code, json.loads(out)["verdict"]) == (1, "FAIL")
    code, _, err = scotoma("gate", first.root, "--previous", first.root)
    assert code == 4
    assert "--previous must name an audit of other inputs" in err


def test_mlflow_gives_no_repetition_as_the_previous_audit(
    year: dict[str, tuple[Run, str]], tmp_path: Path
) -> None:
    """A configuration that is audited once more is compared with what it was compared with."""
    last = year["m3"][0]
    again = Run.create(last.root.parent / "m3-again", last.config)
    Judging(parse_rules(RULES, "gate.yaml"), Judging.of(again).as_of).leave(again)
    perform("prepare", again)
    tracked = read_json(year["m2"][0].path("tracking.json"))["run"]
    assert read_json(again.path("previous.json"))["of"] == f"MLflow run {tracked}"


def test_a_gate_may_be_asked_beside_any_audit(
    year: dict[str, tuple[Run, str]], tmp_path: Path
) -> None:
    run, before = year["m3"][0], year["m1"][0]
    (tmp_path / "gate.yaml").write_text(RULES)
    rules = ("--rules", tmp_path / "gate.yaml")
    found = scotoma("gate", run.root, "--previous", before.root, "--json", *rules)
    assert found[0] == 0
    assert gate_of(run)["previous_audit"]["of"] == str(before.root)
    code, _, err = scotoma("gate", run.root, "--previous", before.root / "nowhere")
    assert code == 4
    assert "--previous must name a finished audit, got no" in err
