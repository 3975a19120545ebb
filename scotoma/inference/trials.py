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
from scotoma.inference.model_process import call_limited, runtime_process
from scotoma.inference.population import images_at_once
from scotoma.printable import printable
from scotoma.processes.exhausted import lacks_memory


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
            DataError: ONNX Runtime refuses it, dies of it, does not end or lacks memory, or its
                scores are no finite numbers.
        """


@contextmanager
def trials() -> Iterator[Trial]:
    """Try models one after the other in a process that they may take down.

    Each is run on the images, and on as many as a batch of the audit has.
    """
    with runtime_process() as process:

        def attempt(
            path: Path, network: Network, images: NDArray[np.uint8], *, called: str = ""
        ) -> None:
            for count in dict.fromkeys((len(images), images_at_once(images))):
                complaint = call_limited(
                    *(process, _complaint, path, network, images, count),
                    path=path, network=network, images=count, called=called,
                )  # fmt: skip
                if complaint:
                    name = printable(called or f"{path.parent.name}/{path.name}")
                    raise DataError(f"{name} {complaint}")

        yield attempt


def _complaint(path: Path, network: Network, images: NDArray[np.uint8], count: int) -> str:
    """Return what is wrong with a model, as the rest of a sentence; empty if nothing is."""
    images = np.resize(images, (count, *images.shape[1:]))
    try:
        scores = OnnxEngine(path, network).scores(images)
    except DataError:
        raise
    except Exception as error:  # the runtime's errors have no common base that it exports
        if lacks_memory(error):
            raise
        reason = printable(" ".join(str(error).split()))[:200]
        return f"is refused by ONNX Runtime ({reason}); export it again"
    if scores.shape != (len(images), network.classes):
        return (
            f"must give {network.classes} scores per image, got an output of shape {scores.shape} "
            f"for {len(images)} images; list its classes in source.classes"
        )
    if not np.isfinite(scores).all():
        return "must give finite scores, got nan or infinity; check its weights and preprocessing"
    return ""
