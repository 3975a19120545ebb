"""`scotoma kubeflow schedule` and `unschedule`, against the stand-in for Kubeflow, with faults."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from scotoma.config import Config
from scotoma.pipelines import audit, faults, schedules
from tests.helpers.commands import scotoma
from tests.kfp_server.server import KfpServer
from tests.pipelines.test_commands import status_rows

CONFIG = """\
version: 1
project: monthly
source: {kind: image_folder, images: "s3://b-1/{newest}/images",
         attributes: "s3://b-1/{newest}/people.csv", split: {column: s, train: a, test: b}}
label: {column: smiling}
variants: [dense, {prune: [0.5]}]
population: {models: 3}
retraining: {cron: "0 30 2 1 * MON-FRI"}
"""
ROOT = "s3://b-1/audits"
CREATE, DELETE = "POST .*/recurringruns$", "DELETE .*/recurringruns/"


WHOLE = audit.compile_pipeline
TINY = """\
pipelineInfo: {name: scotoma-scheduled, description: %s}
root:
  dag: {tasks: {}}
  inputDefinitions:
    parameters: {root: {parameterType: STRING, defaultValue: "%s", isOptional: true}}
schemaVersion: 2.1.0
sdkVersion: kfp-2.17.0
"""


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline that names what it was made of: the whole one takes the stand-in seconds."""

    def compile_tiny(config: Config, path: Path, **settings: Any) -> None:
        made_of = repr((config, sorted(settings.items(), key=str)))
        digest = hashlib.sha256(made_of.encode()).hexdigest()
        path.write_text(TINY % (digest, settings["scheduled_root"]))

    monkeypatch.setattr(audit, "compile_pipeline", compile_tiny)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "audit.yaml"
    path.write_text(CONFIG)
    return path


def schedule(config: Path, *words: object, code: int = 0) -> tuple[str, str]:
    status, out, err = scotoma("kubeflow", "schedule", config, *(words or ("--out", ROOT)))
    assert status == code, err
    return out.strip(), err


def changes(kfp: KfpServer) -> list[str]:
    """The requests that change something, since the last time."""
    sent = [request for request in kfp.requests if not request.startswith("GET")]
    kfp.requests.clear()
    return [re.sub(r"/apis/v2beta1|/[0-9a-f-]{36}", "", request) for request in sent]


# --- made once, changed, taken away ---------------------------------------------------------------


def test_a_schedule_is_a_recurring_run_of_a_new_version(
    kfp: KfpServer, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "compile_pipeline", WHOLE)
    out, err = schedule(config)
    (run,) = kfp.store.recurring.values()
    assert out == run["recurring_run_id"]
    assert run["display_name"] == "monthly"
    assert run["trigger"] == {"cron_schedule": {"cron": "0 30 2 1 * MON-FRI"}}  # as written
    assert (run["max_concurrency"], run["no_catchup"], run["mode"]) == ("1", True, "ENABLE")
    assert run["runtime_config"]["parameters"] == {"root": ROOT}
    assert run["description"] == "Scotoma: audits of monthly"
    (pipeline,) = kfp.store.pipelines.values()
    version = kfp.store.versions[run["pipeline_version_reference"]["pipeline_version_id"]]
    assert pipeline["display_name"] == "scotoma-scheduled"
    assert version["pipeline_id"] == pipeline["pipeline_id"]
    assert version["display_name"].endswith(f" {schedules._code()}")
    assert err.splitlines() == [
        f"made      {kfp.address}/#/recurringrun/details/{out}",
        "cron      0 30 2 1 * MON-FRI in UTC",
        "size      105 nodes in Argo, about 0.9 MB",
    ]


def test_asked_again_nothing_is_done(kfp: KfpServer, config: Path) -> None:
    first, _ = schedule(config)
    changes(kfp)
    second, err = schedule(config)
    assert (second, err.split()[0]) == (first, "unchanged")
    assert changes(kfp) == []


