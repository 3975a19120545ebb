"""The first and the last step of a scheduled audit: due or not, new or not, failed or not."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from scotoma.config.registered import RegisteredModel
from scotoma.errors import DataError
from scotoma.runs import Run
from scotoma.stages import execute, failed, scheduled
from scotoma.stages.steps import STEPS, Step
from tests.pipelines.test_schedule import CONFIG

ALIASED = """\
project: aliased
source: {kind: onnx, models: "models:/faces@champion", images: s3://b/i, attributes: s3://b/t.csv,
         split: {column: part, train: a, test: b}}
label: {column: smiling}
variants: [dense, {onnx: [int8]}]
retraining: {cron: "30 2 1 * *", time_zone: Europe/Berlin}
"""
SINCE = "2026-01-01T00:00:00+00:00"


class Clock(datetime.datetime):
    """A clock that stands where a test sets it."""

    time = ""

    @classmethod
    def now(cls, tz: Any = None) -> datetime.datetime:
        return datetime.datetime.fromisoformat(cls.time)


class Schedule:
    """A schedule in a bucket, on a day of July, August and so on."""

    def __init__(self, s3: Any, tmp_path: Path) -> None:
        self.s3, self.pointer, self.root = s3, str(tmp_path / "pointer.json"), s3.uri("audits")
        self.config = CONFIG.replace("s3://b-1", s3.uri("data"))
        self.skipped: list[str] = []
        self.failures: list[str] = []
        self.missed: list[str] = []

    def data(self, name: str) -> None:
        for file in ("images/a.png", "people.csv"):
            self.s3.put(f"data/{name}/{file}", b"x")

    def begin(self, job: str, time: str = "", rules: str = "") -> str:
        Clock.time = time or Clock.time
        return scheduled.begin(self.root, job, SINCE, self.config, rules)

    def end(self, job: str, state: str = "SUCCEEDED") -> dict[str, Any]:
        scheduled.end(self.root, job, self.pointer, state)
        found: dict[str, Any] = json.loads(Path(self.pointer).read_text())
        return found

    def audited(self, job: str, time: str) -> str:
        place = self.begin(job, time)
        assert self.end(job)["run_uri"] == place
        return place.rpartition("/")[2]


@pytest.fixture
def schedule(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Schedule:
    monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SCOTOMA_TRACKING_URI", "http://mlflow:1")
    monkeypatch.setattr(
        scheduled, "datetime", types.SimpleNamespace(datetime=Clock, UTC=datetime.UTC)
    )
    monkeypatch.setattr(Clock, "time", "2026-07-01T00:30:00+00:00")
    made = Schedule(s3, tmp_path)
    step = types.ModuleType("made_up_log")
    step.log = lambda run: []  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, step.__name__, step)
    monkeypatch.setitem(STEPS, "log", Step("log", step.__name__, "", ""))
    monkeypatch.setattr(
        "scotoma.tracking.log_skip", lambda config, newest, why, uri: made.skipped.append(why) or ""
    )
    monkeypatch.setattr(
        "scotoma.tracking.log_missed", lambda config, why, uri: made.missed.append(why) or ""
    )
    monkeypatch.setattr(
        "scotoma.tracking.log_failure", lambda run, why, uri: made.failures.append(why) or ""
    )
    return made


def test_an_audit_begins_where_and_when_it_is_due_and_of_the_newest(schedule: Schedule) -> None:
    schedule.data("2026-06")
    schedule.data("2026-05")
    place = schedule.begin("job-1", "2026-07-01T00:31:07+00:00")
    assert place == f"{schedule.root}/2026-07-01T0030Z"
    run = Run.open(place)
    assert run.newest == "2026-06"
    assert run.config.source.images == schedule.s3.uri("data", "2026-06", "images")  # type: ignore[union-attr]
    assert run.config.retraining is not None
    schedule.data("2026-07")
    assert schedule.begin("job-1") == place  # a retry of the step
    assert Run.open(place).newest == "2026-06"


def test_steps_after_the_first_find_the_run_by_what_is_before_them(
    schedule: Schedule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule.data("2026-06")
    place = schedule.begin("job-1")
    seen = types.ModuleType("made_up_bias")
    seen.bias = lambda run: schedule.failures.append(run.uri) or []  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, seen.__name__, seen)
    monkeypatch.setitem(STEPS, "bias", Step("bias", seen.__name__, "", ""))
    before = tmp_path / "before.json"
    before.write_text(json.dumps({"run_uri": place, "files": {}}))
    execute("bias", schedule.root, schedule.pointer, after=[str(before)])
    assert schedule.failures == [place]


def test_woken_when_nothing_is_due_it_does_nothing(schedule: Schedule) -> None:
    """In Berlin 02:30 is 00:30 UTC in summer and 01:30 in winter; it is woken at both."""
    schedule.data("2026-06")
    schedule.audited("job-1", "2026-07-01T00:30:00+00:00")
    before = schedule.s3.names()
    assert schedule.begin("job-2", "2026-07-01T01:30:00+00:00") == scheduled.NOTHING
    assert schedule.end("job-2") == {"run_uri": "", "files": {}}
    assert schedule.s3.names() == before
    assert schedule.skipped == []
    schedule.data("2026-11")
    assert schedule.begin("job-3", "2026-12-01T00:30:00+00:00").endswith("/2026-11-01T0130Z")
    assert schedule.begin("job-4", "2026-12-01T01:29:30+00:00").endswith("/2026-12-01T0130Z")


def test_what_was_due_before_the_schedule_was_made_is_not(schedule: Schedule) -> None:
    schedule.data("2026-06")
    assert schedule.begin("job-1", "2026-01-01T00:30:00+00:00") == scheduled.NOTHING


def test_nothing_new_is_skipped_and_said(schedule: Schedule) -> None:
    schedule.data("2026-06")
    assert schedule.audited("job-1", "2026-07-01T00:30:00+00:00") == "2026-07-01T0030Z"
    assert schedule.begin("job-2", "2026-08-01T00:30:00+00:00") == scheduled.NOTHING
    assert schedule.end("job-2") == {"run_uri": "", "files": {}}
    assert schedule.skipped == [
        "nothing new: 2026-06 was audited before, with this configuration, gate and code"
    ]
    assert not [name for name in schedule.s3.names() if "2026-08" in name]
    schedule.data("2026-08")
    assert schedule.audited("job-3", "2026-09-01T00:30:00+00:00") == "2026-09-01T0030Z"
    assert len(schedule.skipped) == 1


@pytest.mark.parametrize("what", ["configuration", "gate", "code", "an audit that failed"])
def test_old_data_are_audited_again_if_anything_else_is_new(
    schedule: Schedule, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule.data("2026-06")
    schedule.begin("job-1", "2026-07-01T00:30:00+00:00")
    schedule.end("job-1", "FAILED" if what == "an audit that failed" else "SUCCEEDED")
    rules = "version: 1\nrules:\n- {id: cie, metric: cie_share_excess, max: 0.05}\n"
    if what == "configuration":
        schedule.config = schedule.config.replace("[0.5]", "[0.9]")
    elif what == "code":
        monkeypatch.setattr(scheduled, "code_digest", lambda: "c0ffee")
    place = schedule.begin("job-2", "2026-08-01T00:30:00+00:00", rules if what == "gate" else "")
    assert place.endswith("/2026-08-01T0030Z")
    assert schedule.skipped == []


def test_what_was_missed_is_said_once(schedule: Schedule) -> None:
    """Due since January in winter at 01:30 UTC, in summer an hour before; asked on 1 August."""
    schedule.data("2026-06")
    schedule.audited("job-1", "2026-08-01T00:31:00+00:00")
    assert schedule.missed == [
        "nothing began when it was due, UTC: 2026-01-01 01:30, 2026-02-01 01:30, 2026-03-01 01:30 "
        "and 4 times more"
    ]
    schedule.begin("job-2", "2026-09-01T00:31:00+00:00")
    assert len(schedule.missed) == 1
    schedule.begin("job-3", "2026-11-01T01:31:00+00:00")
    assert schedule.missed[1:] == ["nothing began when it was due, UTC: 2026-10-01 00:30"]


@pytest.mark.parametrize("cut", ["resolved", "begun"])
def test_a_first_step_that_was_cut_off_goes_on(
    schedule: Schedule, cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule.data("2026-06")

    def killed(*words: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(scheduled, cut, killed)
        with pytest.raises(KeyboardInterrupt):
            schedule.begin("job-1")
    assert schedule.begin("job-2") == scheduled.NOTHING  # of a second schedule, for a moment
    place = schedule.begin("job-1")
    assert place.endswith("/2026-07-01T0030Z")
    assert Run.open(place).newest == "2026-06"


def test_a_version_that_an_alias_still_has_is_nothing_new(
    schedule: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule.config = ALIASED
    version = ["1"]
    monkeypatch.setattr(
        "scotoma.tracking.models.aliased",
        lambda model, uri: RegisteredModel(model.name, version=version[0]),
    )
    place = schedule.begin("job-7", "2026-07-01T00:30:00+00:00")
    source: Any = Run.open(place).config.source
    assert (source.models, Run.open(place).newest) == ("models:/faces/1", "faces version 1")
    schedule.end("job-7")
    assert schedule.begin("job-8", "2026-08-01T00:30:00+00:00") == scheduled.NOTHING
    (why,) = schedule.skipped
    assert why.startswith("nothing new: faces version 1 was audited before")
    version[0] = "2"
    assert schedule.audited("job-9", "2026-09-01T00:30:00+00:00") == "2026-09-01T0030Z"


def test_without_a_placeholder_there_is_always_something_new(schedule: Schedule) -> None:
    schedule.config = schedule.config.replace("{newest}", "all")
    for month in (7, 8):
        name = schedule.audited(f"job-{month}", f"2026-0{month}-01T00:30:00+00:00")
        assert name == f"2026-0{month}-01T0030Z"


def test_input_that_cannot_be_had_is_left_and_logged(schedule: Schedule) -> None:
    with pytest.raises(DataError, match="must have something in the place of"):
        schedule.begin("job-1")
    assert schedule.end("job-1", "FAILED")["run_uri"].endswith("/2026-07-01T0030Z")
    (why,) = schedule.failures
    assert why.startswith("source.images must have something in the place of {newest}, got nothing")


def test_an_id_that_kubeflow_did_not_fill_in_is_refused(schedule: Schedule) -> None:
    with pytest.raises(Exception, match="the id of a scheduled run is letters, digits and dashes"):
        schedule.begin("{{$.pipeline_job_uuid}}")


def test_a_failure_before_anything_began_has_nothing_to_log(schedule: Schedule) -> None:
    assert schedule.end("job-1", "FAILED") == {"run_uri": "", "files": {}}
    assert failed.UNKNOWN not in schedule.failures


# --- the compiled pipeline, as kfp runs it --------------------------------------------------------

PREDICTED = """\
version: 1
project: repeated
source: {kind: predictions, files: "%s/{newest}/*.csv", examples: "%s/{newest}/examples.csv"}
label: {column: label}
variants: [dense, {predictions: [small]}]
population: {models: 3}
tracking: {uri: "off"}
retraining: {cron: "* * * * *"}
"""
RUN = """
import os, sys
from pathlib import Path
from kfp import components, local
from scotoma.config import load_config
from scotoma.pipelines import compile_pipeline
here = Path(sys.argv[1])
compile_pipeline(load_config(here / "audit.yaml"), here / "made.yaml", scheduled=True)
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
sys.executable = "python3"
runner = local.SubprocessRunner(use_venv=False)
local.init(runner=runner, pipeline_root=str(here / "kfp"), raise_on_error=False)
pipeline = components.load_component_from_file(str(here / "made.yaml"))
for root, since in (("later", "2999-01-01T00:00:00+00:00"), ("now", "2026-01-01T00:00:00+00:00")):
    pipeline(root=str(here / root), since=since)
