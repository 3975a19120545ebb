"""What does a search report, as sentences, JSON and CSV?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.numbers import Estimate
from scotoma.numbers.inputs import Flags
from scotoma.slices.null import Null
from scotoma.slices.search.coding import Predicate
from scotoma.slices.search.findings import SliceFinding, SliceTestResult
from scotoma.slices.search.priority import Iteration
from scotoma.slices.search.sweep import Hits
from scotoma.slices.view import Description, SliceEstimates


@dataclass(frozen=True, eq=False)
class Slice:
    """A slice that a search reports.

    The metric and the effect are computed on first use, on the examples of the test that decided.
    In cover mode these lie in no slice found before and, with confirmation, in the half that did
    not propose the slice: in the other half the choice of the worst would exaggerate them.

    Attributes:
        finding: The slice's features and codes, its tests, and the examples that these are on.
        view: Describes it.
    """

    finding: SliceFinding
    view: Description = field(repr=False)

    @property
    def predicates(self) -> tuple[Predicate, ...]:
        """The conditions, all of which hold."""
        return self.view.encoded.predicates_of(self.finding.key)

    @property
    def discovery(self) -> SliceTestResult:
        """The test by the search."""
        return self.finding.discovery

    @property
    def confirmation(self) -> SliceTestResult | None:
        """The test on the other half; None without confirmation."""
        return self.finding.confirmation

    @property
    def p(self) -> float:
        """The p-value that decided."""
        return self.finding.decision.p

    @property
    def q(self) -> float:
        """The same, corrected: what was compared with alpha."""
        return self.finding.decision.q

    @property
    def half(self) -> int | None:
        """The half of the examples, 0 or 1, that it is measured on; None for all."""
        return self.finding.half

    @property
    def text(self) -> str:
        """The slice in words: `age in [37, 41) and occupation = Sales`."""
        return " and ".join(predicate.text for predicate in self.predicates)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(predicate.feature for predicate in self.predicates)

    @cached_property
    def _sizes(self) -> tuple[int, int]:
        return self.view.size(self.finding.key)

    @property
    def size(self) -> int:
        """Examples in the slice."""
        return self._sizes[0]

    @property
    def at_risk(self) -> int:
        """Examples in the slice that count for the metric."""
        return self._sizes[1]

    @property
    def support(self) -> float:
        """Share of all examples that lie in the slice."""
        return self.size / self.view.examples

    @property
    def mask(self) -> Flags:
        """Flags of the examples in the slice, shape (N,)."""
        return self.view.mask(self.finding.key)[0]

    @property
    def rows(self) -> npt.NDArray[np.generic]:
        """Ids of the examples in the slice."""
        inside, ids = self.view.mask(self.finding.key)
        return np.asarray(ids[inside])

    @cached_property
    def _estimates(self) -> SliceEstimates:
        return self.view.estimates(self.finding)

    @property
    def inside(self) -> Estimate:
        """The metric inside."""
        return self._estimates.inside

    @property
    def outside(self) -> Estimate:
        """The metric of all other examples."""
        return self._estimates.outside

    @property
    def effect(self) -> Estimate:
        """The difference from what the slice is compared with."""
        return self._estimates.effect

    def as_dict(self, *, rows: bool = False) -> dict[str, Any]:
        """Return all fields, safe in JSON.

        Args:
            rows: Whether to list the ids of the examples.
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


