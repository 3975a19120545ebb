"""Scotoma finds the blind spots that pruning and quantization open in a model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from scotoma._version import __version__

if TYPE_CHECKING:
    from scotoma.answers.arrays import pair
    from scotoma.notebook.opened import open  # noqa: A004  as notebooks write it
    from scotoma.notebook.pairs import find_slices, judge, measure

__all__ = ["__version__", "find_slices", "judge", "measure", "open", "pair"]

# Where each name is, which is imported on first use: numpy and polars take their time.
HOMES = {
    "find_slices": "scotoma.notebook.pairs",
    "judge": "scotoma.notebook.pairs",
    "measure": "scotoma.notebook.pairs",
    "open": "scotoma.notebook.opened",
    "pair": "scotoma.answers.arrays",
}

# ONNX Runtime tells its makers what it runs, unless it finds this when it is loaded. Nothing of an
# audit leaves the machine that its user has not sent.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def __dir__() -> list[str]:
    """List what notebooks use, which is imported on first use."""
    return __all__


def __getattr__(name: str) -> Any:
    """Import what notebooks use on first use."""
    if name not in HOMES:
        raise AttributeError(f"module 'scotoma' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(HOMES[name]), name)
