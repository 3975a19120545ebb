"""Spoil bytes: seeded bit flips, cuts, swaps, numbers at their ends, words that mean much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

__all__ = ["mutants"]

ENDS = (0, 1, 2**7 - 1, 2**7, 2**8 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63)
MOST_BYTES = 1 << 18  # of a mutant: inputs that are merely large are no find
CHANGES = 8  # of one mutant, at most


def mutants(
    seeds: Sequence[bytes], words: Sequence[bytes], seed: int | Sequence[int]
) -> Iterator[bytes]:
    """The seeds as they are, then without end what is left of them after 1 to `CHANGES` changes.

    Args:
        seeds: Inputs that are taken, or were once the end of a reader.
        words: What a reader of such inputs may stumble over: spliced in.
        seed: Decides every mutant.
    """
    yield from seeds
    rng = np.random.default_rng(seed)
    changes = (_flipped, _cut, _moved, _doubled, _ended, _spliced, _joined)
    while True:
        found = bytearray(seeds[rng.integers(len(seeds))])
        for _ in range(rng.integers(1, CHANGES + 1)):
            change = changes[rng.integers(len(changes))]
            others = words if change is _spliced else seeds
            found = change(found, rng, others)[:MOST_BYTES]
        yield bytes(found)


def _span(found: bytearray, rng: np.random.Generator) -> tuple[int, int]:
    start = int(rng.integers(len(found) + 1))
    longest = int(rng.choice([4, 64, len(found) + 1]))
    return start, min(len(found), start + int(rng.integers(longest + 1)))


def _flipped(found: bytearray, rng: np.random.Generator, _: Sequence[bytes]) -> bytearray:
    if found:
        found[rng.integers(len(found))] ^= 1 << int(rng.integers(8))
    return found


def _cut(found: bytearray, rng: np.random.Generator, _: Sequence[bytes]) -> bytearray:
    start, stop = _span(found, rng)
    return found[:start] if rng.random() < 0.2 else found[:start] + found[stop:]


def _moved(found: bytearray, rng: np.random.Generator, _: Sequence[bytes]) -> bytearray:
    start, stop = _span(found, rng)
    block, rest = found[start:stop], found[:start] + found[stop:]
    at = int(rng.integers(len(rest) + 1))
    return rest[:at] + block + rest[at:]


def _doubled(found: bytearray, rng: np.random.Generator, _: Sequence[bytes]) -> bytearray:
    start, stop = _span(found, rng)
    return found[:stop] + found[start:stop] * int(rng.choice([1, 2, 50])) + found[stop:]


def _ended(found: bytearray, rng: np.random.Generator, _: Sequence[bytes]) -> bytearray:
    size, start = int(rng.choice([1, 2, 4, 8])), int(rng.integers(len(found) + 1))
    end = ENDS[rng.integers(len(ENDS))] % 256**size
    return found[:start] + end.to_bytes(size, rng.choice(["little", "big"])) + found[start + size :]


def _spliced(found: bytearray, rng: np.random.Generator, words: Sequence[bytes]) -> bytearray:
    start, stop = _span(found, rng)
    return found[:start] + words[rng.integers(len(words))] + found[stop:] if words else found


def _joined(found: bytearray, rng: np.random.Generator, seeds: Sequence[bytes]) -> bytearray:
    other = seeds[rng.integers(len(seeds))]
    return found[: _span(found, rng)[0]] + other[_span(bytearray(other), rng)[0] :]
