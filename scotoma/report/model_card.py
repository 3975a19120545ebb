"""What a model card should say about compression: Markdown to copy."""

from __future__ import annotations

from collections.abc import Mapping

from scotoma.audit import Audit, GateResult
from scotoma.audit.document import AuditedVariant
from scotoma.audit.worst_change import worst_change
from scotoma.printable import code_span
from scotoma.report import numbers
from scotoma.report.answers import in_focus, verdict_sentence

__all__ = ["model_card"]


def model_card(audit: Audit, gate: GateResult | None) -> str:
    """Write the audit as one table, with what it covers and what it does not.

    Args:
        audit: The audit, groups called by their names.
        gate: The verdict; None where there is none.

    Returns:
        Markdown in which names are code, so that nothing in them is markup.
    """
    level = f"{100 * audit.level:g}%"
    scope = (
        "another training run, on another test set of this kind"
        if audit.scope == "population"
        else "these two models on another test set, not for the next training run"
    )
    verdicts = {} if gate is None else {v.name: v.verdict for v in gate.variants}
    lines = [
        "## What compression changed",
        "",
        f"Audited with Scotoma {audit.scotoma} on {audit.examples.test:,} test examples; "
        f"{level} intervals for {scope}.",
        "",
        "| variant | gate | top-1 | CIEs | excess over seed noise, points | worst change |",
        "|---|---|--:|--:|--:|---|",
        *(_row(audit, variant, verdicts) for variant in audit.variants),
        "",
        "CIEs: examples whose most frequent label changes. Worst change: the group's change "
        "whose interval lies highest, not adjusted for selecting the worst group.",
    ]
    if gate is not None:
        lines += ["", f"Gate: {gate.verdict}. {code_span(verdict_sentence(gate))}"]
    lines += [
        "",
        f"The variant in focus is {code_span(in_focus(audit, gate).name)}. Configuration "
        f"`{audit.config_sha256[:16]}`, data `{audit.examples.dataset_sha256[:16]}`.",
    ]
    return "\n".join(lines) + "\n"


def _row(audit: Audit, variant: AuditedVariant, verdicts: Mapping[str, str]) -> str:
    name = variant.name
    top1 = _interval(numbers.rate(audit.accuracy[name].top1))
    if name not in audit.divergence:
        return f"| {code_span(name)} | | {top1} | | | baseline |"
    cie = audit.divergence[name].cie
    excess = _interval(numbers.points(cie.excess))
    worst = worst_change(audit, name)
    change = "not estimable"
    if worst is not None:
        change = f"{worst.metric} of {code_span(worst.group)} "
        change += _interval(numbers.percent(worst.relative))
    return (
        f"| {code_span(name)} | {verdicts.get(name, 'not judged')} | {top1} "
        f"| {numbers.count(cie.cie.count)} | {excess} | {change} |"
    )


def _interval(shown: numbers.Shown) -> str:
    if not shown.value:
        return code_span(shown.reason)
    return f"{shown.value} [{shown.low}, {shown.high}]" if shown.low else shown.value
