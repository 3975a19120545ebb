"""Which slices does a search report, and which rows lie in them?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scotoma.numbers.inputs import Flags
from scotoma.slices.judging.tally import Rows
from scotoma.slices.search.lattice import Subset, shape_of
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.search.sweep import Hits

Key = tuple[Subset, tuple[int, ...]]  # features, and the code of each: what names a slice


@dataclass(frozen=True)
class SliceTestResult:
    """One test of a slice: by the search, or on the half of the examples that it did not see.

    Attributes:
        p: The p-value, among the rows that no earlier slice explains.
        q: The same, corrected: for all candidates at the discovery, for the slices proposed
            (Holm, both halves) at the confirmation.
        size: Examples it rests on.
    """

    p: float
    q: float
    size: int


@dataclass(frozen=True)
class SliceFinding:
    """A slice that a search reports.

    Attributes:
        key: Its features and the code of each.
        discovery: The test by the search.
        confirmation: The test on the other half; None without confirmation.
        half: The half of the examples, 0 or 1, that its effect is measured on; None for all.
        earlier: The slices whose examples its tests left out, and so does its effect.
    """

    key: Key
    discovery: SliceTestResult
    confirmation: SliceTestResult | None = None
    half: int | None = None
    earlier: tuple[Key, ...] = ()

    @property
    def decision(self) -> SliceTestResult:
        """The test that decided: the confirmation where there is one."""
        return self.confirmation or self.discovery


def key_of(encoded: Encoded, hits: Hits, place: int) -> Key:
    """Give the features and codes of a candidate."""
    subset = hits.subsets[int(hits.subset[place])]
    codes = np.unravel_index(int(hits.cell[place]), shape_of(encoded, subset))
    return subset, tuple(int(code) for code in codes)


def keys_of(encoded: Encoded, hits: Hits) -> list[Key]:
    """Give the features and codes of all candidates, in their order."""
    keys: dict[int, Key] = {}
    for cross in np.unique(hits.cross).tolist():
        places = np.flatnonzero(hits.cross == cross)
        subsets = [hits.subsets[place] for place in hits.subset[places].tolist()]
        cell, sizes = hits.cell[places], encoded.sizes[np.array(subsets)]
        codes = np.empty((places.size, cross), np.int64)
        for feature in reversed(range(cross)):
            cell, codes[:, feature] = np.divmod(cell, sizes[:, feature])
        own = zip(subsets, map(tuple, codes.tolist()), strict=True)
        keys |= zip(places.tolist(), own, strict=True)
    return [keys[place] for place in range(hits.p.size)]


def flag_rows(encoded: Encoded, key: Key) -> Flags:
    """Flag the examples that lie in a slice, shape (N,).

    >>> from scotoma.slices.search.predicates import encode
    >>> flag_rows(encode({"a": ["x", "x", "y"], "b": [1, 2, 3]}), ((0, 1), (0, 1)))
    array([False,  True, False])
    """
    inside = np.ones(encoded.codes.shape[1], np.bool_)
    for feature, code in zip(*key, strict=True):
        inside &= encoded.codes[feature] == code
    return inside


def unexplained(encoded: Encoded, slices: tuple[Key, ...]) -> Rows:
    """List the rows that lie in none of some slices, ascending."""
    rows = np.ones(encoded.codes.shape[1], np.bool_)
    for key in slices:
        rows &= ~flag_rows(encoded, key)
    return np.flatnonzero(rows)
