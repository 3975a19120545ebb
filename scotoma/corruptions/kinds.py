"""Which corruptions are there, in which set and family, and how strong is each severity?"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Any

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
