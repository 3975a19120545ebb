"""Scotoma finds the blind spots that pruning and quantization open in a model."""

import os

from scotoma._version import __version__

__all__ = ["__version__"]

# ONNX Runtime tells its makers what it runs, unless it finds this when it is loaded. Nothing of an
# audit leaves the machine that its user has not sent.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
