"""Scotoma finds the blind spots that pruning and quantization open in a model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from scotoma._version import __version__

if TYPE_CHECKING:
    from scotoma.comparison import compare as compare
    from scotoma.notebook import open_audit as open  # noqa: A004  as notebooks write it

__all__ = ["__version__", "compare", "open"]

# ONNX Runtime tells its makers what it runs, unless it finds this when it is loaded. Nothing of an
# audit leaves the machine that its user has not sent.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def __dir__() -> list[str]:
    """List what notebooks use, which is imported on first use."""
    return __all__


def __getattr__(name: str) -> Any:
    """Import what notebooks use on first use: numpy and polars take their time."""
    if name == "open":
        from scotoma.notebook import open_audit

        return open_audit
    if name == "compare":
        from scotoma.comparison import compare

        return compare
    raise AttributeError(f"module 'scotoma' has no attribute {name!r}")
