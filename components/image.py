"""Which container image the components run in on a cluster."""

from __future__ import annotations

import os

from scotoma._version import __version__

__all__ = ["IMAGE"]

IMAGE = os.environ.get("SCOTOMA_IMAGE", f"scotoma:{__version__}")
