"""How work is spread over cores without its parts standing in each other's way."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from scotoma import forking
from scotoma.errors import DataError

__all__ = [
    "AHEAD_VARIABLE",
    "WORKER_ENVIRONMENT",
    "Died",
    "Pool",
    "Worker",
    "end_with_parent",
    "in_order",
    "worker_died",
    "worker_pool",
]

AHEAD_VARIABLE = "SCOTOMA_AHEAD"  # set where tasks are begun one after the other
# One thread a process: OpenMP teams stall when a core is shared. The malloc settings keep glibc
# from giving memory back to the system between steps, only to ask for it again.
WORKER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
}
MALLOC_OPTIONS = {-4: 0, -1: -1}  # M_MMAP_MAX, M_TRIM_THRESHOLD: the same for a process that runs
GOODBYE = b""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Died(Exception):  # noqa: N818  it is what happened
    """A worker ended before it had answered.

    Attributes:
        killed: Whether by SIGKILL, as the system does for want of memory, and nobody by mistake.
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"exit code {code}")
        self.killed = code == -signal.SIGKILL


class _Process(Protocol):
    def kill(self) -> None: ...
    def wait(self) -> int: ...


class Worker:
    """A process that does what it is asked, one call after the other, and ends with this one.

    Args:
        modules: What it needs that takes long to import; where processes can be forked, they share
            it.
    """

    def __init__(self, *modules: str) -> None:
        ours, theirs = socket.socketpair()
        with theirs, ours:
            self._process = _begun(theirs.fileno(), modules)
            self._connection = Connection(ours.detach())
        self.call(_settle, dict(os.environ) | WORKER_ENVIRONMENT, sys.path, os.getcwd())

    def call(
        self, function: Callable[..., Result], *arguments: Any, limit_s: float | None = None
    ) -> Result:
        """What a function of a module says there.

        Args:
            function: It and what it is given and returns can be pickled.
            *arguments: Its arguments.
            limit_s: How long to wait; None for ever.

        Raises:
            Died: The process did, meanwhile or before; there is nothing left to end.
            TimeoutError: It was longer; the process still works.
        """
        try:
            self._connection.send_bytes(pickle.dumps((function, arguments)))
            if not self._connection.poll(limit_s):
                raise TimeoutError
            answer = self._connection.recv_bytes()
        except TimeoutError:
            raise
        except (EOFError, OSError) as error:
            raise Died(self.end()) from error
        found, failed = pickle.loads(answer)
        if failed is not None:
            raise failed
        return found  # type: ignore[no-any-return]  # what was pickled has no type

    @property
    def ended(self) -> bool:
        """Whether it can be asked no more."""
        return self._connection.closed

    def end(self) -> int:
        """End it, if it does nothing.

        Returns:
            Its exit code, negative for a signal.
        """
        if not self.ended:
            with suppress(OSError):  # said, for a fork of this process may hold the connection too
                self._connection.send_bytes(GOODBYE)
            self._connection.close()
        return self._code

    def kill(self) -> None:
        """Stop it, whatever it does; who waits for its answer hears that it died."""
        if not self.ended:
            self._process.kill()

    @cached_property
    def _code(self) -> int:
        return self._process.wait()


