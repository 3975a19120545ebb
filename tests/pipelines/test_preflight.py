"""`submit --preflight`: what a pod of each image finds, and what keeps an audit from being sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from scotoma._version import __version__
from scotoma.config import Config, parse_config
from scotoma.errors import ConfigError
from scotoma.pipelines.preflight import compile_preflight, parts_of
from scotoma.run import code_digest, shareable
from scotoma.steps.kubeflow.preflight import preflight, record_of
from tests.helpers.commands import scotoma
from tests.kfp_server.server import KfpServer
from tests.pipelines.test_client import definition
from tests.pipelines.test_commands import CONFIG
from tests.pipelines.test_pending import kubernetes, pod, waiting
from tests.pipelines.test_runs import compiled

__all__ = ["compiled", "definition", "kubernetes"]

KUBEFLOW = """\
kubeflow:
  images: {full: "registry.example/full:1", core: "registry.example/core:1"}
  training: {gpu: {count: 1}, node_selector: {pool: gpu}}
  secrets: {audit-storage: [AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY]}
"""
MISSING = "these variables are empty: AUDIT_KEY of the secret audit-storage; correct the secrets"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "audit.yaml"
    path.write_text(CONFIG + KUBEFLOW)
    return path


def audited(text: str = KUBEFLOW) -> Config:
    return parse_config(CONFIG + text, "x")


def test_each_image_is_tried_on_the_nodes_of_its_steps(tmp_path: Path) -> None:
    config = audited()
    assert config.kubeflow is not None
    assert parts_of(config, config.kubeflow) == ["training", "full", "core"]
    compile_preflight(config, path := tmp_path / "p.yaml", config.kubeflow)
    ir, platform = yaml.safe_load_all(path.read_text())
    executors = ir["deploymentSpec"]["executors"]
    settings = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    images = {name: one["container"]["image"].rpartition("/")[2] for name, one in executors.items()}
    assert images == {
        "exec-preflight-training": "full:1", "exec-preflight-full": "full:1",
        "exec-preflight-core": "core:1",
    }  # fmt: skip
    for name, one in settings.items():
        labels = {"scotoma/step": name.removeprefix("exec-")}
        assert one["podMetadata"]["labels"] == labels
        assert one["secretAsEnv"]
        assert ("nodeSelector" in one) == (name == "exec-preflight-training")
    gpu = executors["exec-preflight-training"]["container"]["resources"]["accelerator"]
    assert gpu["resourceCount"] == "1"
    one_place = audited("kubeflow: {}\n")
    assert one_place.kubeflow is not None
    assert parts_of(one_place, one_place.kubeflow) == ["full", "core"]


def test_a_pod_says_all_that_would_fail(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCOTOMA_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    place = s3.uri("run")
    text = shareable(audited(KUBEFLOW.replace("AWS_ACCESS_KEY_ID", "AUDIT_KEY")))
    with pytest.raises(ConfigError, match="these variables are empty") as caught:
        preflight(place, "full", text, "job", code_digest())
    assert str(caught.value).startswith(f"{MISSING}; tracking server http://127.0.0.1:9 does not")
    record = json.loads(s3.client.get_object(Bucket=s3.bucket, Key="run/logs/preflight-full.json")
                        ["Body"].read())  # fmt: skip
    assert (record["job"], len(record["faults"])) == ("job", 2)
    with pytest.raises(ConfigError, match="torch sees 0 of 1; the node's driver"):
        preflight(place, "training", shareable(audited()), "", code_digest())
    with pytest.raises(ConfigError, match=r"nowhere-1"):
        preflight("s3://nowhere-1/run", "core", shareable(audited()), "job", code_digest())


def test_an_image_with_other_code_is_found(s3: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        preflight(s3.uri("run"), "core", shareable(audited()), "job", "0123456789abcdef")
    assert str(caught.value) == (
        f"the image holds other code of Scotoma ({__version__}, {code_digest()[:8]}) than this "
        "machine (01234567); build and push the images anew, or install their version here"
    )
    assert "run/logs/preflight-core.json" in s3.names()


def test_a_pod_that_finds_all_is_content_and_leaves_a_run_able_to_begin(s3: Any) -> None:
    from scotoma.run import Run

    config = audited()
    preflight(s3.uri("run"), "core", shareable(config), "job", code_digest())
    assert s3.names() == ["run/logs/preflight-core.json"]
    assert Run.create(s3.uri("run"), config).uri == s3.uri("run")


def test_an_audit_is_sent_after_its_preflight(kfp: KfpServer, config: Path, s3: Any) -> None:
    words = ("kubeflow", "submit", config, "--out", s3.uri("run"), "--preflight")
    code, out, err = scotoma(*words)
    assert code == 0, err
    first, second = kfp.store.runs.values()
    assert first["display_name"].startswith("sent preflight ")
    assert out == f"{second['run_id']}\n"
    assert err.splitlines()[0] == (
        "preflight  images, secrets, storage, MLflow and GPU are as needed"
    )


def test_what_the_preflight_finds_keeps_the_audit_here(
    kfp: KfpServer, config: Path, s3: Any
) -> None:
    kfp.store.outcome, kfp.store.failing = "FAILED", "preflight-full"
    s3.put("run/logs/preflight-full.json", json.dumps({"job": "an older one", "faults": ["x"]}))
    start = kfp.store.start

    def started(body: dict[str, Any], **more: Any) -> dict[str, Any]:
        run = start(body, **more)
        if kfp.store.outcome == "FAILED" and leave:
            record = {"job": run["run_id"], "faults": [MISSING, "MLflow is not there"]}
            s3.put("run/logs/preflight-full.json", json.dumps(record).encode())
        return run

    kfp.store.start = started  # type: ignore[method-assign]
    words = ("kubeflow", "submit", config, "--out", s3.uri("run"), "--preflight")
    for leave, count, line in (
        (True, 2, f"preflight  full: {MISSING}"),
        (False, 1, "preflight  full: its pod failed and left no record: its image is not "),
    ):
        if not leave:
            s3.put("run/logs/preflight-full.json", json.dumps({"job": "x", "faults": []}).encode())
        code, out, err = scotoma(*words, "--namespace", "team")
        assert (code, out) == (2, ""), err
        assert err.splitlines()[0].startswith(line)
        assert ("see kubectl logs --tail=-1 -n team -l pipeline/runid=" in err) != leave
        assert f"scotoma: the preflight found {count} fault" in err
        assert err.endswith(f"correct {'them' if count > 1 else 'it'} and repeat the command\n")
    assert {run["display_name"][:14] for run in kfp.store.runs.values()} == {"sent preflight"}


def test_a_pod_that_does_not_start_ends_the_preflight(
    kfp: KfpServer, config: Path, s3: Any
) -> None:
    kfp.store.stuck, kfp.store.elapsed_s = "preflight-training", 300.0
    code, out, err = scotoma("kubeflow", "submit", config, "--out", s3.uri("run"), "--preflight")
    assert (code, out) == (2, "")
    assert "preflight  preflight-training has not started for " in err
    assert err.splitlines()[-1] == (
        "scotoma: a pod of the preflight does not start, so no audit was sent; remove the cause "
        "and repeat the command"
    )
    (run,) = kfp.store.runs.values()
    assert run["state"] == "CANCELING"
    assert record_of("s3://b/r", "core").startswith("s3://b/r/logs/")


def test_a_secret_without_its_key_is_named_as_kubernetes_names_it(
    kfp: KfpServer, config: Path, s3: Any, kubernetes: Any
) -> None:
    reason = "couldn't find key AWS_SECRET_ACCESS_KEY in Secret team/audit-storage"
    kubernetes(pod("preflight-training", **waiting("CreateContainerConfigError", reason)))
    kfp.store.stuck, kfp.store.elapsed_s = "preflight-training", 300.0
    code, out, err = scotoma("kubeflow", "submit", config, "--out", s3.uri("run"), "--preflight")
    assert (code, out) == (2, "")
    assert err.splitlines()[0].endswith(f": CreateContainerConfigError: {reason}")


@pytest.mark.parametrize(
    ("situation", "sentence"),
    [
        ("expired token", "it does not know you (HTTP 401); set SCOTOMA_KFP_TOKEN or "
         "SCOTOMA_KFP_COOKIE, or renew it"),
        ("no rights", "your credentials do not allow it (HTTP 403: made to fail with 403); ask for "
         "the right in this namespace, or name another with --namespace"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("words", [["submit"], ["submit", "--preflight"], ["schedule"]])
def test_who_may_not_send_an_audit_is_told_so_in_one_sentence(
    kfp: KfpServer, config: Path, words: list[str], situation: str, sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    config.write_text(config.read_text() + 'retraining: {cron: "0 30 2 1 * *"}\n')
    monkeypatch.setenv("SCOTOMA_KFP_TOKEN", "of yesterday")
    if situation == "expired token":
        kfp.token = "of today"
    else:
        kfp.fail(403, times=99)
    command, *options = words
    code, out, err = scotoma("kubeflow", command, config, "--out", "s3://b-1/run", *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.rstrip().endswith(sentence)
    assert kfp.store.runs == kfp.store.recurring == {}
