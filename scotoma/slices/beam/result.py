"""What a search over shards found."""

from __future__ import annotations

from dataclasses import dataclass

from scotoma.slices.report import Null
from scotoma.slices.search.predicates import Predicate
from scotoma.slices.search.strategies import Look
from scotoma.uncertainty import Estimate


@dataclass(frozen=True)
class ShardedSlice:
    """A slice that was found.

    Attributes:
        predicates: The conditions, all of which hold.
        size: Examples in it that count, in cover mode those that no slice before it explains.
        effect: Its metric minus what it is compared with, on those.
        p: Its p-value.
        q: The same, corrected for all slices tested, or where the halves confirm each other for all
            that its half proposed.
        discovery: What the half that proposed it saw; size, effect, p and q are then the other's.
    """

    predicates: tuple[Predicate, ...]
    size: int
    effect: Estimate
    p: float
    q: float
    discovery: Look | None = None

    @property
    def text(self) -> str:
        """The slice as people write it."""
        return " and ".join(predicate.text for predicate in self.predicates)


@dataclass(frozen=True)
class ShardedReport:
    """What a search over shards found.

    Attributes:
        slices: The slices: in cover mode in the order of their finding, else by p.
        examples: Examples that count.
        candidates: Slices that could hold a row.
        nonempty: Those that hold one.
        tested: Those tested: the family of the correction.
        null: What the same search finds where outcomes were dealt out anew.
        notes: Sentences that a reader should see.
    """

    slices: tuple[ShardedSlice, ...]
    examples: int
    candidates: int
    nonempty: int
    tested: int
    null: Null
    notes: tuple[str, ...]
