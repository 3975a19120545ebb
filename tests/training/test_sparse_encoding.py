from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
import torch
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nst
from safetensors.torch import save

from scotoma.training.models import build_model
from scotoma.training.pruning import (
    PREFIX_BYTES,
    encode_member,
    magnitude_mask,
    prunable,
    sparse_bytes,
)
from scotoma.training.stacked_network import Tensors


def decode_member(packed: bytes) -> Tensors:
    """Restore a state from what the encoding says of itself."""
    whole = zstandard.decompress(packed)
    start = PREFIX_BYTES + int.from_bytes(whole[:PREFIX_BYTES], "little")
    state, rest = {}, memoryview(whole)[start:]
    for name, dtype, shape, is_sparse in json.loads(whole[PREFIX_BYTES:start]):
        size, item = int(np.prod(shape)), np.dtype(dtype).itemsize
        kept = np.ones(size, bool)
        if is_sparse:
            bitmap = -(-size // 8)
            kept = np.unpackbits(np.frombuffer(rest[:bitmap], np.uint8), count=size).astype(bool)
            rest = rest[bitmap:]
        length = int(kept.sum()) * item
        rows = np.zeros((size, item), np.uint8)
        rows[kept] = np.frombuffer(rest[:length], np.uint8).reshape(item, -1).T
        state[name] = torch.from_numpy(np.frombuffer(rows.tobytes(), dtype).reshape(shape).copy())
        rest = rest[length:]
    return state


TENSORS = st.sampled_from([np.float32, np.float64, np.int64, np.float16]).flatmap(
    lambda dtype: nst.arrays(dtype, nst.array_shapes(min_dims=0, max_dims=3, min_side=0))
)


@given(states=st.dictionaries(st.text(max_size=9), st.tuples(TENSORS, st.booleans()), max_size=5))
def test_what_is_decoded_has_the_bits_that_were_encoded(states) -> None:
    state = {name: torch.from_numpy(values) for name, (values, _) in states.items()}
    masked = tuple(name for name, (_, is_sparse) in states.items() if is_sparse)
    decoded = decode_member(encode_member(state, masked))
    assert list(decoded) == list(state)
    for name, value in state.items():  # nan, infinities and -0 too
        assert decoded[name].dtype == value.dtype
        assert decoded[name].shape == value.shape
        assert decoded[name].numpy().tobytes() == value.numpy().tobytes()


def pruned(sparsity: float) -> tuple[dict[str, torch.Tensor], tuple[str, ...]]:
    model = build_model("resnet8", 10, 0)
    state, masked = dict(model.state_dict()), prunable(model)
    for name in masked:
        state[name] = state[name].masked_fill(~magnitude_mask(state[name], sparsity), 0)
    return state, masked


@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.9])
def test_sizes_are_those_of_the_bits_that_are_kept(sparsity: float) -> None:
    state, masked = pruned(sparsity)
    sizes = sparse_bytes(state, masked)
    weights = sum(state[name].numel() for name in masked)
    kept = sum(int((state[name] != 0).sum()) for name in masked)
    others = sum(v.nbytes for n, v in state.items() if n not in masked)
    assert (sizes["weights"], sizes["nonzero_weights"]) == (weights, kept)
    assert sizes["dense_bytes"] == sum(value.nbytes for value in state.values())
    bitmaps = sum(-(-state[name].numel() // 8) for name in masked)
    assert sizes["sparse_bytes"] == others + bitmaps + 4 * kept
    assert sizes["compressed_bytes"] == len(encode_member(state, masked))


def test_a_pruned_member_is_smaller_than_general_compression_makes_it() -> None:
    state, masked = pruned(0.9)
    sizes = sparse_bytes(state, masked)
    assert sizes["compressed_bytes"] < 0.2 * sizes["dense_bytes"]
    whole = gzip.compress(save({n: v.contiguous() for n, v in state.items()}))
    assert sizes["compressed_bytes"] < len(whole)
