"""Runs against runs: how far one value moves between identical trainings, and what moves it."""

from __future__ import annotations

from scotoma.variance.comparing import (
    Comparison,
    RunSpread,
    compare,
    compare_family,
    spread,
)
from scotoma.variance.effects import THIS_TEST_SET

__all__ = [
    "THIS_TEST_SET",
    "Comparison",
    "RunSpread",
    "compare",
    "compare_family",
    "spread",
]
