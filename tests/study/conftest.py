"""A small audit with images, and studies made from it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from scotoma.config import Config
from scotoma.datasets import AuditedExamples
from scotoma.predictions import Predictions
from scotoma.run import Run
from scotoma.steps import slices as slicing
from scotoma.steps import verdict as judging
from scotoma.steps.bias import bias
from scotoma.steps.divergence import divergence
from tests.helpers.commands import scotoma

CLASSES = ("cat", "dog", "owl", "fox")
VARIANT = "prune-0.9"


def picture(number: int) -> bytes:
    """Noise of its own: no two are near duplicates."""
    levels = np.random.default_rng(number).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    content = io.BytesIO()
    Image.fromarray(levels).save(content, "PNG")
    return content.getvalue()


def make_run(folder: Path, *, classes: tuple[str, ...] = CLASSES, examples: int = 400) -> Run:
    """An audit in which pruning changes what was contested before."""
    rng = np.random.default_rng(0)
    members = 6
    labels = rng.integers(len(classes), size=examples)
    table = pl.DataFrame(
        {
            "example_id": [f"secret-{i}" for i in range(examples)],
            "split": ["test"] * examples,
            "label": [classes[y] for y in labels],
            "side": [("left", "right")[i % 2] for i in range(examples)],
            "image": [{"bytes": picture(i), "path": None} for i in range(examples)],
        }
    )
    content = {
        "project": "seen",
        "label": {"column": "label"},
        "groups": {"side": {"column": "side"}},
        "variants": ["dense", {"prune": [0.9]}],
        "population": {"models": members},
    }
    run = Run.create(folder, Config.model_validate_json(json.dumps(content)))
    AuditedExamples(table, classes, ("side",), ()).write(run.examples)
    run.path("predictions").mkdir()
    difficulty = rng.beta(0.6, 1.2, (examples, 1))
    other = (labels[:, None] + 1 + rng.integers(2, size=(examples, members))) % len(classes)
    for name, chance in (("dense", 0.55), (VARIANT, 0.85)):
        wrong = rng.random((examples, members)) < difficulty * chance
        Predictions(
            variant=name,
            example_ids=tuple(table["example_id"]),
            members=tuple(range(members)),
            classes=classes,
            predicted=np.where(wrong, other, labels[:, None]).astype(np.uint8),
            runtimes=("onnxruntime",),
        ).write(run.predictions(name))
    divergence(run)
    bias(run)
    slicing.slices(run)
    judging.verdict(run)
    return run


@pytest.fixture(scope="session")
def seen_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(tmp_path_factory.mktemp("seen"))


@pytest.fixture(scope="session")
def planned(seen_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of 8 images an arm; tests copy it."""
    folder = tmp_path_factory.mktemp("studies") / "study"
    new_study(seen_run, folder)
    return folder


def new_study(run: Run, folder: Path, *options: str) -> dict[str, Any]:
    """What `scotoma study new` prints."""
    code, out, err = scotoma(
        "study", "new", run.root, "--variant", VARIANT, "--per-arm", "8", "--repeats", "3",
        "--guesses", "6", "--annotators", "3", "--allow-imbalance", "--leaky", "--out", folder,
        "--json", *options,
    )  # fmt: skip
    assert code == 0, err
    content: dict[str, Any] = json.loads(out)
    return content
