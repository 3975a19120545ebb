"""What does a search report, as sentences, JSON and CSV?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.document import Document, Unit, in_words
from scotoma.document.text import document_text
from scotoma.numbers import Estimate, undefined
from scotoma.numbers.inputs import Flags
from scotoma.slices.judging.evidence import Evidence, SliceEstimates
from scotoma.slices.judging.tally import Rows
from scotoma.slices.outcomes import SLICE_METRICS, Outcome
from scotoma.slices.search.predicates import Encoded, Predicate
from scotoma.slices.search.strategies import Iteration, SearchedTable
from scotoma.slices.search.sweep import Hits, Key, SliceFinding, flag_rows


class Description(Protocol):
    """Describes the slices of a search, wherever their rows are."""

    @property
    def encoded(self) -> Encoded:
        """The predicates."""

    @property
    def examples(self) -> int:
        """Number of examples."""

    def mask(self, key: Key) -> tuple[Flags, npt.NDArray[np.generic]]:
        """Flag the examples that lie in a slice, and give the ids of all."""

    def size(self, key: Key) -> tuple[int, int]:
        """Count the examples in a slice, and those of them that count for the metric."""

    def estimates(self, finding: SliceFinding) -> SliceEstimates:
        """Estimate the metric and the effect of a slice on the examples of its test."""

    def overall(self) -> Estimate:
        """Estimate the metric of all examples."""

    def change(self) -> Estimate:
        """Estimate the metric of all examples minus that of the baseline on them."""


@dataclass(frozen=True, eq=False)
class View:
    """Describes slices from the rows that this machine holds.

    Attributes:
        encoded: The predicates of all examples.
        evidence: The outcome and its test, on the examples that count.
        ids: Ids of all examples.
        level: Coverage of the intervals.
        halves: The two halves of the examples that count.
    """

    encoded: Encoded
    evidence: Evidence
    ids: npt.NDArray[np.generic]
    level: float
    halves: tuple[Rows, Rows]

    @property
    def examples(self) -> int:
        """Number of examples."""
        return self.ids.size

    def mask(self, key: Key) -> tuple[Flags, npt.NDArray[np.generic]]:
        """Flag the examples that lie in a slice, and give the ids of all."""
        return flag_rows(self.encoded, key), self.ids

    def size(self, key: Key) -> tuple[int, int]:
        """Count the examples in a slice, and those of them that count for the metric."""
        inside = flag_rows(self.encoded, key)
        return int(inside.sum()), int(inside[self.evidence.known.rows].sum())

    def estimates(self, finding: SliceFinding) -> SliceEstimates:
        """Estimate the metric and the effect of a slice on the examples of its test.

        These are of one half, and without what earlier slices hold.
        """
        evidence, every = self.evidence, self.evidence.known.rows
        rows = np.arange(every.size) if finding.half is None else self.halves[finding.half]
        for key in finding.earlier:
            rows = rows[~flag_rows(self.encoded, key)[every[rows]]]
        if rows.size < every.size:
            evidence = evidence.take(rows)
        inside = flag_rows(self.encoded, finding.key)[evidence.known.rows]
        return evidence.estimates(inside, self.level)

    def overall(self) -> Estimate:
        """Estimate the metric of all examples."""
        return self.evidence.metric(np.ones(self.evidence.rows, np.bool_), self.level)

    def change(self) -> Estimate:
        """Estimate the metric of all examples minus that of the baseline on them."""
        known = self.evidence.known
        if known.baseline is None:
            reason, members = "undefined (no baseline)", known.model.members
            return undefined(reason, n=self.evidence.rows, members=members, level=self.level)
        return self.evidence.change(self.level)


BASELINE = "the baseline"  # what a note calls it that knows no name
WHERE_MORE = "use reference='rest' to find where they changed more than elsewhere"
PURE = 0.999  # share of the examples whose answer the feature's value determines


def harm_everywhere(view: Description, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Say so where all examples differ from their baseline, as then any large slice does."""
    if settings["reference"] != "baseline" or settings["metric"] == "auc":
        return ()
    change = view.change()
    if not (change.low > 0 or change.high < 0):
        return ()
    rise = in_words(change, units_of(settings["metric"])[1])
    return (f"all examples together differ from {BASELINE} by {rise}: {WHERE_MORE}",)


def units_of(metric: str) -> tuple[Unit, Unit]:
    """Choose the units of a metric and of its change."""
    is_share = SLICE_METRICS[metric].kind in ("rate", "ratio")
    return ("rate", "points") if is_share else ("score", "score_change")


def leaks(encoded: Encoded, outcome: Outcome, labels: npt.ArrayLike | None) -> tuple[str, ...]:
    """Name each feature whose values determine the label or the outcome.

    Such a feature was computed from the answer: its slices say nothing about the model.
    """
    answers: list[tuple[str, npt.NDArray[np.generic]]] = []
    if labels is not None:
        answers.append(("label", np.asarray(labels)[outcome.rows]))
    if outcome.model.members == 1 and np.isin(outcome.model.above, (0, 1)).all():
        answers.append(("outcome", outcome.model.above[:, 0]))
    notes: list[str] = []
    for name, codes in zip(encoded.features, encoded.codes, strict=True):
        known = [what for what, answer in answers if _determines(codes, answer)]
        if known:
            notes.append(
                f"column {name!r} tells the {known[0]} of nearly every example: its slices are "
                "leakage, leave it out"
            )
    return tuple(notes)


