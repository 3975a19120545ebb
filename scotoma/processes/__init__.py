"""Which process does what? The child that runs an audit, and the workers below it."""

from __future__ import annotations

from scotoma.processes.isolation import CrashedError, IsolatedProcess, MemoryLimitError
from scotoma.processes.pool import (
    WorkerPool,
    kept_workers,
    map_in_order,
    start_server,
    worker_died,
    worker_pool,
)

__all__ = [
    "CrashedError",
    "IsolatedProcess",
    "MemoryLimitError",
    "WorkerPool",
    "kept_workers",
    "map_in_order",
    "start_server",
    "worker_died",
    "worker_pool",
]
