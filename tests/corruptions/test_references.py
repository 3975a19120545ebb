"""Every corruption against the original functions, fed with the same random numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from scotoma.corruptions import STANDARD, VALIDATION, Profile, corrupt, profile
from scotoma.corruptions.profiles import FORMULAS
from tests.corruptions.references import (
    HERE,
    KINDS,
    LARGE,
    LARGE_IMAGES,
    LARGE_KINDS,
    LARGE_SIGNS,
    SIDE,
    SIGNS,
    TINY,
    TINY_IMAGES,
    TINY_KINDS,
    TINY_SIGNS,
    drawn_image,
    large_signature,
    piece,
    seed_of,
    signature,
    tiny_piece,
    tiny_signature,
    write_frost,
)

pytestmark = pytest.mark.slow

Random = np.random.RandomState
LARGE_SUMS = json.loads((HERE / "large-sums.json").read_text("utf-8"))
SUMS = json.loads((HERE / "sums.json").read_text("utf-8"))
TINY_SUMS = json.loads((HERE / "tiny-sums.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    folder: Path = tmp_path_factory.mktemp("frost")
    write_frost(folder)
    return profile("tiny-imagenet-c", TINY, frost=folder)


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    folder: Path = tmp_path_factory.mktemp("frost")
    write_frost(folder)
    return profile("cifar-c", SIDE, frost=folder)


def _frost(random: Random, pictures: tuple[NDArray[np.uint8], ...], side: int) -> NDArray[np.uint8]:
    picture = pictures[random.randint(5)]
    row = random.randint(0, picture.shape[0] - side)
    column = random.randint(0, picture.shape[1] - side)
    return picture[row : row + side, column : column + side]


def _impulses(seed: int, amount: float, side: int) -> NDArray[Any]:
    """One uniform number for what scikit-image decides by two."""
    generator = np.random.default_rng(seed)
    hit = generator.random((side, side, 3)) <= amount
    salt = generator.random((side, side, 3)) <= 0.5
    return np.where(hit, np.where(salt, 0.75, 0.25) * amount, 1)


def _values(random: Random, _: Any, chosen: Profile) -> tuple[NDArray[Any], ...]:
    return (random.normal(size=(chosen.size, chosen.size, 3)),)


def _plane(random: Random, _: Any, chosen: Profile) -> tuple[NDArray[Any], ...]:
    return (random.normal(size=(chosen.size, chosen.size)),)


def _glass(random: Random, numbers: dict[str, Any], chosen: Profile) -> tuple[NDArray[Any], ...]:
    delta = numbers["delta"]
    inside = chosen.size - 2 * delta
    return (random.randint(-delta, delta, (numbers["iterations"], inside, inside, 2)),)


FIELDS: dict[str, Callable[[Random, dict[str, Any], Profile], tuple[Any, ...]]] = {
    "gaussian_noise": _values,
    "speckle_noise": _values,
    "glass_blur": _glass,
    "motion_blur": lambda random, *_: (random.uniform(-45, 45),),
    "snow": lambda random, *rest: (*_plane(random, *rest), random.uniform(-135, -45)),
    "frost": lambda random, _, chosen: (_frost(random, chosen.pictures, chosen.size),),
    "fog": lambda random, _, chosen: (random.uniform(-1, 1, chosen.size**2 - 1),),
    "elastic_transform": lambda random, _, chosen: (
        random.uniform(-1, 1, (3, 2)),
        random.uniform(-1, 1, (2, chosen.size, chosen.size)),
    ),
    "spatter": _plane,
}


def ours(kind: str, numbers: list[int], severity: int, chosen: Profile) -> NDArray[np.uint8]:
    """Our formula with the numbers that the original drew."""
    parameters = chosen.parameters(kind, severity)
    size = chosen.size
    images = np.stack([drawn_image(number, size, size) for number in numbers])
    fields: list[tuple[Any, ...]] = []
    for number in numbers:
        seed = seed_of(number, severity)
        if kind == "impulse_noise":
            fields.append((_impulses(seed, parameters["amount"], size),))
        elif kind in FIELDS:
            fields.append(FIELDS[kind](Random(seed), parameters, chosen))
        else:
            fields.append(())
    stacked = [np.stack(field) for field in zip(*fields, strict=True)]
    result = FORMULAS[kind].apply(images, *stacked, **parameters)
    return np.clip(result, 0, 255).astype(np.uint8)


def test_the_references_are_of_all_published_corruptions_that_can_be_fed() -> None:
    assert [kind for kind in (*STANDARD, *VALIDATION) if kind not in KINDS] == ["shot_noise"]


@pytest.mark.parametrize("kind", KINDS)
def test_corruption_is_within_one_level_of_the_original(kind: str, cifar: Profile) -> None:
    strip = np.asarray(Image.open(HERE / f"{kind}.png")).astype(int)
    for severity in range(1, 6):
        reference = strip[:, SIDE * (severity - 1) : SIDE * severity]
        made = ours(kind, [severity], severity, cifar)[0]
        assert np.abs(made - reference).max() <= 1, severity
        sums = [signature(image) for image in ours(kind, list(range(64)), severity, cifar)]
        # Values that fall on a whole number may be a level off: not 2% more up than down.
        assert np.abs(np.subtract(sums, SUMS[kind][severity - 1])).max() < 0.02 * SIGNS.size


def test_the_tiny_references_are_of_all_that_need_no_imagemagick() -> None:
    assert [kind for kind in KINDS if kind not in TINY_KINDS] == ["motion_blur", "snow"]


@pytest.mark.parametrize("kind", TINY_KINDS)
def test_tiny_corruption_is_within_one_level_of_the_original(kind: str, tiny: Profile) -> None:
    place = TINY_KINDS.index(kind) * SIDE
    strip = np.asarray(Image.open(HERE / "tiny.png")).astype(int)[place : place + SIDE]
    for severity in range(1, 6):
        made = ours(kind, list(range(TINY_IMAGES)), severity, tiny)
        reference = strip[:, SIDE * (severity - 1) : SIDE * severity]
        assert np.abs(tiny_piece(made[severity]) - reference).max() <= 1, severity
        sums = [tiny_signature(image) for image in made]
        assert np.abs(np.subtract(sums, TINY_SUMS[kind][severity - 1])).max() < (
            0.02 * TINY_SIGNS.size
        )


def test_the_large_references_are_of_all_that_draws_no_random_number() -> None:
    fixed = [kind for kind in (*STANDARD, *VALIDATION) if FORMULAS[kind].draw is None]
    assert fixed == LARGE_KINDS


@pytest.mark.parametrize("kind", LARGE_KINDS)
def test_large_corruption_is_within_one_level_of_the_original(kind: str) -> None:
    strip = np.asarray(Image.open(HERE / f"large-{kind}.png")).astype(int)
    images = np.stack([drawn_image(number, LARGE, LARGE) for number in range(6)])
    ids = [str(number) for number in range(6)]
    for severity in range(1, 6):
        made = corrupt(images, ids, kind, severity, profile("imagenet-c", LARGE), seed=0)
        reference = strip[:, SIDE * (severity - 1) : SIDE * severity]
        assert np.abs(piece(made[severity]) - reference).max() <= 1, severity
        sums = [large_signature(image) for image in made[:LARGE_IMAGES]]
        assert np.abs(np.subtract(sums, LARGE_SUMS[kind][severity - 1])).max() < (
            0.02 * LARGE_SIGNS.size
        )
