"""How far can one compress: what does each variant keep, and what does it cost?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scotoma.audit import Audit, GateResult
from scotoma.audit.findings import FrontierRow, WorstRate
from scotoma.audit.worst_change import worst_change


def frontier_rows(
    audit: Audit, gate: GateResult, costs: Mapping[str, dict[str, Any]]
) -> tuple[FrontierRow, ...]:
    """Put accuracy, most affected group, size, latency and verdict of each variant side by side.

    Args:
        audit: The audit.
        gate: The verdict.
        costs: Sizes and latencies of the first member of each variant, where they were measured.

    Returns:
        One row per variant, in the order of the audit; none without labels, which accuracy needs.
        Apart from audit.json, since times differ.
    """
    verdicts = {variant.name: variant.verdict for variant in gate.variants}
    return tuple(
        FrontierRow(
            variant=variant.name,
            verdict=verdicts.get(variant.name),
            sparsity=variant.sparsity,
            bits=variant.bits,
            top1=audit.accuracy[variant.name].top1,
            worst=_worst(audit, variant.name),
            costs=costs.get(variant.name),
        )
        for variant in (audit.variants if audit.labelled else ())
    )


def _worst(audit: Audit, variant: str) -> WorstRate | None:
    row = worst_change(audit, variant)
    if row is None:
        return None
    return WorstRate(
        group=audit.group_names[row.group],
        metric=row.metric,
        absolute=row.absolute,
        relative=row.relative,
        dense=row.dense,
        compressed=row.compressed,
    )
