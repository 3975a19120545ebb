"""What a search found, ready for people, for JSON and for CSV."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.inputs import Flags, Floats
from scotoma.slices.evidence.tally import Rows
from scotoma.slices.search.greedy import Key
from scotoma.slices.search.predicates import Predicate
from scotoma.slices.search.strategies import Look, SliceFinding
from scotoma.slices.view import Description
from scotoma.uncertainty import Estimate


@dataclass(frozen=True, eq=False)
class Slice:
    """A slice that was found.

    The metric and the effect are worked out when asked for. In cover mode with confirmation they
    are measured on the half that had no part in finding the slice, so that the best of many is not
    flattered.

    Attributes:
        predicates: The conditions, all of which hold.
        p: The p-value that decided.
        q: The same, corrected: what was compared with alpha.
        discovery: What the search saw.
        confirmation: What the other half says; None without confirmation.
        key: Features and codes.
    """

    predicates: tuple[Predicate, ...]
    p: float
    q: float
    discovery: Look
    confirmation: Look | None
    key: Key = field(repr=False)
    view: Description = field(repr=False)
    measured: Rows | None = field(repr=False, default=None)

    @classmethod
    def of(cls, finding: SliceFinding, view: Description) -> Slice:
        """The slice that a search reports.

        Args:
            finding: What the search saw.
            view: What describes it.
        """
        own = finding.p, finding.q, finding.discovery, finding.confirmation
        predicates = view.encoded.predicates_of(finding.key)
        return cls(predicates, *own, finding.key, view, finding.measured)

    @property
    def text(self) -> str:
        """The slice as people write it: `age in [37, 41) and occupation = Sales`."""
        return " and ".join(predicate.text for predicate in self.predicates)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(predicate.feature for predicate in self.predicates)

    @property
    def cross(self) -> int:
        """Number of predicates."""
        return len(self.predicates)

    @cached_property
    def size(self) -> int:
        """Examples in the slice."""
        return self.view.size(self.key)

    @cached_property
    def at_risk(self) -> int:
        """Those that count for the metric."""
        return self.view.at_risk(self.key)

    @property
    def support(self) -> float:
        """Share of all examples that lie in the slice."""
        return self.size / self.view.examples

    @property
    def mask(self) -> Flags:
        """Which examples lie in the slice, shape (N,)."""
        return self.view.mask(self.key)

    @property
    def rows(self) -> npt.NDArray[np.generic]:
        """Ids of the examples in the slice."""
        return np.asarray(self.view.ids[self.mask])

    @cached_property
    def inside(self) -> Estimate:
        """The metric inside."""
        return self.view.inside(self.key, self.measured)

    @cached_property
    def outside(self) -> Estimate:
        """The metric of all other examples."""
        return self.view.outside(self.key, self.measured)

    @cached_property
    def effect(self) -> Estimate:
        """The difference from what the slice is compared with."""
        return self.view.effect(self.key, self.measured)

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends of the effect's interval."""
        return self.effect.low, self.effect.high

    def as_dict(self, *, rows: bool = False) -> dict[str, Any]:
        """All of it, safe in JSON.

        Args:
            rows: With the ids of the examples.
        """
        content: dict[str, Any] = {
            "text": self.text,
            "predicates": [vars(predicate) for predicate in self.predicates],
            "size": self.size,
            "at_risk": self.at_risk,
            "support": self.support,
            "inside": self.inside.as_dict(),
            "outside": self.outside.as_dict(),
            "effect": self.effect.as_dict(),
            "p": self.p,
            "q": self.q,
            "discovery": vars(self.discovery),
            "confirmation": None if self.confirmation is None else vars(self.confirmation),
        }
        return content | ({"rows": self.rows.tolist()} if rows else {})


@dataclass(frozen=True)
class Null:
    """What the same search finds where there is nothing to find: on shuffled outcomes.

    Attributes:
        counts: Slices found in each permutation.
    """

    counts: tuple[int, ...]

    @property
    def permutations(self) -> int:
        """Number of permutations."""
        return len(self.counts)

    @property
    def any(self) -> int:
        """Permutations in which something was found."""
        return sum(count > 0 for count in self.counts)

    @property
    def mean(self) -> float:
        """Mean number of slices found; nan without permutations."""
        return float(np.mean(self.counts)) if self.counts else float("nan")

    def sentence(self) -> str:
        """The null as a sentence.

        >>> Null((0, 3, 0, 1)).sentence()
        'on shuffled outcomes the same search found 1 slice on average, at least one in 2 of 4'
        """
        if not self.counts:
            return "no outcomes were shuffled, so what chance alone finds is unknown"
        if self.any == 0:
            searches = f"{self.permutations} search{'es' * (self.permutations != 1)}"
            return f"on shuffled outcomes the same search found nothing ({searches})"
        unit = "slice" if f"{self.mean:.3g}" == "1" else "slices"
        return (
            f"on shuffled outcomes the same search found {self.mean:,.3g} {unit} on average, at "
            f"least one in {self.any} of {self.permutations}"
        )

    def as_dict(self) -> dict[str, Any]:
        """All of it, safe in JSON."""
        mean = self.mean if self.counts else None
        return {
            "permutations": self.permutations,
            "counts": list(self.counts),
            "any": self.any,
            "mean": mean,
            "sentence": self.sentence(),
        }


