"""How small is a pruned member? Zeros as a bitmap, other weights as they are, then Zstandard."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray
from torch import Tensor

from scotoma.training.stacked_network import Tensors

PREFIX_BYTES = 8  # length of the header
ENCODING = "bitmap of the zeros, bytes of the rest by significance, zstd"


def sparse_bytes(state: Tensors, masked: tuple[str, ...]) -> dict[str, Any]:
    """Measure a member, as it is and as it would be sent, for its record.

    Args:
        state: Parameters and buffers.
        masked: Names of the weights that pruning may zero.

    Returns:
        `parameters`, the numbers in its state; `weights`, those that pruning may zero;
        `nonzero_weights`; and bytes, measured by encoding: `dense_bytes` in memory, `sparse_bytes`
        with a bit for each weight and the weights that are not 0, `compressed_bytes` the same
        through Zstandard, with names and shapes.

    >>> weight = torch.zeros(100, 100)
    >>> weight[0, :10] = 1.5
    >>> sizes = sparse_bytes({"weight": weight}, ("weight",))
    >>> [sizes[name] for name in ("nonzero_weights", "dense_bytes", "sparse_bytes")]
    [10, 40000, 1290]
    """
    sizes = {name: value.numel() for name, value in state.items()}
    return {
        "parameters": sum(sizes.values()),
        "weights": sum(sizes[name] for name in masked),
        "nonzero_weights": sum(int(state[name].count_nonzero()) for name in masked),
        "dense_bytes": sum(value.nbytes for value in state.values()),
        "sparse_bytes": sum(map(len, _parts(state, masked))),
        "compressed_bytes": len(encode_member(state, masked)),
        "encoding": ENCODING,
    }


def encode_member(state: Tensors, masked: tuple[str, ...]) -> bytes:
    """Encode a member in little space, without loss.

    Args:
        state: Parameters and buffers, of types that NumPy has.
        masked: Names of those whose zeros are left out.

    Returns:
        A Zstandard frame.
    """
    header = json.dumps(
        [[n, str(v.numpy().dtype), list(v.shape), n in masked] for n, v in state.items()]
    ).encode()
    parts = _parts(state, masked)
    return zstandard.compress(
        b"".join([len(header).to_bytes(PREFIX_BYTES, "little"), header, *parts])
    )


def _parts(state: Tensors, masked: tuple[str, ...]) -> list[bytes]:
    return [_packed(value, name in masked) for name, value in state.items()]


def _packed(value: Tensor, is_sparse: bool) -> bytes:
    """Pack which numbers are not zero, and those numbers: all their first bytes, then the next."""
    item = value.element_size()
    flat: NDArray[np.unsignedinteger[Any]] = np.frombuffer(
        value.numpy().tobytes(), np.dtype(f"u{item}")
    )
    if not is_sparse:
        return _by_significance(flat)
    kept = flat != 0  # of bits: -0.0 is a number that is kept
    return np.packbits(kept).tobytes() + _by_significance(flat[kept])


def _by_significance(flat: NDArray[np.unsignedinteger[Any]]) -> bytes:
    return flat.view(np.uint8).reshape(-1, flat.itemsize).T.tobytes()
