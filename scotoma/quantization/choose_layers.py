"""Which layers are worth their bytes in float32? A greedy choice by measured harm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Choice:
    """Layers that stay in float32.

    Attributes:
        layers: Their places, in the order in which they were chosen.
        harm: The harm with them.
        alone: The harm of each layer if it alone is quantized.
    """

    layers: tuple[int, ...]
    harm: float
    alone: tuple[float, ...]


def choose_layers(
    harm: Callable[[frozenset[int]], float],
    sizes: Sequence[int],
    most: float,
    *,
    worth: float = 0.0,
) -> Choice:
    """Choose layers one after the other, each time the one that promises the least harm.

    In two ways, each by harm and by harm per byte; the choice with the least harm counts, of equal
    ones the smallest. The first adds the layer that lowers the harm most beside those chosen; one
    is measured again only while its last gain is the largest (Minoux 1978), so that a round costs
    a few measurements. The second goes by the harm of layers quantized alone, and finds what the
    first cannot: two layers share a tensor, and it stays quantized until both are kept.

    Args:
        harm: The harm where some layers are kept; called once for each set.
        sizes: The bytes that each layer adds.
        most: Bytes that they may add together.
        worth: A layer stays only if the harm without it is that much higher.

    Returns:
        The choice; no layer where none lowers the harm.

    >>> gains = [1.0, 3.0, 2.5]
    >>> choose_layers(lambda kept: 9 - sum(gains[k] for k in kept), [1, 10, 4], most=11).layers
    (1, 0)
    >>> choose_layers(lambda kept: 5.0 - 4.0 * (kept >= {0, 2}), [1, 1, 1], most=2).layers
    (0, 2)
    """
    measured: dict[frozenset[int], float] = {}

    def known(kept: frozenset[int]) -> float:
        if kept not in measured:
            measured[kept] = harm(kept)
        return measured[kept]

    every = frozenset(range(len(sizes)))
    alone = tuple(known(every - {place}) for place in range(len(sizes)))
    choices: list[tuple[int, ...]] = [()]
    for per_byte in (False, True):
        choices.append(_by_gain(known, sizes, most, per_byte=per_byte))
        choices += _by_rank(alone, sizes, most, per_byte=per_byte)
    best = min(choices, key=lambda kept: (known(frozenset(kept)), sum(sizes[k] for k in kept)))
    while True:
        for place in reversed(best):
            fewer = tuple(one for one in best if one != place)
            if known(frozenset(fewer)) - known(frozenset(best)) <= worth:
                best = fewer
                break
        else:
            return Choice(best, known(frozenset(best)), alone)


def _by_gain(
    harm: Callable[[frozenset[int]], float], sizes: Sequence[int], most: float, *, per_byte: bool
) -> tuple[int, ...]:
    """Add the layer that lowers the harm most, until none does."""
    kept: list[int] = []
    start = harm(frozenset())
    gains = {k: start - harm(frozenset({k})) for k, size in enumerate(sizes) if size <= most}
    fresh = set(gains)  # whose gain was measured beside what is kept now

    def worth(place: int) -> tuple[float, int]:
        return gains[place] / max(1, sizes[place]) if per_byte else gains[place], -place

    while True:
        room = most - sum(sizes[place] for place in kept)
        gains = {place: gain for place, gain in gains.items() if gain > 0 and sizes[place] <= room}
        if not gains:
            return tuple(kept)
        place = max(gains, key=worth)
        if place in fresh:
            kept.append(place)
            del gains[place]
            fresh = set()
        else:
            gains[place] = harm(frozenset(kept)) - harm(frozenset([*kept, place]))
            fresh.add(place)


def _by_rank(
    alone: Sequence[float], sizes: Sequence[int], most: float, *, per_byte: bool
) -> list[tuple[int, ...]]:
    """List the layers that harm most alone: the first that fits, the first two, and so on."""
    least = min(alone, default=0.0)

    def worth(place: int) -> float:
        harm = alone[place] - least
        return harm / max(1, sizes[place]) if per_byte else harm

    kept: list[int] = []
    for place in sorted(range(len(sizes)), key=worth, reverse=True):
        if sum(sizes[one] for one in kept) + sizes[place] <= most:
            kept.append(place)
    return [tuple(kept[:count]) for count in range(1, len(kept) + 1)]