"""


def test_kfp_runs_the_audit_where_one_is_due_and_nothing_where_none_is(tmp_path: Path) -> None:
    """The audit that is due meets a table without labels, so that only its first step runs."""
    (tmp_path / "audit.yaml").write_text(PREDICTED % (tmp_path / "data", tmp_path / "data"))
    data = tmp_path / "data" / "2026-06"
    data.mkdir(parents=True)
    (data / "examples.csv").write_text("example_id,other\ne1,x\n")
    (data / "dense.csv").write_text("example_id,predicted\ne1,x\n")
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path)],
        env={**os.environ, "TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not (tmp_path / "later").exists(), done.stdout[-3000:]
    places = list((tmp_path / "now").glob("20*Z"))
    assert len(places) == 1, done.stdout[-3000:]
    (place,) = places
    left = json.loads((place / "error.json").read_text())
    assert "label" in left["message"]
    (job,) = (tmp_path / "now" / "jobs").iterdir()
    assert json.loads(job.read_text())["run_uri"] == str(place)
    assert "made_of" not in json.loads((tmp_path / "now" / "schedule.json").read_text())
    steps = re.findall(r"'([a-z-]+)'.{0,9} finished with status .{0,9}?([A-Z]{4,})", done.stdout)
    assert steps == [
        ("begin-scheduled", "SUCCESS"), ("log-scheduled", "SUCCESS"),
        ("scotoma-scheduled", "SUCCESS"),
        ("begin-scheduled", "SUCCESS"), ("prepare-data", "FAILURE"), ("log-scheduled", "SUCCESS"),
        ("scotoma-scheduled", "FAILURE"),
    ]  # fmt: skip
