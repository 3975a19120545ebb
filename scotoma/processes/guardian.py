"""The guardian of a process group: it ends the group with the process that started it."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

PATIENCE_S = 5.0  # for steps that clean up


def tie_to_parent(temporary: Path) -> None:
    """Start a guardian that ends this process group once standard input closes.

    The parent holds the other end of it, which the system closes however the parent ends. A parent
    that has ended the group itself says so by a byte, and the guardian leaves everything to it. The
    guardian is in a group of its own, so that it survives what it does, and what is done to this
    process alone. It holds every descriptor that this process has inherited, a lock among them,
    until it is done.

    Args:
        temporary: Folder that the parent made for temporary files; removed once the group has
            ended, since a parent that was killed cannot.
    """
    group = os.getpgrp()
    if os.fork():
        return
    try:  # whatever happens, it must not go on as what it was forked from
        os.setsid()
        if not os.read(0, 1):
            end_group(group)
            shutil.rmtree(temporary, ignore_errors=True)
    finally:
        os._exit(0)


def dismiss_guardian(standard_input: IO[bytes]) -> None:
    """Tell the guardian of a child that its group has ended and that it need remove nothing.

    Else it might remove what the next audit, in the folder of the same name, has begun to write.

    Args:
        standard_input: Of the child, unbuffered.
    """
    with suppress(BrokenPipeError):  # it was killed
        standard_input.write(b".")


def end_group(group: int, reap: Callable[[], object] = lambda: None) -> None:
    """Interrupt a process group, so that its processes clean up; what has not ended is killed.

    Args:
        group: Its number.
        reap: Called while it is waited for, to reap children that have ended.
    """
    end = time.monotonic() + PATIENCE_S
    try:
        os.killpg(group, signal.SIGINT)
        while _works(group) and time.monotonic() < end:
            time.sleep(0.02)
            reap()
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _works(group: int) -> bool:
    """Whether a process of the group has not ended; zombies have."""
    os.killpg(group, 0)
    if sys.platform != "linux":
        return True
    return any(_state(entry) == (group, True) for entry in Path("/proc").glob("[0-9]*"))


def _state(entry: Path) -> tuple[int, bool]:
    """The group of a process, and whether it has not ended."""
    try:
        state, _, group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
    except OSError:  # it has ended since it was listed
        return 0, False
    return int(group), state not in "ZX"
