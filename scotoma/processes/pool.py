"""Worker processes that share a step's work."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from scotoma.errors import DataError
from scotoma.processes.server import context, enter_worker

__all__ = ["WorkerPool", "worker_died", "worker_pool"]

Result = TypeVar("Result")


def worker_died(task: str) -> DataError:
    """Return the error for a worker that no longer answers.

    Args:
        task: What it was doing, as a participle: `training dense member 3`.

    >>> print(worker_died("training dense member 3"))
    a worker process died while training dense member 3: the system stopped it, most often for \
want of memory, or a library crashed; free memory or leave that variant out, and repeat the command
    """
    return DataError(
        f"a worker process died while {task}: the system stopped it, most often for want of "
        "memory, or a library crashed; free memory or leave that variant out, and repeat the "
        "command"
    )


class WorkerPool:
    """Processes of one thread each, started as they are needed; see `worker_pool`.

    Each is a pool of the standard library with one process: where that breaks, it is known what
    its process was doing.
    """

    def __init__(
        self, workers: int, initializer: Callable[..., None] | None, arguments: tuple[Any, ...]
    ) -> None:
        self._threads = ThreadPoolExecutor(workers)  # each waits for one worker
        self._idle: SimpleQueue[ProcessPoolExecutor] = SimpleQueue()
        self._executors: list[ProcessPoolExecutor] = []
        self._processes: list[int] = []
        self._changing = threading.Lock()
        self._ended = False
        self._first = (initializer, arguments)

    def submit(self, function: Callable[..., Result], *arguments: Any, task: str) -> Future[Result]:
        """Have an idle worker call a function.

        Args:
            function: Can be pickled, as can its arguments and what it returns.
            *arguments: Its arguments.
            task: What that is, for `worker_died`.

        Returns:
            Its result; `DataError` where the worker dies.
        """
        return self._threads.submit(self._call, function, arguments, task)

    def _call(
        self, function: Callable[..., Result], arguments: tuple[Any, ...], task: str
    ) -> Result:
        try:
            executor = self._take()
            future = executor.submit(_call_whole, function, arguments)
            wait([future])
            if not isinstance(future.exception(), BrokenProcessPool):
                self._idle.put(executor)
            return future.result()
        except BrokenProcessPool as error:
            raise worker_died(task) from error

    def _take(self) -> ProcessPoolExecutor:
        try:
            return self._idle.get_nowait()
        except Empty:
            return self._start()

    def _start(self) -> ProcessPoolExecutor:
        executor = ProcessPoolExecutor(
            1, mp_context=context(), initializer=enter_worker, initargs=(dict(os.environ),)
        )
        try:
            process = executor.submit(os.getpid).result()
        except (EOFError, ConnectionError) as error:  # the server was killed that would fork it
            raise BrokenProcessPool("no worker could be started") from error
        with self._changing:
            self._executors.append(executor)
            self._processes.append(process)
            if self._ended:
                _kill(process)
        initializer, arguments = self._first
        if initializer is not None:
            executor.submit(_call_whole, initializer, arguments).result()
        return executor

    def close(self, *, kill: bool) -> None:
        """End all workers.

        Args:
            kill: At once, whatever they do; else when they have done it.
        """
        with self._changing:
            self._ended = kill
            for process in self._processes if kill else ():
                _kill(process)
        self._threads.shutdown(cancel_futures=True)
        for executor in self._executors:
            executor.shutdown()


@contextmanager
def worker_pool(
    workers: int, initializer: Callable[..., None] | None = None, *arguments: Any
) -> Iterator[WorkerPool]:
    """Share work among processes of one thread each, started as they are needed.

    Args:
        workers: Number of processes, at most the number of cores.
        initializer: Called once in each, with the arguments; None where there is nothing to share.
        *arguments: Sent to each process once.

    Yields:
        The pool. What it has not begun is dropped when the block ends; what it has begun is ended
        if the block fails.
    """
    pool = WorkerPool(workers, initializer, arguments)
    try:
        yield pool
    except BaseException:
        pool.close(kill=True)
        raise
    pool.close(kill=False)


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def _call_whole(function: Callable[..., Result], arguments: tuple[Any, ...]) -> Result:
    """Call a function in a worker; what it raises arrives, if need be as its traceback's text."""
    try:
        return function(*arguments)
    except Exception as error:
        text = traceback.format_exc()
        error.add_note(text)
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # an error that cannot be pickled, or put together again
            raise RuntimeError(text) from None
        raise
