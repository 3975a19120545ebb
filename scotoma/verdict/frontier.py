"""How far can one compress? The verdicts along the sparsities, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from scotoma.audit import GateResult
from scotoma.audit.document import AuditedVariant
from scotoma.audit.gate import JudgedVariant
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
