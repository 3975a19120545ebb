"""What else reads the variables of a step's container: Kubeflow's launcher and Argo, before it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from scotoma.config import parse_config
from scotoma.config.pod_environment import EXACT, RESERVED, VALUES
from scotoma.errors import ConfigError
from scotoma.pipelines import build_pipeline, build_scheduled
from scotoma.pipelines.preflight import compile_preflight
from tests.commands import scotoma
from tests.kfp_server.store import RECORDED
from tests.pipelines.ir import documents
from tests.pipelines.test_audit import CLUSTER, MODELS, PREDICTIONS, executors

ENVIRONMENT = (RECORDED / "launcher-environment.md").read_text(encoding="utf-8").split("##")[0]
# The variables that the launcher and Argo read; ARGO_ stands for all that begin with it.
READ = set(re.findall(r"\b(?!UID|PATH|HOST)[A-Z][A-Z0-9]*_[A-Z0-9_]*", ENVIRONMENT))
BARE = CLUSTER.replace('  environment: {AWS_ENDPOINT_URL: "http://minio:9000"}\n', "")


def refuses(value: str, name: str = "AWS_RETRY_MODE") -> str:
    """The sentence for a variable of a cluster; empty if it is taken."""
    text = BARE.replace("  secrets:", f"  environment: {{{name}: {value!r}}}\n  secrets:")
    try:
        parse_config(text, "cluster.yaml")
    except ConfigError as error:
        return str(error)
    return ""


def compiled_documents(kind: str, path: Path) -> Any:
    import yaml

    text = {"predictions": PREDICTIONS, "models": MODELS}.get(kind, BARE)
    text = text.replace("kubeflow:", "tracking: {uri: 'http://mlflow:5000'}\nkubeflow:")
    config = parse_config(text, "cluster.yaml")
    kubeflow: Any = config.kubeflow
    if kind == "preflight":
        compile_preflight(config, path, kubeflow)
        return next(yaml.safe_load_all(path.read_text()))
    if kind == "scheduled":
        return documents(build_scheduled(config, "s3://b/audits", kubeflow=kubeflow))[0]
    return documents(build_pipeline(config, kubeflow=kubeflow))[0]


@pytest.mark.parametrize("kind", ["audit", "scheduled", "predictions", "models", "preflight"])
def test_no_step_is_given_a_variable_that_the_launcher_reads(kind: str, tmp_path: Path) -> None:
    assert {"AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS", "KFP_POD_NAME", "ARGO_"} <= READ
    ir = compiled_documents(kind, tmp_path / "pipeline.yaml")
    names = {
        one["name"] for spec in executors(ir).values() for one in spec["container"].get("env", ())
    }
    assert {"TMPDIR", "SCOTOMA_CACHE", "SCOTOMA_STORAGE_ATTEMPTS"} <= names
    assert {name for name in names if name in READ or name.startswith(("AWS_", "ARGO_"))} == set()


def test_the_names_on_file_are_those_that_were_published(shared: Path) -> None:
    published = shared / "published" / "kfp" / "launcher-environment.md"
    assert (RECORDED / published.name).read_bytes() == published.read_bytes()


def test_what_is_checked_is_what_the_launcher_reads() -> None:
    assert VALUES.keys() <= READ
    kubeflow_own = {name for name in READ if not name.startswith("AWS_")} - {"SSL_CERT_FILE"}
    assert {name for name in kubeflow_own if not re.fullmatch(RESERVED, name)} == set()


@pytest.mark.parametrize("value", ["legacy", "Standard", "none"])
def test_a_value_that_the_launcher_refuses_is_refused_by_check(value: str, tmp_path: Path) -> None:
    config = tmp_path / "cluster.yaml"
    config.write_text(
        BARE.replace("  secrets:", f"  environment: {{AWS_RETRY_MODE: {value}}}\n  secrets:")
    )
    code, _, err = scotoma("check", config)
    assert code == 2
    assert " ".join(err.split()).endswith(
        f"kubeflow.environment.AWS_RETRY_MODE must be standard or adaptive, got '{value}'; "
        "Kubeflow's launcher ends the step at any other value"
    )


@pytest.mark.parametrize(
    ("name", "taken", "refused"),
    [
        ("AWS_RETRY_MODE", "adaptive", "ADAPTIVE"),
        ("AWS_MAX_ATTEMPTS", "12", "many"),
        ("AWS_MAX_ATTEMPTS", "1", "0"),
        ("AWS_USE_FIPS_ENDPOINT", "True", "yes"),
        ("AWS_S3_USE_ARN_REGION", "false", "0"),
        ("AWS_REQUEST_CHECKSUM_CALCULATION", "WHEN_REQUIRED", "never"),
        ("AWS_DEFAULTS_MODE", "In-Region", "fast"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "ipv6", "6"),
        ("AWS_ENABLE_ENDPOINT_DISCOVERY", "auto", "on"),
        ("AWS_ACCOUNT_ID_ENDPOINT_MODE", "preferred", "Preferred"),
        ("AWS_REQUEST_MIN_COMPRESSION_SIZE_BYTES", "10240", "10k"),
        ("AWS_REGION", "anywhere", ""),
        ("MY_MODE", "legacy", ""),
    ],
)
def test_each_variable_takes_what_the_launcher_takes(name: str, taken: str, refused: str) -> None:
    assert refuses(taken, name) == ""
    if refused:
        assert f"kubeflow.environment.{name} must be " in refuses(refused, name)


@pytest.mark.parametrize("name", ["KFP_POD_NAME", "ARGO_TEMPLATE", "METADATA_GRPC_SERVICE_HOST"])
def test_kubeflows_own_variables_are_nobody_elses(name: str) -> None:
    assert f"kubeflow.environment must not name {name}, which Kubeflow sets" in refuses("x", name)
    text = BARE.replace("storage: [AWS_ACCESS_KEY_ID", f"storage: [{name}")
    with pytest.raises(ConfigError, match=f"kubeflow.secrets.storage must not name {name}"):
        parse_config(text, "cluster.yaml")


def test_letters_count_only_where_the_launcher_counts_them() -> None:
    assert set(EXACT) == {"AWS_RETRY_MODE", "AWS_ACCOUNT_ID_ENDPOINT_MODE"}
