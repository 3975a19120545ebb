"""Which examples change: CIEs, floor, excess, flips, taxicab distances."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from scotoma.audit.base import Count, Flag, Fraction, Part, Real


class CieCounts(Part):
    """How many examples are CIEs; a majority that ties may go either way."""

    count: Count = Field(description="CIEs, ties going to the smallest class id.")
    low: Count = Field(description="The fewest CIEs over all ways to settle ties.")
    high: Count = Field(description="The most CIEs over all ways to settle ties.")
    ties: Count = Field(description="Examples on which a majority ties.")


class Changed(Part):
    """How many examples are CIEs, and what is compared in floor and excess."""

    n: Count = Field(description="Test examples.")
    cie: CieCounts = Field(
        description="The count at all members, with its range over ties. It depends on their "
        "number: not to be compared between audits."
    )
    votes: Count = Field(
        description="Members a side whose most frequent label is compared in the floor, the "
        "disagreement and the excess: 1, one model against one. Excesses of audits are compared "
        "only at equal votes."
    )
    paired: Flag = Field(description="Whether each compressed member derives from a dense one.")


class DistanceGroup(Part):
    """The examples of one group by their distance."""

    group: str = Field(description="Key of the group.")
    examples: tuple[Count, ...] = Field(description="Examples of the group at each distance.")


class Distances(Part):
    """How far apart the votes lie: taxicab distances, from 0 where both populations vote alike.

    By how many votes the members' labels differ on an example: a ranking of all examples, the most
    divergent first. The lists have one entry a distance.
    """

    distance: tuple[Real, ...] = Field(description="Distances that occur, ascending.")
    examples: tuple[Count, ...] = Field(description="Examples at each distance.")
    dense_right: tuple[Count, ...] | None = Field(
        description="Right predictions of dense members on the examples at each distance; null "
        "without labels."
    )
    compressed_right: tuple[Count, ...] | None = Field(
        description="Right predictions of compressed members there; null without labels."
    )
    groups: tuple[DistanceGroup, ...] = Field(description="The same counts for every group.")
    n: Count = Field(description="Test examples.")

    @model_validator(mode="after")
    def _one_entry_a_distance(self) -> Distances:
        columns = [self.examples, self.dense_right, self.compressed_right]
        columns += [group.examples for group in self.groups]
        if any(len(column) != len(self.distance) for column in columns if column is not None):
            raise ValueError(f"must have {len(self.distance)} entries in every list")
        return self


class Percentile(Part):
    """Where a percentile of the taxicab distance falls."""

    percentile: Real = Field(description="90 stands for the tenth that diverges most.")
    value: Real | None = Field(description="Distance there; null where it would be 0.")
    wanted: Count = Field(description="Examples in the subset.")
    above: Count = Field(description="Examples beyond the distance.")
    tied: Count = Field(
        description="Examples at the distance, of which wanted - above belong to the subset."
    )
    seed: Count = Field(description="Decides which of the tied examples are listed.")
    reason: str = Field(description="Why there is no distance; else empty.")


class Representation(Part):
    """A group, or one value of a binary column, among the CIEs beside its share of the data."""

    attribute: str = Field(
        description="Key of the group; with `over_index: all` also `COLUMN=VALUE` of every other "
        "column of two values, VALUE being the one that sorts last."
    )
    n: Count = Field(description="Examples of the group.")
    n_flagged: Count = Field(description="CIEs among them.")
    share_in_data: Fraction | None = Field(description="Share of all examples.")
    share_in_training: Fraction | None = Field(
        None, description="Share of the training examples; null where there are none."
    )
    share_in_flagged: Fraction | None = Field(
        description="Share of the CIEs; null where there are none."
    )


class Divergence(Part):
    """How many examples one variant changes.

    A CIE (compression identified exemplar, also PIE) is an example on which the most frequent label
    of the compressed members differs from that of the dense members. The excess over the
    [noise floor](methods.md#the-noise-floor) is the number to compare between variants and audits:
    if its interval holds 0, the audit cannot tell compression from another seed.

    The shares are rows of question `divergence`:

    - `cie.cie_share`: CIEs as a share of the examples; the interval is for these populations on another test set
    - `cie.floor`: share of examples that two dense members label differently
    - `cie.disagreement`: the same of a dense and a compressed member; of pairs, one that derives from another dense member
    - `cie.excess`: disagreement - floor, a fraction of the examples
    - `flips`: share of predictions that change from a dense member to the one that derives from it; absent where members are not paired
    - `top1.dense`, `top1.compressed`: accuracy on a `subset`: `all`, `CIEs`, `non-CIEs`, or `taxicab` and a percentile. Intervals take the subset as fixed. Absent without labels
    - `over_index.change`: share of an `attribute` among the CIEs over its share in the data, less 1
    - `ledger.changed`: of a group, the share of predictions that change; its error rises by no more. Where members are not paired, seeds change labels too
    - `ledger.right_to_wrong`, `.wrong_to_right`, `.wrong_to_other`: its parts, dense first; absent without labels
    """  # noqa: E501

    cie: Changed = Field(description="CIEs, and what floor and excess compare.")
    taxicab: Distances = Field(description="Examples by taxicab distance.")
    thresholds: tuple[Percentile, ...] = Field(description="Percentiles of the distance.")
    over_index: tuple[Representation, ...] = Field(
        description="Groups and binary columns among the CIEs."
    )

    @property
    def subsets(self) -> dict[str, int]:
        """How many examples each subset of `top1` has."""
        n, count = self.cie.n, self.cie.cie.count
        return {"all": n, "CIEs": count, "non-CIEs": n - count} | {
            f"taxicab {at.percentile:g}": 0 if at.reason else at.wanted for at in self.thresholds
        }


class Condition(Part):
    """One condition of a slice."""

    feature: str = Field(description="The feature.")
    kind: str = Field(description="`value`, `bin`, `rest` or `missing`.")
    text: str = Field(description="The condition in words.")


class FoundSlice(Part):
    """A slice that the search reports: all its conditions hold."""

    text: str = Field(description="The slice in words.")
    predicates: tuple[Condition, ...] = Field(description="Its conditions.")
    size: Count = Field(description="Examples in the slice.")
    at_risk: Count = Field(description="Those of them that count for the metric.")
    support: Fraction = Field(description="Share of all examples.")
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

    Half of the examples propose a slice, the other half tests it: its effect and interval are those
    of the other half. Without labels, the slices on which more predictions change than elsewhere.

    The numbers are rows of question `slices`; those of a slice have its words as their fact `text`:

    - `slices.inside`, `.outside`: the metric inside, on the confirming half, and of all other examples
    - `slices.effect`: the rise of the error on the slice, a fraction; without labels the share of labels that change, inside less outside
    - `slices.discovery.p`, `.discovery.q`: p-value of the half that the search saw; the same corrected for all candidates
    - `slices.confirmation.p`, `.confirmation.q`: p-value of the other half; the same corrected for all slices proposed. They decide; absent without confirmation
    - `overall`, `change`: the metric of all examples, and the rise of the error on them; without labels no rise
    """  # noqa: E501

    summary: str = Field(description="The result in a sentence or two.")
    slices: tuple[FoundSlice, ...] = Field(description="The slices, the most significant first.")
    slice_count: Count = Field(description="How many there are; `slices` may hold fewer.")
    null: ShuffledSearch = Field(description="What the same search reports by chance alone.")
    candidates: Count = Field(description="Slices that could hold an example.")
    nonempty: Count = Field(description="Candidates that the search visited and that hold one.")
    tested: Count = Field(description="Candidates that were tested: the family of the correction.")
    settings: dict[str, Any] = Field(description="All options that decide the search.")
    features: tuple[str, ...] = Field(description="Features that could define slices.")
    notes: tuple[str, ...] = Field(
        description="Sentences for the reader: columns left out, leakage."
    )
    lattice: Candidates = Field(description="Candidates: those reported, then by p.")
