"""Which simulated worlds every commit meets: two; `make test-all` meets them all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["AUDITS", "worlds"]

AUDITS = int(os.environ.get("SCOTOMA_AUDITS", "300"))  # drawn in each world, by pinned seeds
FIRST = 2


def worlds(names: Iterable[Any]) -> list[Any]:
    """Parameters of a test: all names, those after the first two marked as thorough."""
    return [
        name if place < FIRST else pytest.param(name, marks=pytest.mark.thorough)
        for place, name in enumerate(names)
    ]
