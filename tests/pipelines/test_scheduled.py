"""The first, the last and the exit step of a scheduled audit: new or not, failed or not."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from scotoma import storage
from scotoma.config.newest import RegisteredModel
from scotoma.errors import DataError
from scotoma.pipelines import audit
from scotoma.run import Run
from scotoma.run.sources import Sources, write_sources
from scotoma.steps.inputs import look
from scotoma.steps.kubeflow import schedule as scheduled
from scotoma.steps.kubeflow.failure import record_failure
from scotoma.steps.kubeflow.schedule import SKIPPED
from scotoma.steps.runner import execute
from scotoma.steps.table import STEPS, Step
from tests.helpers.commands import scotoma
from tests.kfp_server.argo import hook_state
from tests.kfp_server.server import KfpServer
from tests.pipelines.test_schedule import CONFIG, TINY

ALIASED = """\
project: aliased
source: {kind: onnx, models: "models:/faces@champion", images: s3://b/i, attributes: s3://b/t.csv,
         split: {column: part, train: a, test: b}}
label: {column: smiling}
variants: [dense, {onnx: [int8]}]
retraining: {cron: "0 30 2 1 * *"}
"""


class Schedule:
    """A schedule in a bucket."""

    def __init__(self, s3: Any, tmp_path: Path) -> None:
        self.s3, self.pointer, self.root = s3, str(tmp_path / "pointer.json"), s3.uri("audits")
        self.config = CONFIG.replace("s3://b-1", s3.uri("data"))
        self.rules = ""
        self.skipped: list[str] = []
        self.failures: list[str] = []

    def data(self, name: str) -> None:
        for file in ("images/a.png", "people.csv"):
            self.s3.put(f"data/{name}/{file}", b"x")

    def begin(self, job: str) -> str:
        return scheduled.begin(self.root, job, self.config, self.rules)

    def fail(self, job: str, state: str = "FAILED") -> None:
        record_failure(self.root, job, state, 1, self.config, scheduled=True)

    def read(self, name: str) -> bytes:
        return storage.read_bytes(storage.join(self.root, name))

    def end(self, job: str) -> None:
        execute("log", f"{self.root}/{job}", self.pointer)

    def audit(self, job: str) -> None:
        assert self.begin(job) == f"{self.root}/{job}"
        self.end(job)


@pytest.fixture
def schedule(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Schedule:
    monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SCOTOMA_TRACKING_URI", "http://mlflow:1")
    new = Schedule(s3, tmp_path)
    step = types.ModuleType("made_up_log")
    step.log = lambda run: []  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, step.__name__, step)
    monkeypatch.setitem(STEPS, "log", Step("log", "", "", module=step.__name__))
    monkeypatch.setattr(
        "scotoma.tracking.audits.log_skip",
        lambda config, newest, why, uri: new.skipped.append(why) or "",
    )
    monkeypatch.setattr(
        "scotoma.tracking.audits.log_failure",
        lambda run, why, uri, *, cancelled, job: new.failures.append(why) or "",
    )
    return new


def test_an_audit_of_the_newest_begins_in_a_folder_named_by_its_run(schedule: Schedule) -> None:
    schedule.data("2026-06")
    schedule.data("2026-05")
    place = schedule.begin("job-1")
    assert place == f"{schedule.root}/job-1"
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
    monkeypatch.setitem(STEPS, "bias", Step("bias", "", "", module=seen.__name__))
    before = tmp_path / "before.json"
    before.write_text(json.dumps({"run_uri": place, "files": {}}))
    execute("bias", schedule.root, schedule.pointer, after=[str(before)])
    assert schedule.failures == [place]


def test_nothing_new_is_skipped_and_logged(schedule: Schedule) -> None:
    schedule.data("2026-06")
    schedule.rules = "version: 1\nrules:\n- {id: cie, metric: cie_share_excess, max: 0.05}\n"
    schedule.audit("job-1")
    assert schedule.begin("job-2") == scheduled.NOTHING
    schedule.fail("job-2", hook_state("SKIPPED"))  # the exit step runs, and finds nothing
    assert schedule.failures == []
    assert schedule.skipped == [
        "nothing new: 2026-06 was audited before, with this configuration, gate and code"
    ]
    names = [name for name in schedule.s3.names() if "job-2" in name]
    assert names == [f"audits/job-2/{name}" for name in ("logs/begin-scheduled.0.1.log", SKIPPED)]
    schedule.data("2026-08")
    assert schedule.begin("job-2") == f"{schedule.root}/job-2"  # a retry of it
    assert f"audits/job-2/{SKIPPED}" not in schedule.s3.names()
    schedule.audit("job-3")
    assert len(schedule.skipped) == 1


def test_a_run_with_nothing_new_is_no_failure_and_says_since_when(
    schedule: Schedule, kfp: KfpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubeflow tells its exit step what it tells that of a cancelled run."""
    monkeypatch.setattr(
        audit,
        "compile_pipeline",
        lambda config, path, **settings: path.write_text(TINY % ("x", "")),
    )
    monthly = tmp_path / "monthly.yaml"
    monthly.write_text(schedule.config)
    code, _, err = scotoma("kubeflow", "schedule", monthly, "--out", schedule.root)
    assert code == 0, err
    first, second = (kfp.store.fire(*kfp.store.recurring) for _ in range(2))
    schedule.data("2026-11-01")
    schedule.audit(first)
    assert schedule.begin(second) == scheduled.NOTHING
    schedule.fail(second, hook_state("SKIPPED"))
    assert (schedule.failures, f"audits/{second}/error.json" in schedule.s3.names()) == ([], False)
    kfp.store.elapsed_s = 9999.0
    code, out, err = scotoma("kubeflow", "status", second)
    assert (code, err) == (0, "")
    assert out.endswith("\nnothing new since 2026-11-01\n")
    assert out.startswith("SUCCEEDED")
    wait = "kubeflow", "status", second, "--wait"
    assert scotoma(*wait, "--quiet") == (0, "nothing new since 2026-11-01\n", "")
    told = json.loads(scotoma(*wait, "--json")[1])
    assert told == {"nothing_new_since": "2026-11-01"}
    code, _, err = scotoma("kubeflow", "logs", second)
    assert (code, err.rpartition(": ")[2]) == (2, "begin-scheduled\n")
    out = scotoma("kubeflow", "logs", second, "--step", "begin-scheduled")[1]
    assert "begin-scheduled.0: " in out
    assert " begin-scheduled ended after " in out
    rows = json.loads(scotoma("kubeflow", "status", "--json")[1])
    assert (rows[0]["run_id"], rows[0]["verdict"]) == (second, "nothing new")


