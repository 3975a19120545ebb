"""Scotoma finds the blind spots that pruning and quantization open in a model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from scotoma._version import __version__

if TYPE_CHECKING:
    from scotoma.answers.arrays import pair_of as pair
    from scotoma.notebook.opened import open_audit as open  # noqa: A004  as notebooks write it
    from scotoma.notebook.pairs import judge_pair as judge
    from scotoma.notebook.pairs import measure_pair as measure
    from scotoma.notebook.pairs import slices_of_pair as find_slices

__all__ = ["__version__", "find_slices", "judge", "measure", "open", "pair"]

# Where each name is, which is imported on first use: numpy and polars take their time.
HOMES = {
    "find_slices": ("scotoma.notebook.pairs", "slices_of_pair"),
    "judge": ("scotoma.notebook.pairs", "judge_pair"),
    "measure": ("scotoma.notebook.pairs", "measure_pair"),
    "open": ("scotoma.notebook.opened", "open_audit"),
    "pair": ("scotoma.answers.arrays", "pair_of"),
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

    module, own = HOMES[name]
    return getattr(import_module(module), own)
