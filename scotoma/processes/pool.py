"""Worker processes that share a step's work."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from scotoma.errors import DataError
from scotoma.processes.isolation import ONE_THREAD

LONGEST_FOLDER = 60  # bytes of the name of a folder that sockets may lie in


def start_server(*modules: str) -> None:
    """Start the fork server, which imports some modules while this process goes on.

    Args:
        *modules: Imported once for all workers. None that starts threads on import, as Polars does:
            threads do not survive a fork.
    """
    multiprocessing.set_forkserver_preload([*modules])
    _ensure_running()


def context() -> ForkServerContext:
    """Return the way in which workers start, with the fork server running."""
    _ensure_running()
    return multiprocessing.get_context("forkserver")


def _ensure_running() -> None:
    """Start the fork server where it is not running; its socket has a short name.

    The system takes names of sockets up to some 100 bytes, and a folder for temporary files may be
    longer than that.
    """
    usual = tempfile.tempdir
    if len(os.fsencode(tempfile.gettempdir())) > LONGEST_FOLDER:
        tempfile.tempdir = "/tmp"
    try:
        forkserver.ensure_running()
    finally:
        tempfile.tempdir = usual


def enter_worker(environment: dict[str, str], folder: str) -> None:
    """Make a forked process a worker of the process that asked for it.

    It gets the environment and folder of that process, one thread, and ends when that process does.

    Args:
        environment: Variables; the server may have been started with others.
        folder: The one that relative paths are taken from.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    reset_worker(environment, folder)


def reset_worker(environment: dict[str, str], folder: str) -> None:
    """Give a worker an environment, a folder and one thread; take back what was set in torch.

    Args:
        environment: Variables, as for `enter_worker`.
        folder: As for `enter_worker`.
    """
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment | ONE_THREAD)
    if torch := sys.modules.get("torch"):  # loaded by the server, with a thread a core
        torch.set_num_threads(1)
        torch.set_deterministic_debug_mode("default")


