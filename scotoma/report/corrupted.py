"""What does the section on corrupted pictures show? Rows chosen and put in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scotoma.audit import Audit, Quantity
from scotoma.audit.robustness import (
    ALL_KINDS,
    ConfidenceRow,
    CorruptionRow,
    DetectionRow,
    DisagreementRow,
    DistortionRow,
    LossRow,
    MatchedRow,
    RobustnessReport,
)
from scotoma.report import numbers
from scotoma.report.figures.figure import cell_text, isolated
from scotoma.report.figures.robustness import FAMILIES

__all__ = ["Corrupted", "corrupted"]

HARD = "CIEs of "  # begins no name of a set that is in a folder
MOST_GROUPS = 30  # of each variant, whose losses are listed
Row = tuple[LossRow, str, Quantity | None]  # what is lost, its family in words, mCE


@dataclass(frozen=True)
class Corrupted:
    """The tables of the section.

    Attributes:
        report: What they are taken from.
        rows: By variant, losses of all examples under each family.
        groups: By variant, group and family in words: losses by metric, beyond those of dense, of
            the most affected groups.
        positive: Whether there is a positive class, and so FPR and FNR.
        floor: What two halves of the dense models differ by, as a clause.
        trap: How often one dense and one compressed model would mislead, as sentences.
        confidence: How sure all models are, by variant and family in words.
        group_confidence: The same of groups.
        detection: How well all models tell clean pictures from others, with these in words.
        matched: Variants beside others that are as accurate, with the family in words.
        hard_sets: Names of the sets that one half of the models chose.
        top5: Variants under all corruptions, where labels among five classes are known, and what
            is lost beyond dense.
        alexnet: Variants and their published mCE; empty but for published files.
        disagreement: By variant, how often dense and compressed models differ at each severity.
        distortion: Groups by families, with the family in words.
    """

    report: RobustnessReport
    rows: tuple[tuple[str, tuple[Row, ...]], ...]
    groups: tuple[tuple[str, str, str, dict[str, LossRow]], ...]
    positive: bool
    floor: str
    trap: str
    confidence: tuple[tuple[ConfidenceRow, str], ...]
    group_confidence: tuple[tuple[ConfidenceRow, str], ...]
    detection: tuple[tuple[DetectionRow, str], ...]
    matched: tuple[tuple[MatchedRow, str], ...]
    hard_sets: tuple[str, ...]
    top5: tuple[tuple[CorruptionRow, LossRow | None], ...]
    alexnet: tuple[tuple[str, Quantity], ...]
    disagreement: tuple[tuple[str, tuple[DisagreementRow, ...]], ...]
    distortion: tuple[tuple[DistortionRow, str], ...]


def corrupted(audit: Audit) -> Corrupted | None:
    """Collect what the section shows; None where no picture was corrupted."""
    report = audit.robustness
    if report is None:
        return None
    everyone = audit.groups[0].name
    mean_errors = {row.variant: row.ce for row in report.by_corruption if row.kind == ALL_KINDS}
    rows = tuple(
        (
            variant.name,
            tuple(
                (
                    row,
                    FAMILIES[row.family],
                    mean_errors.get(variant.name) if row.family == ALL_KINDS else None,
                )
                for row in report.losses.get(variant.name, ())
                if row.group == everyone and row.metric == "error"
            ),
        )
        for variant in audit.compressed
        if report.corruptions
    )
    floor = [
        f"{FAMILIES[family]} {cell_text(numbers.points(one))}"
        for family, one in report.floor.items()
    ]
    groups = tuple(
        (variant.name, *row)
        for variant in audit.compressed
        for row in _groups(report.losses.get(variant.name, ()), everyone)
    )
    top5_losses = {
        name: row
        for name, losses in report.losses.items()
        for row in losses
        if (row.group, row.family, row.metric) == (everyone, ALL_KINDS, "top5")
    }
    sure = [
        (row, FAMILIES.get(row.family, "clean pictures"))
        for row in (report.confidence.rows if report.confidence else ())
    ]
    return Corrupted(
        report=report,
        rows=rows,
        groups=groups,
        positive=any("fpr" in by_metric for *_, by_metric in groups),
        floor=f"{', '.join(floor)} points" if floor else "too few of them",
        confidence=tuple(pair for pair in sure if pair[0].group == everyone),
        group_confidence=tuple(pair for pair in sure if pair[0].group != everyone),
        detection=tuple(
            (row, row.pictures if row.other_set else FAMILIES[row.pictures])
            for row in (report.confidence.detection if report.confidence else ())
            if row.group == everyone
        ),
        matched=tuple((row, FAMILIES[row.family]) for row in report.matched),
        hard_sets=tuple(one.name for one in report.sets if one.name.startswith(HARD)),
        top5=tuple(
            (row, top5_losses.get(row.variant))
            for row in report.by_corruption
            if row.kind == ALL_KINDS and row.top5_accuracy is not None
        ),
        alexnet=tuple(
            (row.variant, row.alexnet_ce)
            for row in report.by_corruption
            if row.kind == ALL_KINDS and row.alexnet_ce is not None
        ),
        trap=" ".join(_trap(name, own) for name, own in rows if own),
        disagreement=tuple(
            (variant.name, report.disagreement[variant.name])
            for variant in audit.compressed
            if variant.name in report.disagreement
        ),
        distortion=tuple((row, FAMILIES[row.family]) for row in report.distortion),
    )


def _groups(
    losses: Sequence[LossRow], everyone: str
) -> Iterator[tuple[str, str, dict[str, LossRow]]]:
    """Losses of the most affected groups under every family, metrics side by side."""
    groups: dict[str, dict[str, dict[str, LossRow]]] = {}
    most: dict[str, float] = {}
    for row in losses:
        if row.group != everyone:
            by_family = groups.setdefault(row.group, {})
            by_family.setdefault(FAMILIES[row.family], {})[row.metric] = row
            beyond = (row.contrast.value if row.contrast else None) or 0.0
            most[row.group] = max(most.get(row.group, beyond), beyond)
    for group in sorted(groups, key=lambda group: -most[group])[:MOST_GROUPS]:
        for family, by_metric in groups[group].items():
            yield group, family, by_metric


def _trap(variant: str, rows: tuple[Row, ...]) -> str:
    """What the audit of one pair of models would have said, under all corruptions or the first."""
    row = rows[0][0]
    if row.one_pair is None:
        return ""
    return (
        f"One dense and one {isolated(variant)} model would miss the direction under "
        f"{FAMILIES[row.family]} in {100 * row.one_pair.misled:.0f}% of "
        f"{numbers.count(row.one_pair.pairs)} pairs."
    )
