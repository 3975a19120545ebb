"""How robust are dense and compressed models to corrupted pictures, as in Table 5?"""

from __future__ import annotations

from scotoma.audit.robustness import ALL_KINDS
from scotoma.papers.finished import FinishedAudit
from scotoma.papers.table import Cell, Grid, PaperTable
from scotoma.papers.words import quantity_text, under
from scotoma.published import pie

__all__ = ["corruptions"]

NAME = "Table 5"
TITLE = "Accuracy on corrupted pictures, a fraction, and in percent of that on clean ones"
COLUMNS = ("corruption, sparsity", "top 1", "top 5", "top 1 relative", "top 5 relative")
MISSING = (
    "the audit has run no corrupted pictures; add robustness: {profile: ...} to the configuration "
    "and repeat the audit, which trains nothing again"
)


def corruptions(finished: FinishedAudit) -> PaperTable:
    """Make Table 5 from the audit's section on corrupted pictures."""
    paper = Grid.published(
        "Paper, Table 5: ImageNet-C, ResNet-50, means over five severities",
        pie().table5,
        rows=COLUMNS[0],
        columns=COLUMNS[1:],
    )
    report = finished.audit.robustness
    if report is None or not report.corruptions:
        return PaperTable.lacking(NAME, TITLE, MISSING, [paper])
    ranked = any(row.top5_accuracy is not None for row in report.by_corruption)
    order = [ALL_KINDS, *(corruption.kind for corruption in report.corruptions)]
    rows: list[tuple[Cell, ...]] = [
        (
            f"{row.kind.replace('_', ' ')}, {row.variant}",
            row.accuracy.value,
            *((row.top5_accuracy.value if row.top5_accuracy else None,) * ranked),
            row.relative_robustness,
            *((row.top5_relative_robustness,) * ranked),
        )
        for row in sorted(report.by_corruption, key=lambda row: order.index(row.kind))
    ]
    severities = ", ".join(map(str, report.severities))
    most = max(report.members.values())
    losses = {
        variant: next(
            quantity_text(loss.absolute, factor=100, sign="+", unit=" points")
            for loss in rows
            if (loss.group, loss.family, loss.metric) == ("all", ALL_KINDS, "error")
        )
        for variant, rows in report.losses.items()
    }
    return PaperTable(
        name=NAME,
        title=TITLE,
        run=Grid(
            f"This run: profile {report.profile}, severities {severities}, {report.examples:,} "
            f"examples, {most} models of each variant at most",
            ("corruption, variant", *(name for name in COLUMNS[1:] if ranked or "5" not in name)),
            tuple(rows),
        ),
        published=[paper],
        conclusion="accuracy lost to corruption beyond what dense models lose: "
        f"{under(losses)}. docs/robustness.md says when the scale of the loss decides.",
        notes=[report.note] if report.note else [],
    )
