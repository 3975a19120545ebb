"""How does each example get random numbers that do not depend on batch, order or worker?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import numpy as np


def generators(
    seed: int, example_ids: Iterable[str], kind: str, severity: int
) -> Iterator[np.random.Generator]:
    """Yield a generator for each example, set to numbers that only its key decides.

    Args:
        seed: Of the whole suite.
        example_ids: One for each image.
        kind: Name of the corruption.
        severity: 1 to 5.

    Returns:
        The same object each time, to be used up before the next: Philox (Salmon et al. 2011), a
        counter-based generator, whose key is a digest of (seed, example, kind, severity).

    >>> draw = lambda *ids: [g.integers(100) for g in generators(0, ids, "fog", 1)]
    >>> draw("a", "b") == draw("b", "a")[::-1] == [*draw("a"), *draw("b")]
    True
    """
    philox = np.random.Philox(key=0)
    start = philox.state
    generator = np.random.Generator(philox)
    prefix = f"{seed}\0{kind}\0{severity}\0".encode()
    for example_id in example_ids:
        digest = hashlib.blake2b(prefix + example_id.encode(), digest_size=16).digest()
        start["state"]["key"] = np.frombuffer(digest, dtype="<u8")
        philox.state = start
        yield generator
