"""Which ranges and which layers in float32 lower the harm most, within a size?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scotoma import progress
from scotoma.numbers.inputs import Flags, Ints
from scotoma.quantization.choose_layers import choose_layers
from scotoma.steps.repair.candidates import AUDITED, RepairChoices
from scotoma.steps.repair.harm import Harm, error_change

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from scotoma.numbers import Estimate

__all__ = ["Found", "Half", "search_choices"]

WORTH = 0.001  # of harm: a layer that lowers it less is not worth its bytes


@dataclass(frozen=True)
class Half:
    """The examples that choose.

    Attributes:
        images: uint8, shape (n, 3, H, W).
        labels: Class ids, shape (n,); of several labels a row each, as `wrong` and `clusters`.
        clusters: Cluster ids, shape (n,), or None.
        harm: What is lowered.
        wrong: Whether member k of the audited variant is wrong, shape (n, K).
    """

    images: NDArray[np.uint8]
    labels: Ints
    clusters: Ints | None
    harm: Harm
    wrong: Flags


@dataclass(frozen=True)
class Found:
    """The best of what was tried.

    Attributes:
        ranges: The ranges chosen.
        layers: Places of the layers in float32, in the order in which they were chosen.
        tried: Ranges to the harm without any such layer.
        alone: Rise of the worst group's error if one layer alone is quantized, of each layer,
            with the ranges that layers were tried with.
    """

    ranges: str
    layers: tuple[int, ...]
    tried: dict[str, float]
    alone: tuple[Estimate, ...]


def search_choices(candidates: RepairChoices, half: Half, most: float) -> Found:
    """Try ranges, which cost nothing, and then layers.

    Args:
        candidates: What the variant could be.
        half: The examples that choose.
        most: Bytes that the first member may have.
    """
    none: frozenset[int] = frozenset()
    own, choices = candidates.audited, candidates.ranges
    known = {(own, none): half.wrong}

    def wrong(ranges: str, layers: frozenset[int]) -> Flags:
        if (ranges, layers) not in known:
            predicted = candidates.predict(half.images, ranges, layers)
            known[ranges, layers] = predicted != half.labels[:, None]
            progress.advance("repair")
        return known[ranges, layers]

    group = half.harm.masks[half.harm.worst]
    clusters = None if half.clusters is None else half.clusters[group]

    def lower(ranges: str, than: str) -> bool:
        """Whether ranges make fewer errors in the worst group, by more than chance."""
        change = error_change(wrong(than, none)[group], wrong(ranges, none)[group], clusters)
        return bool(change.high < 0)

    tried = {name: half.harm(wrong(name, none)) for name in dict.fromkeys((own, *choices))}
    first = choices[0] if own == AUDITED else own  # where no others are better
    by = min(
        (name for name in choices if name == first or lower(name, first)),
        key=lambda name: tried[name],
    )
    start = candidates.size(none)
    best = by if by != own and start <= most and lower(by, own) else own
    sizes = [candidates.size(frozenset({place})) - start for place in range(len(candidates.layers))]
    choice = choose_layers(
        lambda layers: half.harm(wrong(by, layers)), sizes, most - start, worth=WORTH
    )
    layers = choice.layers
    # What each adds is known, but a tensor may be quantized for two layers.
    while layers and candidates.size(frozenset(layers)) > most:
        layers = layers[:-1]
    every = frozenset(range(len(sizes)))
    whole = wrong(by, every)[group]
    alone = tuple(
        error_change(whole, wrong(by, every - {place})[group], clusters)
        for place in range(len(sizes))
    )
    if layers and half.harm(wrong(by, frozenset(layers))) < tried[best]:
        return Found(by, layers, tried, alone)
    return Found(best, (), tried, alone)
