"""A number for each example, as good as random: the same on every machine and in every order."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError


def _thresholds() -> tuple[int, ...]:
    """Compute where 64 random bits, taken as a fraction, pass from one weight to the next.

    Computed in decimal arithmetic, so that every machine has the same integers.
    """
    with localcontext() as context:
        context.prec = 50
        term = Decimal(-1).exp()
        total, thresholds = term, [term]
        for weight in range(1, 20):
            term /= weight
            total += term
            thresholds.append(total)
        return tuple(int(share * 2**64) for share in thresholds)


THRESHOLDS = _thresholds()


def poisson_weights(ids: npt.ArrayLike, draws: int, seed: int) -> npt.NDArray[np.uint8]:
    """Poisson(1) weights of a bootstrap, the same wherever and in whatever order they are drawn.

    Args:
        ids: One id an example, integers or strings, shape (N,).
        draws: Bootstrap draws B.
        seed: Any integer.

    Returns:
        Weights, shape (N, B); the weight of draw b depends on (seed, id, b) alone.

    References:
        Chamandy et al. 2012, Estimating uncertainty for massive data streams, section 3; Salmon et
        al. 2011, SC11: counter-based generators.

    >>> a, b = poisson_weights(["a", "b"], 4, 0)
    >>> bool((poisson_weights(["b", "a"], 4, 0) == [b, a]).all())
    True
    """
    counters = mix(np.arange(draws, dtype=np.uint64) ^ mix(np.array([seed % 2**64], np.uint64)))
    bits = mix(hash_ids(ids, seed)[:, None] ^ counters)
    weights = np.zeros(bits.shape, np.uint8)
    for threshold in THRESHOLDS:
        reached = bits >= np.uint64(min(threshold, 2**64 - 1))
        if not reached.any():
            break
        weights += reached
    return weights


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
