"""What a model card should say about compression: Markdown to copy."""

from __future__ import annotations

from collections.abc import Mapping

from scotoma.audit import Audit, GateResult
from scotoma.audit.document import AuditedVariant
from scotoma.audit.worst_change import (
    MEANING,
    highest_error,
    largest_gap,
    most_changed,
    worst_change,
)
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
        *(_table if audit.labelled else _unlabelled_table)(audit, verdicts),
    ]
    if gate is not None:
        lines += ["", f"Gate: {gate.verdict}. {code_span(verdict_sentence(gate))}"]
    lines += [
        "",
        f"The variant in focus is {code_span(in_focus(audit, gate).name)}. Configuration "
        f"`{audit.config_sha256[:16]}`, data `{audit.examples.dataset_sha256[:16]}`.",
    ]
    return "\n".join(lines) + "\n"


def _table(audit: Audit, verdicts: Mapping[str, str]) -> list[str]:
    return [
        "| variant | gate | top-1 | CIEs | excess over seed noise, points | most affected, points "
        "| highest error | largest gap, points |",
        "|---|---|--:|--:|--:|---|---|---|",
        *(_row(audit, variant, verdicts) for variant in audit.variants),
        "",
        f"CIEs: examples whose most frequent label changes. {MEANING} Highest error: of the groups "
        "after compression. Largest gap: how much more the error rises for the first group than "
        "for the second. Not adjusted for selecting the group.",
    ]


def _unlabelled_table(audit: Audit, verdicts: Mapping[str, str]) -> list[str]:
    lines = [
        "| variant | gate | CIEs | excess over seed noise, points | most changed group |",
        "|---|---|--:|--:|---|",
    ]
    for variant in audit.compressed:
        name, cie = variant.name, audit.divergence[variant.name].cie
        changed = most_changed(audit, name)
        lines.append(
            f"| {code_span(name)} | {verdicts.get(name, 'not judged')} "
            f"| {numbers.count(cie.cie.count)} | {_interval(numbers.points(cie.excess))} "
            f"| {code_span(changed.group)} {_interval(numbers.rate(changed.changed))} |"
        )
    return [
        *lines,
        "",
        f"CIEs: examples whose most frequent label changes. {audit.examples.unlabelled} Not "
        "adjusted for selecting the most changed group.",
    ]


def _row(audit: Audit, variant: AuditedVariant, verdicts: Mapping[str, str]) -> str:
    name = variant.name
    top1 = _interval(numbers.rate(audit.accuracy[name].top1))
    if name not in audit.divergence:
        return f"| {code_span(name)} | | {top1} | | | baseline | | |"
    cie = audit.divergence[name].cie
    excess = _interval(numbers.points(cie.excess))
    return (
        f"| {code_span(name)} | {verdicts.get(name, 'not judged')} | {top1} "
        f"| {numbers.count(cie.cie.count)} | {excess} | {_worst(audit, name)} "
        f"| {_highest(audit, name)} | {_gap(audit, name)} |"
    )


def _worst(audit: Audit, variant: str) -> str:
    row = worst_change(audit, variant)
    if row is None:
        return "not estimable"
    relative = numbers.percent(row.relative).value
    rise = _interval(numbers.points(row.absolute))
    return f"{row.metric} of {code_span(row.group)} {rise}{f' ({relative})' if relative else ''}"


def _highest(audit: Audit, variant: str) -> str:
    row = highest_error(audit, variant)
    if row is None:
        return "not estimable"
    n = numbers.count(row.compressed.n)
    return f"{code_span(row.group)} {_interval(numbers.rate(row.compressed))}, n {n}"


def _gap(audit: Audit, variant: str) -> str:
    gap = largest_gap(audit, variant)
    if gap is None:
        return "not estimable"
    groups = f"{code_span(gap.group_b)} over {code_span(gap.group_a)}"
    return f"{groups} {_interval(numbers.points(gap.gap))}"


def _interval(shown: numbers.Shown) -> str:
    if not shown.value:
        return code_span(shown.reason)
    return f"{shown.value} [{shown.low}, {shown.high}]" if shown.low else shown.value
