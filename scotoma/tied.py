"""A process that does not outlive the one that started it."""

from __future__ import annotations

import os
import signal
import threading
import time

__all__ = ["tie_to_parent"]


def tie_to_parent() -> None:
    """End this process group once standard input closes, which the parent holds the other end of.

    The group is interrupted, so that steps clean up; what has not ended in 5 s is killed.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    while os.read(0, 1):  # unbuffered: a buffer's lock, held at exit, is a fatal error
        pass
    os.killpg(0, signal.SIGINT)
    time.sleep(5)
    os.killpg(0, signal.SIGKILL)
