"""Poisson bootstrap weights that depend on nothing but the seed, the example and the draw."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import numpy.typing as npt

from scotoma.slices.hashing import hash_ids, mix


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
