"""What is shown of a finished audit: its numbers, its verdict, and what stands beside both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from scotoma.audit.base import Count, Fraction, Part, Quantity
from scotoma.audit.document import Audit, AuditedVariant
from scotoma.audit.gate import GateResult, VerdictWord
from scotoma.audit.reading import read_part
from scotoma.audit.study import StudyResult


class ReviewCounts(Part):
    """How many examples of one kind were reviewed.

    Attributes:
        examples: Test examples of this kind.
        reviewed: Of them, those with a verdict other than `ignore`.
        drawn: Of those, the ones that form a random sample: all, or the first of the random order
            without a gap.
        corrected: Reviewed ones whose label was wrong.
        ambiguous: Reviewed ones with no right answer.
    """

    examples: int
    reviewed: int
    drawn: int
    corrected: int
    ambiguous: int


class RecountedFlips(Part):
    """Changed examples that were reviewed, counted by the label before and after.

    Attributes:
        became_wrong: Dense models are right, compressed ones are not.
        became_right: The other way round.
        wrong_either_way: Neither are.
        no_answer: The example has no right answer.
    """

    became_wrong: int
    became_right: int
    wrong_either_way: int
    no_answer: int


class ReviewedRate(Part):
    """The error of a group with corrected labels.

    Attributes:
        group: Its key.
        n: Test examples of the group.
        dense: Share of wrong dense predictions; None where undefined.
        compressed: Share of wrong compressed predictions.
        change: compressed - dense.
        low: Lower limit of the change; None without a random sample.
        high: Upper limit.
        before: The change with the labels as they were.
        reason: Why something is undefined; empty otherwise.
    """

    group: str
    n: int
    dense: float | None
    compressed: float | None
    change: float | None
    low: float | None
    high: float | None
    before: float
    reason: str


class ReviewedVariant(Part):
    """One compressed variant.

    Attributes:
        name: Of the variant.
        changed: Review of the changed examples (CIEs).
        unchanged: Review of the others.
        before: Reviewed changed examples by their labels as they were.
        after: The same by corrected labels.
        rates: Error of every group; empty where the sample allows none.
        reason: Why there are no rates; empty otherwise.
    """

    name: str
    changed: ReviewCounts
    unchanged: ReviewCounts
    before: RecountedFlips
    after: RecountedFlips
    rates: tuple[ReviewedRate, ...]
    reason: str


class ReviewedAudit(Part):
    """Measures with corrected labels, beside the sealed audit.

    Attributes:
        version: Of this format.
        audit_sha256: SHA-256 of the audit.json beside it.
        level: Confidence level.
        reviewers: Who reviewed.
        variants: Every compressed variant.
    """

    version: Literal[1] = 1
    audit_sha256: str
    level: float
    reviewers: tuple[str, ...]
    variants: tuple[ReviewedVariant, ...]


def read_reviewed(path: Path) -> ReviewedAudit:
    """Read a reviewed/audit.json.

    Raises:
        DataError: It is none.
    """
    way_out = "run scotoma audit --step bias --labels reviewed again"
    return read_part(path, ReviewedAudit, way_out=way_out)


class WorstRate(Part):
    """The most affected group: of those that lose more than the rest, the surest rise in points.

    It is all examples where no group does. Only rates with at least 10 effective events after
    compression are compared.
    """

    group: str = Field(description="What readers call the group.")
    metric: Literal["error", "fpr", "fnr"] = Field(description="Which rate.")
    absolute: Quantity = Field(description="compressed - dense, a fraction.")
    relative: Quantity = Field(description="compressed / dense - 1.")
    dense: Quantity = Field(description="The rate of the dense members.")
    compressed: Quantity = Field(description="The rate of the compressed members.")


class FrontierRow(Part):
    """Each variant's verdict, accuracy, most affected group, size and latency in one row.

    It stands in measurements.json: latencies differ from run to run and are outside the promise of
    equal bytes.
    """

    variant: str = Field(description="The variant.")
    verdict: VerdictWord | None = Field(description="Its verdict; null for dense.")
    sparsity: Fraction | None = Field(
        description="Share of the weights that are zero; null where it is unknown."
    )
    bits: Count | None = Field(description="Bits of a weight; null where they are unknown.")
    top1: Quantity = Field(description="Accuracy of its population.")
    worst: WorstRate | None = Field(
        description="Its most affected group; null where no change can be estimated."
    )
    costs: dict[str, Any] | None = Field(
        description="Size and latency of one member; null where they were not measured."
    )


class LayerFlips(Part):
    """One layer, compressed alone and together with those before it in the list."""

    layer: str = Field(description="Its name in the network.")
    sparsity: Fraction | None = Field(
        description="Share of its weights that pruning set to zero, mean over the members; null "
        "for int8."
    )
    alone: Quantity = Field(description="Share of labels that change if it alone is compressed.")
    together: Quantity = Field(
        description="The same if the layers before it in the list are compressed too."
    )


class VariantLayers(Part):
    """The layers of one variant, those that change most labels first."""

    compared: str = Field(description="What was compared with what, as a sentence.")
    layers: tuple[LayerFlips, ...] = Field(description="The layers.")


class VariantsLayers(Part):
    """The layers of every variant that failed."""

    version: Literal[1] = Field(description="Version of this format.")
    variants: dict[str, VariantLayers] = Field(description="By variant.")


def read_layers(path: Path) -> VariantsLayers:
    """Read layers.json.

    Raises:
        DataError: It is not there, or holds something else.
    """
    return read_part(path, VariantsLayers)


@dataclass(frozen=True)
class People:
    """What people said of a finished audit.

    Attributes:
        studies: Results of blind studies, by the name of their folder.
        reviewed: Measures with corrected labels; None where there are none.
        outdated: `reviewed` was measured from another audit than the one beside it.
    """

    studies: tuple[tuple[str, StudyResult], ...] = ()
    reviewed: ReviewedAudit | None = None
    outdated: bool = False


@dataclass(frozen=True)
class Beside:
    """What the page shows beside the audit, and no promise of equal bytes covers.

    Attributes:
        frontier: What each variant loses and saves; empty leaves its section out.
        versions: Package to version.
        newest: What was newest when the run began, in words; None where the configuration has none.
        strip: An encoded picture of every corruption; None where there is none.
        texts: What was asked and answered, with titles, by variant and example.
        people: Blind studies, and measures with corrected labels.
        layers: The layers of variants that fail, by variant.
        images: Encoded PNG, JPEG, GIF or WebP images by example id, for the gallery; empty shows
            cards without images.
        remark: A sentence about the images.
    """

    frontier: tuple[FrontierRow, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    newest: str | None = None
    strip: bytes | None = None
    texts: Mapping[tuple[str, str], tuple[tuple[str, str], ...]] = field(default_factory=dict)
    people: People = field(default_factory=People)
    layers: Mapping[str, VariantLayers] = field(default_factory=dict)
    images: Mapping[str, bytes] = field(default_factory=dict)
    remark: str = ""


@dataclass(frozen=True)
class Findings:
    """What a section is made from.

    Attributes:
        audit: The audit.
        gate: The verdict on it; None where there is none.
        focus: The variant that a reader sees first; empty where the audit has none.
        beside: What stands beside the audit.
    """

    audit: Audit
    gate: GateResult | None = None
    focus: str = ""
    beside: Beside = field(default_factory=Beside)

    def name(self, key: str) -> str:
        """What readers call a group; what is no key of one stays as it is."""
        return self.audit.group_names.get(key, key)


def in_focus(audit: Audit, gate: GateResult | None) -> AuditedVariant:
    """Pick the variant that a reader sees first: of the worst verdict, the most compressed."""
    verdicts = {} if gate is None else {v.name: v.verdict for v in gate.variants}
    grave = ("PASS", "UNSURE", "FAIL")

    def weight(variant: AuditedVariant) -> tuple[int, float]:
        verdict = verdicts.get(variant.name, "PASS")
        bits = 32 if variant.bits is None else variant.bits  # for the order alone
        return grave.index(verdict), -bits * (1 - (variant.sparsity or 0))

    return max(audit.compressed, key=weight)