@dataclass(frozen=True)
class Lattice:
    """Candidates as points, for a picture of support against effect; columns of one length.

    All single predicates, then the combinations with the smallest p-values.

    Attributes:
        text: The slice as people write it.
        cross: Number of predicates.
        size: Examples that count.
        support: The same as a share.
        effect: Metric minus what it is compared with.
        p: P-value over all examples, uncorrected.
        found: Whether the search reports it.
    """

    text: tuple[str, ...]
    cross: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    support: Floats
    effect: Floats
    p: Floats
    found: Flags

    def table(self) -> pl.DataFrame:
        """One row a candidate."""
        return pl.DataFrame({**vars(self), "text": list(self.text)})


@dataclass(frozen=True, eq=False)
class SliceReport:
    """What a search found, beside what it finds where there is nothing.

    Attributes:
        slices: The slices, the most significant first (cover without confirmation: in the order of
            their finding).
        found: How many there are: more than `slices` holds where `limit` cut them.
        null: The same search on shuffled outcomes.
        candidates: Slices that could hold a row, over all feature subsets.
        nonempty: Candidates looked at that hold a row.
        tested: Candidates tested: the family of the correction.
        settings: All that decided the search.
        features: Features that could define slices.
        notes: Sentences that a reader should see: columns left out, leakage.
        view: What describes slices.
    """

    slices: tuple[Slice, ...]
    found: int
    null: Null
    candidates: int
    nonempty: int
    tested: int
    settings: dict[str, Any]
    features: tuple[str, ...]
    notes: tuple[str, ...]
    view: Description = field(repr=False)
    lattice_of: Any = field(repr=False)

    @cached_property
    def overall(self) -> Estimate:
        """The metric of all examples."""
        return self.view.overall()

    @cached_property
    def change(self) -> Estimate:
        """The difference of the whole from its baseline; undefined without one."""
        return self.view.change()

    @cached_property
    def lattice(self) -> Lattice:
        """Candidates as points; asks for one more sweep in cover mode."""
        lattice: Lattice = self.lattice_of({one.text for one in self.slices})
        return lattice

    def summary(self) -> str:
        """The result in a sentence or two."""
        slices = "1 slice" if self.found == 1 else f"{self.found:,} slices"
        return f"found {slices} among {self.tested:,} tested; {self.null.sentence()}"

    def table(self) -> pl.DataFrame:
        """One row a slice, ready for CSV."""
        return pl.DataFrame([_row(one) for one in self.slices], schema=COLUMNS, orient="row")

    def as_dict(self, *, rows: bool = False) -> dict[str, Any]:
        """All of it, safe in JSON.

        Args:
            rows: With the ids of each slice's examples.
        """
        return {
            "summary": self.summary(),
            "slices": [one.as_dict(rows=rows) for one in self.slices],
            "found": self.found,
            "null": self.null.as_dict(),
            "overall": self.overall.as_dict(),
            "candidates": self.candidates,
            "nonempty": self.nonempty,
            "tested": self.tested,
            "settings": self.settings,
            "features": list(self.features),
            "notes": list(self.notes),
        }


COLUMNS = {
    "slice": pl.String,
    "size": pl.Int64,
    "at_risk": pl.Int64,
    "support": pl.Float64,
    "inside": pl.Float64,
    "outside": pl.Float64,
    "effect": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "p": pl.Float64,
    "q": pl.Float64,
    "discovery_p": pl.Float64,
    "confirmation_p": pl.Float64,
}


def _row(one: Slice) -> list[Any]:
    effect = one.effect
    numbers = [
        one.support, one.inside.value, one.outside.value, effect.value, effect.low, effect.high,
        one.p, one.q, one.discovery.p,
        None if one.confirmation is None else one.confirmation.p,
    ]  # fmt: skip
    blank = [None if x is None or np.isnan(x) else x for x in numbers]
    return [one.text, one.size, one.at_risk, *blank]
