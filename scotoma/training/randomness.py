"""Where does chance come from? From counters: no member's draws depend on another's."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

from scotoma.numbers.inputs import Ints


def member_seed(population_seed: int, variant: str, member: int) -> int:
    """Compute the seed of one member: of its initial weights, data order and all else.

    Args:
        population_seed: Seed of the audit.
        variant: Its name; members trained under different variants are independent.
        member: Index in the population, from 0.

    Returns:
        A number in [0, 2^32), from SHA-256; neighbouring populations share none but by chance.

    >>> member_seed(0, "dense", 0) != member_seed(0, "prune-0.9", 0)
    True
    """
    digest = hashlib.sha256(f"{population_seed}/{variant}/{member}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def minibatch(seed: int, step: int, batch_size: int, examples: int) -> Ints:
    """Draw the examples that a member sees at a step.

    Every epoch is a permutation keyed by (seed, epoch), cut into batches; what does not fill a
    batch is left out of that epoch.

    Args:
        seed: Seed of the member.
        step: Optimiser step, from 0.
        batch_size: Images a step; capped at the number of examples.
        examples: Size of the training split.

    Returns:
        Row numbers, shape (min(batch_size, examples),).

    >>> rows = [minibatch(7, step, 4, 8) for step in (0, 1)]
    >>> sorted(np.concatenate(rows).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    batch_size = min(batch_size, examples)
    epoch, batch = divmod(step, examples // batch_size)
    return _order(seed, epoch, examples)[batch * batch_size : (batch + 1) * batch_size].copy()


@lru_cache(maxsize=64)  # the members of a chunk, over one epoch
def _order(seed: int, epoch: int, examples: int) -> Ints:
    return np.random.Generator(np.random.Philox(key=[seed, epoch])).permutation(examples)
