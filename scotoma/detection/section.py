"""How precise are detections of every score? COCO's numbers, as a section."""

from __future__ import annotations

from scotoma.audit.findings import Findings
from scotoma.document import Column, Section, Table
from scotoma.numbers import FEW_RUNS

MOST_ROWS = 24


def precision_section(findings: Findings) -> Section | None:
    """AP and AR of every variant, the one in focus first; None where examples are no boxes."""
    audit = findings.audit
    found = sorted(audit.at("boxes"), key=lambda at: at["change"].variant != findings.focus)
    if not found:
        return None
    runs = " and cover training runs" if audit.scope == "population" else ""
    return Section(
        "precision",
        "AP and AR",
        [
            "COCO\N{RIGHT SINGLE QUOTATION MARK}s numbers of boxes, with detections of every "
            "score: they do not depend on the score from which a box counts as found.",
            f"Intervals leave out groups of images in turn{runs}. The gate does not judge them.",
        ],
        [
            Table(
                "precision",
                f"AP and AR beside {audit.dense.name}",
                (
                    Column("variant", "Variant"),
                    Column("name", "Number"),
                    Column("n", "n, images", "count"),
                    Column("dense", "Dense", "rate"),
                    Column("compressed", "Compressed", "rate"),
                    Column("change", "Change, points", "points", drawn=True),
                ),
                [
                    {
                        "variant": at["change"].variant,
                        "name": at["change"].metric,
                        "n": at["change"].number.n,
                        **{what: row.number for what, row in at.items()},
                    }
                    for at in found
                ],
                stub=2,
                known=FEW_RUNS,
                most=MOST_ROWS,
            )
        ],
        folded=True,
        about="how precise detections of every score are",
    )
