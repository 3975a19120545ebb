"""`scotoma kubeflow stop` and `status`, and runs that are not what a command needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scotoma.pipelines import audit
from scotoma.pipelines import wait as pipeline_wait
from tests.helpers.commands import scotoma, stderr_of, stdout_of
from tests.kfp_server.server import KfpServer
from tests.pipelines.test_client import definition
from tests.pipelines.test_commands import config, leave_verdict, status_rows, submitted
from tests.pipelines.test_schedule import CONFIG as MONTHLY
from tests.pipelines.test_schedule import TINY

__all__ = ["config", "definition"]


@pytest.fixture(autouse=True)
def compiled(definition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipelines that were compiled before: kfp takes a second for each."""

    def compile_pipeline(
        _config: Any, path: Path, *, scheduled_root: str | None, **_settings: Any
    ) -> None:
        made = definition.read_bytes() if scheduled_root is None else (TINY % ("x", "")).encode()
        path.write_bytes(made)

    monkeypatch.setattr(audit, "compile_pipeline", compile_pipeline)


# --- cancel ---------------------------------------------------------------------------------------


def test_a_cancelled_run_ends_cancelled_and_is_resumed(
    kfp: KfpServer, config: Path, s3: Any
) -> None:
    run_id = submitted(config)
    kfp.store.elapsed_s = 100.0
    scotoma("kubeflow", "status", run_id)
    kfp.fail("lost", ":terminate")  # it is cancelled once
    code, out, err = scotoma("kubeflow", "stop", run_id)
    assert (code, out) == (0, f"{run_id}\n")
    assert err == f"stopped; resume it with scotoma kubeflow submit --resume {run_id}\n"
    assert kfp.store.runs[run_id]["state"] == "CANCELING"
    kfp.store.elapsed_s = 9999.0
    err = stderr_of("kubeflow", "status", run_id, "--wait", code=5)
    assert err.splitlines()[-1] == (
        f"scotoma: the run was cancelled; scotoma kubeflow submit --resume {run_id} resumes it"
    )
    assert scotoma("kubeflow", "status", run_id)[1].startswith("CANCELED: sent ")
    states = {row["step"]: row["state"] for row in status_rows(run_id)}
    assert states["report"] == "NOT RUN"
    assert kfp.store.runs[run_id]["state"] == "FAILED"  # Kubeflow's word for it
    err = stderr_of("kubeflow", "stop", run_id, code=2)
    assert f"the run {run_id} has ended (CANCELED); there is nothing to cancel" in err
    leave_verdict(s3, "run", 0)
    assert scotoma("kubeflow", "submit", "--resume", run_id)[0] == 0
    assert scotoma("kubeflow", "status", run_id)[1].startswith("SUCCEEDED: sent ")


def test_the_exit_step_of_a_cancelled_run_whose_image_cannot_be_pulled_ends_soon(
    kfp: KfpServer, config: Path
) -> None:
    """Its pod would wait for the image as long as a step may work: a day."""
    kfp.store.stuck = "*"
    run_id = submitted(config)
    kfp.store.elapsed_s = 600.0
    scotoma("kubeflow", "status", run_id)
    assert scotoma("kubeflow", "stop", run_id)[0] == 0
    kfp.store.elapsed_s = 600.0 + 29 * 60
    assert scotoma("kubeflow", "status", run_id)[1].startswith("CANCELING: ")
    kfp.store.elapsed_s = 600.0 + 31 * 60
    assert scotoma("kubeflow", "status", run_id)[1].startswith("CANCELED: ")


# --- list -----------------------------------------------------------------------------------------


def test_audits_are_listed_with_their_verdicts_the_newest_first(
    kfp: KfpServer, config: Path, tmp_path: Path, s3: Any
) -> None:
    assert scotoma("kubeflow", "status") == (
        0,
        "Audits on Kubeflow\n\nproject  state  verdict  age\n",
        "no audits; scotoma kubeflow submit sends one\n",
    )
    place = leave_verdict(s3, "run", 0)
    out = stdout_of("kubeflow", "submit", config, "--out", place)
    ids = [out.strip(), *(submitted(config) for _ in range(2))]
    foreign(kfp)
    monthly = tmp_path / "monthly.yaml"
    monthly.write_text(MONTHLY)
    scotoma("kubeflow", "schedule", monthly, "--out", "s3://b-1/audits")
    ids.append(kfp.store.fire(*kfp.store.recurring))
    kfp.store.elapsed_s = 9999.0
    scotoma("kubeflow", "status", ids[0])
    out = stdout_of("kubeflow", "status")
    assert [run_id in out for run_id in ids] == [True] * 4
    rows = status_rows()
    assert [row["run_id"] for row in rows] == ids[::-1]
    names = [row["project"] for row in rows]
    assert names[1:] == ["sent", "sent", "sent"]
    assert names[0].startswith("monthly")  # as Kubeflow has it: this pipeline names no project
    assert (rows[-1]["state"], rows[-1]["verdict"]) == ("SUCCEEDED", "PASS")
    out = stdout_of("kubeflow", "status", "--number", "2", "--json")
    assert [row["run_id"] for row in json.loads(out)] == ids[:1:-1]
    assert json.loads(out)[0]["run_uri"] == f"s3://b-1/audits/{ids[-1]}"


