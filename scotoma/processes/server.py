"""The process that all others of an audit are forked from, with what takes long to import."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import threading
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext

__all__ = ["context", "enter_worker", "reset_worker", "start_server"]

LONGEST_FOLDER = 60  # bytes of the name of a folder that sockets may lie in
# One thread a worker: two OpenMP teams on one core stall each other.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


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
