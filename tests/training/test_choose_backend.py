from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scotoma.config import parse_config
from scotoma.training.backends import Backend
from scotoma.training.choose_backend import choose_backend
from scotoma.training.engine import Training

CONFIG = """
source: {{kind: digits-s, model: {model}, recipe: {{batch_size: 8}}}}
variants: [dense, {{prune: [0.5]}}]
deterministic: {deterministic}
"""


def chosen(model: str, deterministic: str, size: int = 8) -> str:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (64, 3, size, size)).astype(np.uint8)
    config = parse_config(CONFIG.format(model=model, deterministic=deterministic), "test")
    return choose_backend(config, images, rng.integers(0, 10, 64))


def test_deterministic_mode_times_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scotoma.training.choose_backend.Training", None)
    assert chosen("tiny-convnet", "true") == "stacked"
    assert chosen("resnet20", "true") == "loop"


def test_a_network_that_is_all_arithmetic_is_never_stacked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backends = []

    class Watched(Training):
        def __init__(self, *arguments: Any, backend: Backend, **others: Any) -> None:
            backends.append(backend)
            super().__init__(*arguments, backend=backend, **others)

    monkeypatch.setattr("scotoma.training.choose_backend.Training", Watched)
    monkeypatch.setattr("scotoma.training.choose_backend.LONGEST_STACKED_STEP_S", -1.0)
    assert chosen("tiny-convnet", "false") == "loop"
    assert set(backends) == {"loop"}


def test_a_network_that_does_not_stack_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scotoma.training.choose_backend.Training", None)
    assert chosen("resnet8", "false") == "loop"


def test_both_backends_are_tried_on_a_small_network() -> None:
    assert chosen("tiny-convnet", "false") in ("stacked", "loop")
