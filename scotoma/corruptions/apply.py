"""Make images worse: one corruption, one severity, the same bytes in any batch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from scotoma.corruptions.digital import jpeg_compression
from scotoma.corruptions.profiles import FORMULAS, Profile
from scotoma.corruptions.resampling import Images
from scotoma.errors import DataError

CHUNK = 2**16  # values that are worked on at a time: they fit a cache of a core


def corrupt(
    images: Images,
    example_ids: Sequence[str],
    kind: str,
    severity: int,
    profile: Profile,
    *,
    seed: int,
) -> Images:
    """Corrupt images.

    Args:
        images: RGB, uint8, shape (n, h, w, 3); the shorter side is `profile.size`.
        example_ids: One for each image: with `seed`, `kind` and `severity` it decides the random
            numbers, so that an image comes out the same in any batch, order, shard or worker.
        kind: One of `profile.kinds`.
        severity: 1 to 5.
        profile: See `scotoma.corruptions.profile`.
        seed: Of the whole suite.

    Returns:
        uint8, of the shape of `images`; truncated, not rounded, as the published sets are.

    Raises:
        ConfigError: Unknown or left-out corruption; severity other than 1 to 5.
        DataError: Images of another type, shape or size; not one id for each.

    Source: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common Corruptions
    and Perturbations, ICLR 2019.

    >>> from scotoma.corruptions import profile
    >>> grey = np.full((2, 32, 32, 3), 128, dtype=np.uint8)
    >>> corrupt(grey, ["a", "b"], "brightness", 5, profile("cifar-c", 32), seed=0)[1, 0, 0]
    array([204, 204, 204], dtype=uint8)
    """
    parameters = profile.parameters(kind, severity)
    _check(images, example_ids, profile)
    formula = FORMULAS[kind]
    size = (images.shape[1], images.shape[2])
    result = np.empty_like(images)
    drawing = {**parameters, "pictures": profile.pictures}
    drawn = generators(seed, example_ids, kind, severity)
    step = max(1, CHUNK // max(1, images[:1].size))
    for start in range(0, len(images), step):
        rows = slice(start, start + step)
        part = images[rows]
        fields: tuple[NDArray[np.generic], ...] = ()
        if formula.draw is not None:
            of_each = [formula.draw(next(drawn), size, drawing) for _ in part]
            fields = tuple(np.stack(field) for field in zip(*of_each, strict=True))
        worse = formula.apply(part, *fields, **parameters)
        if worse.dtype != np.uint8:
            worse = np.clip(worse, 0, 255)
        result[rows] = worse  # truncates
        if profile.jpeg85:
            result[rows] = jpeg_compression(result[rows], quality=85)
    return result


def _check(images: Images, example_ids: Sequence[str], profile: Profile) -> None:
    if images.dtype != np.uint8:
        raise DataError(
            f"images to corrupt must be uint8 from 0 to 255, got {images.dtype}; scale and round "
            "them, and normalize after corrupting"
        )
    if images.ndim != 4 or images.shape[3] != 3:
        raise DataError(
            f"images to corrupt must have shape (n, height, width, 3), got {images.shape}; "
            "repeat grey three times, and put channels last"
        )
    shorter = min(images.shape[1:3])
    if shorter != profile.size or (profile.name != "scaled" and shorter != max(images.shape[1:3])):
        sides = f"{profile.size}x{profile.size}" if profile.name != "scaled" else profile.size
        raise DataError(
            f"images to corrupt must be {sides} pixels with this profile, got "
            f"{images.shape[2]}x{images.shape[1]}; choose the profile for their size"
        )
    if len(example_ids) != len(images):
        raise DataError(
            f"each image needs an id, got {len(example_ids):,} ids for {len(images):,} images; "
            "give one for each"
        )


def generators(
    seed: int, example_ids: Iterable[str], kind: str, severity: int
) -> Iterator[np.random.Generator]:
    """Yield a generator for each example, set to numbers that only its key decides.

    Args:
        seed: Of the whole suite.
        example_ids: One for each image.
        kind: Name of the corruption.
        severity: 1 to 5.

    Returns:
        The same object each time, to be used up before the next: Philox (Salmon et al. 2011), a
        counter-based generator, whose key is a digest of (seed, example, kind, severity).

    >>> draw = lambda *ids: [g.integers(100) for g in generators(0, ids, "fog", 1)]
    >>> draw("a", "b") == draw("b", "a")[::-1] == [*draw("a"), *draw("b")]
    True
    """
    philox = np.random.Philox(key=0)
    start = philox.state
    generator = np.random.Generator(philox)
    prefix = f"{seed}\0{kind}\0{severity}\0".encode()
    for example_id in example_ids:
        digest = hashlib.blake2b(prefix + example_id.encode(), digest_size=16).digest()
        start["state"]["key"] = np.frombuffer(digest, dtype="<u8")
        philox.state = start
        yield generator
