"""Calls that may take their process down, or never come back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from types import TracebackType
from typing import Any, TypeVar

from scotoma.processes.server import context, enter_worker

__all__ = ["CrashedError", "IsolatedProcess"]

Result = TypeVar("Result")


class CrashedError(Exception):
    """A process ended before it had answered.

    Attributes:
        killed: Whether by SIGKILL, which is how the system ends it for want of memory.
    """

    def __init__(self, code: int | None) -> None:
        super().__init__(f"exit code {code}")
        self.killed = code == -signal.SIGKILL


class IsolatedProcess:
    """A process for one call after the other, replaced where a call has ended it.

    Args:
        prepare: Called first in each such process; can be pickled, and raises nothing.
    """

    def __init__(self, prepare: Callable[[], None]) -> None:
        self._prepare = prepare
        self._running: tuple[ForkServerProcess, Connection] | None = None

    def __enter__(self) -> IsolatedProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def call(self, function: Callable[..., Result], *arguments: Any, limit_s: float) -> Result:
        """Call a function.

        Args:
            function: Can be pickled, as can its arguments and what it returns; raises nothing.
            *arguments: Its arguments.
            limit_s: How long the call may take, in seconds, once the process is prepared.

        Returns:
            Its result.

        Raises:
            CrashedError: The process ended without one.
            TimeoutError: The call took longer.
        """
        try:
            _, connection = self._running = self._running or self._start()
            connection.send((function, arguments))
            if not connection.poll(limit_s):
                self._end()
                raise TimeoutError
            return connection.recv()  # type: ignore[no-any-return]  # what was pickled has no type
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            raise CrashedError(self._end()) from error

    def _start(self) -> tuple[ForkServerProcess, Connection]:
        ours, theirs = context().Pipe()
        process = context().Process(
            target=_answer, args=(theirs, dict(os.environ), self._prepare), daemon=True
        )
        try:
            process.start()
        except (EOFError, ConnectionError) as error:  # the server was killed that would fork it
            raise CrashedError(-signal.SIGKILL) from error
        theirs.close()
        self._running = process, ours
        ours.recv_bytes()  # it is prepared
        return self._running

    def _end(self) -> int | None:
        """End the process, if there is one; return its exit code if it had ended by itself."""
        if self._running is None:
            return None
        process, connection = self._running
        self._running = None
        connection.close()
        process.join(0.1 if process.is_alive() else None)
        process.kill()
        process.join()
        code = process.exitcode
        process.close()
        return code


def _answer(
    connection: Connection, environment: dict[str, str], prepare: Callable[[], None]
) -> None:
    enter_worker(environment)
    prepare()
    connection.send_bytes(b"prepared")
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        connection.send(function(*arguments))
