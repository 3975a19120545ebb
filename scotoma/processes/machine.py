"""What numbers and weights were made on, and with."""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from scotoma._version import __version__

PACKAGES = ("mlflow", "numpy", "onnx", "onnxruntime", "polars", "scipy", "torch")


def versions() -> dict[str, str]:
    """Versions of this package and of those that decide its numbers."""
    return {"scotoma": __version__} | {name: _installed(name) for name in PACKAGES}


@cache  # a lookup takes milliseconds, and every member's record asks for all
def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def cores() -> int:
    """Cores that this process may use, which in a container can be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def has_fast_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 itself (AVX-512 BF16, AMX or ARM's BF16)."""
    table = Path("/proc/cpuinfo")
    words = set(table.read_text(encoding="utf-8").split()) if table.exists() else set()
    return bool(words & {"avx512_bf16", "amx_bf16", "bf16"})


def has_gpu_driver() -> bool:
    """Whether the driver of a GPU that torch knows is there: NVIDIA's, WSL's or AMD's."""
    return any(Path("/dev", name).exists() for name in ("nvidiactl", "dxg", "kfd"))


def hardware() -> dict[str, str | int]:
    """Processor, cores, system and Python version."""
    return {
        "cpu": _processor(),
        "cores": cores(),
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
