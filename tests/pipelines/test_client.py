"""Asking Kubeflow: what is made, who asks, and every way to fail."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scotoma.config import Kubeflow, parse_config
from scotoma.errors import ConfigError, ScotomaError
from scotoma.pipelines import compile_pipeline, faults
from scotoma.pipelines.client import KfpClient
from scotoma.pipelines.progress import Progress
from tests.kfp_server.server import KfpServer

CONFIG = """\
version: 1
project: sent
source: {kind: digits-s, recipe: {steps: 20}}
label: {column: digit}
variants: [dense, {prune: [0.5]}]
population: {models: 12}
"""


@pytest.fixture(scope="module")
def definition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compiled") / "pipeline.yaml"
    compile_pipeline(parse_config(CONFIG, "x"), path, kubeflow=Kubeflow(shards=2))
    return path


def client(**settings: Any) -> KfpClient:
    return KfpClient(Kubeflow(**settings), None, None)


def sent(definition: Path, **settings: Any) -> Progress:
    return client(**settings).submit(definition, "s3://bucket/run", "sent", "audits")


# --- what is made ---------------------------------------------------------------------------------


def test_a_run_is_made_of_a_version_in_an_experiment(kfp: KfpServer, definition: Path) -> None:
    progress = sent(definition, namespace="team", service_account="runner")
    (experiment,), (run,) = kfp.store.experiments.values(), kfp.store.runs.values()
    (pipeline,) = kfp.store.pipelines.values()
    assert experiment["display_name"] == "audits"
    assert experiment["namespace"] == "team"
    assert pipeline["display_name"] == "scotoma-audit"
    assert run["experiment_id"] == experiment["experiment_id"]
    assert run["runtime_config"] == {"parameters": {"run_uri": "s3://bucket/run"}}
    assert run["service_account"] == "runner"
    assert progress.run_id == run["run_id"]
    assert (progress.state, progress.run_uri) == ("PENDING", "s3://bucket/run")


def test_what_is_there_is_not_made_again(kfp: KfpServer, definition: Path, tmp_path: Path) -> None:
    first, second = sent(definition), sent(definition)
    assert first.run_id != second.run_id
    assert len(kfp.store.experiments) == len(kfp.store.pipelines) == 1
    before = len(kfp.store.versions)
    changed = tmp_path / "pipeline.yaml"
    compile_pipeline(parse_config(CONFIG, "x"), changed, kubeflow=Kubeflow(scratch="30Gi"))
    sent(changed)
    assert len(kfp.store.versions) == before + 1
    assert len(kfp.store.pipelines) == 1


def test_a_run_is_looked_at_until_it_has_ended(kfp: KfpServer, definition: Path) -> None:
    run_id = sent(definition).run_id
    states = [client().progress(run_id).state for _ in range(3)]
    assert states == ["RUNNING", "RUNNING", "SUCCEEDED"]
    progress = client().progress(run_id)
    assert progress.ended
    assert {task.state for task in progress.tasks} == {"SUCCEEDED"}
    assert {task.seconds for task in progress.tasks} == {20.0}


def test_the_description_of_the_api_has_been_held_against_every_request(
    kfp: KfpServer, definition: Path
) -> None:
    """And it can fail: a key that KFP does not know is a violation."""
    sent(definition)
    assert kfp.contract.operations
    requests = [tuple(request.split()) for request in kfp.requests if "v2beta1" in request]
    assert len(requests) >= 7
    assert not [one for one in requests if kfp.contract.faults_of_request(*one, {}, {})
                and one[0] == "GET"]  # fmt: skip
    path = "/apis/v2beta1/runs"
    assert kfp.contract.faults_of_request("POST", path, {}, {"run_name": "x"})
    assert kfp.contract.faults_of_request("POST", path, {}, {"display_name": 1})
    assert kfp.contract.faults_of_request("GET", path, {"run": "x"}, None)
    assert kfp.contract.faults_of_request("GET", "/apis/v2beta1/run", {}, None)
    assert kfp.contract.faults_of_answer("POST", path, 200, {"state": "ENDED"})
    assert not kfp.contract.faults_of_answer(
        "GET", f"{path}/x", 200, {"run_details": {"pipeline_context_id": 7}}
    )


# --- who asks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["token", "cookie", "service account"])
def test_every_way_to_say_who_asks(
    kfp: KfpServer, definition: Path, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "cookie":
        kfp.cookie = "authservice_session=s3cret"
        monkeypatch.setenv("SCOTOMA_KFP_COOKIE", kfp.cookie)
    else:
        kfp.token = "s3cret"
    if way == "token":
        monkeypatch.setenv("SCOTOMA_KFP_TOKEN", "s3cret")
    if way == "service account":
        file = tmp_path / "token"
        file.write_text("s3cret")
        monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(file))
    cluster = client()
    run_id = cluster.submit(definition, "s3://bucket/run", "sent", "audits").run_id
    assert cluster.progress(run_id).run_id == run_id
    if way == "service account":
        kfp.token = "the kubelet's next one"
        file.write_text(kfp.token)
        assert cluster.progress(run_id).run_id == run_id


def test_who_does_not_say_is_told_how(kfp: KfpServer, definition: Path) -> None:
    kfp.token = "s3cret"
    with pytest.raises(ConfigError, match=r"the experiment: .* \(HTTP 401\); set SCOTOMA"):
        sent(definition)


def test_a_token_file_that_is_not_there_is_named(
    kfp: KfpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", "/nowhere/token")
    with pytest.raises(ConfigError, match="must name a file with a token, got /nowhere/token"):
        client()


@pytest.mark.parametrize(
    "address",
    ["", "kubeflow.example", "https://u:s3cret@kubeflow.example", "https://kubeflow.example/?ns=x"],
)
def test_an_address_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("KF_PIPELINES_ENDPOINT", address)
    with pytest.raises(ConfigError, match="the address of Kubeflow Pipelines must") as caught:
        client()
    assert "s3cret" not in str(caught.value)


# --- every way to fail ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        *(("POST .*runs", kind) for kind in (429, 500, 503, "lost", "truncated", "half", "silent")),
        *(("GET .*runs/", kind) for kind in (502, "truncated", "half")),
        *((path, kind) for path in ("POST .*experiments", "upload$") for kind in (503, "lost")),
    ],
)
def test_a_fault_that_passes_is_survived_and_nothing_is_made_twice(
    kfp: KfpServer,
    definition: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: int | str,
    path: str,
) -> None:
    if kind == "silent":
        kfp.silence_s = 1.0
        monkeypatch.setattr(faults, "TIMEOUTS_S", (2.0, 0.5))
    kfp.fail(kind, path)
    progress = sent(definition)
    assert kfp.faults[0].times == 0
    assert progress.run_uri == "s3://bucket/run"
    store = kfp.store
    assert [len(one) for one in (store.experiments, store.pipelines, store.runs)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        (302, ConfigError, "it does not know you (HTTP 302); set SCOTOMA_KFP_TOKEN"),
        (401, ConfigError, "it does not know you (HTTP 401); set SCOTOMA_KFP_TOKEN"),
        (403, ConfigError, "your credentials do not allow it (HTTP 403: made to fail with 403)"),
        (400, ConfigError, "it refuses the request (HTTP 400: made to fail with 400); correct"),
        (404, ConfigError, "what answers there is no Kubeflow Pipelines (HTTP 404); correct the"),
        (409, ConfigError, "it is in no state for that (HTTP 409: made to fail with 409); see"),
        (429, ScotomaError, "it is too busy (HTTP 429 in 5 attempts); repeat the command later"),
        (500, ScotomaError, "it answers HTTP 500 in 5 attempts; repeat the command later"),
        ("truncated", ScotomaError, "its answer broke off in 5 attempts; repeat the command"),
        ("half", ScotomaError, "its answer cannot be read (JSONDecodeError in 5 attempts); "),
        ("page", ConfigError, "what answers there is no Kubeflow Pipelines (a web page); correct"),
        ("silent", ScotomaError, "it does not answer in time; check the network, firewall and"),
    ],
)
def test_a_fault_that_stays_is_one_sentence(
    kfp: KfpServer,
    definition: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: int | str,
    error: type[ScotomaError],
    words: str,
) -> None:
    if kind == "silent":
        kfp.silence_s = 0.8
        monkeypatch.setattr(faults, "TIMEOUTS_S", (2.0, 0.3))
    kfp.fail(kind, "experiments", times=100)
    with pytest.raises(error, match=re.escape(words)) as caught:
        sent(definition)
    sentence = str(caught.value)
    assert sentence.startswith(f"Kubeflow at {kfp.address} cannot use the experiment: ")
    assert "\n" not in sentence
    assert kfp.store.runs == {}


def test_a_port_where_nobody_is_is_one_sentence(
    kfp: KfpServer, definition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kfp.close()
    with pytest.raises(ScotomaError, match=r"nothing listens there; correct the host"):
        sent(definition)


def test_an_experiment_that_another_made_meanwhile_is_used(
    kfp: KfpServer, definition: Path
) -> None:
    first = sent(definition).run_id
    listed: Callable[..., Any] = kfp.store.listed
    hidden = [True]

    def late(things: Any, query: Any, kind: str) -> Any:
        if kind == "experiments" and hidden and hidden.pop():
            return {}
        return listed(things, query, kind)

    kfp.store.listed = late  # type: ignore[method-assign]
    assert sent(definition).run_id != first
    assert len(kfp.store.experiments) == 1


def test_the_server_says_how_long_to_wait(
    kfp: KfpServer, definition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(faults.time, "sleep", pauses.append)
    kfp.fail(429, "POST .*experiments", Retry_After="7")
    kfp.fail(429, "POST .*runs", Retry_After="7000")
    kfp.fail(503, "GET .*runs/")
    sent(definition)
    assert pauses[:2] == [7.0, 30.0]
    assert 0 <= pauses[2] <= 30


@pytest.mark.parametrize("run_id", ["", "../healthz", "x", "a/b?c"])
def test_an_id_that_is_none_reaches_no_server(kfp: KfpServer, run_id: str) -> None:
    with pytest.raises(ConfigError, match="the id of a run is letters and digits such as"):
        client().progress(run_id)
    assert kfp.requests == []


# --- the stand-in keeps what it is given ----------------------------------------------------------


def test_the_stand_in_keeps_recurring_runs(kfp: KfpServer, definition: Path) -> None:
    """Through KFP's own SDK, which says what a schedule is."""
    import kfp_server_api as api

    sent(definition)
    (experiment,) = kfp.store.experiments
    (pipeline,), (version, *_) = kfp.store.pipelines, kfp.store.versions
    recurring = api.RecurringRunServiceApi(client().api)
    schedule = recurring.recurring_run_service_create_recurring_run(
        recurring_run=api.V2beta1RecurringRun(
            display_name="weekly",
            experiment_id=experiment,
            max_concurrency=1,
            no_catchup=True,
            mode="ENABLE",
            trigger=api.V2beta1Trigger(cron_schedule=api.V2beta1CronSchedule(cron="0 0 4 * * 1")),
            pipeline_version_reference=api.V2beta1PipelineVersionReference(
                pipeline_id=pipeline, pipeline_version_id=version
            ),
            runtime_config=api.V2beta1RuntimeConfig(parameters={"run_uri": "s3://b/r"}),
        )
    )
    key = schedule.recurring_run_id
    recurring.recurring_run_service_disable_recurring_run(key)
    assert recurring.recurring_run_service_get_recurring_run(key).status == "DISABLED"
    recurring.recurring_run_service_delete_recurring_run(key)
    assert kfp.store.recurring == {}


def test_the_stand_in_refuses_what_is_no_pipeline(kfp: KfpServer, tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(json.dumps({"root": {}, "tasks": []}))
    with pytest.raises(ConfigError, match=r"HTTP 400: this is no pipeline: .*tasks"):
        sent(path)