def test_pages_of_runs_are_read_to_their_end(
    kfp: KfpServer, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scotoma.pipelines import client

    monkeypatch.setattr(client, "PAGE", 2)
    ids = [submitted(config)]
    for _ in range(4):  # as it would be sent again
        body = dict(next(iter(kfp.store.runs.values())))
        kfp.store.start({key: body[key] for key in BODY})
        foreign(kfp)
    ids = list(kfp.store.runs)
    rows = json.loads(scotoma("kubeflow", "status", "--json")[1])
    ours = [run["run_id"] for run in kfp.store.runs.values() if run["display_name"] != "theirs"]
    assert [row["run_id"] for row in rows] == ours[::-1]
    assert len(ours) == 5
    assert len(ids) == 9
    code, out, err = scotoma("kubeflow", "status", "--number", "4", "--csv")
    assert (code, len(out.splitlines()), err) == (
        0, 5, "older audits are not shown; give --number 8\n"
    )  # fmt: skip


# --- what is no audit, or no longer there ---------------------------------------------------------

BODY = ("display_name", "experiment_id", "pipeline_version_reference", "runtime_config")


def foreign(kfp: KfpServer) -> str:
    """A run of somebody else's pipeline, with a parameter of ours."""
    store = kfp.store
    text = TINY.replace("scotoma-scheduled", "their-training") % ("x", "")
    experiment = next(iter(store.experiments), None) or store.experiment({"display_name": "e"})
    experiment_id = experiment if isinstance(experiment, str) else experiment["experiment_id"]
    named = {"display_name": f"v{len(store.versions)}", "pipeline_id": "theirs"}
    spec = store.specification(text.encode())
    version = store.add(
        store.versions, "pipeline_version_id", named | {"pipeline_spec": spec}, unique=True
    )
    reference = {"pipeline_id": "theirs", "pipeline_version_id": version["pipeline_version_id"]}
    run = store.start(
        {
            "display_name": "theirs",
            "experiment_id": experiment_id,
            "pipeline_version_reference": reference,
            "runtime_config": {"parameters": {"root": "s3://b-1/theirs"}},
        }
    )
    return str(run["run_id"])


@pytest.mark.parametrize("command", [("status",), ("stop",), ("submit", "--resume"), ("logs",)])
def test_a_run_of_another_pipeline_is_left_alone(kfp: KfpServer, command: tuple[str, ...]) -> None:
    run_id = foreign(kfp)
    code, out, err = scotoma("kubeflow", *command, run_id)
    assert (code, out) == (2, "")
    assert err == (
        f"scotoma: the run {run_id} is no audit of Scotoma but of the pipeline their-training; "
        "scotoma kubeflow status shows the audits\n"
    )
    assert not [request for request in kfp.requests if request.startswith("POST")]


@pytest.mark.parametrize("command", [("status",), ("stop",), ("submit", "--resume")])
def test_a_run_that_kubeflow_has_forgotten_is_one_sentence(
    kfp: KfpServer, command: tuple[str, ...]
) -> None:
    run_id = "e9f4efdc-d34f-493b-8804-abd065736026"
    code, out, err = scotoma("kubeflow", *command, run_id)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"it does not have it (HTTP 404: Run {run_id} not found); correct the id" in err


def test_a_run_whose_workflow_is_gone_cannot_be_cancelled(kfp: KfpServer, config: Path) -> None:
    run_id = submitted(config)
    kfp.store.gone.add(run_id)
    code, _, err = scotoma("kubeflow", "stop", run_id)
    assert (code, err.count("\n")) == (2, 1)
    assert "Kubernetes no longer has its Workflow, so nothing of it runs; send the audit" in err
    assert len([request for request in kfp.requests if request.endswith(":terminate")]) == 1


def test_a_token_that_expires_while_waiting_does_not_end_the_run(
    kfp: KfpServer, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCOTOMA_KFP_TOKEN", "s3cret")
    kfp.token, kfp.store.looks = "s3cret", 1000
    run_id = submitted(config)
    polls = iter(range(9))

    def pause(_s: float) -> None:
        if next(polls) == 2:
            kfp.token = "another"

    monkeypatch.setattr(pipeline_wait.time, "sleep", pause)
    err = stderr_of("kubeflow", "status", run_id, "--wait", code=2)
    assert err.splitlines()[-1].endswith(
        "it does not know you (HTTP 401); set SCOTOMA_KFP_TOKEN or SCOTOMA_KFP_COOKIE, or renew "
        f"it; the run continues: scotoma kubeflow status {run_id} --wait"
    )


def test_a_token_that_is_renewed_while_waiting_is_waited_for(
    kfp: KfpServer, config: Path, s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet writes a new one into its file."""
    token = tmp_path / "token"
    token.write_text("old")
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(token))
    kfp.token, place = "old", leave_verdict(s3, "run", 1)
    run_id = submitted(config, "--out", place)
    polls = iter(range(1000))

    def pause(_s: float) -> None:
        poll = next(polls)
        if poll == 0:
            kfp.token = "new"
        if poll == 4:
            token.write_text("new")

    monkeypatch.setattr(pipeline_wait.time, "sleep", pause)
    code, out, err = scotoma("kubeflow", "status", run_id, "--wait")
    assert (code, out) == (1, "# The verdict\n")
    assert err.count("it does not know you (HTTP 401)") == 1
    assert err.count("or renew it; waiting for it, up to 10 minutes\n") == 1
    assert err.count("Kubeflow answers again\n") == 1


@pytest.mark.parametrize("kind", [503, 502, 500, 429, 404, "truncated", "half", "page"])
def test_a_server_that_is_updated_while_waiting_is_waited_for(
    kfp: KfpServer, config: Path, s3: Any, monkeypatch: pytest.MonkeyPatch, kind: int | str
) -> None:
    run_id = submitted(config, "--out", leave_verdict(s3, "run", 1))
    polls = iter(range(1000))
    monkeypatch.setattr(
        pipeline_wait.time,
        "sleep",
        lambda _s: kfp.fail(kind, "GET .*runs/", times=40) if next(polls) == 0 else None,
    )
    code, out, err = scotoma("kubeflow", "status", run_id, "--wait")
    assert (code, out) == (1, "# The verdict\n")
    assert err.count("; waiting for it, up to 10 minutes\n") == 1
    assert err.count("Kubeflow answers again\n") == 1


def test_a_port_that_is_closed_for_a_while_is_waited_for(
    kfp: KfpServer, config: Path, s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = submitted(config, "--out", leave_verdict(s3, "run", 1))
    polls = iter(range(1000))

    def pause(_s: float) -> None:
        poll = next(polls)
        if poll == 0:
            kfp.close()
        if poll == 20:
            kfp.listen(kfp.port)

    monkeypatch.setattr(pipeline_wait.time, "sleep", pause)
    err = stderr_of("kubeflow", "status", run_id, "--wait", code=1)
    assert err.count("nothing listens there; correct the host and the port, or start it") == 1
    assert err.count("Kubeflow answers again\n") == 1


def test_users_with_namespaces_are_told_to_name_theirs(
    kfp: KfpServer, config: Path, tmp_path: Path
) -> None:
    kfp.store.multi_user = True
    words = "its users have namespaces (HTTP 400: {} cannot have an empty namespace in multi-user "
    for command, whose in {
        ("submit", config, "--out", "s3://b-1/run"): "An experiment",
        ("status",): "A run",
        ("unschedule", "monthly"): "A job",
    }.items():
        if command == ("status",):
            submitted(config, "--namespace", "team")
        code, out, err = scotoma("kubeflow", *command)
        assert (code, out) == (2, "")
        assert words.format(whose) in err.splitlines()[-1]
        assert err.endswith("name yours with --namespace or kubeflow.namespace\n")
    assert scotoma("kubeflow", "status", "--namespace", "team")[0] == 0


@pytest.mark.parametrize("version", ["2.16.1", "2.5.0"])
def test_a_server_that_is_too_old_is_refused_before_anything_is_changed(
    kfp: KfpServer, config: Path, tmp_path: Path, version: str
) -> None:
    kfp.version = version
    monthly = tmp_path / "monthly.yaml"
    monthly.write_text(MONTHLY)
    for command in (
        ("submit", config, "--out", "s3://b-1/run"),
        ("schedule", monthly, "--out", "s3://b-1/audits"),
        ("unschedule", "monthly"),
    ):
        code, _, err = scotoma("kubeflow", *command)
        assert (code, err.splitlines()[-1]) == (
            2,
            f"scotoma: Kubeflow Pipelines at {kfp.address} is {version}; audits need 2.17 or "
            "later, so upgrade it",
        )
    assert (kfp.store.runs, kfp.store.pipelines) == ({}, {})
    kfp.fail(404, "v1beta1")  # a later one may not have its old API
    assert submitted(config)
