"""How work is spread over cores without its parts standing in each other's way."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from scotoma.errors import DataError

__all__ = ["WORKER_ENVIRONMENT", "worker_died", "worker_pool"]

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
    """A pool of processes of one thread each, started as they are needed.

    Where processes can be forked safely they start from one that has torch imported and nothing
    else: importing it takes three seconds, which the workers then share.

    Args:
        workers: Number of processes, at most the number of cores.
        initializer: Called once in each, with the arguments.
        *arguments: Sent to each process once.

    Yields:
        The pool; what it has not begun is dropped when the block fails.

    Raises:
        DataError: A worker died, of a signal or for want of memory.
    """
    with (
        _environment(WORKER_ENVIRONMENT),
        ProcessPoolExecutor(
            workers,
            mp_context=_context(),
            initializer=initializer,
            initargs=arguments,
        ) as pool,
    ):
        try:
            yield pool
        except BrokenProcessPool as error:
            raise worker_died("its part of the work") from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def worker_died(doing: str) -> DataError:
    """The sentence for a worker that no longer answers.

    Args:
        doing: What it may have been busy with.
    """
    return DataError(
        f"a worker process died at {doing}: the system stopped it, most often for want of memory, "
        "or a library crashed; free memory or leave that variant out, and repeat the command"
    )


def _context() -> Any:  # of multiprocessing's own kinds, which have no common type
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    # None of our own modules: they import polars, and its threads do not survive a fork.
    context.set_forkserver_preload(["torch"])
    return context


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
