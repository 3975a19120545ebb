"""Does a model run? It is tried in a process that it may take down, or never come back from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scotoma.errors import DataError
from scotoma.inference.engines import Network, OnnxEngine
from scotoma.printable import printable
from scotoma.processes import CrashedError, IsolatedProcess, worker_died

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
    """Try models one after the other in a process that they may take down.

    A model has 10 s, and one more for every 10 MB of it; what has not ended then is ended.
    """
    with IsolatedProcess(_import_runtime) as process:

        def attempt(
            path: Path, network: Network, images: NDArray[np.uint8], *, called: str = ""
        ) -> None:
            name = printable(called or f"{path.parent.name}/{path.name}")
            limit_s = TRIAL_S + path.stat().st_size / BYTES_A_SECOND
            try:
                complaint = process.call(_complaint, path, network, images, limit_s=limit_s)
            except TimeoutError as error:
                raise DataError(
                    f"{name} must give the scores of {len(images)} images within {limit_s:.0f} s, "
                    "and did not; export a faster one, or leave its variant out"
                ) from error
            except CrashedError as error:
                if error.killed:
                    raise worker_died(f"trying {name}") from error
                raise DataError(
                    f"{name} crashes ONNX Runtime; export it again with another opset, or leave "
                    "its variant out"
                ) from error
            if complaint:
                raise DataError(f"{name} {complaint}")

        yield attempt


def _import_runtime() -> None:
    import onnxruntime  # noqa: F401


def _complaint(path: Path, network: Network, images: NDArray[np.uint8]) -> str:
    """Return what is wrong with a model, as the rest of a sentence; empty if nothing is."""
    try:
        scores = OnnxEngine(path, network).scores(images)
    except Exception as error:  # the runtime's errors have no common base that it exports
        reason = printable(" ".join(str(error).split()))[:200]
        return f"is refused by ONNX Runtime ({reason}); export it again"
    if scores.shape != (len(images), network.classes):
        return (
            f"must give {network.classes} scores per image, got an output of shape {scores.shape} "
            f"for {len(images)} images; use a classifier of these classes"
        )
    if not np.isfinite(scores).all():
        return "must give finite scores, got nan or infinity; check its weights and preprocessing"
    return ""
