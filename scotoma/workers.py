"""How work is spread over cores without its parts standing in each other's way."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

from scotoma.errors import DataError

__all__ = ["WORKER_ENVIRONMENT", "end_with_parent", "in_order", "worker_died", "worker_pool"]

LONGEST_FOLDER = 70  # bytes: 107 without what multiprocessing puts behind it

Item = TypeVar("Item")
Result = TypeVar("Result")

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
            initializer=_start,
            initargs=(dict(os.environ), initializer, *arguments),
        ) as pool,
    ):
        try:
            yield pool
        except BrokenProcessPool as error:
            raise worker_died("its part of the work") from error
        except BrokenPipeError as error:  # it died before it had been sent what it works with
            pool.shutdown(wait=False, cancel_futures=True)
            raise worker_died("its part of the work") from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def in_order(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Iterator[Result]:
    """What a function says of each item, in their order, some items side by side.

    For functions whose work is done by NumPy, SciPy or Polars, which let other threads run.

    Args:
        function: Called once an item.
        items: Taken when a thread is free: at most `threads` are held, and one more that is made.
        threads: How many at once; with 1 they are called here, one after the other.

    >>> list(in_order(abs, [-1, 2, -3], 2))
    [1, 2, 3]
    """
    if threads == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        begun: deque[Future[Result]] = deque()
        for item in items:
            if len(begun) == threads:
                yield begun.popleft().result()
            begun.append(pool.submit(function, item))
        while begun:
            yield begun.popleft().result()


def worker_died(doing: str) -> DataError:
    """The sentence for a worker that no longer answers.

    Args:
        doing: What it may have been busy with.
    """
    return DataError(
        f"a worker process died at {doing}: the system stopped it, most often for want of memory, "
        "or a library crashed; free memory or leave that variant out, and repeat the command"
    )


def _start(environment: dict[str, str], initializer: Callable[..., None], *arguments: Any) -> None:
    """In a worker: what it was forked from may have been started in another environment."""
    os.environ.clear()
    os.environ.update(environment)
    threading.Thread(target=end_with_parent, daemon=True).start()
    initializer(*arguments)


def end_with_parent() -> None:
    """In a thread of a child: end it with its parent, which tells it nothing if it was killed."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def _context() -> Any:  # of multiprocessing's own kinds, which have no common type
    # Workers are asked for at a socket, whose address may have 107 bytes.
    if sys.platform != "linux" or len(os.fsencode(tempfile.gettempdir())) > LONGEST_FOLDER:
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
