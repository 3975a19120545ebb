"""One thread, as in the workers: a second OpenMP thread stalls the first when its core is busy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from scotoma.training import engine

CLASSES = 4


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def data() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """70 images of 8x8 pixels, and the four classes that their red tells."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, 70)
    images = rng.integers(0, 256, (70, 3, 8, 8))
    images[:, 0] = (images[:, 0] + 50 * labels[:, None, None]).clip(0, 255)
    return images.astype(np.uint8), labels


@pytest.fixture
def float64() -> Iterator[None]:
    """Trajectories in float32 diverge chaotically: only float64 can be compared."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.fixture(autouse=True)
def _pixels_of_the_default_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        engine, "normalise", lambda pixels: pixels.to(torch.get_default_dtype()) / 127.5 - 1.0
    )
