"""Which corruptions are there, in which set and family, and how strong is each severity?"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from scotoma.errors import ConfigError
from scotoma.printable import nearest

SEVERITIES = (1, 2, 3, 4, 5)

_STANDARD = {
    "noise": ("gaussian_noise", "shot_noise", "impulse_noise"),
    "blur": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    "weather": ("snow", "frost", "fog", "brightness"),
    "digital": ("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
}
_VALIDATION = {
    "noise": ("speckle_noise",),
    "blur": ("gaussian_blur",),
    "weather": ("spatter",),
    "digital": ("saturate",),
}

# The 15 of which mCE is the mean, in the order of the paper.
STANDARD = tuple(kind for kinds in _STANDARD.values() for kind in kinds)
VALIDATION = tuple(kind for kinds in _VALIDATION.values() for kind in kinds)
# In no published table. Light falls as well as rises; the standard set only brightens.
EXTENDED = ("low_light", "darken", "colour_cast", "downscale", "occlusion", "frost_like")
KINDS = (*STANDARD, *VALIDATION, *EXTENDED)
FAMILIES = ("noise", "blur", "weather", "digital", "extended")


def family_of(kind: str) -> str:
    """Name the family of a corruption: noise, blur, weather, digital or extended.

    Raises:
        ConfigError: There is no such corruption.

    >>> family_of("speckle_noise"), family_of("fog"), family_of("low_light")
    ('noise', 'weather', 'extended')
    """
    checked_kind(kind)
    for families in (_STANDARD, _VALIDATION):
        for family, kinds in families.items():
            if kind in kinds:
                return family
    return "extended"


def checked_kind(kind: str) -> str:
    """Return the name of a corruption that exists.

    Raises:
        ConfigError: There is no such corruption; the nearest name is shown.
    """
    if kind not in KINDS:
        way_out = nearest(kind, KINDS) or f"; the names are {', '.join(KINDS)}"
        raise ConfigError(f"corruption must be one of those known, got {kind!r}{way_out}")
    return kind


def checked_severity(severity: int) -> int:
    """Return a severity from 1 to 5.

    Raises:
        ConfigError: It is not; 0 would be the clean image.
    """
    if severity not in SEVERITIES:
        raise ConfigError(
            f"severity must be 1, 2, 3, 4 or 5, got {severity!r}; the clean image has none"
        )
    return severity


@cache
def severity_tables() -> dict[str, Any]:
    """Read the tables of severities: per profile its size, source, and each corruption's numbers.

    >>> severity_tables()["cifar-c"]["severities"]["gaussian_noise"]
    {'scale': [0.04, 0.06, 0.08, 0.09, 0.1]}
    """
    text = files(__package__).joinpath("severities.json").read_text("utf-8")
    content: dict[str, Any] = json.loads(text)
    return content