def _end_with_parent() -> None:
    """Wait for the parent's end, which tells its workers nothing where it was killed."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Iterator[Result]:
    """Call a function on each item in threads and yield the results in the items' order.

    Args:
        function: Spends its time in NumPy, SciPy or Polars, which let other threads run.
        items: Taken when a thread is free, so that at most `threads` + 1 are held.
        threads: How many calls run at once; with 1 they run in this thread.

    >>> list(map_in_order(abs, [-1, 2, -3], 2))
    [1, 2, 3]
    """
    if threads == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        pending: deque[Future[Result]] = deque()
        for item in items:
            if len(pending) == threads:
                yield pending.popleft().result()
            pending.append(pool.submit(function, item))
        while pending:
            yield pending.popleft().result()


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


class _Worker(NamedTuple):
    """A process, as a pool of the standard library: where that breaks, its task is known."""

    executor: ProcessPoolExecutor
    process: int

    @classmethod
    def start(cls) -> _Worker:
        executor = ProcessPoolExecutor(
            1,
            mp_context=context(),
            initializer=enter_worker,
            initargs=(dict(os.environ), os.getcwd()),
        )
        try:
            return cls(executor, executor.submit(os.getpid).result())
        except (EOFError, ConnectionError) as error:  # the server was killed that would fork it
            raise BrokenProcessPool("no worker could be started") from error

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)


_kept: SimpleQueue[_Worker] | None = None  # within `kept_workers`


@contextmanager
def kept_workers() -> Iterator[None]:
    """Keep the workers of a pool that has ended for the next one, until the outermost block ends.

    What they have imported is there already. What was prepared in them is dropped, and the
    settings of torch are those of a new worker.
    """
    global _kept  # pools are made by functions that know nothing of each other
    if _kept is not None:
        yield
        return
    kept: SimpleQueue[_Worker] = SimpleQueue()
    _kept = kept
    try:
        yield
    finally:
        _kept = None
        for worker in _taken(kept):
            worker.executor.shutdown()


def _taken(workers: SimpleQueue[_Worker]) -> Iterator[_Worker]:
    """Take the workers out of a queue, until it is empty."""
    with suppress(Empty):
        while True:
            yield workers.get_nowait()


class WorkerPool:
    """Processes of one thread each, started as they are needed; see `worker_pool`."""

    def __init__(self, workers: int, first: tuple[Any, ...]) -> None:
        self._threads = ThreadPoolExecutor(workers)
        self._own = threading.local()  # each thread has one worker, and waits for it
        self._workers: list[_Worker] = []
        self._changing = threading.Lock()
        self._ended = False
        self._first = first

    def submit(self, function: Callable[..., Result], *arguments: Any, task: str) -> Future[Result]:
        """Have an idle worker call a function.

        Args:
            function: Can be pickled, as can its arguments and what it returns.
            *arguments: Its arguments, after what was prepared in the worker.
            task: What that is, for `worker_died`.

        Returns:
            Its result; `DataError` where the worker dies.
        """
        return self._threads.submit(self._call, function, arguments, task)

    def _call(
        self, function: Callable[..., Result], arguments: tuple[Any, ...], task: str
    ) -> Result:
        worker = getattr(self._own, "worker", None)
        try:
            worker = worker or self._begun()
            future = worker.executor.submit(_call_whole, _call_prepared, (function, arguments))
            return future.result()  # type: ignore[no-any-return]  # what was pickled has no type
        except BrokenProcessPool as error:
            self._own.worker = None
            raise worker_died(task) from error

    def _begun(self) -> _Worker:
        """A worker for this thread, with what is prepared in it."""
        worker = self._reuse() or _Worker.start()
        with self._changing:
            self._workers.append(worker)
            if self._ended:
                worker.kill()
        worker.executor.submit(_call_whole, _prepare, self._first).result()
        self._own.worker = worker
        return worker

    def _reuse(self) -> _Worker | None:
        """Take a worker that an earlier pool has left, if there is one that still lives."""
        for worker in _taken(_kept) if _kept is not None else ():
            with suppress(BrokenProcessPool):
                worker.executor.submit(reset_worker, dict(os.environ), os.getcwd()).result()
                return worker
        return None

    def close(self, *, kill: bool) -> None:
        """End all workers.

        Args:
            kill: At once, whatever they do; else when they have done it.
        """
        with self._changing:
            self._ended = kill
            for worker in self._workers if kill else ():
                worker.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            if _kept is not None and not kill:
                with suppress(BrokenProcessPool):
                    worker.executor.submit(_rest)
                    _kept.put(worker)
                    continue
            worker.executor.shutdown()


@contextmanager
def worker_pool(
    workers: int, prepare: Callable[..., object] | None = None, *arguments: Any
) -> Iterator[WorkerPool]:
    """Share work among processes of one thread each, started as they are needed.

    Args:
        workers: Number of processes, at most the number of cores.
        prepare: Called once in each, with the arguments; what it returns is the first argument of
            every function. None where there is nothing to share.
        *arguments: Sent to each process once.

    Yields:
        The pool. What it has not begun is dropped when the block ends; what it has begun is ended
        if the block fails.
    """
    pool = WorkerPool(workers, (prepare, arguments))
    try:
        yield pool
    except BaseException:
        pool.close(kill=True)
        raise
    pool.close(kill=False)


_prepared: tuple[Any, ...] = ()  # in a worker: the first argument of every function, if any


def _prepare(prepare: Callable[..., object] | None, arguments: tuple[Any, ...]) -> None:
    global _prepared  # a process pool has no other place for what its tasks share
    _prepared = (prepare(*arguments),) if prepare else ()


def _rest() -> None:
    """Drop what was prepared, and give the memory back that the last task has freed."""
    _prepare(None, ())
    with suppress(AttributeError):  # only the GNU library has it
        ctypes.CDLL(None).malloc_trim(0)


def _call_prepared(function: Callable[..., Result], arguments: tuple[Any, ...]) -> Result:
    return function(*_prepared, *arguments)


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
