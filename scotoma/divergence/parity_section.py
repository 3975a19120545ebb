"""Does the exported file predict what the trained network predicts? As a section."""

from __future__ import annotations

from scotoma.audit.findings import Findings
from scotoma.document import Cell, Column, Section, Table

MOST_ROWS = 12


def parity_section(findings: Findings) -> Section | None:
    """Predictions on which each exported file and its network differ; None without exports."""
    audit = findings.audit
    compared = [
        (variant.name, audit.parity[variant.name])
        for variant in audit.variants
        if variant.name in audit.parity
    ]
    if not compared:
        return None
    rows: list[dict[str, Cell]] = []
    for place, group in enumerate(compared[0][1].groups):
        cells: dict[str, Cell] = {"group": findings.name(group.group), "n": group.n}
        rows.append(cells | {name: exported.groups[place] for name, exported in compared})
    return Section(
        "parity",
        "Exported models",
        [
            "The first member of each exported variant runs in ONNX Runtime and its network in "
            "PyTorch, on every test example.",
        ],
        [
            Table(
                "parity",
                "Predictions on which the exported file and the network differ",
                (
                    Column("group", "Group"),
                    Column("n", "n", "count"),
                    *(
                        Column(
                            name,
                            f"{name}, same weights"
                            if name == exported.network
                            else f"{name} against {exported.network}",
                            "rate",
                        )
                        for name, exported in compared
                    ),
                ),
                rows,
                "With the same weights a difference comes from the export alone, otherwise from "
                "compression too. Intervals: this model on another test set.",
                known=("this model, another test set",),
                most=MOST_ROWS,
            )
        ],
        folded=True,
        about="does the file predict what the network predicts",
    )
