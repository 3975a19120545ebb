"""Which function makes each corruption, and which random numbers does one example give it?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.corruptions import blur, digital, extended, frost, noise, spatter, weather

Generator = np.random.Generator
Size = tuple[int, int]  # height, width
Parameters = Mapping[str, Any]
Fields = tuple[NDArray[Any], ...]


@dataclass(frozen=True)
class Formula:
    """One corruption.

    Attributes:
        apply: From images (uint8, shape (n, h, w, 3)), the fields of all examples, stacked, and
            the parameters by name, to images: uint8, or float32 that is yet to be clipped to 0
            to 255 and truncated.
        draw: Draws the fields of one example; None where nothing is random.
        version: Raised when the pixels change.
    """

    apply: Callable[..., NDArray[Any]]
    draw: Callable[[Generator, Size, Parameters], Fields] | None = None
    version: int = 1


def _normals(generator: Generator, size: Size, _: Parameters) -> Fields:
    return (generator.standard_normal((*size, 3), dtype=np.float32),)


def _uniforms(generator: Generator, size: Size, _: Parameters) -> Fields:
    return (generator.random((*size, 3), dtype=np.float32),)


def _glass(generator: Generator, size: Size, parameters: Parameters) -> Fields:
    delta = parameters["delta"]
    inside = [length - 2 * delta for length in size]
    shape = (parameters["iterations"], *inside, 2)
    return (generator.integers(-delta, delta, shape, dtype=np.int8),)


def _angle(generator: Generator, _: Size, __: Parameters) -> Fields:
    return (generator.uniform(-45, 45, ()),)


def _snow(generator: Generator, size: Size, _: Parameters) -> Fields:
    flakes = generator.standard_normal(size, dtype=np.float32)
    return flakes, generator.uniform(-135, -45, ())


def _frost(generator: Generator, size: Size, parameters: Parameters) -> Fields:
    return (frost.crop(generator, parameters["pictures"], *size),)


def _clouds(generator: Generator, size: Size, _: Parameters) -> Fields:
    count = weather.map_side(*size) ** 2 - 1
    return (2 * generator.random(count, dtype=np.float32) - 1,)


def _elastic(generator: Generator, size: Size, _: Parameters) -> Fields:
    corners = 2 * generator.random((3, 2), dtype=np.float32) - 1
    return corners, 2 * generator.random((2, *size), dtype=np.float32) - 1


def _spatter(generator: Generator, size: Size, _: Parameters) -> Fields:
    return (generator.standard_normal(size, dtype=np.float32),)


def _one(generator: Generator, _: Size, __: Parameters) -> Fields:
    return (generator.random((), dtype=np.float32),)


def _two(generator: Generator, _: Size, __: Parameters) -> Fields:
    return (generator.random(2, dtype=np.float32),)


FORMULAS: dict[str, Formula] = {
    "gaussian_noise": Formula(noise.gaussian_noise, _normals),
    "shot_noise": Formula(noise.shot_noise, _uniforms),
    "impulse_noise": Formula(noise.impulse_noise, _uniforms),
    "defocus_blur": Formula(blur.defocus_blur),
    "glass_blur": Formula(blur.glass_blur, _glass),
    "motion_blur": Formula(blur.motion_blur, _angle),
    "zoom_blur": Formula(blur.zoom_blur),
    "snow": Formula(weather.snow, _snow),
    "frost": Formula(weather.frost, _frost),
    "fog": Formula(weather.fog, _clouds),
    "brightness": Formula(weather.brightness),
    "contrast": Formula(digital.contrast),
    "elastic_transform": Formula(digital.elastic_transform, _elastic),
    "pixelate": Formula(digital.pixelate),
    "jpeg_compression": Formula(digital.jpeg_compression),
    "speckle_noise": Formula(noise.speckle_noise, _normals),
    "gaussian_blur": Formula(blur.gaussian_blur),
    "spatter": Formula(spatter.spatter, _spatter),
    "saturate": Formula(digital.saturate),
    "low_light": Formula(extended.low_light, _normals),
    "darken": Formula(weather.darken),
    "colour_cast": Formula(extended.colour_cast, _one),
    "downscale": Formula(extended.downscale),
    "occlusion": Formula(extended.occlusion, _two),
    "frost_like": Formula(extended.frost_like, _clouds),
}
