"""Which layer did it? The labels that each layer of a failed variant changes, as a section."""

from __future__ import annotations

from scotoma.audit.findings import Findings
from scotoma.audit.layers import VariantLayers
from scotoma.document import Cell, Column, Facts, Section, Table
from scotoma.numbers import FEW_RUNS

MOST_ROWS = 12  # of a variant, on the page


def layers_section(findings: Findings) -> Section | None:
    """The layers of every variant that fails; None where none does, or nothing was measured."""
    verdicts = {} if findings.gate is None else {v.name: v.verdict for v in findings.gate.variants}
    failed = [
        (variant.name, findings.beside.layers[variant.name])
        for variant in findings.audit.compressed
        if variant.name in findings.beside.layers and verdicts.get(variant.name) == "FAIL"
    ]
    if not failed:
        return None
    failed.sort(key=lambda pair: pair[0] != findings.focus)
    table = _table(findings, failed)
    return Section(
        "layers",
        "Which layer did it",
        [
            "Layers are compressed one at a time, and then one after the other, the one that "
            "changes most labels first.",
            "What a layer changes alone need not add up: layers can undo each other"
            "\N{RIGHT SINGLE QUOTATION MARK}s errors, or share a tensor.",
        ],
        [
            *([table] if table.rows else []),
            Facts([(name, compared.compared) for name, compared in failed]),
        ],
        folded=True,
        about="labels that each layer changes",
        link="Which layer",
    )


def _table(findings: Findings, failed: list[tuple[str, VariantLayers]]) -> Table:
    rows: list[dict[str, Cell]] = [
        {
            "variant": name,
            "layer": row.layer,
            "zero": row.sparsity,
            "n": row.alone.n,
            "members": row.alone.members,
            "alone": row.alone,
            "together": row.together,
        }
        for name, compared in failed
        for row in compared.layers
    ]
    pruned = any(row["zero"] is not None for row in rows)
    clustered = findings.audit.examples.clusters != findings.audit.examples.test
    unit = "n: clusters of test examples." if clustered else "n: test examples."
    few = dict.fromkeys(
        note
        for _, compared in failed
        for row in compared.layers
        for note in row.alone.note.split("; ")
        if note in FEW_RUNS
    )
    return Table(
        "layers",
        "Labels that each layer changes",
        (
            Column("variant", "Variant"),
            Column("layer", "Layer"),
            *([Column("zero", "Weights that are zero", "rate")] if pruned else []),
            Column("n", "n", "count"),
            Column("members", "Members", "count"),
            Column("alone", "Alone", "rate"),
            Column("together", "With the layers above", "rate"),
        ),
        rows,
        " ".join([unit, *(f"{note[:1].upper()}{note[1:]}." for note in few)]),
        stub=2,
        known=FEW_RUNS,
        most=MOST_ROWS,
    )
