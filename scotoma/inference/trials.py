"""Does a model run? It is tried in a process that it may take down, or never come back from."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scotoma.errors import DataError
from scotoma.inference.engines import Network, OnnxEngine
from scotoma.printable import printable
from scotoma.workers import end_with_parent

__all__ = ["Trial", "trials"]

TRIAL_S = 10.0  # that a model may take for a few images
BYTES_A_SECOND = 10_000_000  # and to be read: a gigabyte takes its time


class Trial(Protocol):
    """Runs a model on a few images, in another process."""

    def __call__(
        self, path: Path, network: Network, images: NDArray[np.uint8], *, called: str = ""
    ) -> None:
        """Run it.

        Args:
            path: The model.
            network: Classes and preprocessing.
            images: uint8, shape (B, 3, H, W).
            called: What messages call it; its folder and name where empty.

        Raises:
            DataError: ONNX Runtime refuses it, dies of it or does not end, or its scores are no
                finite numbers.
        """


@contextmanager
def trials() -> Iterator[Trial]:
    """A process that models are tried in one after the other, and that they may take down.

    A model has 10 s, and one more for every 10 MB of it; what has not ended then is ended.
    """
    child = _Child()

    def attempt(
        path: Path, network: Network, images: NDArray[np.uint8], *, called: str = ""
    ) -> None:
        name = printable(called or f"{path.parent.name}/{path.name}")
        limit_s = TRIAL_S + path.stat().st_size / BYTES_A_SECOND
        try:
            complaint = child.ask(path, network, images, limit_s=limit_s)
        except TimeoutError as error:
            raise DataError(
                f"{name} must give the scores of {len(images)} images within {limit_s:.0f} s, and "
                "did not; export a faster one, or leave its variant out"
            ) from error
        except (EOFError, ConnectionError) as error:
            raise DataError(
                f"{name} takes ONNX Runtime down; export it again with another opset, or leave "
                "its variant out"
            ) from error
        if complaint:
            raise DataError(f"{name} {complaint}")

    try:
        yield attempt
    finally:
        child.end()


class _Child:
    """A process that is begun when it is asked, and again after it was ended."""

    def __init__(self) -> None:
        self._process: BaseProcess | None = None
        self._connection: Connection

    def ask(self, *task: Any, limit_s: float) -> str:
        """What `_tried` says there.

        Raises:
            TimeoutError: Nothing, for that long.
            EOFError, ConnectionError: It died.
        """
        try:
            if self._process is None:
                self._begin()
            self._connection.send(task)
            if not self._connection.poll(limit_s):
                raise TimeoutError
            return str(self._connection.recv())
        except BaseException:
            self.end()
            raise

    def _begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs,), daemon=True)
        process.start()
        self._process = process
        theirs.close()  # the child's copy is now the only one, whose end is heard here
        self._connection.recv()  # its start is no part of the time of a model

    def end(self) -> None:
        """Kill it, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None
            self._connection.close()


def _serve(connection: Connection) -> None:
    """In the child: answer until nobody asks."""
    import onnxruntime  # noqa: F401

    threading.Thread(target=end_with_parent, daemon=True).start()
    connection.send("ready")
    with suppress(EOFError):
        while True:
            connection.send(_tried(*connection.recv()))


def _tried(path: Path, network: Network, images: NDArray[np.uint8]) -> str:
    """What is wrong with a model, as the rest of a sentence; empty if nothing."""
    try:
        scores = OnnxEngine(path, network).scores(images)
    except Exception as error:  # the runtime's errors have no common base that it exports
        reason = printable(" ".join(str(error).split()))[:200]
        return f"is refused by ONNX Runtime ({reason}); export it again"
    if scores.shape != (len(images), network.classes):
        return (
            f"must give {network.classes} scores an image, got an output of shape {scores.shape} "
            f"for {len(images)} images; name a classifier of these classes"
        )
    if not np.isfinite(scores).all():
        return "must give finite scores, got nan or infinity; check its weights and preprocessing"
    return ""
