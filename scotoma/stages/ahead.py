"""Steps that wait for the same ones, side by side on one machine."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from scotoma.machine import cores
from scotoma.runs import Run
from scotoma.workers import end_with_parent

__all__ = ["steps_ahead"]


@contextmanager
def steps_ahead(run: Run, steps: dict[str, str]) -> Iterator[None]:
    """A block beside which other steps run in a process of their own, one after the other.

    Kubeflow gives steps that wait for the same ones a pod each; its local runner begins one when
    the other has ended. Those that ran here ahead it finds done, and passes over. What goes wrong
    here is not said here: the step is then run when its turn comes, and says it itself.

    Args:
        run: The run, in a folder of this machine.
        steps: Name of each step to the module that holds its function. Steps with a record are left
            out; with none left, with one core, or in object storage nothing is begun.
    """
    due = {
        name: home for name, home in steps.items() if not run.path("steps", f"{name}.json").exists()
    }
    if not due or run.uri or cores() == 1:
        yield
        return
    child = _context().Process(target=_run, args=(run.place, due))
    child.start()
    try:
        yield
        child.join()
    finally:
        if child.is_alive():  # the block failed: so that it cleans up
            with suppress(ProcessLookupError):
                os.kill(child.pid or 0, signal.SIGINT)
            child.join()


def _context() -> Any:  # of multiprocessing's own kinds, which have no common type
    """How the process begins: forked with what is imported, while no thread forbids it."""
    forks = sys.platform == "linux" and "polars" not in sys.modules
    return multiprocessing.get_context("fork" if forks else "spawn")


def _run(place: str, steps: dict[str, str]) -> None:
    """In the process: it ends with the one that began it."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    with suppress(Exception, KeyboardInterrupt):
        run = Run.open(place)
        for name, home in steps.items():
            getattr(importlib.import_module(home), name)(run)
