"""Does a model run? It is tried in a process that it may take down, or never come back from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import numpy as np

from scotoma.errors import DataError
from scotoma.inference.engines import Network, OnnxEngine
from scotoma.inference.model_process import call_limited, runtime_process
from scotoma.inference.population import images_at_once
from scotoma.inference.preprocessing import PixelArray
from scotoma.printable import printable
from scotoma.processes.exhausted import lacks_memory

# Runs a model of a path as a network on images, uint8, shape (B, 3, H, W), `called` in messages by
# its folder and name unless told otherwise. DataError: ONNX Runtime refuses it, dies of it, does
# not end or lacks memory, or its scores are no finite numbers.
Trial: TypeAlias = Callable[..., None]


@contextmanager
def trials() -> Iterator[Trial]:
    """Try models one after the other in a process that they may take down.

    Each is run on the images, and on as many as a batch of the audit has.
    """
    with runtime_process() as process:

        def attempt(path: Path, network: Network, images: PixelArray, *, called: str = "") -> None:
            for count in dict.fromkeys((len(images), images_at_once(images))):
                complaint = call_limited(
                    *(process, _complaint, path, network, images, count),
                    path=path, network=network, images=count, called=called,
                )  # fmt: skip
                if complaint:
                    name = printable(called or f"{path.parent.name}/{path.name}")
                    raise DataError(f"{name} {complaint}")

        yield attempt


def _complaint(path: Path, network: Network, images: PixelArray, count: int) -> str:
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