def test_what_is_newest_and_was_replaced_is_audited_again(schedule: Schedule) -> None:
    table = b"image,s,smiling\na.png,b,no\n"

    def data(labels: bytes) -> None:
        schedule.data("2026-06")
        schedule.s3.put("data/2026-06/people.csv", labels)

    data(table)
    run = Run.open(schedule.begin("job-1"))
    write_sources(run.mirror, look(run.config, Sources()))  # as the step prepare does
    schedule.end("job-1")
    data(table)
    assert schedule.begin("job-2") == scheduled.NOTHING
    data(table.replace(b"no", b"yes"))
    assert schedule.begin("job-3") == f"{schedule.root}/job-3"


@pytest.mark.parametrize("what", ["configuration", "gate", "code", "an audit that failed"])
def test_old_data_are_audited_again_if_anything_else_is_new(
    schedule: Schedule, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule.data("2026-06")
    schedule.begin("job-1")
    schedule.fail("job-1") if what == "an audit that failed" else schedule.end("job-1")
    if what == "configuration":
        schedule.config = schedule.config.replace("[0.5]", "[0.9]")
    elif what == "gate":
        schedule.rules = "version: 1\nrules:\n- {id: cie, metric: cie_share_excess, max: 0.05}\n"
    elif what == "code":
        monkeypatch.setattr(scheduled, "code_digest", lambda: "c0ffee")
    assert schedule.begin("job-2") == f"{schedule.root}/job-2"
    assert schedule.skipped == []


def test_a_retried_step_goes_on_even_if_another_audit_was_faster(schedule: Schedule) -> None:
    """Two schedules of one name run for a while if a change was cut off."""
    schedule.data("2026-06")
    place = schedule.begin("job-1")
    schedule.audit("job-2")
    assert schedule.begin("job-1") == place
    assert schedule.skipped == []


@pytest.mark.parametrize("cut", ["resolved", "begin_run"])
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
    assert Run.open(schedule.begin("job-1")).newest == "2026-06"


def test_a_version_that_an_alias_still_has_is_nothing_new(
    schedule: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule.config = ALIASED
    version = ["1"]
    monkeypatch.setattr(
        "scotoma.tracking.registry.aliased",
        lambda model, uri: RegisteredModel(model.name, version=version[0]),
    )
    place = schedule.begin("job-7")
    source: Any = Run.open(place).config.source
    assert (source.models, Run.open(place).newest) == ("models:/faces/1", "faces version 1")
    schedule.end("job-7")
    assert schedule.begin("job-8") == scheduled.NOTHING
    (why,) = schedule.skipped
    assert why.startswith("nothing new: faces version 1 was audited before")
    version[0] = "2"
    schedule.audit("job-9")


def test_without_a_placeholder_there_is_always_something_new(schedule: Schedule) -> None:
    schedule.config = schedule.config.replace("{newest}", "all")
    for month in (7, 8):
        schedule.audit(f"job-{month}")


def test_input_that_cannot_be_read_is_logged(schedule: Schedule) -> None:
    with pytest.raises(DataError, match="must match a name at"):
        schedule.begin("job-1")
    schedule.fail("job-1")
    (why,) = schedule.failures
    assert why.startswith("source.images must match a name at {newest}, got none")


def test_input_that_comes_before_a_retry_is_audited(schedule: Schedule) -> None:
    with pytest.raises(DataError, match="must match a name at"):
        schedule.begin("job-1")
    schedule.data("2026-06")
    schedule.audit("job-1")
    assert not [name for name in schedule.s3.names() if name.endswith("error.json")]


def test_an_id_that_kubeflow_did_not_fill_in_is_refused(schedule: Schedule) -> None:
    with pytest.raises(Exception, match="the id of a scheduled run is letters, digits and dashes"):
        schedule.begin("{{$.pipeline_job_uuid}}")


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("FAILED", "the step begin-scheduled ended without saying why; see scotoma kubeflow logs "
         "job-1, then scotoma kubeflow submit --resume job-1"),
        ("RUNNING", "the step begin-scheduled had not ended; scotoma kubeflow submit --resume "
         "job-1 resumes it"),
    ],
)  # fmt: skip
def test_an_audit_that_ended_before_it_began_says_so(
    schedule: Schedule, state: str, why: str
) -> None:
    """Its image could not be pulled, or its pod was killed: no step has written anything."""
    schedule.fail("job-1", state)
    assert schedule.failures == [why]
    assert why in json.loads(schedule.read("job-1/error.json"))["message"]
    schedule.data("2026-06")
    schedule.audit("job-1")  # a retry
    assert not [name for name in schedule.s3.names() if name.endswith("error.json")]