def _determines(codes: npt.NDArray[np.uint8], answer: npt.NDArray[np.generic]) -> bool:
    values, own = np.unique(answer, return_inverse=True)
    if values.size < 2 or values.size > 1000:
        return False
    table = np.bincount(codes.astype(np.int64) * values.size + own, minlength=256 * values.size)
    most = table.reshape(-1, values.size).max(1).sum() / own.size
    alone = np.bincount(own).max() / own.size
    return bool(most >= PURE and alone < 0.5 + PURE / 2 and most > alone)


ProgressCallback = Callable[[int, int], None]


@dataclass(frozen=True)
class Null:
    """The number of slices that the same search reports on shuffled outcomes.

    Attributes:
        counts: Slices that each search of shuffled outcomes reports.
    """

    counts: tuple[int, ...]

    @property
    def permutations(self) -> int:
        """Number of permutations."""
        return len(self.counts)

    @property
    def any(self) -> int:
        """Permutations whose search reports a slice."""
        return sum(count > 0 for count in self.counts)

    @property
    def mean(self) -> float:
        """Mean number of slices; nan without permutations."""
        return float(np.mean(self.counts)) if self.counts else float("nan")

    def sentence(self) -> str:
        """Say what the searches report.

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
        """Return all fields, safe in JSON."""
        mean = self.mean if self.counts else None
        return {
            "permutations": self.permutations,
            "counts": list(self.counts),
            "any": self.any,
            "mean": mean,
            "sentence": self.sentence(),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class Slice(SliceFinding):
    """A slice that a search reports, and what is measured of it.

    The metric and the effect are computed on first use, on the examples of the test that decided.
    In cover mode these lie in no slice found before and, with confirmation, in the half that did
    not propose the slice: in the other half the choice of the worst would exaggerate them.

    Attributes:
        view: Describes it.
    """

    view: Description = field(repr=False)

    @property
    def predicates(self) -> tuple[Predicate, ...]:
        """The conditions, all of which hold."""
        return self.view.encoded.predicates_of(self.key)

    @property
    def p(self) -> float:
        """The p-value that decided."""
        return self.decision.p

    @property
    def q(self) -> float:
        """The same, corrected: what was compared with alpha."""
        return self.decision.q

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
        return self.view.size(self.key)

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
        return self.view.mask(self.key)[0]

    @property
    def rows(self) -> npt.NDArray[np.generic]:
        """Ids of the examples in the slice."""
        inside, ids = self.view.mask(self.key)
        return np.asarray(ids[inside])

    @cached_property
    def _estimates(self) -> SliceEstimates:
        return self.view.estimates(self)

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


@dataclass(frozen=True, eq=False, repr=False)
class SliceReport:
    """The slices that a search reports, beside what it reports where there are none.

    Attributes:
        slices: The slices, the most significant first (cover without confirmation: in the order in
            which the search took them).
        slice_count: How many there are: more than `slices` holds where `limit` cut them.
        null: The same search on shuffled outcomes.
        candidates: Slices that could hold a row, over all feature subsets.
        hits: What the search saw: how many candidates it `proposed`, of these those `nonempty` and
            those `tested`, the family of the correction.
        settings: All that decided the search.
        notes: Sentences for the reader: columns left out, leakage.
        view: Describes slices.
        lattice_of: Makes the lattice from the texts of the slices reported.
        iterations: What each iteration proposed and found; none but in priority mode.
    """

    slices: tuple[Slice, ...]
    slice_count: int
    null: Null
    candidates: int
    hits: Hits = field(repr=False)
    settings: dict[str, Any]
    notes: tuple[str, ...]
    view: Description = field(repr=False)
    lattice_of: Callable[[set[str]], pl.DataFrame] = field(repr=False)
    iterations: tuple[Iteration, ...] = ()

    @property
    def tested(self) -> int:
        """Candidates tested: the family of the correction."""
        return self.hits.tested

    @property
    def features(self) -> tuple[str, ...]:
        """Features that could define slices."""
        return self.view.encoded.features

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

    def __repr__(self) -> str:
        """What a terminal shows of the search."""
        return document_text(self._document())

    def _repr_html_(self) -> str:
        return self._document()._repr_html_()

    def _document(self) -> Document:
        from scotoma.slices.found_section import search_document

        return search_document("Slices", self, self.notes)

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
            "nonempty": self.hits.nonempty,
            "tested": self.tested,
            "settings": self.settings,
            "features": list(self.features),
            "notes": list(self.notes),
        }


def report_of(
    table: SearchedTable,
    view_of: Callable[[list[SliceFinding]], Description],
    shuffled: Callable[[int], SearchedTable],
    possible: int,
    settings: dict[str, Any],
    notes: Iterable[str],
    lattice_of: Callable[[Hits, set[str]], pl.DataFrame],
    progress: ProgressCallback | None,
) -> SliceReport:
    """Search a table, then shuffled outcomes of it.

    Args:
        table: What is searched.
        view_of: Describes the slices that are reported.
        shuffled: The table with shuffled outcomes, by the number of the permutation.
        possible: Slices that could hold a row.
        settings: All that decides the search, and the sizes of the table.
        notes: Sentences for the reader.
        lattice_of: Makes the lattice from what the search saw and the texts of the slices.
        progress: Called after each search with how many are done and how many there are.
    """
    asked, found, counts = table.asked, table.search(), list[int]()
    for number in range(asked.permutations + 1):
        if number:
            counts.append(len(shuffled(number - 1).search().findings))
        if progress is not None:
            progress(number + 1, asked.permutations + 1)
    findings = found.findings[: asked.limit]
    view = view_of(findings)
    return SliceReport(
        tuple(Slice(**vars(one), view=view) for one in findings), len(found.findings),
        Null(tuple(counts)), possible, found.hits, settings,
        (*notes, *harm_everywhere(view, settings)), view, partial(lattice_of, found.hits),
        found.iterations,
    )  # fmt: skip


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
