"""Which worse pictures are models shown? Those of CIFAR-C and ImageNet-C, and some more."""

from __future__ import annotations

from scotoma.corruptions.apply import corrupt
from scotoma.corruptions.images import read_image
from scotoma.corruptions.profiles import (
    EXTENDED,
    FAMILIES,
    KINDS,
    PROFILES,
    SEVERITIES,
    SIZES,
    STANDARD,
    VALIDATION,
    Profile,
    family_of,
    profile,
)

__all__ = [
    "EXTENDED",
    "FAMILIES",
    "KINDS",
    "PROFILES",
    "SEVERITIES",
    "SIZES",
    "STANDARD",
    "VALIDATION",
    "Profile",
    "corrupt",
    "family_of",
    "profile",
    "read_image",
]
