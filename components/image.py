"""Which container images the components run in on Kubeflow."""

from __future__ import annotations

import os

from scotoma._version import __version__

# With everything: what trains, quantizes, predicts or logs.
IMAGE = os.environ.get("SCOTOMA_IMAGE", f"scotoma:{__version__}")
# Without torch, ONNX and MLflow: what measures.
CORE_IMAGE = os.environ.get("SCOTOMA_CORE_IMAGE", f"scotoma-core:{__version__}")