@dataclass(frozen=True, eq=False)
class SliceReport:
    """The slices that a search reports, beside what it reports where there are none.

    Attributes:
        slices: The slices, the most significant first (cover without confirmation: in the order in
            which the search took them).
        slice_count: How many there are: more than `slices` holds where `limit` cut them.
        null: The same search on shuffled outcomes.
        candidates: Slices that could hold a row, over all feature subsets.
        proposed: Candidates that the search visited; not counted on Beam.
        nonempty: Those of them that hold a row.
        tested: Candidates tested: the family of the correction.
        settings: All that decided the search.
        features: Features that could define slices.
        notes: Sentences for the reader: columns left out, leakage.
        view: Describes slices.
        lattice_of: Makes the lattice from the texts of the slices reported.
        iterations: What each iteration proposed and found; none but in priority mode.
    """

    slices: tuple[Slice, ...]
    slice_count: int
    null: Null
    candidates: int
    proposed: int
    nonempty: int
    tested: int
    settings: dict[str, Any]
    features: tuple[str, ...]
    notes: tuple[str, ...]
    view: Description = field(repr=False)
    lattice_of: Callable[[set[str]], pl.DataFrame] = field(repr=False)
    iterations: tuple[Iteration, ...] = ()

    @classmethod
    def of(
        cls,
        findings: list[SliceFinding],
        hits: Hits,
        view: Description,
        *,
        limit: int,
        null: Null,
        candidates: int,
        settings: dict[str, Any],
        notes: tuple[str, ...],
        lattice_of: Callable[[set[str]], pl.DataFrame],
        iterations: tuple[Iteration, ...] = (),
    ) -> SliceReport:
        """Report a search: at most `limit` of its findings, and the counts of its hits."""
        return cls(
            slices=tuple(Slice(finding, view) for finding in findings[:limit]),
            slice_count=len(findings),
            null=null,
            candidates=candidates,
            proposed=hits.proposed,
            nonempty=hits.nonempty,
            tested=hits.tested,
            settings=settings,
            features=view.encoded.features,
            notes=notes,
            view=view,
            lattice_of=lattice_of,
            iterations=iterations,
        )

    @cached_property
    def overall(self) -> Estimate:
        """The metric of all examples."""
        return self.view.overall()

    @cached_property
    def change(self) -> Estimate:
        """The difference of the whole from its baseline; undefined without one."""
        return self.view.change()

    @cached_property
    def lattice(self) -> pl.DataFrame:
        """Candidates as points, for a picture of support against effect; a row a candidate.

        All single predicates, then the combinations with the smallest p-values. Columns: `text` the
        slice in words, `cross` its predicates, `size` examples that count, `support` the same as a
        share, `effect` metric minus what it is compared with, `p` over all examples, uncorrected,
        and `reported`. Asks for one more sweep in cover mode.
        """
        return self.lattice_of({one.text for one in self.slices})

    def summary(self) -> str:
        """Say the result in a sentence or two."""
        slices = "1 slice" if self.slice_count == 1 else f"{self.slice_count:,} slices"
        return f"found {slices} among {self.tested:,} tested; {self.null.sentence()}"

    def table(self) -> pl.DataFrame:
        """Return one row a slice, ready for CSV: numbers with n, interval and reason."""
        return pl.DataFrame([_row(one) for one in self.slices], schema=COLUMNS, orient="row")

    def as_dict(self, *, rows: bool = False) -> dict[str, Any]:
        """Return all fields, safe in JSON.

        Args:
            rows: Whether to list the ids of each slice's examples.
        """
        return {
            "summary": self.summary(),
            "slices": [one.as_dict(rows=rows) for one in self.slices],
            "slice_count": self.slice_count,
            "null": self.null.as_dict(),
            "overall": self.overall.as_dict(),
            "candidates": self.candidates,
            "nonempty": self.nonempty,
            "tested": self.tested,
            "settings": self.settings,
            "features": list(self.features),
            "notes": list(self.notes),
        }


ESTIMATES = ("inside", "outside", "effect")
TESTS = ("discovery", "confirmation")
COLUMNS = {
    "slice": pl.String,
    "size": pl.Int64,
    "at_risk": pl.Int64,
    "support": pl.Float64,
    **{
        column: dtype
        for name in ESTIMATES
        for column, dtype in {
            name: pl.Float64,
            f"{name}_low": pl.Float64,
            f"{name}_high": pl.Float64,
            f"{name}_n": pl.Int64,
            f"{name}_reason": pl.String,
        }.items()
    },
    "p": pl.Float64,
    "q": pl.Float64,
    **{
        column: dtype
        for name in TESTS
        for column, dtype in {
            f"{name}_p": pl.Float64,
            f"{name}_q": pl.Float64,
            f"{name}_size": pl.Int64,
        }.items()
    },
}


def _row(one: Slice) -> list[Any]:
    content = one.as_dict()
    values = [one.text, *(content[name] for name in ("size", "at_risk", "support"))]
    for name in ESTIMATES:
        shown = content[name]
        reason = "; ".join(filter(None, [shown["reason"], shown["note"]])) or None
        values += [*(shown[part] for part in ("value", "low", "high", "n")), reason]
    values += [one.p, one.q]
    for name in TESTS:
        test = content[name] or {}
        values += [test.get(part) for part in ("p", "q", "size")]
    return values
