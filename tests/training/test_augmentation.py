from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from scotoma.config import Recipe
from scotoma.datasets import AuditedExamples, decode_images, store_images
from scotoma.training import engine
from scotoma.training.backends import Backend
from scotoma.training.engine import GREY, Member, Training
from scotoma.training.task import TrainingTask


@pytest.fixture
def pixels() -> torch.Tensor:
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.integers(0, 120, (200, 3, 16, 32)).astype(np.uint8))


def augment(
    pixels: torch.Tensor, kind: str, *, seed: int, step: int, **change: Any
) -> torch.Tensor:
    key = {"epoch": 0, "rows": np.arange(len(pixels))} | change
    recipe = Recipe(augmentation=kind, crop=key.pop("crop", 0.125))
    return engine.augment(pixels, recipe, seed=seed, step=step, **key)


def shifted(image: torch.Tensor, down: int, right: int) -> torch.Tensor:
    """The slow twin: one pixel after the other."""
    shifted = torch.full_like(image, GREY)
    _, height, width = image.shape
    for y in range(height):
        for x in range(width):
            if 0 <= y + down < height and 0 <= x + right < width:
                shifted[:, y, x] = image[:, y + down, x + right]
    return shifted


def test_every_image_is_a_shift_and_perhaps_a_mirror_of_its_own(pixels: torch.Tensor) -> None:
    few, seen = pixels[:25], set()
    for image, varied in zip(few, augment(few, "crop-flip", seed=1, step=2), strict=True):
        candidates = {
            (down, right, turned): moved.flip(-1) if turned else moved
            for down in range(-2, 3)
            for right in range(-4, 5)
            for moved in [shifted(image, down, right)]
            for turned in (False, True)
        }
        (which,) = [key for key, value in candidates.items() if torch.equal(value, varied)]
        seen.add(which)
    assert len(seen) > 12


def test_half_of_the_images_are_mirrored(pixels: torch.Tensor) -> None:
    varied = augment(pixels, "flip", seed=3, step=0)
    assert 70 <= int(mirrored(pixels, varied).sum()) <= 130


@pytest.mark.parametrize("other", [{"seed": 8, "step": 5}, {"seed": 7, "step": 6}])
def test_draws_depend_on_seed_and_step_alone(pixels: torch.Tensor, other: dict[str, int]) -> None:
    first = augment(pixels, "crop-flip", seed=7, step=5)
    assert torch.equal(augment(pixels, "crop-flip", seed=7, step=5), first)
    assert not torch.equal(augment(pixels, "crop-flip", **other), first)


def mirrored(pixels: torch.Tensor, varied: torch.Tensor) -> NDArray[np.bool_]:
    """Which images were turned; none of them is its own mirror image."""
    assert bool(((varied == pixels) | (varied == pixels.flip(-1))).flatten(1).all())
    return np.asarray((varied != pixels).flatten(1).any(1))


def test_mirrors_alternate_by_epoch_whatever_the_order_of_the_data(pixels: torch.Tensor) -> None:
    rng, rows = np.random.default_rng(0), np.arange(200)
    first = mirrored(pixels, augment(pixels, "alternating-flip", seed=3, step=0))
    assert 70 <= int(first.sum()) <= 130
    for epoch in range(1, 4):
        order = rng.permutation(rows)
        varied = augment(
            pixels[order], "alternating-flip", seed=3, step=9 * epoch, epoch=epoch, rows=order
        )
        assert (mirrored(pixels[order], varied) == (first[order] ^ (epoch % 2 == 1))).all()
    other = mirrored(pixels, augment(pixels, "alternating-flip", seed=4, step=0))
    assert 70 <= int((other ^ first).sum()) <= 130


def test_a_shift_keeps_within_the_crop(pixels: torch.Tensor) -> None:
    still = augment(pixels, "crop-alternating-flip", seed=1, step=2, crop=0.03)  # under a pixel
    assert torch.equal(still, augment(pixels, "alternating-flip", seed=1, step=2))
    few = pixels[:8]
    for image, varied in zip(
        few, augment(few, "crop-flip", seed=1, step=2, crop=1 / 16), strict=True
    ):
        candidates = [shifted(image, y, x) for y in (-1, 0, 1) for x in (-2, -1, 0, 1, 2)]
        assert any(torch.equal(varied, m) or torch.equal(varied, m.flip(-1)) for m in candidates)


def test_hashes_of_rows_are_those_of_splitmix64() -> None:
    """The first numbers of the generator started at 0, as Java's SplittableRandom prints them."""
    known = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert engine._hashed(0, np.arange(3)).tolist() == known


# --- training on images that are decoded each time gives the bytes of training on their pixels ----


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
