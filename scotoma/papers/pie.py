"""What would the tables of Hooker et al. 2019, Selective Brain Damage, say about my run?"""

from __future__ import annotations

import numpy as np

from scotoma.audit.groups import ClassRow
from scotoma.errors import DataError
from scotoma.impact import ClassImpact, class_impact
from scotoma.papers.finished import FinishedAudit
from scotoma.papers.table import Cell, Grid, PaperTable
from scotoma.published import pie

__all__ = ["tables"]

IMAGENET = "ImageNet, ResNet-50, 30 models a sparsity"
CIFAR10 = "CIFAR-10, wide ResNet, 30 models a sparsity"
CLASS_COLUMNS = (
    "acc. diff.", "# incr.", "# decr.", "largest incr.", "incr. norm", "incr. abs",
    "largest decr.", "decr. norm", "decr. abs",
)  # fmt: skip


def tables(finished: FinishedAudit) -> list[PaperTable]:
    """Make the tables of the paper from a run."""
    return [_classes(finished)]


def _classes(finished: FinishedAudit) -> PaperTable:
    """Tables 1 and 4."""
    name, title = "Tables 1 and 4", "Classes whose recall changes otherwise than the accuracy"
    paper = pie()
    published = tuple(
        Grid.published(caption, table, rows="sparsity", columns=CLASS_COLUMNS)
        for caption, table in (
            (f"Paper, Table 1: {IMAGENET}", paper.table1),
            (f"Paper, Table 4: {CIFAR10}", paper.table4),
        )
    )
    audit = finished.audit
    fewest = min(variant.members for variant in audit.variants)
    if fewest < 2:
        return PaperTable.lacking(
            name,
            title,
            f"Welch's test compares models with models and needs 2 of each variant, got {fewest}; "
            "raise population.models, or add predictions of more models",
            published,
        )
    impacts = {variant: published_impact(finished, variant) for variant in finished.compressed}
    rows = tuple(
        _class_row(variant, impact, audit.examples.classes) for variant, impact in impacts.items()
    )
    return PaperTable(
        name=name,
        title=title,
        run=Grid("This run: Welch's test at 5%, as published", ("variant", *CLASS_COLUMNS), rows),
        published=published,
        conclusion="; ".join(
            _conclusion(variant, audit.classes[variant]) for variant in finished.compressed
        )
        + ".",
    )


def published_impact(finished: FinishedAudit, variant: str) -> ClassImpact:
    """Test the classes of a variant as the paper does: Welch, test images fixed, no correction.

    Raises:
        DataError: A population of one model.
    """
    examples = finished.test
    dense, compressed = finished.predictions(), finished.predictions(variant)
    if dense.example_ids != tuple(examples.ids):
        raise DataError(
            f"predictions of {variant} must be for the test examples in their order; repeat the "
            "audit to write them again"
        )
    return class_impact(
        dense.predicted,
        compressed.predicted,
        examples.labels,
        n_classes=len(examples.classes),
        protocol="published",
    )


def _class_row(variant: str, impact: ClassImpact, classes: tuple[str, ...]) -> tuple[Cell, ...]:
    change = np.where(impact.significant, impact.normalised, 0.0)
    cells: list[Cell] = []
    for place, found in ((change.argmax(), change.max() > 0), (change.argmin(), change.min() < 0)):
        numbers = (float(impact.normalised[place]), float(impact.absolute[place]))
        cells += [classes[place], *numbers] if found else [None, None, None]
    difference = 100 * (impact.compressed_accuracy - impact.dense_accuracy)
    return (variant, difference, int((change > 0).sum()), int((change < 0).sum()), *cells)


def _conclusion(variant: str, rows: tuple[ClassRow, ...]) -> str:
    moved = [row for row in rows if row.significant and row.normalised is not None]
    if not moved:
        return f"{variant}: no class"
    up = sum((row.normalised or 0.0) > 0 for row in moved)
    worst = max(moved, key=lambda row: abs(row.normalised or 0.0))
    return (
        f"{variant}: {up} up, {len(moved) - up} down, most of all {worst.class_name} "
        f"({worst.normalised:+.1f} points [{worst.low:+.1f}, {worst.high:+.1f}], n {worst.n:,})"
    )
