"""A pod that asked for a GPU and got none ends at once, with a sentence; no other pod is asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from scotoma.config import parse_config
from scotoma.errors import ConfigError
from scotoma.processes.machine import GPUS_VARIABLE, missing_gpus
from scotoma.run import Run

AUDIT = """
version: 1
source: {kind: digits-s, recipe: {steps: 4, batch_size: 8}}
label: {column: digit}
variants: [dense, {prune: [0.5]}]
population: {models: 2}
"""
# What the container of a component does, after KFP has filled in the paths of its inputs.
STEP = """
import sys
from scotoma.errors import ScotomaError
from scotoma.steps.runner import execute
try:
    execute(sys.argv[1], sys.argv[2], sys.argv[3], shard=sys.argv[4])
except ScotomaError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


def step(run: Run, name: str, shard: str, tmp_path: Path, gpus: str) -> tuple[int, str]:
    """Exit code of a step in a process of its own, and what it printed."""
    environment = {**os.environ, GPUS_VARIABLE: gpus, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", STEP, name, str(run.root), str(tmp_path / "pointer"), shard],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path / "run", parse_config(AUDIT, "test"))


def test_a_training_step_without_its_gpu_ends_at_once_with_a_sentence(
    run: Run, tmp_path: Path
) -> None:
    code, text = step(run, "train", "0:0-1", tmp_path, "1")
    assert code == 1
    sentence = (
        "the step train asked for a GPU, and torch sees 0 of 1; the node's driver (none) must "
        f"serve the image's CUDA ({torch.version.cuda or 'none'}): mend the node, or leave out "
        "kubeflow.training.gpu"
    )
    assert f"ConfigError: {sentence}" in text
    assert json.loads(run.path("error.json").read_text())["message"] == sentence
    (log,) = run.path("logs").glob("train.*.log")
    assert f"train failed: {sentence}" in log.read_text()
    assert not run.path("populations").exists()  # nothing was trained on processors meanwhile
    assert "Traceback" not in text


def test_a_step_that_asked_for_none_runs_where_there_is_none(run: Run, tmp_path: Path) -> None:
    for name, shard in (("prepare", ""), ("train", "0:0-1")):
        code, text = step(run, name, shard, tmp_path, "")
        assert code == 0, text
    assert len(list(run.population("dense").glob("*.safetensors"))) == 2


@pytest.mark.parametrize(
    ("kubeflow", "sentence"),
    [
        ("{training: {gpu: {count: 2}}}", "kubeflow.training.gpu.count should be 1, got 2"),
        (
            "{others: {gpu: {}}}",
            "kubeflow.others use no GPU, got gpu; name it in kubeflow.training",
        ),
    ],
)
def test_a_gpu_that_no_step_would_use_is_refused(kubeflow: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parse_config(f"{AUDIT}kubeflow: {kubeflow}\n", "test")


def test_fewer_gpus_than_asked_for_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert missing_gpus(1) == ""
    assert missing_gpus(2).startswith("torch sees 1 of 2; ")
