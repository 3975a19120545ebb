"""Processes that begin with their imports done: `python -m scotoma.forking DESCRIPTOR MODULE...`.

A new Python imports for most of a second before it works, and for three more where torch is needed.
Here one process imports, and others are forked from it. It has no threads but those of OpenBLAS,
which stop before a fork and start again after it; modules that start others, Polars among them, are
left for the forked ones to import.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["Forked", "Source", "hand_over", "source"]

LONGEST_REQUEST = 2**17  # bytes; Linux takes somewhat more as one message
DESCRIPTORS = 4  # at most, of one request


class Forked:
    """A process that was forked by a `Source`, whose child it is.

    Attributes:
        number: Its process's; 0 if it could not be forked.
    """

    def __init__(self, told: int) -> None:
        self._told = os.fdopen(told)  # its number, and its exit code when it has ended
        self.number = int(self._told.readline() or 0)

    def kill(self) -> None:
        """End it, whatever it does."""
        if self.number:
            with suppress(ProcessLookupError):
                os.kill(self.number, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for its end.

        Returns:
            Its exit code, negative for a signal; that of SIGKILL where nobody is left to know.
        """
        with self._told:
            return int(self._told.read() or -signal.SIGKILL)


class Source:
    """A process that others are forked from. Threads may use it side by side."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control

    @classmethod
    @contextmanager
    def started(cls, *modules: str, **variables: str) -> Iterator[Source]:
        """Start one; it ends with the block, and with what was forked from it and may ask it.

        Args:
            *modules: What it imports before all else.
            **variables: Of its environment, beside this process's own.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno()), *modules],
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            env=os.environ | variables,
        ):
            theirs.close()
            with ours:
                yield cls(ours)

    def load(self, *modules: str) -> None:
        """Have it import some modules, as far as it can, while this process goes on."""
        self._ask(modules, "", {}, [])

    def fork(
        self,
        home: str,
        given: Mapping[str, Any],
        descriptors: Sequence[int] = (),
        *,
        modules: Sequence[str] = (),
        may_ask: bool = False,
    ) -> Forked:
        """Fork a process.

        Args:
            home: A module with a function `forked`, which is what the process does.
            given: Its keyword arguments, as JSON takes them.
            descriptors: Open files that it gets, as the argument `descriptors`.
            modules: What to import first, where that has not been done.
            may_ask: The last descriptor is then this source, for `hand_over`.

        Raises:
            ConnectionError: The source was killed.
        """
        told, telling = os.pipe()
        try:
            passed = [telling, *descriptors, *([self._control.fileno()] if may_ask else [])]
            self._ask(modules, home, given, passed)
        except BaseException:
            os.close(told)
            raise
        finally:
            os.close(telling)
        return Forked(told)

    def _ask(
        self, modules: Sequence[str], home: str, given: Mapping[str, Any], descriptors: list[int]
    ) -> None:
        request = json.dumps({"modules": modules, "home": home, "given": given}).encode()
        socket.send_fds(self._control, [request], descriptors)


_handed: list[Source] = []


def hand_over(descriptor: int) -> None:
    """In a forked process: let `source` be what this process was forked from."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=descriptor)
    _handed[:] = [Source(control)]


def source() -> Source:
    """What this process was forked from, or else a source of its own, which ends with it."""
    return _handed[0] if _handed else _own()


@cache
def _own() -> Source:
    started = Source.started()
    own = started.__enter__()
    atexit.register(started.__exit__, None, None, None)
    return own


def _load(modules: Sequence[str]) -> None:
    """Import what can be; who needs what cannot says so better."""
    missing = [name for name in modules if name not in sys.modules]
    for name in missing:
        with suppress(Exception):
            importlib.import_module(name)
    if missing:
        gc.freeze()  # or collecting what was imported would copy its pages into every process


def _serve(control: socket.socket) -> tuple[str, dict[str, Any]]:
    """Fork a process for every request, and tell how each ended.

    Returns:
        In each process, its home and what its function is given. In this one it does not return.
    """
    ended, waking = os.pipe()
    os.set_blocking(waking, False)
    handlers = {
        signal.SIGCHLD: signal.signal(signal.SIGCHLD, lambda *_: None),
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),  # it ends with its parent
    }
    signal.set_wakeup_fd(waking)
    telling: dict[int, int] = {}  # process: the pipe that its exit code goes to
    while True:
        ready, _, _ = select.select([control.fileno(), ended], [], [])
        if ended in ready:
            os.read(ended, LONGEST_REQUEST)
            _tell(telling)
        if control.fileno() in ready:
            asked, descriptors, _, _ = socket.recv_fds(control, LONGEST_REQUEST, DESCRIPTORS)
            if not asked:
                os._exit(0)  # at once: nothing it holds needs to be let go of
            request = json.loads(asked)
            _load(request["modules"])
            if not request["home"]:
                continue
            if process := _fork():
                for descriptor in descriptors[process > 0 :]:
                    os.close(descriptor)
                if process > 0:
                    telling[process] = descriptors[0]
                    _say(descriptors[0], f"{process}\n")
                continue
            signal.set_wakeup_fd(-1)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            for descriptor in (ended, waking, descriptors.pop(0), *telling.values()):
                os.close(descriptor)
            control.close()
            _call_it(request["home"])
            return request["home"], {**request["given"], "descriptors": descriptors}


def _fork() -> int:
    """As `os.fork`; -1 where the system has no process left to give."""
    try:
        return os.fork()
    except OSError as error:
        print(f"no process could be forked: {error}", file=sys.stderr, flush=True)
        return -1


def _tell(telling: dict[int, int]) -> None:
    """Take leave of the processes that have ended, and pass on their exit codes."""
    for process in [*telling]:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            pipe = telling.pop(process)
            _say(pipe, str(os.waitstatus_to_exitcode(status)))
            os.close(pipe)


def _call_it(home: str) -> None:
    """Let `ps` and `top` tell this process from what it was forked from."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(f"scotoma {home.rpartition('.')[2]}")


def _say(pipe: int, text: str) -> None:
    with suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(pipe, text.encode())


def main() -> None:
    """What a source does, and each process that is forked from it."""
    gc.disable()  # importing makes much and throws nothing away
    _load(sys.argv[2:])
    home, given = _serve(socket.socket(fileno=int(sys.argv[1])))
    gc.enable()
    importlib.import_module(home).forked(**given)
    sys.stdout.flush()
    os._exit(0)  # taking down what was imported takes a quarter of a second


if __name__ == "__main__":
    importlib.import_module("scotoma.forking").main()  # which is what the others import
