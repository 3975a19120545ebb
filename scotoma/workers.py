"""How work is spread over cores without its parts standing in each other's way."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

__all__ = ["WORKER_ENVIRONMENT", "worker_pool"]

# One thread a process: OpenMP teams stall when a core is shared. The malloc settings keep glibc
# from giving memory back to the system between steps, only to ask for it again.
WORKER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
}


@contextmanager
def worker_pool(
    workers: int, initializer: Callable[..., None], *arguments: Any
) -> Iterator[ProcessPoolExecutor]:
    """A pool of spawned processes of one thread each.

    Args:
        workers: Number of processes, at most the number of cores.
        initializer: Called once in each, with the arguments.
        *arguments: Sent to each process once.

    Yields:
        The pool; what it has not begun is dropped when the block fails.
    """
    with (
        _environment(WORKER_ENVIRONMENT),
        ProcessPoolExecutor(
            workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=initializer,
            initargs=arguments,
        ) as pool,
    ):
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set variables that spawned workers inherit, and put back what was there."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
