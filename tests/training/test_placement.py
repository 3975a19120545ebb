"""What a GPU would be asked for, as far as a processor can tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from scotoma.config import parse_config
from scotoma.errors import ConfigError
from scotoma.run import Run
from scotoma.training import population
from scotoma.training.placement import PROCESSOR, batches_from

AUDIT = """
source: {kind: digits-s, recipe: {batch_size: 16}}
label: {column: digit}
variants: [dense, {prune: [0.5]}]
population: {models: 8}
"""


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> list[list[int]]:
    """Chunks of members that fitted a memory of `request.param` members."""
    fitted: list[list[int]] = []

    def train(
        _: object, variant: str, indices: list[int], *__: object
    ) -> tuple[population.Effort, float]:
        if len(indices) > request.param:
            raise torch.OutOfMemoryError
        fitted.append(indices)
        return population.Effort(1.0, 1.0), 0.5

    monkeypatch.setattr(population, "_train_together", train)
    return fitted


@pytest.fixture
def shared(tmp_path: Path) -> population.SharedData:
    """What a worker would share, without images."""
    data: Any = None
    run = Run.create(tmp_path / "run", parse_config(AUDIT, "test"))
    return run, data, data, population.Built()


@pytest.mark.parametrize("trained", [3], indirect=True)
def test_members_that_do_not_fit_together_are_halved_until_they_do(
    shared: population.SharedData,
    trained: list[list[int]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    population._train_chunk(shared, "dense", list(range(8)), "stacked", "digest", "train dense")
    assert trained == [[0, 1], [2, 3], [4, 5], [6, 7]]
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "8 members of dense together exceed the GPU's memory; going on with 4"
    assert len(lines) == 3


@pytest.mark.parametrize("trained", [0], indirect=True)
def test_a_member_that_does_not_fit_alone_is_one_sentence(
    shared: population.SharedData, trained: list[list[int]]
) -> None:
    with pytest.raises(ConfigError, match=r"member 0 of dense .*batch_size 16; lower it"):
        population._train_chunk(shared, "dense", [0, 1], "stacked", "digest", "train dense")
    assert trained == []


@pytest.mark.parametrize("room", [0, 10**6])
def test_a_batch_is_the_same_from_resident_images_and_from_others(room: int) -> None:
    images = np.random.default_rng(0).integers(0, 256, (9, 3, 4, 4), np.uint8)
    rows = np.array([5, 0, 5])
    pixels = batches_from(images, PROCESSOR, room=room)(rows)
    assert pixels.dtype == torch.uint8
    assert np.array_equal(pixels.numpy(), images[rows])
