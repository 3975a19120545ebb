"""The 16 training runs of each technique that Qian et al. 2021 published beside their paper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["STUDIED", "bias_of_runs"]

RUNS: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
STUDIED = [tuple(name.split("|")) for name in RUNS["bias"]]  # techniques and metrics


def bias_of_runs(technique: str, metric: str) -> NDArray[np.float64]:
    """The bias of each class and last their mean, shape (16, C + 1), in [0, 1]."""
    return np.array(RUNS["bias"][f"{technique}|{metric}"])
