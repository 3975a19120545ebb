"""Run external models in a process that they may take down, with limits on memory and time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from scotoma.errors import DataError
from scotoma.inference.engines import Network, providers
from scotoma.printable import printable
from scotoma.processes import CrashedError, IsolatedProcess, MemoryLimitError, worker_died
from scotoma.storage.files import bytes_on_disk


def runtime_process() -> AbstractContextManager[IsolatedProcess]:
    """Start a process with ONNX Runtime for a block."""
    return IsolatedProcess(_import_runtime)


@contextmanager
def runtime_on_demand() -> Iterator[IsolatedProcess]:
    """A process with ONNX Runtime for a block, which its first call starts."""
    process = IsolatedProcess(_import_runtime)
    try:
        yield process
    finally:
        process.end()


def _import_runtime() -> None:
    import onnxruntime  # noqa: F401


def call_limited(
    process: IsolatedProcess,
    function: Callable[..., Any],
    *arguments: Any,
    path: Path,
    network: Network,
    images: int,
    called: str = "",
    batches: int = 1,
) -> Any:
    """Call a function that runs a model on a batch of images.

    Args:
        process: From `runtime_process`.
        function: Can be pickled, as can its arguments; returns what JSON can hold.
        *arguments: Its arguments.
        path: The model.
        network: How it is run, with the limits of one batch; without any, time alone is limited.
        images: Images of a batch.
        called: What messages call the model; its folder and name where empty.
        batches: Batches that the function runs at most.

    Returns:
        Its result.

    Raises:
        DataError: The model takes more memory or time, or takes the process down.
    """
    from scotoma.config.limits import LIMITS  # slow to import, and the process never needs it

    name = printable(called or f"{path.parent.name}/{path.name}")
    size = bytes_on_disk(path)
    arguments = tuple(replace(one, limits=None) if one is network else one for one in arguments)
    limit_s = (network.limits or LIMITS).seconds(size)
    # Drivers of GPUs take memory of their own, whatever the model.
    limited = network.limits if network.limits and len(providers()) == 1 else None
    memory_bytes = limited.memory_bytes(size) if limited else None
    count = f"{images} image{'s' if images > 1 else ''}"
    try:
        return process.call(
            function,
            *arguments,
            limit_s=batches * limit_s,
            memory_bytes=memory_bytes,
        )
    except TimeoutError as error:
        raise DataError(
            f"{name} must give the scores of {count} within {limit_s:.0f} s, and did not; export "
            "a faster one, leave its variant out, or raise limits.reader_seconds"
        ) from error
    except MemoryLimitError as error:
        raise DataError(
            f"{name} must give the scores of {count} within {(memory_bytes or 0) / 2**30:.1f} "
            "GiB of memory, and takes more; export a smaller one, or raise limits.reader_memory_gib"
        ) from error
    except CrashedError as error:
        if error.killed:
            raise worker_died(f"running {name}") from error
        raise DataError(
            f"{name} crashes ONNX Runtime; export it again with another opset, or leave its "
            "variant out"
        ) from error
