"""Where an example has several labels: which examples change, and how do scores rank?"""

from __future__ import annotations

from collections.abc import Iterator

from scotoma.audit import Audit
from scotoma.audit.findings import Findings
from scotoma.document import Cell, Column, Section, Table, show

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
                "cies": at["CIEs"].number.value,
                "differ": at["disagreement"].number,
                "floor": at["floor"].number,
                "excess": at["excess"].number,
            }
            for variant in audit.compressed
            for at in audit.at("labels", variant.name)
            if "CIEs" in at
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
    precision = _precision(audit)
    return Section(
        "labels",
        "Whole examples and labels",
        answer if audit.numbers("labels", audit.dense.name) else [*answer, NO_SCORES],
        [changed, *([precision] if precision.rows else [])],
        folded=True,
        about="any label changes; how scores rank",
        link="Labels",
    )


def _precision(audit: Audit) -> Table:
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
        [row for variant in audit.compressed for row in _rows(audit, variant.name)],
        "The mean, over examples that have the label, of the precision among all that score at "
        "least as much; the mean over labels is mAP.",
        stub=2,
        most=MOST_ROWS,
    )


def _rows(audit: Audit, variant: str) -> Iterator[dict[str, Cell]]:
    dense = {
        (row.class_name, row.what): row.number for row in audit.numbers("labels", audit.dense.name)
    }
    for row in audit.numbers("labels", variant):
        if row.what == "change":
            positives = dense.get((row.class_name, "positives"))
            yield {
                "variant": variant,
                "label": row.class_name or "Mean over labels (mAP)",
                "positives": positives and int(positives.value or 0),
                "dense": dense[row.class_name, "average precision"],
                "change": row.number,
            }
