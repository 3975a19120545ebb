"""The audit's own pipeline: its rules, its shards, its images, the compiled whole."""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from scotoma import components
from scotoma.components.image import CORE_IMAGE, IMAGE
from scotoma.config import Robustness, default_config, parse_config
from scotoma.errors import ConfigError
from scotoma.pipelines import build_pipeline, build_scheduled, compile_pipeline
from scotoma.pipelines.placing import CORE, PATIENCE
from scotoma.processes.machine import GPUS_VARIABLE
from scotoma.run.shards import Shard
from tests.pipelines.ir import IR, RULES, compiled, documents, loop, task_of, tasks

GOLDEN = Path(__file__).parent / "golden"
CLUSTER = """\
version: 1
project: golden
source: {kind: digits-s, recipe: {steps: 60}}
label: {column: digit}
variants: [dense, {prune: [0.5]}, {int8: [static]}]
population: {models: 12}
kubeflow:
  images: {full: registry/scotoma:1, core: registry/scotoma-core:1, pull_secrets: [registry]}
  service_account: runner
  shards: 3
  parallelism: 2
  training:
    gpu: {type: nvidia.com/gpu}
    cpu: "4"
    memory: 16Gi
    node_selector: {nvidia.com/gpu.product: NVIDIA-L4}
    tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
  others: {memory: 8Gi, node_selector: {pool: cheap}}
  volume: {claim: audits, mount: /audits}
  environment: {AWS_ENDPOINT_URL: "http://minio:9000"}
  secrets: {storage: [AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY]}
  limits: {retries: 2, pause_s: 20, task_hours: 6, run_hours: 48}
"""


@cache
def _audit(shard_count: int) -> IR:
    return compiled(build_pipeline(default_config(), shard_count=shard_count))


def audit(shard_count: int = 3) -> IR:
    return copy.deepcopy(_audit(shard_count))


@cache
def _cluster(text: str) -> list[IR]:
    config = parse_config(text, "cluster.yaml")
    return documents(build_pipeline(config, kubeflow=config.kubeflow))


def cluster(text: str = CLUSTER) -> tuple[IR, dict[str, IR]]:
    """The compiled pipeline of a cluster, and what Kubernetes is to do for each executor."""
    ir, platform = copy.deepcopy(_cluster(text))
    executors: dict[str, IR] = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    return ir, executors


def steps(ir: IR) -> dict[str, IR]:
    """Name of every step to its task, whatever it stands in."""
    found = {where.rpartition("/")[2]: task for where, _, task in tasks(ir)}
    return {name: task for name, task in found.items() if f"exec-{name}" in executors(ir)}


def executors(ir: IR) -> dict[str, IR]:
    found: dict[str, IR] = ir["deploymentSpec"]["executors"]
    return found


@cache
def _scheduled() -> IR:
    return compiled(build_scheduled(default_config(), "s3://b/audits", shard_count=3))


def scheduled() -> IR:
    return copy.deepcopy(_scheduled())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize(
    "made",
    [lambda: audit(1), audit, lambda: cluster()[0], scheduled],
    ids=["one", "three", "cluster", "scheduled"],
)
def test_the_pipeline_keeps_every_rule(
    made: Callable[[], IR], rule: Callable[[IR], list[str]]
) -> None:
    assert rule(made()) == []


