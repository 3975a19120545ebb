"""Which workers this process has begun."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["workers"]


def workers() -> list[int]:
    """Numbers of the workers that were forked for this process and have not ended."""
    return [worker for source in _children(os.getpid()) for worker in _workers(source)]


def _workers(source: int) -> list[int]:
    names = {child: Path(f"/proc/{child}/comm").read_text() for child in _children(source)}
    return [child for child, name in names.items() if name == "scotoma workers\n"]


def _children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]
