"""What changes once people have corrected labels? reviewed/audit.json, as a type."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from scotoma.audit.base import Part
from scotoma.audit.reading import read_part


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
