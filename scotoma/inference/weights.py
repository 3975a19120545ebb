"""The weights of a member, from its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from scotoma.errors import DataError
from scotoma.extras import needs


def read_weights(path: Path) -> dict[str, NDArray[Any]]:
    """Read a .safetensors file: numbers and names, nothing that could run.

    Args:
        path: The file.

    Returns:
        Arrays by name.

    Raises:
        DataError: It is no such file, or not whole.
    """
    safetensors = needs("safetensors", "train", "prediction")
    try:
        weights: dict[str, NDArray[Any]] = needs(
            "safetensors.numpy", "train", "prediction"
        ).load_file(path)
    except (OSError, KeyError, ValueError, safetensors.SafetensorError) as error:
        from scotoma.processes.unreadable import reason  # Polars comes with it

        raise DataError(
            f"weights {path} cannot be read ({reason(error)}); repeat the audit to make them again"
        ) from error
    return weights
