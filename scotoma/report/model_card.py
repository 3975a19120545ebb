"""What a model card should say about compression: Markdown to copy."""

from __future__ import annotations

from collections.abc import Mapping

from scotoma.audit import Audit, GateResult
from scotoma.audit.findings import in_focus
from scotoma.document import Cell, Column, Table, Unit
from scotoma.document.text import markdown_table
from scotoma.impact.worst_change import (
    MEANING,
    affected_words,
    gap_groups,
    highest_error,
    largest_gap,
    most_changed,
    worst_change,
)
from scotoma.numbers import FEW_RUNS
from scotoma.printable import code_span
from scotoma.verdict.words import these_models, verdict_sentence


def model_card(audit: Audit, gate: GateResult | None) -> str:
    """Write the audit as one table, with what it covers and what it does not.

    Args:
        audit: The audit.
        gate: The verdict; None where there is none.

    Returns:
        Markdown in which names are code, so that nothing in them is markup.
    """
    models = these_models(len(audit.compressed))
    scope = (
        "another training run, on another test set of this kind"
        if audit.scope == "population"
        else f"{models} on another test set, not for the next training run"
    )
    verdicts = {} if gate is None else {v.name: v.verdict for v in gate.variants}
    lines = [
        "## What compression changed",
        "",
        f"Audited with Scotoma {audit.scotoma} on {audit.examples.test:,} test examples; "
        f"{100 * audit.level:g}% intervals for {scope}.",
        "",
        markdown_table(_table(audit, verdicts)),
        "",
        "CIEs: examples whose most frequent label changes. "
        + (
            f"{MEANING} Highest error: of the groups after compression. Largest gap: how much more "
            "the error rises for the first group than for the second. Not adjusted for selecting "
            "the group."
            if audit.labelled
            else f"{audit.examples.unlabelled} Not adjusted for selecting the most changed group."
        ),
    ]
    if gate is not None:
        lines += ["", f"Gate: {gate.verdict}. {code_span(verdict_sentence(gate))}"]
    lines += [
        "",
        f"The variant in focus is {code_span(in_focus(audit, gate).name)}. Configuration "
        f"`{audit.config_sha256[:16]}`, data `{audit.examples.dataset_sha256[:16]}`.",
    ]
    return "\n".join(lines) + "\n"


def _table(audit: Audit, verdicts: Mapping[str, str]) -> Table:
    measured: tuple[tuple[str, str, Unit], ...] = (
        ("affected", "most affected, points", "points"),
        ("whom", "whose", "text"),
        ("error", "highest error", "rate"),
        ("highest", "of", "text"),
        ("gap", "largest gap, points", "points"),
        ("between", "between", "text"),
    )
    changed: tuple[tuple[str, str, Unit], ...] = (
        ("changed", "most changed", "rate"),
        ("whom", "group", "text"),
    )
    top1 = [Column("top1", "top-1", "rate")] if audit.labelled else []
    return Table(
        "card",
        "",
        (
            Column("variant", "variant"),
            Column("gate", "gate", "verdict"),
            *top1,
            Column("cies", "CIEs", "count"),
            Column("excess", "excess over seed noise, points", "points"),
            *(Column(*column) for column in (measured if audit.labelled else changed)),
        ),
        [_row(audit, variant.name, verdicts) for variant in audit.variants],
        known=FEW_RUNS,
    )


def _row(audit: Audit, name: str, verdicts: Mapping[str, str]) -> dict[str, Cell]:
    row: dict[str, Cell] = {"variant": name, "top1": audit.number("accuracy", name, "top1")}
    if name not in audit.divergence:
        return row | {"gate": "baseline"}
    names = audit.group_names
    row |= {
        "gate": verdicts.get(name, "not judged"),
        "cies": audit.divergence[name].cie.cie.count,
        "excess": audit.number("divergence", name, "cie.excess"),
    }
    if not audit.labelled:
        changed = most_changed(audit, name)
        return row | {"changed": changed.number, "whom": names[str(changed.group)]}
    if (worst := worst_change(audit, name)) is not None:
        row |= {"affected": worst["absolute"].number, "whom": affected_words(audit, worst)}
    if (highest := highest_error(audit, name)) is not None:
        rate = highest["compressed"]
        row |= {"error": rate.number, "highest": names[str(rate.group)]}
    if (gap := largest_gap(audit, name)) is not None:
        row |= {"gap": gap["gap"].number, "between": " over ".join(gap_groups(audit, gap))}
    return row
