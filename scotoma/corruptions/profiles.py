"""Which corruptions are there, what makes each, and how strong is it at this image size?"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.corruptions import blur, digital, extended, noise, spatter, weather
from scotoma.corruptions.images import crop, read_pictures
from scotoma.corruptions.resampling import Images, gaussian_blurred
from scotoma.errors import ConfigError
from scotoma.printable import nearest

SEVERITIES = (1, 2, 3, 4, 5)

# By family: the 15 of which mCE is the mean, in the order of the paper; those for validation; those
# in no published table. Light falls as well as rises; the standard set only brightens.
_SETS = (
    {
        "noise": ("gaussian_noise", "shot_noise", "impulse_noise"),
        "blur": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
        "weather": ("snow", "frost", "fog", "brightness"),
        "digital": ("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
    },
    {
        "noise": ("speckle_noise",),
        "blur": ("gaussian_blur",),
        "weather": ("spatter",),
        "digital": ("saturate",),
    },
    {
        "extended": (
            "low_light", "darken", "colour_cast", "downscale", "occlusion", "frost_like",
        ),
    },
)  # fmt: skip
_FAMILY = {kind: name for one in _SETS for name, kinds in one.items() for kind in kinds}
STANDARD, VALIDATION, EXTENDED = (tuple(chain(*one.values())) for one in _SETS)
KINDS, FAMILIES = tuple(_FAMILY), (*_SETS[0], *_SETS[2])


def family_of(kind: str) -> str:
    """Name the family of a corruption: noise, blur, weather, digital or extended.

    Raises:
        ConfigError: There is no such corruption.

    >>> family_of("speckle_noise"), family_of("fog"), family_of("low_light")
    ('noise', 'weather', 'extended')
    """
    return _FAMILY[checked_kind(kind)]


def checked_kind(kind: str) -> str:
    """Return the name of a corruption that exists.

    Raises:
        ConfigError: There is no such corruption; the nearest name is shown.
    """
    if kind not in KINDS:
        way_out = nearest(kind, KINDS) or f"; the names are {', '.join(KINDS)}"
        raise ConfigError(f"corruption must be one of those known, got {kind!r}{way_out}")
    return kind


@cache
def severity_tables() -> dict[str, Any]:
    """Read the tables of severities: per profile its size, source, and each corruption's numbers.

    >>> severity_tables()["cifar-c"]["severities"]["gaussian_noise"]
    {'scale': [0.04, 0.06, 0.08, 0.09, 0.1]}
    """
    text = files(__package__).joinpath("severities.json").read_text("utf-8")
    return dict(json.loads(text))


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
        lambda generator, size, parameters: (crop(generator, parameters["pictures"], *size),),
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


SIZES = {"cifar-c": 32, "tiny-imagenet-c": 64, "imagenet-c": 224}
PROFILES = (*SIZES, "scaled")
SMALLEST = 8  # pixels: of the embedded digits
SAVED_AS_JPEG = ("tiny-imagenet-c", "imagenet-c")  # the published files, at quality 85

# The lengths in pixels that `scaled` scales; the first must reach a pixel from severity 3 on.
LENGTHS = {
    "defocus_blur": ("radius",),
    "glass_blur": ("delta", "sigma"),
    "motion_blur": ("radius", "sigma"),
    "snow": ("radius", "sigma", "zoom"),
    "elastic_transform": ("affine", "alpha", "sigma"),
    "gaussian_blur": ("sigma",),
    "spatter": ("sigma", "mud_blur"),
}


@dataclass(frozen=True, eq=False)
class Profile:
    """Corruptions of one published set of severities, or of one scaled to another size.

    Attributes:
        name: cifar-c, tiny-imagenet-c, imagenet-c or scaled.
        size: Shorter side of the images, pixels.
        kinds: Corruptions that can be made, in the order standard, validation, extended.
        left_out: Those that cannot, and why.
        jpeg85: Whether each result goes through JPEG at quality 85, as the published files did.
        pictures: Frost photographs of the user, RGB, uint8, at the scale of this profile.
    """

    name: str
    size: int
    kinds: tuple[str, ...]
    left_out: Mapping[str, str]
    jpeg85: bool = False
    pictures: tuple[Images, ...] = field(default=(), repr=False)

    @property
    def note(self) -> str:
        """What a reader must know before comparing, or nothing."""
        return "" if self.name != "scaled" else "not comparable with published tables"

    def checked(self, kind: str) -> str:
        """Return the name of a corruption that this profile can make.

        Raises:
            ConfigError: There is none of this name, or it is left out.
        """
        if (reason := self.left_out.get(checked_kind(kind))) is not None:
            raise ConfigError(
                f"{kind} cannot be made with profile {self.name}: {reason}; leave it out"
            )
        return kind

    def parameters(self, kind: str, severity: int) -> dict[str, Any]:
        """Look up the numbers of one corruption at one severity, lengths in pixels.

        Raises:
            ConfigError: See `checked`; the severity is not 1 to 5.

        >>> profile("cifar-c", 32).parameters("motion_blur", 5)
        {'radius': 9, 'sigma': 2.5}
        """
        if severity not in SEVERITIES:
            raise ConfigError(
                f"severity must be 1, 2, 3, 4 or 5, got {severity!r}; the clean image has none"
            )
        # Drawn ice is mixed as photographs are.
        published = "frost" if self.checked(kind) == "frost_like" else kind
        tables, name = severity_tables(), "imagenet-c" if self.name == "scaled" else self.name
        numbers = tables[name]["severities"].get(published)
        numbers = numbers or tables["extended"]["severities"][kind]
        chosen = {key: values[severity - 1] for key, values in numbers.items()}
        if self.name == "scaled":
            for key in LENGTHS.get(kind, ()):
                chosen[key] *= self.size / SIZES[name]
            if kind == "glass_blur":
                chosen["delta"] = max(1, round(chosen["delta"]))
            if kind == "snow":
                chosen["zoom"] = max(1.0, chosen["zoom"])
        return chosen

    def fingerprint(self, kind: str, severity: int) -> str:
        """Digest all that decides a corrupted image but the image, its id and the suite's seed.

        Returns:
            SHA-256 of the parameters, the version of the formula, `jpeg85` and frost pictures.
        """
        content = [kind, FORMULAS[kind].version, self.parameters(kind, severity), self.jpeg85]
        digest = hashlib.sha256(json.dumps(content).encode())
        for picture in self.pictures if kind == "frost" else ():
            digest.update(repr(picture.shape).encode() + picture.tobytes())
        return digest.hexdigest()


def profile(
    name: str, size: int, *, frost: str | Path | None = None, jpeg85: bool = False
) -> Profile:
    """Choose the corruptions for images of one size.

    Args:
        name: cifar-c (32 pixels), tiny-imagenet-c (64), imagenet-c (224), or scaled: the lengths
            of imagenet-c in pixels times size / 224, for any size.
        size: Shorter side of the images, pixels.
        frost: Folder or `s3://` prefix of photographs of frost; without it, frost is left out.
        jpeg85: Pass every result through JPEG at quality 85, as the published files of imagenet-c
            and tiny-imagenet-c were.

    Raises:
        ConfigError: Unknown name; images below 8 pixels, or of another size than the profile's;
            `jpeg85` with a profile whose files are not JPEGs; no picture in the folder of frost, or
            one that is too small.

    >>> profile("scaled", 8).left_out["motion_blur"]
    'from severity 3 on it moves or blurs by at most 0.71 pixels'
    >>> profile("cifar-c", 128)
    Traceback (most recent call last):
    ...
    scotoma.errors.ConfigError: profile cifar-c is for images of 32 pixels, got 128; set scaled
    """
    if name not in PROFILES:
        raise ConfigError(
            f"profile must be one of {', '.join(PROFILES)}, got {name!r}{nearest(name, PROFILES)}"
        )
    if size < SMALLEST:
        raise ConfigError(
            f"images to corrupt must be at least {SMALLEST} pixels, got {size}; use larger images"
        )
    if name in SIZES and SIZES[name] != size:
        fitting = {size: fit for fit, size in SIZES.items()}.get(size, "scaled")
        raise ConfigError(
            f"profile {name} is for images of {SIZES[name]} pixels, got {size}; set {fitting}"
        )
    if jpeg85 and name not in SAVED_AS_JPEG:
        raise ConfigError(
            f"jpeg85 needs profile {' or '.join(SAVED_AS_JPEG)}, got {name}; leave it out"
        )
    scaled, factor = name == "scaled", size / SIZES["imagenet-c"]
    left_out = _below_one_pixel(factor) if scaled else {}
    pictures: tuple[Images, ...] = ()
    if frost is None:
        left_out["frost"] = "it needs photographs of frost; name a folder of them as frost"
    else:
        scale = factor if scaled else severity_tables()[name]["frost_scale"]
        pictures = read_pictures(frost, scale=scale, size=size)
    kinds = tuple(kind for kind in KINDS if kind not in left_out)
    return Profile(name, size, kinds, left_out, jpeg85, pictures)


def _below_one_pixel(factor: float) -> dict[str, str]:
    reasons = {}
    for kind, (key, *_) in LENGTHS.items():
        length = max(severity_tables()["imagenet-c"]["severities"][kind][key][2:]) * factor
        if length < 1:
            # Rounded down, so that none reads as a whole pixel.
            shown = math.floor(100 * length) / 100
            reasons[kind] = f"from severity 3 on it moves or blurs by at most {shown:g} pixels"
    return reasons
