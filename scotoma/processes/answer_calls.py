"""An isolated process: it answers one call after the other, each within its limits.

Run as `python -m scotoma.processes.answer_calls ANSWERS FOLDER`, with a descriptor for its answers
and a folder of its own, which it removes when the process that started it has ended.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import re
import resource
import shutil
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from scotoma.errors import ScotomaError
from scotoma.processes.exhausted import lacks_memory

_calls: queue.SimpleQueue[Any] = queue.SimpleQueue()


def answer(answers: Connection, folder: Path) -> None:
    """Answer the calls that come on standard input, until it is closed.

    Args:
        answers: Takes two JSON objects a call, when it begins and ends.
        folder: Where a call may leave files; removed at the end.
    """
    _limit(resource.RLIMIT_CORE, 0)
    threading.Thread(target=_listen, args=(folder,), daemon=True).start()
    held: int | None = None
    while True:
        function, arguments, memory_bytes = _calls.get()
        if memory_bytes is not None and sys.platform == "linux":
            held = held or _held_bytes()  # once what all calls need is imported
            _limit(resource.RLIMIT_DATA, held + memory_bytes)
            _limit(resource.RLIMIT_FSIZE, memory_bytes)
        answers.send_bytes(b"{}")
        answers.send_bytes(json.dumps(_answered(function, arguments)).encode())


def _listen(folder: Path) -> None:
    """Take in calls; the end of the process that makes them ends this one, whatever it does."""
    try:
        while True:
            _calls.put(pickle.load(sys.stdin.buffer))  # from the process that started this one
    except EOFError:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _answered(function: Any, arguments: Any) -> dict[str, Any]:
    try:
        return {"value": function(*arguments)}
    except ScotomaError as error:
        return {"refused": str(error), "exit_code": error.exit_code}
    except Exception as error:
        too_long = re.search("File too large|os error 27", str(error))  # what it leaves
        if lacks_memory(error) or too_long:
            return {"memory": True}
        return {"failed": traceback.format_exc()}


def _held_bytes() -> int:
    """What counts against RLIMIT_DATA: private memory that can be written.

    RLIMIT_AS would count what libraries reserve and never use as well, which is several times as
    much and grows with the cores.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    held = re.search(r"^VmData:\s*(\d+) kB$", status, re.MULTILINE)
    return int(held[1]) * 1024 if held else 0


def _limit(kind: int, value: int) -> None:
    """Set a soft limit, no higher than what the system allows."""
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


if __name__ == "__main__":
    answer(Connection(int(sys.argv[1]), readable=False), Path(sys.argv[2]))
