"""Processes that begin with their imports done.

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
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

__all__ = ["Forked", "Source", "hand_over", "python_of", "source"]

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
        ended = wait([self._told.fileno()], 0)  # and its number may be another's by now
        if self.number and not ended:
            with suppress(ProcessLookupError):
                os.kill(self.number, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for its end.

        Returns:
            Its exit code, negative for a signal; that of SIGKILL where it could not be forked, or
            nobody is left to know.
        """
        with self._told:
            return int(self._told.read() or -signal.SIGKILL)


class Source:
    """A process that others are forked from. Threads may use it side by side."""

    def __init__(self, control: socket.socket, process: subprocess.Popen[bytes] | None) -> None:
        self._control, self._process = control, process

    @classmethod
    def start(cls, *modules: str, **variables: str) -> Source:
        """Start one; it ends with this process at the latest.

        Args:
            *modules: What it imports before all else.
            **variables: Of its environment, beside this process's own.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, ours:
            process = subprocess.Popen(
                [*python_of("scotoma.forking"), str(theirs.fileno()), *modules],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=os.environ | variables,
            )
            return cls(ours.dup(), process)

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End it; what was forked from it goes on."""
        self._control.close()
        if self._process is not None:
            self._process.kill()  # a fork of this process may hold the other end of its socket
            self._process.wait()

    @property
    def alive(self) -> bool:
        """Whether it has not ended; of one that this process was forked from, that is not asked."""
        return self._process is None or self._process.poll() is None

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

        Returns:
            The process, without a number if the source was killed before it could fork it.

        Raises:
            ConnectionError: The source was killed before it was asked.
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


def python_of(module: str) -> list[str]:
    """The command of a new Python that calls `main` of a module of ours, found where this one is.

    Unlike `-m` it looks for no module in the working folder, where a random.py is not ours.
    """
    begin = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r}); "
    return [sys.executable, "-P", "-c", f"{begin}from {module} import main; main()"]


_handed: list[Source] = []
_own: list[Source] = []
_starting = threading.Lock()


def hand_over(descriptor: int) -> None:
    """In a forked process: let `source` be what this process was forked from."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=descriptor)
    _handed[:] = [Source(control, None)]


def source() -> Source:
    """What this process was forked from, or else a source of its own, which ends with it."""
    with _starting:
        if _handed:
            return _handed[0]
        if not _own or not _own[0].alive:
            _own[:] = [Source.start()]
            atexit.register(_own[0].end)
        return _own[0]


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
    telling: dict[int, int] = {}  # process: the pipe that its exit code goes to
    before = signal.signal(signal.SIGCHLD, lambda *_: _tell(telling))  # even during an import
    ended, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking)  # a signal right before the wait would not end it
    waited = select.poll()
    waited.register(control, select.POLLIN)
    waited.register(ended, select.POLLIN)
    while True:
        if ended in (ready := dict(waited.poll())):
            os.read(ended, LONGEST_REQUEST)
        if control.fileno() not in ready:
            continue
        asked, descriptors, _, _ = socket.recv_fds(control, LONGEST_REQUEST, DESCRIPTORS)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)  # recv_fds passes no flags on
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
                _say(descriptors[0], f"{process}\n")
                telling[process] = descriptors[0]
                _tell(telling)  # it may have ended before that line
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, before)
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
        with suppress(ChildProcessError):  # a signal came while this was done, and did it
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
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with who asks it
    gc.disable()  # importing makes much and throws nothing away
    _load(sys.argv[2:])
    home, given = _serve(socket.socket(fileno=int(sys.argv[1])))
    gc.enable()
    signal.signal(signal.SIGINT, before)
    importlib.import_module(home).forked(**given)
    sys.stdout.flush()
    os._exit(0)  # taking down what was imported takes a quarter of a second
