"""An audit that failed or was cancelled on a cluster, and the same audit once it is resumed."""

from __future__ import annotations

import datetime
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kfp import dsl

from scotoma import components
from scotoma.config.reading import configuration
from scotoma.errors import DataError
from scotoma.run import Run, checksums, read_json
from scotoma.run.judging import Judging
from scotoma.steps.inputs import resolved
from scotoma.steps.runner import execute
from scotoma.steps.table import STEPS, inputs_of, skipped_steps
from tests.faults.made import predictions_made_elsewhere

# What Kubeflow Pipelines 2.17 told the exit step after a success, a failure, `:terminate`.
STATES = ("COMPLETE", "FAILED", "RUNNING")
JOB = "6f1b8c9e-1111-2222-3333-444455556666"


class Cluster:
    """The tasks of a predictions audit, each called as Kubeflow calls it."""

    def __init__(self, run: Run, pointers: Path) -> None:
        self.run, self.pointers = run, pointers

    def task(self, name: str) -> None:
        before = inputs_of(STEPS[name], self.run.config).values()
        after = [str(self.pointers / step) for step in before]
        execute(name, self.run.place, str(self.pointers / name), after=after)

    def tasks(self, *, first: str = "prepare", until: str = "") -> None:
        names = [name for name in STEPS if name not in skipped_steps(self.run.config)]
        for name in names[names.index(first) :]:
            if name == until:
                return
            self.task(name)

    def exit_task(self, state: str) -> None:
        ended = dsl.PipelineTaskFinalStatus(
            state=state,
            pipeline_job_resource_name="scotoma-audit-t88kl",
            pipeline_task_name="exit-handler-1",
            error_code=None,
            error_message=None,
        )
        components.record_failure.python_func(
            run_uri=self.run.place, job=JOB, shards=1, ended=ended
        )

    def error(self) -> Any:
        record = self.run.path("error.json")
        return json.loads(record.read_text()) if record.exists() else None


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An audit whose steps have all ended; nothing is logged of it."""
    home = tmp_path_factory.mktemp("whole")
    config = predictions_made_elsewhere(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        read = configuration(config, deterministic=True, seed=None, data=None)
        run = Run.create(home / "run", resolved(read, "")[0])
        Judging(None, datetime.date.today()).leave(run)
        (home / "pointers").mkdir()
        cluster = Cluster(run, home / "pointers")
        cluster.tasks()
        yield cluster


@pytest.fixture
def cluster(
    whole: Cluster, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Cluster:
    """The same in a folder of its own, that every test may damage, with a real MLflow server."""
    monkeypatch.setenv("SCOTOMA_TRACKING_URI", server)
    shutil.copytree(whole.run.root, tmp_path / tmp_path.name)
    shutil.copytree(whole.pointers, tmp_path / "pointers")
    for pointer in (tmp_path / "pointers").iterdir():
        pointer.write_text(
            pointer.read_text().replace(str(whole.run.root), str(tmp_path / tmp_path.name))
        )
    return Cluster(Run.open(tmp_path / tmp_path.name), tmp_path / "pointers")


def logged(server: str, cluster: Cluster) -> dict[str, str]:
    """Names of the runs of this audit in MLflow, and their states."""
    import mlflow

    client = mlflow.MlflowClient(tracking_uri=server)
    experiment = client.get_experiment_by_name("killed")
    runs = client.search_runs([experiment.experiment_id]) if experiment else []
    own = cluster.run.root.name
    return {
        run.info.run_name: run.info.status
        for run in runs
        if run.data.tags.get("scotoma.place") == own and "scotoma.result" not in run.data.tags
    }


@pytest.mark.parametrize("state", STATES)
def test_nothing_is_recorded_of_a_whole_audit_whatever_kubeflow_calls_its_end(
    cluster: Cluster, server: str, state: str
) -> None:
    before = {path: path.read_bytes() for path in cluster.run.root.rglob("*") if path.is_file()}
    cluster.exit_task(state)
    assert cluster.error() is None
    assert logged(server, cluster) == {}
    after = {path: path.read_bytes() for path in cluster.run.root.rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.parametrize("damage", ["not sealed", "no record", "a changed file", "a lost file"])
def test_an_audit_whose_files_are_not_whole_has_failed_although_kubeflow_says_complete(
    cluster: Cluster, server: str, damage: str
) -> None:
    removed = {"not sealed": "checksums.json", "no record": "steps/slices.json"}
    if damage == "a changed file":
        cluster.run.section("slices").write_text("{}")
    elif damage == "a lost file":
        cluster.run.section("slices").unlink()
    else:
        cluster.run.path(removed[damage]).unlink()
    cluster.exit_task("COMPLETE")
    step = "log" if damage == "not sealed" else "slices"
    assert cluster.error()["message"] == (
        f"the step {step} ended without saying why; see scotoma kubeflow logs {JOB} --step "
        f"{step}, then scotoma kubeflow submit --resume {JOB}"
    )
    assert logged(server, cluster) == {"failed": "FAILED"}


def test_the_sentence_of_the_step_that_failed_is_logged_and_a_retry_closes_it(
    cluster: Cluster, server: str
) -> None:
    """After `:retry` Kubeflow runs what had failed, and not the exit step again."""
    cluster.tasks(until="slices")
    cluster.run.path("steps", "slices.json").unlink()
    cluster.run.predictions("dense").rename(kept := cluster.run.path("kept"))
    with pytest.raises(DataError, match="is missing or was changed"):
        cluster.task("slices")
    cluster.exit_task("FAILED")
    assert "predictions/dense.parquet is missing" in cluster.error()["message"]
    assert logged(server, cluster) == {"failed": "FAILED"}

    kept.rename(cluster.run.predictions("dense"))
    cluster.tasks(first="slices")
    assert cluster.error() is None
    assert checksums.compare_checksums(cluster.run.mirror).intact
    tracked = read_json(cluster.run.path("tracking.json"))
    assert tracked["reason"] == ""
    assert tracked["runs"].keys() == {"dense", "prune-0.9"}
    assert logged(server, cluster) == {"resumed": "FINISHED"}


def test_a_cancelled_audit_is_killed_in_mlflow_until_it_is_resumed(
    cluster: Cluster, server: str
) -> None:
    cluster.tasks(until="verdict")  # submitted again, where a whole audit was
    cluster.exit_task("RUNNING")
    assert cluster.error() == {
        "exit_code": 5,
        "message": "the audit was cancelled: the step log had not ended; scotoma kubeflow "
        f"submit --resume {JOB} resumes it",
    }
    assert logged(server, cluster) == {"cancelled": "KILLED"}
    cluster.tasks(first="verdict")
    assert cluster.error() is None
    assert checksums.compare_checksums(cluster.run.mirror).intact
    assert logged(server, cluster) == {"resumed": "FINISHED"}


def test_the_failure_of_another_folder_stays_open(
    cluster: Cluster, server: str, tmp_path: Path
) -> None:
    other = Cluster(Run.open(shutil.copytree(cluster.run.root, tmp_path / "other")), tmp_path)
    other.run.path("checksums.json").unlink()
    other.exit_task("FAILED")
    cluster.run.path("checksums.json").unlink()
    cluster.run.forget("log")
    cluster.task("log")
    assert logged(server, other) == {"failed": "FAILED"}
