"""What the numbers in measurements.json were measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

__all__ = ["hardware"]


def hardware() -> dict[str, str | int]:
    """Processor, cores, system and Python version."""
    return {
        "cpu": _processor(),
        "cores": os.cpu_count() or 1,
        "system": platform.system(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    table = Path("/proc/cpuinfo")
    if table.exists():
        for line in table.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
