"""Which workers this process has begun."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["workers"]


def workers() -> list[int]:
    """Numbers of the workers that were forked for this process and have not ended."""
    return [worker for source in _children(os.getpid()) for worker in _workers(source)]


def _workers(source: int) -> list[int]:
    found = []
    for child in _children(source):
        with suppress(OSError):  # it has ended meanwhile
            if Path(f"/proc/{child}/comm").read_text() == "scotoma workers\n":
                found.append(child)
    return found


def _children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]
