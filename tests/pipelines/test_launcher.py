"""What else reads the variables of a step's container: Kubeflow's launcher and Argo, before it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from scotoma.config import parse_config
from scotoma.config.kubeflow import NEEDS, RESERVED, VALUES, launcher_faults
from scotoma.errors import ConfigError
from tests.conftest import Storage
from tests.helpers.commands import scotoma
from tests.kfp_server.server import KfpServer
from tests.kfp_server.store import RECORDED, recorded
from tests.pipelines.test_audit import CLUSTER, MODELS, executors
from tests.sources.test_sources_in_storage import cache, in_both_places, predictions

__all__ = ["cache"]

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


COMMANDS = {
    "audit": ("submit", BARE),
    "models": ("submit", MODELS),
    "predictions": ("submit", ""),  # which are read where they lie
    "scheduled": ("schedule", BARE + 'retraining: {cron: "0 30 2 1 * *"}\n'),
    "preflight": ("submit", BARE),
}


def sent(kind: str, kfp: KfpServer, home: Path, s3: Storage) -> list[Any]:
    """The pipelines that a command writes or uploads."""
    command, text = COMMANDS[kind]
    config, out = home / "cluster.yaml", home / "pipeline.yaml"
    text = text or in_both_places(predictions, home, s3)[1].read_text()
    text = re.sub("tracking: .*\n", "", text)
    config.write_text(text + "tracking: {uri: 'http://mlflow:5000'}\n")
    compiled = command == "submit" and kind != "preflight"
    words = ["--dry-run", out] if compiled else ["--out", "/audits/run"]
    words += ["--preflight"] * (kind == "preflight")
    code, _, err = scotoma("kubeflow", command, config, *words)
    assert code == 0, err
    if compiled:
        return [next(yaml.load_all(out.read_text(), yaml.CSafeLoader))]
    return [version["pipeline_spec"]["pipeline_spec"] for version in kfp.store.versions.values()]


@pytest.mark.parametrize("kind", COMMANDS)
def test_no_step_is_given_a_variable_that_the_launcher_reads(
    kind: str, kfp: KfpServer, tmp_path: Path, s3: Storage, cache: Path
) -> None:
    assert {"AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS", "KFP_POD_NAME", "ARGO_"} <= READ
    pipelines = sent(kind, kfp, tmp_path, s3)
    names = {ir["pipelineInfo"]["name"] for ir in pipelines}
    also = {"scheduled": {"scotoma-scheduled"}, "preflight": {"scotoma-audit", "scotoma-preflight"}}
    assert names == also.get(kind, {"scotoma-audit"})
    for ir in pipelines:
        for spec in executors(ir).values():
            names = {one["name"] for one in spec["container"].get("env", ())}
            assert {"TMPDIR", "SCOTOMA_CACHE", "SCOTOMA_STORAGE_ATTEMPTS"} <= names
            assert {n for n in names if n in READ or n.startswith(("AWS_", "ARGO_"))} == set()


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
    code, _, err = scotoma("audit", "--plan", config)
    assert code == 2
    assert " ".join(err.split()).endswith(
        f"kubeflow.environment.AWS_RETRY_MODE must be standard or adaptive, got '{value}'; "
        "Kubeflow's launcher ends the step at any other value"
    )


# boto3 takes no number below 1, and none of ours needs more; the launcher takes any.
STRICTER = {"AWS_MAX_ATTEMPTS", "AWS_REQUEST_MIN_COMPRESSION_SIZE_BYTES"}
# Their names look like those of secrets, so that `kubeflow.environment` takes none of them.
SECRET = {"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_WEB_IDENTITY_TOKEN_FILE"}
RECORDED_VALUES = recorded("launcher-values")["values"]


@pytest.mark.parametrize("name", sorted(RECORDED_VALUES.keys() - SECRET))
def test_each_variable_takes_what_the_launchers_library_took(name: str) -> None:
    """Held to what aws-sdk-go-v2 did with each of some fifty values."""

    def refused(value: str) -> bool:
        return any(launcher_faults({name: value}, {}))

    assert [value for value in RECORDED_VALUES[name]["refused"] if not refused(value)] == []
    wrongly = {value for value in RECORDED_VALUES[name]["taken"] if refused(value)}
    assert (wrongly != set()) == (name in STRICTER)
    assert wrongly.isdisjoint({"12", "1"})


def test_all_that_the_launchers_library_refused_is_known() -> None:
    assert VALUES.keys() | NEEDS.keys() | SECRET == RECORDED_VALUES.keys()
    assert all("looks secret" in refuses("https://x", name) for name in SECRET - NEEDS.keys())


@pytest.mark.parametrize(
    ("environment", "secret", "sentence"),
    [
        ({"AWS_PROFILE": "a"}, [], "AWS_PROFILE needs AWS_CONFIG_FILE or AWS_SHARED_CREDENTIALS"),
        ({"AWS_PROFILE": "a", "AWS_CONFIG_FILE": "/audits/aws"}, [], ""),
        ({}, ["AWS_WEB_IDENTITY_TOKEN_FILE"], "AWS_WEB_IDENTITY_TOKEN_FILE needs AWS_ROLE_ARN"),
        ({"AWS_ROLE_ARN": "arn"}, ["AWS_WEB_IDENTITY_TOKEN_FILE"], ""),
        ({"AWS_CA_BUNDLE": "ca.pem"}, [], "must be the path of a file in the step's container"),
        ({"AWS_CA_BUNDLE": "/audits/ca.pem"}, [], ""),
        ({"AWS_REGION": "anywhere", "MY_MODE": "legacy"}, [], ""),
    ],
)
def test_files_and_profiles_are_those_that_the_launcher_can_have(
    environment: dict[str, str], secret: list[str], sentence: str
) -> None:
    fault = next(launcher_faults(environment, {"storage": secret}), "")
    assert sentence in fault
    assert (fault == "") == (sentence == "")


@pytest.mark.parametrize("name", ["KFP_POD_NAME", "ARGO_TEMPLATE", "METADATA_GRPC_SERVICE_HOST"])
def test_kubeflows_own_variables_are_nobody_elses(name: str) -> None:
    assert f"kubeflow.environment must not name {name}, which Kubeflow sets" in refuses("x", name)
    text = BARE.replace("storage: [AWS_ACCESS_KEY_ID", f"storage: [{name}")
    with pytest.raises(ConfigError, match=f"kubeflow.secrets.storage must not name {name}"):
        parse_config(text, "cluster.yaml")