# `shards` divides them (tests/steps/test_steps.py); here, that the loop has what it says.
@pytest.mark.parametrize(("models", "shard_count"), [(1, 2), (12, 2), (31, 40)])
def test_shards_take_every_member_once_and_divide_no_stack(models: int, shard_count: int) -> None:
    text = CLUSTER.replace("models: 12", f"models: {models}")
    config = parse_config(text.replace("shards: 3", f"shards: {shard_count}"), "cluster.yaml")
    built = compiled(build_pipeline(config, kubeflow=config.kubeflow))
    items = json.loads(loop(built)[0]["parameterIterator"]["items"]["raw"])
    pieces = [Shard.parse(item).members for item in items]
    assert [member for piece in pieces for member in piece] == list(range(models))
    size = 5 if models < 30 else 15
    assert [piece.start % size for piece in pieces] == [0] * len(pieces)
    assert len(pieces) == min(shard_count, -(-models // size))


def test_number_of_shards_changes_nothing_but_the_items() -> None:
    one, three = audit(1), audit(3)
    loop(one)[0]["parameterIterator"]["items"]["raw"] = ""
    loop(three)[0]["parameterIterator"]["items"]["raw"] = ""
    for built in (one, three):  # which counts their records
        del task_of(built, "record-failure")["inputs"]["parameters"]["shards"]
    assert one == three


TRAINED = {"examples": "prepare-data", "dense": "train-dense"}
PRUNED, QUANTIZED = {"pruned": "prune-magnitude"}, {"quantized": "quantize-int8"}
PREDICTIONS = """\
version: 1
project: elsewhere
source: {kind: predictions, files: "s3://b/*.csv", examples: "s3://b/examples.csv"}
label: {column: label}
variants: [dense, {predictions: [int8]}]
population: {models: 3}
kubeflow: {shards: 3}
"""
MODELS = """\
version: 1
project: elsewhere
source: {kind: onnx, models: "s3://b/models", images: "s3://b/images", attributes: "s3://b/t.csv",
         split: {column: part, train: a, test: b}}
label: {column: smiling}
variants: [dense, {onnx: [int8]}]
population: {models: 3}
kubeflow: {shards: 3}
"""
SHAPES = {
    "prune": ("dense, {prune: [0.5]}", TRAINED | PRUNED),
    "int8": ("dense, {int8: [static]}", TRAINED | QUANTIZED),
    "prune, int8": ("dense, {prune: [0.5]}, {int8: [static]}", TRAINED | PRUNED | QUANTIZED),
}


def shape(variants: str) -> str:
    return re.sub("variants: .*", f"variants: [{variants}]", CLUSTER)


@pytest.mark.parametrize(("variants", "made_by"), SHAPES.values(), ids=SHAPES)
def test_predict_is_handed_what_the_steps_that_run_leave(
    variants: str, made_by: dict[str, str]
) -> None:
    inside = loop(cluster(shape(variants))[0])[1]["dag"]["tasks"]
    assert inside.keys() == {*made_by.values(), "predict-batch"} - {"prepare-data"}
    artifacts = inside["predict-batch"]["inputs"]["artifacts"]
    assert artifacts.keys() == made_by.keys()
    for name, producer in made_by.items():
        given = artifacts[name].get("taskOutputArtifact", {"producerTask": "prepare-data"})
        assert given["producerTask"] == producer


@pytest.mark.parametrize(
    "text",
    [*(shape(variants) for variants, _ in SHAPES.values()), PREDICTIONS, MODELS],
    ids=[*SHAPES, "predictions", "models"],
)
def test_every_shape_of_an_audit_keeps_every_rule(text: str) -> None:
    ir, _ = cluster(text)
    config = parse_config(text, "cluster.yaml")
    again = compiled(build_scheduled(config, "s3://b/audits", kubeflow=config.kubeflow))
    assert [fault for built in (ir, again) for rule in RULES for fault in rule(built)] == []


def test_a_predictions_audit_has_only_the_steps_with_work() -> None:
    assert sorted(steps(cluster(PREDICTIONS)[0])) == [
        "decide-verdict", "find-slices", "log-tracking", "prepare-data", "record-failure",
        "report-bias", "score-divergence", "write-report",
    ]  # fmt: skip


def test_an_audit_of_external_models_imports_them_and_trains_nothing() -> None:
    ir, _ = cluster(
        MODELS.replace("shards: 3", "training: {gpu: {type: nvidia.com/gpu, count: 1}}")
    )
    inside = loop(ir)[1]["dag"]["tasks"]
    assert inside.keys() == {"import-models", "predict-batch"}
    artifacts = inside["predict-batch"]["inputs"]["artifacts"]
    assert artifacts["models"]["taskOutputArtifact"]["producerTask"] == "import-models"
    assert artifacts.keys() == {"examples", "models"}
    with_gpu = {
        name for name, spec in executors(ir).items()
        if "accelerator" in spec["container"].get("resources", {})
    }  # fmt: skip
    assert with_gpu == set()  # ONNX Runtime runs them on processors


def test_the_pipeline_asks_for_the_folder_of_the_run_alone() -> None:
    wanted = {"parameters": {"run_uri": {"parameterType": "STRING"}}}
    assert audit()["root"]["inputDefinitions"] == wanted
    assert cluster()[0]["root"]["inputDefinitions"] == wanted


def test_a_schedule_holds_the_place_of_its_audits_for_when_kubeflow_loses_it() -> None:
    (root,) = scheduled()["root"]["inputDefinitions"]["parameters"].values()
    assert root == {
        "parameterType": "STRING", "defaultValue": "s3://b/audits", "isOptional": True,
    }  # fmt: skip


def test_every_component_is_a_step_of_the_pipeline() -> None:
    corrupted = default_config().model_copy(update={"robustness": Robustness(profile="scaled")})
    made = (audit(), scheduled(), compiled(build_pipeline(corrupted)), cluster(MODELS)[0])
    found = {name.replace("-", "_") for one in made for name in steps(one)}
    assert found | {"paired_verdict"} == set(components.__all__)  # it is for other pipelines


def test_the_verdict_waits_for_robustness_where_it_is_configured() -> None:
    corrupted = default_config().model_copy(update={"robustness": Robustness(profile="scaled")})
    tasks = steps(compiled(build_pipeline(corrupted)))
    assert set(tasks["measure-robustness"]["dependentTasks"]) == {"gather-shards", "prepare-data"}
    assert "measure-robustness" in tasks["decide-verdict"]["dependentTasks"]
    assert "measure-robustness" not in steps(audit())["decide-verdict"]["dependentTasks"]


def test_compiling_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        compile_pipeline(default_config(), tmp_path / name)
    assert (tmp_path / "a.yaml").read_bytes() == (tmp_path / "b.yaml").read_bytes()
    assert yaml.safe_load((tmp_path / "a.yaml").read_text()) == audit(1)


def test_no_task_is_cached_by_kubeflow() -> None:
    """KFP's key sees neither the library's code nor the run's folder; steps skip by themselves."""
    for ir in (audit(), cluster()[0]):
        cached = [task.get("cachingOptions", {}).get("enableCache") for task in steps(ir).values()]
        assert len(cached) == 13
        assert not any(cached)


def test_steps_that_measure_have_the_small_image() -> None:
    found = {name: spec["container"]["image"] for name, spec in executors(audit()).items()}
    wanted = {f"exec-{name}": CORE_IMAGE if name in CORE else IMAGE for name in steps(audit())}
    assert found == wanted
    assert CORE_IMAGE != IMAGE


def test_a_failure_is_recorded_whatever_ended_the_steps() -> None:
    task = task_of(audit(), "record-failure")
    assert task["triggerPolicy"] == {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}
    assert task["inputs"]["parameters"]["ended"] == {
        "taskFinalStatus": {"producerTask": "exit-handler-1"}
    }


# --- on Kubeflow ---------------------------------------------------------------------------------


def without_settings(ir: IR) -> IR:
    """A pipeline without what only its place decides."""
    ir = copy.deepcopy(ir)
    for spec in executors(ir).values():
        for key in ("image", "env", "resources"):
            spec["container"].pop(key, None)
    for _, _, task in tasks(ir):
        task.pop("retryPolicy", None)
        task.pop("iteratorPolicy", None)
        for name in ("config", "rules"):
            task.get("inputs", {}).get("parameters", {}).pop(name, None)
    return ir


def test_the_dag_is_the_same_on_this_machine_and_on_a_cluster() -> None:
    config = parse_config(CLUSTER, "cluster.yaml")
    here = compiled(build_pipeline(config, shard_count=3))
    there = cluster()[0]
    assert here != there
    assert without_settings(here) == without_settings(there)


def asked_gpus(ir: IR, name: str) -> list[str]:
    """What tells a step's container that it asked for GPUs."""
    variables = executors(ir)[f"exec-{name}"]["container"]["env"]
    return [one["value"] for one in variables if one["name"] == GPUS_VARIABLE]


def test_only_training_and_prediction_take_a_gpu() -> None:
    ir, platform = cluster()
    training = {"train-dense", "prune-magnitude", "predict-batch"}
    for name in steps(ir):
        resources = executors(ir)[f"exec-{name}"]["container"]["resources"]
        settings = platform[f"exec-{name}"]
        if name in training:
            assert resources["accelerator"]["resourceType"] == "nvidia.com/gpu"
            assert resources["accelerator"]["resourceCount"] == "1"
            assert asked_gpus(ir, name) == ["1"]
            assert resources["resourceMemoryLimit"] == "16Gi"
            assert settings["nodeSelector"]["labels"] == {"nvidia.com/gpu.product": "NVIDIA-L4"}
            assert [one["key"] for one in settings["tolerations"]] == ["nvidia.com/gpu"]
        else:
            assert "accelerator" not in resources
            assert asked_gpus(ir, name) == []
            assert resources["resourceMemoryLimit"] == "8Gi"
            assert settings["nodeSelector"]["labels"] == {"pool": "cheap"}
            assert "tolerations" not in settings


def test_every_step_has_its_retries_its_limit_and_a_place_to_write() -> None:
    ir, platform = cluster()
    for name, task in steps(ir).items():
        settings = platform[f"exec-{name}"]
        if name == "record-failure":  # which runs after a cancellation
            assert "retryPolicy" not in task
            assert settings["activeDeadlineSeconds"] == str(30 * 60)
        else:
            assert task["retryPolicy"] == {
                "maxRetryCount": 2,
                "backoffDuration": "20s",
                "backoffFactor": 2.0,
                "backoffMaxDuration": f"{3 * 6 * 3600 + 20 + 40}s",  # counted from the first try
            }
            assert settings["activeDeadlineSeconds"] == str(6 * 3600)
        assert settings["emptyDirMounts"][0]["mountPath"] == "/scratch"
        assert settings["pvcMount"][0]["mountPath"] == "/audits"
        assert settings["imagePullSecret"][0]["secretName"] == "registry"
        env = {
            one["name"]: one["value"] for one in executors(ir)[f"exec-{name}"]["container"]["env"]
        }
        env.pop(GPUS_VARIABLE, None)
        assert env == {
            "TMPDIR": "/scratch",
            "SCOTOMA_CACHE": "/scratch/scotoma",
            **PATIENCE,
            "AWS_ENDPOINT_URL": "http://minio:9000",
        }
        variables = {one["envVar"] for one in settings["secretAsEnv"][0]["keyToEnv"]}
        assert variables == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}


def test_the_whole_run_has_its_limits() -> None:
    _, platform = copy.deepcopy(_cluster(CLUSTER))
    found = json.dumps(platform["platforms"]["kubernetes"]["pipelineConfig"])
    assert str(48 * 3600) in found
    assert "ttl" not in found.lower()  # a stock Kubeflow decides it, and has pods deleted soon


def test_shards_wait_for_each_other_where_they_are_limited() -> None:
    task, _ = loop(cluster()[0])
    assert task["iteratorPolicy"] == {"parallelismLimit": 2}
    assert len(json.loads(task["parameterIterator"]["items"]["raw"])) == 3


def test_the_first_step_begins_the_run_with_the_configuration() -> None:
    given = steps(cluster()[0])["prepare-data"]["inputs"]["parameters"]["config"]
    text = given["runtimeValue"]["constant"]
    assert parse_config(text, "pipeline") == parse_config(CLUSTER, "cluster.yaml")
    assert "config" not in steps(audit())["prepare-data"]["inputs"]["parameters"]


# --- as it was ------------------------------------------------------------------------------------


def shown(found: list[IR]) -> str:
    """A compiled pipeline without what KFP's and our own releases change in it."""
    for document in found:
        document.pop("sdkVersion", None)
        for spec in document.get("deploymentSpec", {}).get("executors", {}).values():
            del spec["container"]["args"], spec["container"]["command"]
            image = spec["container"]["image"]
            spec["container"]["image"] = re.sub(r"(scotoma(-core)?):[^1].*", r"\1:VERSION", image)
    return yaml.safe_dump_all(found, sort_keys=True)


@pytest.mark.parametrize("name", ["laptop", "cluster"])
def test_the_compiled_pipeline_is_the_one_on_file(name: str) -> None:
    """After a wanted change: SCOTOMA_GOLDEN=1 pytest tests/pipelines writes them anew."""
    config = parse_config(CLUSTER, "cluster.yaml")
    kubeflow: Any = config.kubeflow if name == "cluster" else None
    text = shown(documents(build_pipeline(config, kubeflow=kubeflow)))
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("SCOTOMA_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("key", "more"),
    [
        ("environment: {", "environment: {MLFLOW_TRACKING_AUTH: kubernetes-namespaced, "),
        ("secrets: {", "secrets: {mlflow: [MLFLOW_TRACKING_TOKEN], "),
    ],
)
def test_steps_that_prove_who_they_are_are_told_the_tracking_server(key: str, more: str) -> None:
    """They send a password, or the token of their account, only to the host that is named so."""
    tracked = "tracking: {uri: 'http://mlflow:5000'}\nkubeflow:"
    text = CLUSTER.replace("kubeflow:", tracked, 1)
    for changed, told in ((text, False), (text.replace(key, more), True)):
        ir, _ = cluster(changed)
        variables = executors(ir)["exec-log-tracking"]["container"]["env"]
        named = {one["name"]: one["value"] for one in variables}.get("MLFLOW_TRACKING_URI")
        assert named == ("http://mlflow:5000" if told else None)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("digits-s, recipe: {steps: 60}", "cifar10, data: /home/me/cifar"),
         "source.data is on this machine (/home/me/cifar), which the steps on Kubeflow cannot"),
        (("population:",
          "robustness: {profile: scaled, sets: [{name: a, folder: /home/me/a}]}\npopulation:"),
         "robustness.sets a is on this machine (/home/me/a), which the steps on Kubeflow cannot"),
        (("source: {kind: digits-s, recipe: {steps: 60}}",
          "source: {kind: cifar10, data: /audits/cifar, model: 'nets:make'}"),
         "source.model 'nets:make' is code of your own, which the container images do not hold"),
        (("population:", "tracking: {uri: 'http://u:s3cret@mlflow:5000'}\npopulation:"),
         "tracking.uri http://***@mlflow:5000 holds credentials"),
    ],
)  # fmt: skip
def test_what_a_cluster_cannot_have_is_refused_when_the_pipeline_is_built(
    change: tuple[str, str], sentence: str
) -> None:
    config = parse_config(CLUSTER.replace(*change), "cluster.yaml")
    with pytest.raises(ConfigError, match=re.escape(sentence)) as caught:
        build_pipeline(config, kubeflow=config.kubeflow)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (('cpu: "4"', "cpu: four"), "kubeflow.training.cpu must be cores, such as 4 or 500m"),
        (("memory: 16Gi", "memory: 16 GB"), "kubeflow.training.memory must be a size such as 16Gi"),
        (("operator: Exists", "operator: Exists, value: 'true'"), "with operator Exists has no"),
        (
            ('AWS_ENDPOINT_URL: "http://minio:9000"', "MY_TOKEN: abc"),
            "environment.MY_TOKEN looks secret, and every",
        ),
        (
            ("http://minio:9000", "http://u:p@minio:9000"),
            "environment.AWS_ENDPOINT_URL looks secret, a",
        ),
        (("shards: 3", "shards: 0"), "kubeflow.shards must be at least 1"),
        (("claim: audits", "claim: My_Audits"), "kubeflow.volume.claim must be a name as Kub"),
        (("retries: 2", "retrys: 2"), "did you mean 'retries'?"),
    ],
)
def test_what_kubernetes_would_refuse_is_refused_with_its_line(
    change: tuple[str, str], sentence: str
) -> None:
    text = CLUSTER.replace(*change)
    assert text != CLUSTER
    with pytest.raises(ConfigError, match=re.escape(sentence)) as caught:
        parse_config(text, "cluster.yaml")
    assert re.match(r"cluster\.yaml:\d+ ", str(caught.value))


def test_where_it_runs_does_not_change_what_is_audited() -> None:
    alone = CLUSTER.partition("kubeflow:")[0]
    here, there = (parse_config(text, "x").digest() for text in (alone, CLUSTER))
    assert here == there
