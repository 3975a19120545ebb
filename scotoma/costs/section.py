"""How far can one compress? What each variant loses and saves, as a section."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scotoma.audit.findings import Findings, FrontierRow
from scotoma.audit.groups import RATE_NAMES
from scotoma.document import Cell, Chart, Column, Interval, Noted, Section, Table
from scotoma.numbers import FEW_RUNS

BATCHES = (("1", "one", "1 image, ms"), ("64", "many", "64 images, ms"))
UNMEASURED = Interval(None, reason="not measured")


def frontier_section(findings: Findings) -> Section | None:
    """Accuracy, most affected group, size and latency of each variant; None without rows."""
    rows = findings.beside.frontier
    if not rows:
        return None
    table = _table(findings, rows)
    chart = Chart(
        "frontier",
        "What each variant loses and saves",
        "Circles pass, diamonds are unsure, triangles fail, squares are not judged.",
        table,
        "frontier",
    )
    verdicts = {
        word: [row.variant for row in rows if row.verdict == word]
        for word in ("PASS", "UNSURE", "FAIL")
    }
    judged = "; ".join(f"{word}: {', '.join(names)}" for word, names in verdicts.items() if names)
    return Section(
        "frontier",
        "How far can one compress?",
        [f"What each variant loses and what it saves. {judged or 'No gate was applied'}."],
        [chart if any(row.costs for row in rows) else table],
        folded=True,
        about="size on disk and latency",
        link="Size and speed",
    )


def _table(findings: Findings, rows: Sequence[FrontierRow]) -> Table:
    runs = {
        one["n"] for row in rows for one in ((row.costs or {}).get("latency") or {}).values()
    }  # fmt: skip
    timed = (
        f"Latency: one thread, median and quartiles of {' or '.join(map(str, sorted(runs)))} runs."
        if runs
        else "A deterministic page leaves out latency; measurements.json has it."
    )
    return Table(
        "frontier",
        "Accuracy, size and latency of each variant",
        (
            Column("variant", "Variant"),
            Column("verdict", "Gate", "verdict"),
            Column("top1", "Top-1", "rate"),
            Column("worst", "Most affected group, points", "points"),
            Column("relative", "The same, relative", "percent"),
            Column("bytes", "Size", "bytes"),
            Column("packed", "Packed", "bytes"),
            *(Column(key, title, "number") for _, key, title in BATCHES if runs),
        ),
        [_row(findings, row) for row in rows],
        "Size: the file of one member, on one machine, without interval. Pruning makes a packed "
        f"file smaller, but not the file on disk, and not the model faster. {timed}",
        known=FEW_RUNS,
    )


def _row(findings: Findings, row: FrontierRow) -> dict[str, Cell]:
    cells: dict[str, Cell] = {
        "variant": row.variant,
        "verdict": row.verdict or "not judged",
        "top1": row.top1,
    }
    if row.worst is not None:
        where = f"{RATE_NAMES[row.worst.metric]} of {findings.name(row.worst.group)}"
        cells |= {"worst": Noted(row.worst.absolute, where), "relative": row.worst.relative}
    costs = row.costs
    cells["bytes"] = costs["bytes"] if costs else "not measured"
    cells["packed"] = costs["compressed_bytes"] if costs else "not measured"
    for batch, key, _ in BATCHES:
        cells[key] = _latency(costs, batch)
    return cells


def _latency(costs: Mapping[str, Any] | None, batch: str) -> Interval:
    one = ((costs or {}).get("latency") or {}).get(batch)
    if one is None:
        return UNMEASURED
    return Interval(one["median_ms"], one["low_ms"], one["high_ms"], one["n"])
