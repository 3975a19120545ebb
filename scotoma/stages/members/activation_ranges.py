"""Which share of the activations of static int8 lies beyond the ranges of calibration?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma.config import OnnxSource, PredictionsSource
from scotoma.inference.engines import Network, fitted_to, session
from scotoma.inference.model_process import call_limited, runtime_process
from scotoma.inference.population import images_at_once
from scotoma.run import Run
from scotoma.storage.files import written

__all__ = ["clean_ranges_file", "shares_beyond_ranges", "watched_places", "write_clean_ranges"]


def clean_ranges_file(run: Run) -> Path:
    """Where the shares on clean pictures lie."""
    return run.path("robustness", "clean-ranges.parquet")


def watched_places(run: Run, members: dict[str, int]) -> tuple[int, ...]:
    """List the members whose activations have fixed ranges of int8, by their places among all.

    Of members made here these are the static ones; an external variant is what its first model is,
    which is read in a process of its own.

    Args:
        run: The run.
        members: Variant to how many of its members are run, in order.
    """
    if isinstance(run.config.source, PredictionsSource):
        return ()
    if isinstance(run.config.source, OnnxSource):
        static = _external_static(run, members)
    else:
        static = {one.name for one in run.config.resolved_variants if one.mode == "static"}
    each = [name for name, count in members.items() for _ in range(count)]
    return tuple(place for place, name in enumerate(each) if name in static)


def _external_static(run: Run, members: dict[str, int]) -> set[str]:
    from scotoma.stages.external.network import network_of

    network, static = network_of(run.config, 0), set()
    with runtime_process() as process:
        for name in members:
            path = run.member(name, 0)
            run.fetch(path)
            if call_limited(
                process, _count_ranges, path, path=path, network=network, images=1
            ):  # fmt: skip
                static.add(name)
    return static


def _count_ranges(path: Path) -> int:
    import onnx

    from scotoma.quantization.beyond_range import ranges

    return len(ranges(onnx.load(path, load_external_data=False)))


def shares_beyond_ranges(
    members: Sequence[Path], places: Sequence[int], images: NDArray[np.uint8], network: Network
) -> NDArray[np.float32]:
    """Run some members on pictures, and watch their ranges.

    Args:
        members: Files of the members of all variants.
        places: Of those that are watched.
        images: uint8, shape (n, 3, H, W).
        network: What the members have in common; external models run in a process of their own.

    Returns:
        Mean over the ranges of the share of a picture's activations beyond, shape (n, P).
    """
    batch = images_at_once(images)
    if network.limits is None:
        return np.stack(
            [_shares(members[place], images, network, batch) for place in places], axis=1
        )
    shares = []
    with TemporaryDirectory(prefix="scotoma-") as folder, runtime_process() as process:
        np.save(file := Path(folder, "images.npy"), images)
        batches = -(-len(images) // batch)
        for place in places:
            path = members[place]
            own = call_limited(
                process, _shares_apart, path, file, network, batch,
                path=path, network=network, images=batch, batches=batches,
            )  # fmt: skip
            shares.append(np.array(own, np.float32))
    return np.stack(shares, axis=1)


def _shares(
    path: Path, images: NDArray[np.uint8], network: Network, batch: int
) -> NDArray[np.float32]:
    from scotoma.quantization.beyond_range import shares_beyond

    opened = _watching(path)
    return shares_beyond(opened, fitted_to(opened, network.preprocessing)(images), batch)


def _shares_apart(path: Path, images: Path, network: Network, batch: int) -> list[float]:
    """The same as JSON, from a file of pictures."""
    shares: list[float] = _shares(path, np.load(images), network, batch).tolist()
    return shares


@lru_cache(maxsize=1)
def _watching(path: Path) -> Any:
    import onnx

    from scotoma.quantization.beyond_range import watched

    return session(watched(onnx.load(path)).SerializeToString())


def write_clean_ranges(
    path: Path, members: Sequence[Path], places: Sequence[int], images: Path, network: Network
) -> None:
    """Write the shares on clean pictures: a row an example, in `beyond` a number a member."""
    pixels = np.load(images, mmap_mode="r")
    step = 16 * images_at_once(pixels)
    parts = [
        shares_beyond_ranges(members, places, np.ascontiguousarray(pixels[at : at + step]), network)
        for at in range(0, len(pixels), step)
    ]
    with written(path) as temporary:
        pl.DataFrame({"beyond": np.concatenate(parts)}).write_parquet(temporary)
