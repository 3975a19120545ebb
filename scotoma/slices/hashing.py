"""A number for each example, as good as random: the same on every machine and in every order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError

Hashes = npt.NDArray[np.uint64]


def hash_ids(ids: npt.ArrayLike, seed: int) -> Hashes:
    """A 64-bit number for each id, as good as random and the same everywhere.

    Args:
        ids: Integers or strings, shape (N,). An id's hash depends on nothing but itself and the
            seed: not on its row, its dtype or the length of other ids.
        seed: Any integer.

    Raises:
        DataError: Neither integers nor strings.

    References:
        Steele, Lea and Flood (2014), OOPSLA, 453-472: the finaliser of SplitMix64.

    >>> bool(hash_ids(["a"], 0)[0] == hash_ids(["bcd", "a"], 0)[1])
    True
    """
    values = np.asarray(ids)
    start = mix(np.array([seed % 2**64], np.uint64))
    if values.dtype.kind in "iu":
        return mix(np.bitwise_xor(values.astype(np.uint64), start))
    if values.dtype.kind != "U":
        raise DataError(
            f"example_ids must be integers or strings, got values of type {values.dtype}: "
            "convert them to strings"
        )
    # Fixed-width strings are tables of code points padded with 0: the padding must not count.
    letters = np.ascontiguousarray(values).view(np.uint32).reshape(values.size, -1)
    state = np.full(values.size, start[0])
    for column in letters.T:
        state = np.where(column != 0, mix(np.bitwise_xor(state, column.astype(np.uint64))), state)
    return state


def mix(x: Hashes) -> Hashes:
    """Spread every bit of each number over all 64: SplitMix64's increment and finaliser.

    >>> int(mix(np.array([0], np.uint64))[0]) == 0xE220A8397B1DCDAF
    True
    """
    z = x + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
