"""Runs against runs: how far one value moves between identical trainings, and what moves it."""

from __future__ import annotations

from scotoma.variance.comparing import (
    NO_POWER,
    RunComparison,
    RunSpread,
    compare_family,
    compare_run_sets,
    spread,
)
from scotoma.variance.effects import THIS_TEST_SET

__all__ = [
    "NO_POWER",
    "THIS_TEST_SET",
    "RunComparison",
    "RunSpread",
    "compare_family",
    "compare_run_sets",
    "spread",
]