@pytest.mark.parametrize("what", ["cron", "audit", "gate", "root", "code"])
def test_what_has_changed_takes_the_place_of_what_was(
    kfp: KfpServer, config: Path, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = schedule(config)
    changes(kfp)
    words: list[object] = ["--out", ROOT]
    if what == "cron":
        config.write_text(CONFIG.replace("0 30 2 1", "0 30 2 2"))
    elif what == "audit":
        config.write_text(CONFIG.replace("[0.5]", "[0.9]"))
    elif what == "gate":
        gate = tmp_path / "gate.yaml"
        gate.write_text("version: 1\nrules:\n- {id: cie, metric: cie_share_excess, max: 0.05}\n")
        words += ["--rules", gate]
    elif what == "root":
        words = ["--out", "s3://b-1/others"]
    else:
        monkeypatch.setattr(schedules, "_code", lambda: "c0ffee")
    second, err = schedule(config, *words)
    (only,) = kfp.store.recurring
    assert second == only != first
    assert err.split()[0] == "changed"
    # The new one before the old one goes: a fault between them loses nothing. A changed cron or
    # place alone is in the pipeline, too.
    assert changes(kfp) == [
        "POST /pipelines/upload_version", "POST /recurringruns", "DELETE /recurringruns",
    ]  # fmt: skip


def test_one_that_was_stopped_runs_again(kfp: KfpServer, config: Path) -> None:
    first, _ = schedule(config)
    kfp.store.recurring[first]["status"] = "DISABLED"
    assert schedule(config, "--status")[0].startswith("monthly is disabled;")
    second, err = schedule(config)
    assert (second, err.split()[0]) == (first, "enabled")
    assert kfp.store.recurring[first]["status"] == "ENABLED"


def test_unschedule_takes_a_configuration_or_a_name(kfp: KfpServer, config: Path) -> None:
    for which in (config, "monthly"):
        schedule(config)
        code, out, err = scotoma("kubeflow", "unschedule", which)
        assert (code, out, err) == (0, "", "removed   monthly\n")
        assert kfp.store.recurring == {}
    code, out, err = scotoma("kubeflow", "unschedule", "monthly", "--json")
    assert (code, json.loads(out)) == (0, {"name": "monthly", "removed": 0})
    assert err == "unchanged no schedule is called monthly\n"


@pytest.mark.parametrize(
    "other",
    [{"runtime_config": {"parameters": {"run_uri": "s3://b/r"}}}, {"description": "my backups"}],
)
def test_a_recurring_run_of_somebody_else_is_left_alone(
    kfp: KfpServer, config: Path, other: dict[str, Any]
) -> None:
    schedule_id, _ = schedule(config)
    kfp.store.recurring[schedule_id] |= other
    for words in (["schedule", config, "--out", ROOT], ["unschedule", "monthly"]):
        code, _, err = scotoma("kubeflow", *words)
        assert code == 2
        assert "'monthly' of Kubeflow was not made by Scotoma; choose another name" in err
    assert list(kfp.store.recurring) == [schedule_id]


@pytest.mark.parametrize(
    ("change", "words", "sentence"),
    [
        (("retraining:", "#"), ["--out", ROOT], "a schedule needs the section `retraining`, and"),
        (("0 30 2 1", "30 2 1"), ["--out", ROOT], "first, got 5 in '30 2 1 * MON-FRI'; write, for"),
        (("0 30", "0 0 30"), ["--out", ROOT], "six fields in UTC, seconds first, got 7 in '0 0 30"),
        (("0 30 2 1 * MON-FRI", "@daily"), ["--out", ROOT], "takes Kubeflow's six fields in UTC"),
        (
            ("", ""),
            ["--out", "runs"],
            "--out runs is not storage that all steps on Kubeflow share",
        ),
        (("", ""), ["--name", "x"], "give --out (where to store the audits) or --status"),
        (("", ""), ["--status"], "no schedule is called 'monthly'; make it with scotoma kubeflow"),
    ],
)
def test_what_cannot_be_scheduled_is_one_sentence(
    kfp: KfpServer, config: Path, change: tuple[str, str], words: list[str], sentence: str
) -> None:
    config.write_text(CONFIG.replace(*change))
    code, out, err = scotoma("kubeflow", "schedule", config, *words)
    assert (code, out) == (2, "")
    assert sentence in " ".join(err.split())
    assert kfp.store.recurring == {}


# --- faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [429, 500, "lost", "silent", "truncated", "half", "page"])
@pytest.mark.parametrize("request_", ["GET .*/recurringruns", CREATE, DELETE])
def test_a_fault_that_passes_leaves_one_schedule(
    kfp: KfpServer, config: Path, kind: int | str, request_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "TIMEOUTS_S", (0.2, 0.2))
    kfp.silence_s = 0.4
    first, _ = schedule(config)
    kfp.fail(kind, request_)
    second, err = schedule(config, "--out", "s3://b-1/others")
    assert list(kfp.store.recurring) == [second]
    assert (second != first, err.split()[0]) == (True, "changed")


@pytest.mark.parametrize(
    ("kind", "times", "code"), [(401, 1, 2), (403, 1, 2), (409, 1, 2), (500, 9, 5), ("page", 9, 2)]
)
@pytest.mark.parametrize("request_", [CREATE, DELETE])
def test_a_fault_that_stays_never_loses_the_schedule(
    kfp: KfpServer, config: Path, kind: int | str, times: int, code: int, request_: str
) -> None:
    first, _ = schedule(config)
    kfp.fail(kind, request_, times=times)
    out, err = schedule(config, "--out", "s3://b-1/others", code=code)
    assert (out, err.count("\n")) == ("", 1)
    roots = {one["runtime_config"]["parameters"]["root"] for one in kfp.store.recurring.values()}
    assert roots == ({ROOT} if request_ == CREATE else {ROOT, "s3://b-1/others"})
    kfp.faults.clear()
    last, _ = schedule(config, "--out", "s3://b-1/others")
    assert list(kfp.store.recurring) == [last]
    assert last != first


@pytest.mark.parametrize("kind", [500, "lost", "truncated"])
def test_unschedule_outlives_a_fault(kfp: KfpServer, config: Path, kind: int | str) -> None:
    schedule(config)
    kfp.fail(kind, DELETE)
    code, _, err = scotoma("kubeflow", "unschedule", config)
    assert (code, err) == (0, "removed   monthly\n")
    assert kfp.store.recurring == {}


@pytest.mark.parametrize("how", ["unschedule", "changed"])
def test_the_audit_that_is_running_goes_on(
    kfp: KfpServer, config: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Kubernetes deletes what a deleted object owns, unless it is told to leave it."""
    monkeypatch.setattr(audit, "compile_pipeline", WHOLE)
    schedule_id, _ = schedule(config)
    run_id = kfp.store.fire(schedule_id)
    assert kfp.store.look(run_id)["state"] == "RUNNING"
    if how == "unschedule":
        assert scotoma("kubeflow", "unschedule", config)[0] == 0
    else:
        assert schedule(config, "--out", "s3://b-1/others")[1].startswith("changed")
    assert schedule_id not in kfp.store.recurring
    lines = [scotoma("kubeflow", "status", run_id)[1].splitlines() for _ in range(4)][-1]
    day = kfp.store.runs[run_id]["created_at"][:10]
    assert " ".join(lines[:2]).strip() == f"SUCCEEDED: monthly {day} in {ROOT}/{run_id}"
    assert lines[4].split()[:2] == ["SUCCEEDED", "begin-scheduled"]


# --- its times ------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["", "what was handed over"])
def test_every_time_starts_an_audit(
    kfp: KfpServer, config: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """Kubeflow 2.17 asks plugins for nothing here; if it loses the place all the same, so be it."""
    monkeypatch.setattr(audit, "compile_pipeline", WHOLE)
    schedule_id, _ = schedule(config)
    assert kfp.store.lightweight == set()
    if lost:
        kfp.store.lightweight.add(schedule_id)
    first, second = kfp.store.fire(schedule_id), kfp.store.fire(schedule_id)
    assert (kfp.store.controller_log, len(kfp.store.runs)) == ([], 2)
    assert re.fullmatch(r"monthly\w{5}-2-\d+", kfp.store.runs[second]["display_name"])
    kfp.store.runs[first]["created_at"] = "2026-10-01T02:30:04Z"
    status = " ".join(scotoma("kubeflow", "status", first)[1].split())
    assert status.startswith(f"RUNNING: monthly 2026-10-01 in {ROOT}/{first}")
    values = json.loads(scotoma("kubeflow", "status", "--json")[1])
    places = {audit["run_id"]: (audit["project"], audit["run_uri"]) for audit in values}
    assert places[first] == ("monthly 2026-10-01", f"{ROOT}/{first}")
    assert places[second][0].startswith("monthly 20")


def test_a_schedule_of_two_names_calls_its_audits_by_the_project(
    kfp: KfpServer, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "compile_pipeline", WHOLE)
    schedule_id, _ = schedule(config, "--out", ROOT, "--name", "Every 5 minutes")
    run_id = kfp.store.fire(schedule_id)
    assert kfp.store.runs[run_id]["display_name"].startswith("every5minutes")
    assert status_rows()[0]["project"].startswith("monthly 20")


def made_in_the_past(kfp: KfpServer, schedule_id: str, days: float) -> datetime.datetime:
    """Let a schedule be as old as that; returns when it was made."""
    made = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)
    kfp.store.recurring[schedule_id]["created_at"] = made.strftime("%Y-%m-%dT%H:%M:%SZ")
    return made


def test_status_says_which_times_were_missed(kfp: KfpServer, config: Path) -> None:
    """As of a schedule that asked plugins for something: enabled, and nothing ever runs."""
    config.write_text(CONFIG.replace("0 30 2 1 * MON-FRI", "0 0 * * * *"))
    schedule_id, _ = schedule(config)
    kfp.store.lightweight.add(schedule_id)
    version_id = kfp.store.recurring[schedule_id]["pipeline_version_reference"][
        "pipeline_version_id"
    ]
    root = kfp.store.versions[version_id]["pipeline_spec"]["root"]
    del root["inputDefinitions"]["parameters"]["root"]["defaultValue"]
    assert kfp.store.fire(schedule_id) == ""
    assert kfp.store.controller_log == [
        "rpc error: code = InvalidArgument desc = invalid pipeline job inputs: parameter root is "
        "not optional, yet has neither default value nor user provided value"
    ]
    made = made_in_the_past(kfp, schedule_id, 1.0)
    lines = schedule(config, "--status")[0].splitlines()
    assert lines[0].startswith("monthly is enabled")
    assert f"audits: none since {made:%Y-%m-%d %H:%M} UTC" in lines
    count = json.loads(schedule(config, "--status", "--json")[0])["times"]
    assert count in (23, 24)  # the last three minutes are given to Kubeflow
    text = " ".join(" ".join(lines).split())
    assert f"missed: {count} of {count} times since {made:%Y-%m-%d %H:%M} UTC, the last " in text
    assert (
        " UTC: no audit began. The reason is in kubectl logs -n kubeflow "
        "deployment/ml-pipeline-scheduledworkflow code: " in text
    )
    kfp.store.recurring[schedule_id]["status"] = "DISABLED"
    assert "missed" not in schedule(config, "--status")[0]


def test_a_time_with_an_audit_is_not_missed(kfp: KfpServer, config: Path) -> None:
    config.write_text(CONFIG.replace("0 30 2 1 * MON-FRI", "0 0 * * * *"))
    schedule_id, _ = schedule(config)
    made_in_the_past(kfp, schedule_id, 1.0)
    missed = json.loads(schedule(config, "--status", "--json")[0])["missed"]
    run_id = kfp.store.fire(schedule_id)
    begun = datetime.datetime.fromisoformat(missed[3]) + datetime.timedelta(seconds=7)
    run = kfp.store.runs[run_id]
    run["created_at"] = begun.strftime("%Y-%m-%dT%H:%M:%SZ")
    kfp.store.looks = 1
    while kfp.store.look(run_id)["state"] != "SUCCEEDED":
        pass
    run["finished_at"] = (begun + datetime.timedelta(hours=2.5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    values = json.loads(schedule(config, "--status", "--json")[0])
    # Nor are the two times at which that audit was running.
    assert values["missed"] == missed[:3] + missed[6:]
    assert (values["audits"], values["last_state"]) == (1, "SUCCEEDED")
    text = " ".join(schedule(config, "--status")[0].split())
    assert f"; the last began {begun:%Y-%m-%d %H:%M} UTC and is SUCCEEDED" in text


# --- its state ------------------------------------------------------------------------------------


def test_status_shows_what_kubeflow_has(
    kfp: KfpServer, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule_id, _ = schedule(config)
    changes(kfp)
    made = kfp.store.recurring[schedule_id]["created_at"]
    out, err = schedule(config, "--status")
    lines = out.splitlines()
    assert re.fullmatch(r"next: 20\d\d-\d\d-\d\d 02:30 UTC", lines.pop(3))
    assert lines == [
        f"monthly is enabled; its audits are in {ROOT}",
        "",
        "times: 0 30 2 1 * MON-FRI in UTC",
        f"audits: none since {made[:10]} {made[11:16]} UTC",
        "code: compiled by this code",
    ]
    assert err == f"runs      {kfp.address}/#/recurringrun/details/{schedule_id}\n"
    assert changes(kfp) == []
    monkeypatch.setattr(schedules, "_code", lambda: "c0ffee")
    out, _ = schedule(config, "--status")
    assert "code: compiled by different code; schedule it again" in out.splitlines()
    values = json.loads(schedule(config, "--status", "--json")[0])
    assert (values["stale"], values["enabled"], values["root"]) == (True, True, ROOT)
