"""What does the section on corrupted pictures show? Rows chosen and put in order."""

from __future__ import annotations

from dataclasses import dataclass

from scotoma.audit import Audit, Quantity
from scotoma.audit.robustness import ALL_KINDS, DistortionRow, LossRow, RobustnessReport
from scotoma.report import numbers
from scotoma.report.figures.figure import cell_text
from scotoma.report.figures.robustness import FAMILIES

__all__ = ["Corrupted", "corrupted"]

Row = tuple[LossRow, str, Quantity | None]  # what is lost, its family in words, mCE


@dataclass(frozen=True)
class Corrupted:
    """The tables of the section.

    Attributes:
        report: What they are taken from.
        rows: By variant, losses of all examples under each family.
        floor: What two halves of the dense models differ by, as a clause.
        distortion: Groups by families, with the family in words.
    """

    report: RobustnessReport
    rows: tuple[tuple[str, tuple[Row, ...]], ...]
    floor: str
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
                for row in report.losses[variant.name]
                if row.group == everyone and row.metric == "error"
            ),
        )
        for variant in audit.compressed
    )
    floor = [
        f"{FAMILIES[family]} {cell_text(numbers.points(one))}"
        for family, one in report.floor.items()
    ]
    return Corrupted(
        report=report,
        rows=rows,
        floor=f"{', '.join(floor)} points" if floor else "too few of them",
        distortion=tuple((row, FAMILIES[row.family]) for row in report.distortion),
    )
