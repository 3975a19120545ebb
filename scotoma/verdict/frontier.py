"""How far can one compress? The verdicts along the sparsities, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from scotoma.audit import Audit, GateResult
from scotoma.audit.base import cells_at
from scotoma.audit.document import AuditedVariant
from scotoma.audit.findings import FrontierRow, WorstRate
from scotoma.audit.gate import JudgedVariant
from scotoma.impact.worst_change import worst_change
from scotoma.printable import printable

WORDS = {"PASS": "passes", "UNSURE": "is unsure", "FAIL": "fails"}


def frontier_sentence(variants: Sequence[AuditedVariant], gate: GateResult) -> str:
    """Say which sparsities pass, and what the others fail on.

    Args:
        variants: Those of the audit.
        gate: The verdict.

    Returns:
        A sentence such as `prune <= 0.7 passes; 0.9 fails on FPR male & old`; empty where fewer
        than two pruned variants were judged.
    """
    judged = [
        (variant.sparsity or 0.0, verdict)
        for variant in variants
        if variant.kind == "prune" and (verdict := gate.variant(variant.name)) is not None
    ]
    if len(judged) < 2:
        return ""
    judged.sort(key=lambda pair: pair[0])
    passed = len(list(takewhile(lambda pair: pair[1].verdict == "PASS", judged)))
    parts = [f"prune <= {judged[passed - 1][0]:g} passes"] if passed else []
    parts += [f"{sparsity:g} {_words(verdict)}" for sparsity, verdict in judged[passed:]]
    if not passed:
        parts[0] = f"prune {parts[0]}"
    return "; ".join(parts)


def _words(variant: JudgedVariant) -> str:
    if not variant.failed:
        return WORDS[variant.verdict]
    return f"fails on {printable(variant.failed[0].where)}"


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
    top1 = {row.variant: row.number for row in audit.numbers("accuracy")}
    return tuple(
        FrontierRow(
            variant=variant.name,
            verdict=verdicts.get(variant.name),
            sparsity=variant.sparsity,
            bits=variant.bits,
            top1=top1[variant.name],
            worst=_worst(audit, variant.name),
            costs=costs.get(variant.name),
        )
        for variant in audit.variants
        if variant.name in top1
    )


def _worst(audit: Audit, variant: str) -> WorstRate | None:
    worst = worst_change(audit, variant)
    if worst is None:
        return None
    row = worst["absolute"]
    return WorstRate(group=audit.group_names[str(row.group)], metric=row.metric, **cells_at(worst))
