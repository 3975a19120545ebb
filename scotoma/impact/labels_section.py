"""Where an example has several labels: which examples change, and how do scores rank?"""

from __future__ import annotations

from collections.abc import Iterator

from scotoma.audit.findings import Findings
from scotoma.audit.labels import SeveralLabels
from scotoma.document import Cell, Column, Section, Table, show

__all__ = ["labels_section"]

MOST_ROWS = 12  # labels on the page
NO_SCORES = "No scores were kept, so labels have no average precision: set keep_scores: true."


def labels_section(findings: Findings) -> Section | None:
    """Whole examples and average precision; None where an example has one label."""
    audit = findings.audit
    labels = audit.labels
    if labels is None:
        return None
    examples, many = show(labels.examples).value, show(len(labels.names)).value
    changed = Table(
        "labels_changed",
        "Examples of which some label changes",
        (
            Column("variant", "Variant"),
            Column("cies", "CIEs", "count"),
            Column("differ", "Models differ", "rate"),
            Column("floor", "Floor", "rate"),
            Column("excess", "Excess, points", "points"),
        ),
        [
            {
                "variant": variant.name,
                "cies": labels.changed[variant.name].cie,
                "differ": labels.changed[variant.name].disagreement,
                "floor": labels.changed[variant.name].floor,
                "excess": labels.changed[variant.name].excess,
            }
            for variant in audit.compressed
        ],
        f"CIEs among {examples} test examples: a label's most frequent answer changes. The next "
        "columns compare the labels that single models give, over all pairs of models; seeds alone "
        "leave the excess at 0.",
    )
    answer = [
        f"Each of {examples} examples has {many} labels. Elsewhere on this page an example is a "
        "pair of both: is this label in this example?",
        "Here an example changes if any of its labels does.",
    ]
    precision = _precision(labels, [variant.name for variant in audit.compressed])
    return Section(
        "labels",
        "Whole examples and labels",
        answer if labels.average_precision else [*answer, NO_SCORES],
        [changed, *([precision] if precision.rows else [])],
        folded=True,
        about="any label changes; how scores rank",
        link="Labels",
    )


def _precision(labels: SeveralLabels, variants: list[str]) -> Table:
    return Table(
        "average_precision",
        "Average precision of each label",
        (
            Column("variant", "Variant"),
            Column("label", "Label"),
            Column("positives", "Examples that have it", "count"),
            Column("dense", "Dense", "rate"),
            Column("change", "Change, points", "points", drawn=True),
        ),
        [row for name in variants for row in _rows(labels, name)],
        "The mean, over examples that have the label, of the precision among all that score at "
        "least as much; the mean over labels is mAP.",
        stub=2,
        most=MOST_ROWS,
    )


def _rows(labels: SeveralLabels, variant: str) -> Iterator[dict[str, Cell]]:
    if variant not in labels.average_precision:
        return
    dense, own = labels.average_precision["dense"], labels.average_precision[variant]
    yield {
        "variant": variant,
        "label": "Mean over labels (mAP)",
        "dense": dense.mean,
        "change": own.change,
    }
    for before, after in zip(dense.labels, own.labels, strict=True):
        yield {
            "variant": variant,
            "label": before.label,
            "positives": before.positives,
            "dense": before.value,
            "change": after.change,
        }