class Pool:
    """Workers that share calls, begun as they are needed: see `worker_pool`."""

    def __init__(
        self,
        workers: int,
        modules: Sequence[str],
        initializer: Callable[..., None],
        arguments: tuple[Any, ...],
    ) -> None:
        self._threads = ThreadPoolExecutor(workers)  # each waits for the answer of one worker
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        self._begun: list[Worker] = []
        self._changing = threading.Lock()  # of what has begun
        self._killed = False
        self._modules = modules
        self._first = (initializer, *arguments)

    def submit(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Have a function called by a worker that is idle, when there is one.

        Returns:
            What it will say; `Died`, if the worker does.
        """
        return self._threads.submit(self._call, function, *arguments)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """What a function will say of each item, in their order; all are begun at once."""
        futures = [self.submit(function, item) for item in items]
        return (future.result() for future in futures)

    def _call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        try:
            worker = self._idle.get_nowait()
        except Empty:
            worker = self._begin()
        try:
            return worker.call(function, *arguments)
        finally:
            if not worker.ended:
                self._idle.put(worker)

    def _begin(self) -> Worker:
        worker = Worker(*self._modules)
        with self._changing:
            self._begun.append(worker)
            if self._killed:
                worker.kill()
        try:
            worker.call(*self._first)
        except BaseException:
            worker.end()
            raise
        return worker

    def kill(self) -> None:
        """Stop all of them, whatever they do."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._changing:
            self._killed = True
            for worker in self._begun:
                worker.kill()

    def close(self) -> None:
        """End them when they have done what they do."""
        self._threads.shutdown(cancel_futures=True)
        for worker in self._begun:
            worker.end()


@contextmanager
def worker_pool(
    workers: int,
    initializer: Callable[..., None],
    *arguments: Any,
    modules: Sequence[str] = ("torch",),
) -> Iterator[Pool]:
    """A pool of processes of one thread each, started as they are needed.

    Args:
        workers: Number of processes, at most the number of cores.
        initializer: Called once in each, with the arguments.
        *arguments: Sent to each process once.
        modules: What they need that takes long to import; where processes can be forked, they share
            it. None of our own: they import Polars, whose threads do not survive a fork.

    Yields:
        The pool; what it has not begun is dropped when the block ends.

    Raises:
        DataError: A worker died, of a signal or for want of memory.
    """
    pool = Pool(workers, modules, initializer, arguments)
    try:
        yield pool
    except Died as error:
        pool.kill()
        raise worker_died("its part of the work") from error
    finally:
        pool.close()


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


def end_with_parent() -> None:
    """In a thread of a child: end it with its parent, which tells it nothing if it was killed."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def forked(descriptors: list[int]) -> None:
    """What the process of a worker does."""
    (descriptor,) = descriptors
    connection = Connection(descriptor)
    asked: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(connection, asked), daemon=True).start()
    with suppress(OSError, KeyboardInterrupt):  # nobody waits for the answer any more
        while (call := asked.get()) != GOODBYE:
            answer = _answer(call)
            sys.stdout.flush()  # it may have no other chance
            connection.send_bytes(answer)


def _listen(connection: Connection, asked: SimpleQueue[bytes]) -> None:
    """In a thread: end this process with the one that asks it, which says nothing if killed."""
    with suppress(EOFError, OSError):
        while True:
            asked.put(call := connection.recv_bytes())
            if call == GOODBYE:
                return
    os._exit(1)


def main() -> None:
    """What a new Python does that is a worker."""
    forked([int(sys.argv[1])])


def _begun(descriptor: int, modules: Sequence[str]) -> _Process:
    """The process of a worker, which hears by a descriptor what to do."""
    if sys.platform == "linux":
        try:
            return forking.source().fork(__name__, {}, [descriptor], modules=modules)
        except ConnectionError as error:  # it was killed
            raise Died(-signal.SIGKILL) from error
    return subprocess.Popen(
        [*forking.python_of(__name__), str(descriptor)],
        stdin=subprocess.DEVNULL,
        pass_fds=(descriptor,),
        env=os.environ | WORKER_ENVIRONMENT,
    )


def _settle(environment: dict[str, str], path: list[str], folder: str) -> None:
    """In a worker: what it was forked from may have been started elsewhere, and otherwise.

    Only OpenBLAS keeps the number of threads that it was loaded with.
    """
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = path
    os.chdir(folder)
    with suppress(AttributeError):  # another C library than glibc
        for option, value in MALLOC_OPTIONS.items():
            ctypes.CDLL(None).mallopt(option, value)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


def _answer(asked: bytes) -> bytes:
    """What a call comes to, and why it came to nothing."""
    try:
        function, arguments = pickle.loads(asked)
        return pickle.dumps((function(*arguments), None))
    except Exception as error:
        said = traceback.format_exc()
        error.add_note(said)
        answer = pickle.dumps((None, RuntimeError(said)))
        with suppress(Exception):  # not every error can be pickled, or put together again
            whole = pickle.dumps((None, error))
            pickle.loads(whole)
            answer = whole
        return answer
