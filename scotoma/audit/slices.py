"""Which slices that nobody named are harmed, and how many would chance alone report?"""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from scotoma.audit.base import Count, Flag, Fraction, Part, Quantity, Real


class Condition(Part):
    """One condition of a slice."""

    feature: str = Field(description="The feature.")
    kind: str = Field(description="`value`, `bin`, `rest` or `missing`.")
    text: str = Field(description="The condition in words.")


class SliceTest(Part):
    """One test of a slice: by the search, or by the half of the examples it did not see."""

    p: Real = Field(description="P-value.")
    q: Real = Field(description="P-value corrected for all candidates, or for all slices proposed.")
    size: Count = Field(description="Examples it rests on.")


class SliceRow(Part):
    """A slice that the search reports: all its conditions hold."""

    text: str = Field(description="The slice in words.")
    predicates: tuple[Condition, ...] = Field(description="Its conditions.")
    size: Count = Field(description="Examples in the slice.")
    at_risk: Count = Field(description="Those of them that count for the metric.")
    support: Fraction = Field(description="Share of all examples.")
    inside: Quantity = Field(description="The metric inside, on the confirming half.")
    outside: Quantity = Field(description="The metric of all other examples.")
    effect: Quantity = Field(
        description="The rise of the error on the slice, a fraction; without labels the share of "
        "labels that change, inside less outside."
    )
    p: Real = Field(description="The p-value that decided.")
    q: Real = Field(description="The same, corrected: what was compared with alpha.")
    discovery: SliceTest = Field(description="Test on the half that the search saw.")
    confirmation: SliceTest | None = Field(
        description="Test on the other half; null without confirmation."
    )
    about_images: dict[str, str] = Field(
        description="What the conditions on image statistics mean."
    )


class ShuffledSearch(Part):
    """The number of slices that the same search reports on shuffled outcomes."""

    permutations: Count = Field(description="Searches of shuffled outcomes.")
    counts: tuple[Count, ...] = Field(description="Slices that each of them reports.")
    any: Count = Field(description="Searches that report a slice.")
    mean: Real | None = Field(description="Mean number of slices; null without searches.")
    sentence: str = Field(description="The same in words.")


class Candidates(Part):
    """Candidates as points of support against effect; one entry a candidate in every list."""

    text: tuple[str, ...] = Field(description="The slice in words.")
    cross: tuple[Count, ...] = Field(description="Number of conditions.")
    size: tuple[Count, ...] = Field(description="Examples that count.")
    support: tuple[Fraction, ...] = Field(description="The same as a share of all examples.")
    effect: tuple[Real | None, ...] = Field(description="Rise of the error, a fraction.")
    p: tuple[Real | None, ...] = Field(description="P-value over all examples, uncorrected.")
    reported: tuple[Flag, ...] = Field(description="Whether the search reports it.")

    @model_validator(mode="after")
    def _one_entry_a_candidate(self) -> Candidates:
        columns = (self.cross, self.size, self.support, self.effect, self.p, self.reported)
        if any(len(column) != len(self.text) for column in columns):
            raise ValueError(f"must have {len(self.text)} entries in every list")
        return self


class SliceSearch(Part):
    """The search for slices of one variant on which its error rose.

    Half of the examples propose a slice, the other half tests it: effect, p and interval are those
    of the other half. Without labels, the slices on which more predictions change than elsewhere.
    """

    summary: str = Field(description="The result in a sentence or two.")
    slices: tuple[SliceRow, ...] = Field(description="The slices, the most significant first.")
    slice_count: Count = Field(description="How many there are; `slices` may hold fewer.")
    null: ShuffledSearch = Field(description="What the same search reports by chance alone.")
    overall: Quantity = Field(description="The metric of all examples.")
    change: Quantity = Field(
        description="The rise of the error on all examples, a fraction; null without labels."
    )
    candidates: Count = Field(description="Slices that could hold an example.")
    nonempty: Count = Field(description="Candidates that the search visited and that hold one.")
    tested: Count = Field(description="Candidates that were tested: the family of the correction.")
    settings: dict[str, Any] = Field(description="All options that decide the search.")
    features: tuple[str, ...] = Field(description="Features that could define slices.")
    notes: tuple[str, ...] = Field(
        description="Sentences for the reader: columns left out, leakage."
    )
    lattice: Candidates = Field(description="Candidates: those reported, then by p.")
