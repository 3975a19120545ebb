"""Calls that may take their process down, take all memory, or never come back."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, NoReturn

from scotoma.errors import ConfigError, DataError, ScotomaError
from scotoma.processes.exhausted import lacks_memory

WORDS = 2**16  # last bytes that a process has printed; a trace of calls may take 10 kB
START_S = 120.0  # to import what a call needs, on a machine with much else to do
# One thread a process: two OpenMP teams on one core stall each other.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def refusal(exit_code: int, sentence: str) -> ScotomaError:
    """What another process refused, as this one raises it."""
    kinds = {kind.exit_code: kind for kind in (ScotomaError, ConfigError, DataError)}
    return kinds[exit_code](sentence)


class CrashedError(Exception):
    """A process ended before it had answered.

    Attributes:
        killed: Whether by SIGKILL, which is how the system ends it for want of memory.
    """

    def __init__(self, code: int | None) -> None:
        super().__init__(f"exit code {code}")
        self.killed = code == -signal.SIGKILL


class MemoryLimitError(Exception):
    """A call needed more memory than it was given."""


class IsolatedProcess:
    """A process for one call after the other, replaced where a call has ended it.

    Calls are pickled and sent to it. What comes back is JSON: nothing that a library made of a
    hostile file is ever unpickled here.

    Args:
        prepare: Called first in each such process; can be pickled, and raises nothing.

    The folder for temporary files of each such process goes with it.
    """

    _answers: Connection
    _folder: Path

    def __init__(self, prepare: Callable[[], None]) -> None:
        self._prepare = prepare
        self._process: subprocess.Popen[bytes] | None = None
        self._prepared = False

    def __enter__(self) -> IsolatedProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        limit_s: float,
        memory_bytes: int | None = None,
    ) -> Any:
        """Call a function.

        Args:
            function: Can be pickled, as can its arguments. Returns what JSON can hold.
            *arguments: Its arguments.
            limit_s: How long the call may take, in seconds, once the process is prepared.
            memory_bytes: How much memory it may take beyond what the process holds; None for no
                limit. Enforced on Linux.

        Returns:
            Its result, as JSON holds it: tuples are lists.

        Raises:
            CrashedError: The process ended without one.
            MemoryLimitError: The call needed more memory.
            TimeoutError: The call took longer.
            ScotomaError: What the function refused.
            RuntimeError: What else it raised, as text.
        """
        used = self._prepared
        try:
            reply = self._replied((function, arguments, memory_bytes), limit_s)
        except MemoryLimitError:
            if not used:
                raise
            # What earlier calls have left in the process counts too.
            reply = self._replied((function, arguments, memory_bytes), limit_s)
        if "refused" in reply:
            raise refusal(reply["exit_code"], reply["refused"])
        if "failed" in reply:
            raise RuntimeError(reply["failed"])
        return reply["value"]

    def start(self) -> None:
        """Start the process, unless it is running; what it needs is imported meanwhile."""
        if self._process is not None:
            return
        self._folder = Path(tempfile.mkdtemp(prefix="scotoma-"))
        self._answers, theirs = Pipe(duplex=False)
        importing = {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        importing["TMPDIR"] = str(self._folder)
        with theirs, (self._folder / "printed").open("wb") as printed:
            descriptor = theirs.fileno()
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "scotoma.processes.answer_calls"),
                    *(str(descriptor), str(self._folder)),
                ],
                stdin=subprocess.PIPE,
                stdout=printed,
                stderr=printed,
                env=os.environ | ONE_THREAD | importing,
                pass_fds=(descriptor,),
            )
        self._send(self._prepare, (), None)

    def end(self) -> int | None:
        """End the process, if there is one; return its exit code if it had ended by itself."""
        process, self._process = self._process, None
        self._prepared = False
        if process is None:
            return None
        self._answers.close()
        code = process.poll()
        process.kill()
        process.wait()
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        return code

    def _replied(self, call: tuple[Any, ...], limit_s: float) -> dict[str, Any]:
        self.start()
        if not self._prepared:
            for _ in ("begun", "prepared"):
                self._answer(START_S)
            self._prepared = True
        try:
            self._send(*call)
            self._answer(START_S)  # it has begun: what the function needs is imported
            reply = self._answer(limit_s)
        except BaseException:  # an interrupt too: no later call may take this one's answer
            self.end()
            raise
        if "memory" in reply:
            self.end()
            raise MemoryLimitError
        return reply

    def _send(self, *call: Any) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            pickle.dump(call, self._process.stdin)  # streamed: a batch of images is large
            self._process.stdin.flush()
        except BrokenPipeError:
            self._crashed()

    def _answer(self, limit_s: float) -> dict[str, Any]:
        """Wait for the next answer."""
        try:
            if self._answers.poll(limit_s):
                reply: dict[str, Any] = json.loads(self._answers.recv_bytes())
                return reply
        except EOFError:
            self._crashed()
        self.end()
        raise TimeoutError

    def _crashed(self) -> NoReturn:
        assert self._process is not None
        printed = b""
        with suppress(subprocess.TimeoutExpired, OSError):
            self._process.wait(1)
            printed = (self._folder / "printed").read_bytes()[-WORDS:]
        code = self.end()
        if lacks_memory(RuntimeError(printed.decode("utf-8", "replace"))):
            raise MemoryLimitError
        raise CrashedError(code)
