"""Data in S3 on Kubeflow: read before an audit is sent, and by the steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scotoma.config.reading import configuration
from scotoma.run import Run
from scotoma.steps.inputs import resolved
from tests.conftest import Storage
from tests.helpers.commands import scotoma
from tests.helpers.steps import steps_in_this_process
from tests.kfp_server.server import KfpServer
from tests.pipelines import kfp_local
from tests.sources.test_sources_in_storage import (
    Case,
    cache,
    external_models,
    image_folder,
    in_both_places,
    predictions,
)

__all__ = ["cache"]
SCHEDULE = 'retraining: {cron: "0 0 3 1 * *"}\n'


def models_alone(here: Path) -> str:
    """External models that are shown no corrupted pictures."""
    return external_models(here).partition("robustness:")[0]


def stored(case: Case, home: Path, s3: Storage) -> Path:
    return in_both_places(case, home, s3)[1]


def sent(config: Path, *arguments: str) -> tuple[int, str]:
    code, _, err = scotoma("kubeflow", *arguments, config, "--out", "s3://audits/run")
    return code, err


@pytest.mark.parametrize(
    ("case", "removed", "sentence"),
    [
        (
            external_models,
            "models/small/b.onnx",
            "small must hold population.models = 2 models, got 1",
        ),
        (external_models, "pictures/050.png", "1 of 100 rows"),
        (image_folder, "table.csv", "table.csv cannot be read: no such object; correct the"),
        (predictions, "examples.csv", "examples.csv cannot be read: no such object"),
    ],
)
def test_what_check_refuses_is_not_sent(
    case: Case, removed: str, sentence: str, kfp: KfpServer, tmp_path: Path, s3: Storage
) -> None:
    config = stored(case, tmp_path, s3)
    s3.client.delete_object(Bucket=s3.bucket, Key=f"sets/{removed}")
    checked, _, said = scotoma("audit", "--plan", config, "--no-trial", "--quiet")
    assert checked == 4
    assert sentence in said
    config.write_text(config.read_text() + SCHEDULE)
    for command in ("submit", "schedule"):
        code, err = sent(config, command)
        assert (code, err.splitlines()[-1]) == (4, said.splitlines()[-1])
    assert not kfp.store.runs
    assert not kfp.store.recurring


def test_data_that_only_the_cluster_reaches_are_sent_with_a_note(
    kfp: KfpServer, tmp_path: Path, s3: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = stored(image_folder, tmp_path, s3)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    code, err = sent(config, "submit")
    assert code == 0
    assert "note    not checked before sending: s3://" in err
    assert "there are no credentials, or half of them" in err
    assert len(kfp.store.runs) == 1


def test_the_endpoint_of_the_steps_is_asked_where_none_is_set_here(
    kfp: KfpServer, tmp_path: Path, s3: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = stored(image_folder, tmp_path, s3)
    s3.client.delete_object(Bucket=s3.bucket, Key="sets/pictures/050.png")
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    with config.open("a") as file:
        file.write(f'kubeflow: {{environment: {{AWS_ENDPOINT_URL: "{s3.endpoint}"}}}}\n')
    code, err = sent(config, "submit")
    assert code == 4
    assert "1 of 100 rows" in err
    assert "AWS_ENDPOINT_URL" not in os.environ
    assert not kfp.store.runs


def test_data_on_a_volume_are_sent_with_a_note(kfp: KfpServer, tmp_path: Path, s3: Storage) -> None:
    config = stored(image_folder, tmp_path, s3)
    text = config.read_text().replace(s3.uri("sets"), "/audits/sets")
    config.write_text(text + "kubeflow: {volume: {claim: audits}}\n")
    code, err = sent(config, "submit")
    assert code == 0, err
    assert "note    not checked before sending: the data are on a volume of Kubernetes" in err


def test_steps_of_a_pipeline_import_models_from_s3(tmp_path: Path, s3: Storage) -> None:
    """kfp's own runner, two shards, a run in S3; beside the command with a folder."""
    local, remote = in_both_places(models_alone, tmp_path, s3)
    with steps_in_this_process(tmp_path):
        code, _, err = scotoma("audit", local, "--deterministic", "--out", "run", "--quiet")
    assert code == 0, err
    read = configuration(remote, deterministic=True, seed=None, data=None)
    Run.create(s3.uri("run"), resolved(read, "")[0])
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, kfp_local.__file__, s3.uri("run"), "2"],
        env=os.environ | {"TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    here, there = (
        json.loads(content)
        for content in (
            (tmp_path / "run" / "audit.json").read_bytes(),
            s3.client.get_object(Bucket=s3.bucket, Key="run/audit.json")["Body"].read(),
        )
    )
    for key in ("accuracy", "divergence", "groups"):
        assert here.get(key) == there.get(key), key
