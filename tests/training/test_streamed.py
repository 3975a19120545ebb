"""Training on images that are decoded each time gives the bytes of training on their pixels."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from scotoma.config import Recipe
from scotoma.datasets import AuditedExamples, decode_images, store_images
from scotoma.training.backends import Backend
from scotoma.training.engine import Member, Training
from scotoma.training.task import TrainingTask


def examples(data: tuple[NDArray[np.uint8], NDArray[np.int64]]) -> AuditedExamples:
    images, labels = data
    encoded = []
    for image in images:
        buffer = io.BytesIO()
        Image.fromarray(image.transpose(1, 2, 0)).save(buffer, "PNG")
        encoded.append({"bytes": buffer.getvalue(), "path": ""})
    table = pl.DataFrame(
        {
            "example_id": [f"e{index}" for index in range(len(labels))],
            "split": ["train"] * len(labels),
            "label": [str(label) for label in labels],
            "image": encoded,
        }
    )
    return AuditedExamples(table, ("0", "1", "2", "3"), (), ())


@pytest.mark.parametrize("backend", ["loop", "stacked"])
def test_streamed_training_gives_the_same_bytes(
    backend: Backend,
    data: tuple[NDArray[np.uint8], NDArray[np.int64]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = examples(data)
    found.write(tmp_path / "examples.parquet")
    # Pixels of 8x8 take fewer bytes than a file of them: only the choice is of interest here.
    monkeypatch.setattr("scotoma.datasets.image_store.np.prod", lambda shape: 10**9)
    stored = store_images(tmp_path / "examples.parquet", "train", tmp_path, room=10**6)
    monkeypatch.undo()
    assert stored.ends is not None
    trained = [
        Training(
            [Member("prune-0.5", k, 7 + k, 0.5) for k in range(2)],
            images,
            found.labels,
            model="tiny-convnet",
            task=TrainingTask(4),
            recipe=Recipe(steps=20, batch_size=16, augmentation="crop-flip", prune_every=0.1),
            backend=backend,
        ).run()
        for images in (decode_images(found), stored.open())
    ]
    for one, other in zip(*trained, strict=True):
        assert one.loss == other.loss
        for name, value in one.state.items():
            assert torch.equal(value, other.state[name])
