"""Steps that begin with their imports done: `python -m scotoma.stages.forked DESCRIPTOR`.

kfp starts each step as a new Python, which imports for most of a second before it works. Here the
same program runs in a process forked from one that has imported what most steps need. That one has
no threads but those of OpenBLAS, which stop before a fork and start again after it; Polars has
others, and is left for the steps to import.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

__all__ = ["PRELOADED", "RunStep", "forked_steps", "wait_for_steps"]

PRELOADED = (
    "kfp.dsl.executor_main",
    "numpy",
    "scipy.special",
    "scotoma.config.gate",
    "scotoma.stages.populations",
)
LONGEST_REQUEST = 2**17  # bytes; Linux takes somewhat more as one message

RunStep: TypeAlias = Callable[[Sequence[str], Mapping[str, str]], int]


@contextmanager
def forked_steps() -> Iterator[RunStep]:
    """Start the process that steps are forked from; it ends with the block.

    Yields:
        What stands in for `kfp.local.subprocess_task_handler.run_local_subprocess`: it takes kfp's
        command for a step, `sh -ec PROGRAM SOURCE ARGUMENT...`, and variables to add to its
        environment, and returns its exit code, negative for a signal. Threads may call it side by
        side. What steps print goes where this process prints.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with subprocess.Popen(
        [sys.executable, "-m", __name__, str(theirs.fileno())],
        stdin=subprocess.DEVNULL,
        pass_fds=(theirs.fileno(),),
        env=os.environ | {"_KFP_RUNTIME": "true"},  # of kfp, only what runs a step
    ):
        theirs.close()

        def run_step(full_command: Sequence[str], env_vars: Mapping[str, str]) -> int:
            source, *arguments = full_command[3:]
            program = Path(tempfile.mkdtemp(prefix="kfp-"), "ephemeral_component.py")
            program.write_text(source, encoding="utf-8")
            arguments = ["--component_module_path", str(program), *arguments]
            told, telling = os.pipe()
            with os.fdopen(told) as answer:
                try:
                    request = json.dumps([arguments, dict(env_vars)]).encode()
                    socket.send_fds(ours, [request], [telling])
                finally:
                    os.close(telling)
                return int(answer.read() or -signal.SIGKILL)  # nothing: who knew was killed

        with ours:
            yield run_step


def wait_for_steps(control: socket.socket) -> list[str]:
    """Fork a process for every step that is asked for, and tell how each ended.

    Args:
        control: Where they are asked for; when its other end is closed, this process ends.

    Returns:
        In each process of a step, its arguments. In this one it does not return.
    """
    ended, waking = os.pipe()
    os.set_blocking(waking, False)
    handlers = {
        signal.SIGCHLD: signal.signal(signal.SIGCHLD, lambda *_: None),
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),  # it ends with its parent
    }
    signal.set_wakeup_fd(waking)
    telling: dict[int, int] = {}  # process of a step: the pipe that its exit code goes to
    while True:
        ready, _, _ = select.select([control.fileno(), ended], [], [])
        if ended in ready:
            os.read(ended, LONGEST_REQUEST)
            _tell(telling)
        if control.fileno() in ready:
            request, descriptors, _, _ = socket.recv_fds(control, LONGEST_REQUEST, 1)
            if not request:
                os._exit(0)  # at once: nothing it holds needs to be let go of
            if process := os.fork():
                (telling[process],) = descriptors
                continue
            signal.set_wakeup_fd(-1)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            for descriptor in (ended, waking, *descriptors, *telling.values()):
                os.close(descriptor)
            control.close()
            arguments, variables = json.loads(request)
            os.environ.update(variables)
            return list(arguments)


def _tell(telling: dict[int, int]) -> None:
    """Take leave of the processes that have ended, and pass on their exit codes."""
    for process in [*telling]:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            with suppress(BrokenPipeError), os.fdopen(telling.pop(process), "w") as pipe:
                pipe.write(str(os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()  # or collecting what was imported would copy its pages into every step
    sys.argv[1:] = wait_for_steps(socket.socket(fileno=int(sys.argv[1])))
    importlib.import_module("kfp.dsl.executor_main").executor_main()
    sys.stdout.flush()
    os._exit(0)  # taking down what was imported takes a quarter of a second
