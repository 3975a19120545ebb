"""Runs against runs: how far one value moves between identical trainings, and what moves it."""

from __future__ import annotations

from scotoma.variance.comparing import (
    NO_POWER,
    Comparison,
    RunSpread,
    compare,
    compare_family,
    spread,
)
from scotoma.variance.effects import THIS_TEST_SET

__all__ = [
    "NO_POWER",
    "THIS_TEST_SET",
    "Comparison",
    "RunSpread",
    "compare",
    "compare_family",
    "spread",
]