def test_whatever_ends_the_first_step_is_recorded(
    schedule: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*words: Any, **named: Any) -> None:
        raise OSError(28, "No space left on device")

    schedule.data("2026-06")
    with monkeypatch.context() as patch:
        patch.setattr(scheduled, "begin_run", full)
        with pytest.raises(OSError, match="No space"):
            schedule.begin("job-1")
    schedule.fail("job-1")
    (why,) = schedule.failures
    assert why.startswith("the step begin-scheduled stopped: ")


# --- the compiled pipeline, as kfp runs it --------------------------------------------------------

PREDICTED = """\
version: 1
project: repeated
source: {kind: predictions, files: "%s/{newest}/{variant}-{model}.csv",
         examples: "%s/{newest}/examples.csv"}
label: {column: label}
variants: [dense, {predictions: [small]}]
population: {models: 3}
tracking: {uri: "off"}
retraining: {cron: "0 * * * * *"}
"""
RUN = """
import json, os, sys
from pathlib import Path
from kfp import components, local
from scotoma.config import load_config
from scotoma.pipelines import compile_pipeline
from scotoma.steps.inputs import resolved
from scotoma.run.sources import Sources
from scotoma.steps.kubeflow.schedule import _ingredients, _seen
here = Path(sys.argv[1])
compile_pipeline(load_config(here / "audit.yaml"), here / "made.yaml", scheduled_root="")
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
sys.executable = "python3"
runner = local.SubprocessRunner(use_venv=False)
local.init(runner=runner, pipeline_root=str(here / "kfp"), raise_on_error=False)
pipeline = components.load_component_from_file(str(here / "made.yaml"))
(here / "old").mkdir()
config = load_config(here / "audit.yaml")
audited, newest = resolved(config, "")
(here / "old" / "schedule.json").write_text(json.dumps(_ingredients(
    audited, str(newest), None, _seen(audited, Sources())
)))
for root in ("old", "new"):
    pipeline(root=str(here / root))
"""


def test_kfp_runs_the_audit_of_what_is_new_and_no_other(tmp_path: Path) -> None:
    """The audit of what is new meets a table without labels, so that only its first step runs."""
    (tmp_path / "audit.yaml").write_text(PREDICTED % (tmp_path / "data", tmp_path / "data"))
    data = tmp_path / "data" / "2026-06"
    data.mkdir(parents=True)
    (data / "examples.csv").write_text("example_id,other\ne1,x\n")
    for name in (f"{variant}-{model}.csv" for variant in ("dense", "small") for model in range(3)):
        (data / name).write_text("example_id,predicted\ne1,x\n")
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path)],
        env={**os.environ, "TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    (skipped,) = (tmp_path / "old").glob(f"*/{SKIPPED}")
    assert json.loads(skipped.read_text()) == {"newest": "2026-06"}, done.stderr
    assert sorted(path.name for path in skipped.parent.iterdir()) == ["logs", SKIPPED]
    (place,) = (tmp_path / "new").iterdir()
    assert "label" in json.loads((place / "error.json").read_text())["message"]
    steps = re.findall(r"'([a-z-]+)'.{0,9} finished with status .{0,9}?([A-Z]{4,})", done.stdout)
    assert steps == [
        ("begin-scheduled", "SUCCESS"), ("record-failure", "SUCCESS"),
        ("scotoma-scheduled", "SUCCESS"),
        ("begin-scheduled", "SUCCESS"), ("prepare-data", "FAILURE"), ("record-failure", "SUCCESS"),
        ("scotoma-scheduled", "FAILURE"),
    ]  # fmt: skip
