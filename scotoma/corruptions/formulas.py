"""Which function makes each corruption, and which random numbers does one example give it?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.corruptions import blur, digital, extended, frost, noise, spatter, weather
from scotoma.corruptions.resampling import gaussian_blurred

Generator = np.random.Generator
Size = tuple[int, int]  # height, width
Parameters = Mapping[str, Any]
Fields = tuple[NDArray[Any], ...]
Draw = Callable[[Generator, Size, Parameters], Fields]


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
    draw: Draw | None = None
    version: int = 1


def _normals(*channels: int) -> Draw:
    """Draw standard normals for every pixel."""
    return lambda generator, size, _: (generator.standard_normal((*size, *channels), np.float32),)


def _uniforms(*shape: int) -> Draw:
    """Draw numbers from 0 to 1."""
    return lambda generator, *_: (generator.random(shape, np.float32),)


def _of_each_value(generator: Generator, size: Size, _: Parameters) -> Fields:
    return (generator.random((*size, 3), np.float32),)


def _glass(generator: Generator, size: Size, parameters: Parameters) -> Fields:
    delta = parameters["delta"]
    inside = [length - 2 * delta for length in size]
    shape = (parameters["iterations"], *inside, 2)
    return (generator.integers(-delta, delta, shape, np.int8),)


def _clouds(generator: Generator, size: Size, _: Parameters) -> Fields:
    return (2 * generator.random(weather.map_side(*size) ** 2 - 1, np.float32) - 1,)


def _elastic(generator: Generator, size: Size, _: Parameters) -> Fields:
    return tuple(2 * generator.random(shape, np.float32) - 1 for shape in ((3, 2), (2, *size)))


def _snow(generator: Generator, size: Size, _: Parameters) -> Fields:
    return generator.standard_normal(size, np.float32), generator.uniform(-135, -45, ())


FORMULAS: dict[str, Formula] = {
    "gaussian_noise": Formula(noise.gaussian_noise, _normals(3)),
    "shot_noise": Formula(noise.shot_noise, _of_each_value),
    "impulse_noise": Formula(noise.impulse_noise, _of_each_value),
    "defocus_blur": Formula(blur.defocus_blur),
    "glass_blur": Formula(blur.glass_blur, _glass),
    "motion_blur": Formula(
        blur.motion_blur, lambda generator, *_: (generator.uniform(-45, 45, ()),)
    ),
    "zoom_blur": Formula(blur.zoom_blur),
    "snow": Formula(weather.snow, _snow),
    "frost": Formula(
        weather.frost,
        lambda generator, size, parameters: (frost.crop(generator, parameters["pictures"], *size),),
    ),
    "fog": Formula(weather.fog, _clouds),
    "brightness": Formula(weather.brightness),
    "contrast": Formula(digital.contrast),
    "elastic_transform": Formula(digital.elastic_transform, _elastic),
    "pixelate": Formula(digital.pixelate),
    "jpeg_compression": Formula(digital.jpeg_compression),
    "speckle_noise": Formula(noise.speckle_noise, _normals(3)),
    "gaussian_blur": Formula(gaussian_blurred),
    "spatter": Formula(spatter.spatter, _normals()),
    "saturate": Formula(digital.saturate),
    "low_light": Formula(extended.low_light, _normals(3)),
    "darken": Formula(weather.darken),
    "colour_cast": Formula(extended.colour_cast, _uniforms()),
    "downscale": Formula(extended.downscale),
    "occlusion": Formula(extended.occlusion, _uniforms(2)),
    "frost_like": Formula(extended.frost_like, _clouds),
}
