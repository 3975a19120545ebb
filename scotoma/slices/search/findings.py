"""What a search reports of a slice."""

from __future__ import annotations

from dataclasses import dataclass

from scotoma.slices.search.lattice import Subset

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
