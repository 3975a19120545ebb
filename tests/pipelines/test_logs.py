"""`scotoma kubeflow logs`: what steps printed, from the run's place, or how to ask."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import scotoma
from tests.kfp_server.server import KfpServer
from tests.pipelines.test_commands import CONFIG

ENDED = "2026-11-23T01:17:31Z {} ended after 3.0 s\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "audit.yaml"
    path.write_text(
        CONFIG + f"kubeflow: {{shards: 2, volume: {{claim: audits, mount: {tmp_path}}}}}\n"
    )
    return path


def submitted(config: Path, place: str) -> str:
    code, out, err = scotoma("kubeflow", "submit", config, "--out", place)
    assert code == 0, err
    return out.strip()


def leave(place: Path, name: str, text: str) -> None:
    path = place / "logs" / f"{name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_logs_are_of_the_last_try_of_each_step_that_has_not_ended(
    kfp: KfpServer, config: Path, tmp_path: Path
) -> None:
    place = tmp_path / "run"
    run_id = submitted(config, str(place))
    leave(place, "prepare.0.1", ENDED.format("prepare"))
    leave(place, "train.0.1", "the first try\nKilled\n")
    leave(place, "train.0.10", "the tenth try\nout of memory \x1b[31m\n")
    leave(place, "train.0.9", "the ninth try\n")
    leave(place, "train.1.1", ENDED.format("train"))
    leave(place, "pipeline", "of an audit on a laptop\n")
    code, out, _ = scotoma("kubeflow", "logs", run_id)
    assert (code, out) == (0, "train.0: the tenth try\ntrain.0: out of memory  [31m\n")
    out = scotoma("kubeflow", "logs", run_id, "--step", "prepare")[1]
    assert out == f"prepare.0: {ENDED.format('prepare')}"
    (entry,) = json.loads(scotoma("kubeflow", "logs", run_id, "--json")[1])
    assert (entry["step"], entry["shard"], entry["attempt"]) == ("train", 0, 10)


def test_logs_are_read_in_object_storage(kfp: KfpServer, config: Path, s3: Any) -> None:
    s3.put("run/logs/train.0.1.log", b"loss 0.5\n")
    run_id = submitted(config, s3.uri("run"))
    assert scotoma("kubeflow", "logs", run_id)[:2] == (0, "train.0: loss 0.5\n")


def test_for_a_step_that_never_started_the_command_is_printed_that_says_why(
    kfp: KfpServer, config: Path, tmp_path: Path
) -> None:
    place = tmp_path / "run"
    leave(place, "prepare.0.1", ENDED.format("prepare"))
    kfp.store.stuck, kfp.store.looks = "train-dense", 9
    run_id = submitted(config, str(place))
    scotoma("kubeflow", "status", run_id)
    kubectl = "kubectl describe pods {}-l pipeline/runid={},scotoma/step={}\n"
    code, out, err = scotoma("kubeflow", "logs", run_id)
    assert (code, out) == (0, kubectl.format("", run_id, "train"))
    assert err == "train has not printed anything; this command says why:\n"
    out = scotoma("kubeflow", "logs", run_id, "--step", "report", "--namespace", "team")[1]
    assert out == kubectl.format("-n team ", run_id, "report")
    (entry,) = json.loads(scotoma("kubeflow", "logs", run_id, "--json", "--quiet")[1])
    assert entry == {"step": "train", "command": kubectl.format("", run_id, "train").strip()}


def test_a_recorded_run_whose_secret_is_not_there_is_asked_about(kfp: KfpServer, s3: Any) -> None:
    run_id = kfp.store.serve("run-pod-cannot-start")
    s3.client.create_bucket(Bucket="audits")
    code, out, _ = scotoma("kubeflow", "logs", run_id)
    labels = f"pipeline/runid={run_id},scotoma/step=prepare"
    assert (code, out) == (0, f"kubectl describe pods -l {labels}\n")


def test_logs_that_cannot_be_shown_are_one_sentence(
    kfp: KfpServer, config: Path, tmp_path: Path
) -> None:
    place = tmp_path / "run"
    run_id = submitted(config, str(place))
    code, _, err = scotoma("kubeflow", "logs", run_id)
    assert code == 2
    assert f"the logs are in {place}/logs, on a volume that this machine does not have" in err
    leave(place, "prepare.0.1", ENDED.format("prepare"))
    for _ in range(4):
        scotoma("kubeflow", "status", run_id)
    code, _, err = scotoma("kubeflow", "logs", run_id)
    assert code == 2
    assert "no step has failed; name one with --step: prepare" in err
    code, _, err = scotoma("kubeflow", "logs", run_id, "--step", "trian")
    assert code == 2
    assert "did you mean 'train'?" in err
