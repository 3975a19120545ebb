"""Scotoma finds the blind spots that pruning and quantization open in a model."""

from scotoma._version import __version__

__all__ = ["__version__"]
