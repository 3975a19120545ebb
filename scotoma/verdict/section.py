"""May it ship? The verdict a variant, with what it costs and whom, as a section."""

from __future__ import annotations

from collections.abc import Collection

from scotoma.audit import Audit
from scotoma.audit.findings import Findings
from scotoma.audit.gate import GateResult, JudgedVariant
from scotoma.document import Cell, Column, Noted, Section, Table, complement, show
from scotoma.impact.scores_section import scored_cells, scored_columns
from scotoma.impact.worst_change import affected_words, most_changed, worst_change
from scotoma.numbers import FEW_RUNS
from scotoma.verdict.words import next_steps, to_do, verdict_sentence

FEW_MEMBERS = 5  # below it CIE counts are unstable
NOT_JUDGED = "No gate was applied to this audit. scotoma gate RUN judges it."


def verdict_section(findings: Findings) -> Section:
    """The verdict, a row a variant, what to do next and what to be careful about."""
    audit, gate = findings.audit, findings.gate
    warnings = (*filter(None, [audit.examples.unlabelled]), *(gate.warnings if gate else ()))
    if audit.scope == "population" and min(v.members for v in audit.variants) < FEW_MEMBERS:
        warnings = (
            f"Few models: a variant has fewer than {FEW_MEMBERS}. Which examples are CIEs depends "
            "on the seeds; use 10 models or more.",
            *warnings,
        )
    return Section(
        "verdict",
        "Verdict:" if gate else "Verdict: none",
        [verdict_sentence(gate) if gate else NOT_JUDGED],
        [_variants(audit, gate)],
        link="Verdict",
        verdict=gate.verdict if gate else "",
        warnings=warnings,
        steps=_steps(audit, gate) if gate else (),
    )


def _steps(audit: Audit, gate: GateResult) -> list[str]:
    failed = [variant.name for variant in gate.variants if variant.verdict == "FAIL"]
    if audit.scores is not None:
        return next_steps(gate, scored=True)
    mitigated = mitigations(audit, failed)
    return next_steps(gate, labelled=audit.labelled, mitigated=mitigated)


def _variants(audit: Audit, gate: GateResult | None) -> Table:
    return Table(
        "variants",
        f"Each variant beside {audit.dense.name}",
        variant_columns(audit, judged=gate is not None),
        [variant_cells(audit, gate, variant.name) for variant in audit.compressed],
        " ".join(filter(None, [scope_sentence(audit), *_read(audit, gate)])),
        known=FEW_RUNS,
        cards=True,
    )


def variant_columns(audit: Audit, *, judged: bool) -> tuple[Column, ...]:
    """The columns of a row that `variant_cells` makes."""
    return (
        Column("variant", "Variant"),
        *([Column("gate", "Gate", "verdict"), Column("do", "What to do")] if judged else []),
        *(scored_columns(audit) if audit.scores else _columns(audit)),
    )


def variant_cells(audit: Audit, gate: GateResult | None, variant: str) -> dict[str, Cell]:
    """Sum up a compressed variant in one row."""
    judged = {} if gate is None else {one.name: one for one in gate.variants}
    return {
        "variant": variant,
        **_judged(judged.get(variant)),
        **(scored_cells if audit.scores else _cells)(audit, variant),
    }


def _columns(audit: Audit) -> tuple[Column, ...]:
    changed = "Most affected group, points" if audit.labelled else "Most changed group"
    own = (
        Column("flips", "Predictions that change", "rate"),
        Column("affected", changed, "points" if audit.labelled else "rate"),
    )
    accuracy = Column("accuracy", "Accuracy, change in points", "points")
    return (accuracy, *own) if audit.labelled else own


def _cells(audit: Audit, variant: str) -> dict[str, Cell]:
    cells = {"flips": _flips(audit, variant), "affected": _affected(audit, variant)}
    return {"accuracy": _accuracy(audit, variant), **cells} if audit.labelled else cells


def scope_sentence(audit: Audit) -> str:
    """Say what the intervals are for."""
    kind = "on another test set of this kind"
    whose = (
        f"another training run, {kind}"
        if audit.scope == "population"
        else f"these very models {kind}; it says nothing about the next training run"
    )
    return f"In brackets: the {100 * audit.level:g}% interval for {whose}."


def _read(audit: Audit, gate: GateResult | None) -> list[str]:
    """What to know of the last column, and the margin below which harm may remain."""
    sentences = ["Not adjusted for selecting the most affected group."]
    widest = max(
        (
            (test.decided_by.margin, test.where)
            for variant in (gate.variants if gate else ())
            for test in variant.tests
            if test.verdict == "PASS" and test.decided_by and test.decided_by.kind == "absolute"
        ),
        default=None,
    )
    if widest is not None:
        margin = show(widest[0], "points").value.lstrip("+")
        sentences.append(
            f"Widest margin of a test that passed: {margin} points ({widest[1]}); harm below it "
            "may remain."
        )
    return sentences


def _judged(variant: JudgedVariant | None) -> dict[str, Cell]:
    if variant is None:
        return {}
    return {"gate": variant.verdict, "do": to_do(variant)}


def _accuracy(audit: Audit, variant: str) -> Cell:
    """Of more than two classes with a positive one, the groups' error is that of this class."""
    positive, everyone = audit.examples.positive, audit.groups[0].key
    alone = positive is not None and len(audit.examples.classes) > 2
    whose = f", {positive} against the rest" if alone else ""
    for at in audit.at("rates", variant, group=everyone, metric="error", class_name=None):
        before, after = (
            show(complement(at[side].number, 1.0), "rate").value for side in ("dense", "compressed")
        )
        rise = at["absolute"].number
        return Noted(complement(rise), f"{before} to {after}{whose}; n {show(rise.n).value}")
    return "the error of all examples was not measured"


def _flips(audit: Audit, variant: str) -> Cell:
    """How many predictions change, beside how many differ between two dense models."""
    floor, differ = audit.number("divergence", variant, "cie.floor"), audit.differing(variant)
    if differ is None:
        return None
    known = floor is not None and floor.value is not None
    beside = f"two dense models {show(floor, 'rate').value}; " if known else ""
    if audit.divergence[variant].cie.paired:
        beside = "same models before and after; "
    return Noted(differ, f"{beside}n {show(differ.n).value}")


def _affected(audit: Audit, variant: str) -> Cell:
    if not audit.labelled:
        most = most_changed(audit, variant)
        name = audit.group_names[str(most.group)]
        return Noted(most.number, f"{name}: changed; n {show(most.number.n).value}")
    worst = worst_change(audit, variant)
    if worst is None:
        return "no group's change can be estimated"
    rise = worst["absolute"].number
    return Noted(rise, f"{affected_words(audit, worst)}; n {show(rise.n).value}")


def mitigations(audit: Audit, failed: Collection[str]) -> str:
    """Name the techniques that fit, with what they need; empty where none does.

    Args:
        audit: The audit.
        failed: Names of the variants that fail.
    """
    kinds = {variant.kind for variant in audit.variants}
    trained, models = not kinds & {"onnx", "predictions"}, "predictions" not in kinds
    grouped = any(group.key != "all" for group in audit.groups)
    binary = len(audit.examples.classes) == 2
    ways = []
    if audit.labelled and grouped:
        if models and audit.labels is None:
            ways.append("dfr (no groups when it decides)")
        if audit.labels is None or binary:
            rule, kept = ("thresholds", "true") if binary else ("offsets", "full")
            scores = "" if trained else f"keep_scores: {kept}; "
            ways.append(f"{rule} ({scores}groups at each decision)")
    failing = [variant for variant in audit.variants if variant.name in failed]
    text = ""
    if ways:
        text = f"Without training again: scotoma fix RUN --by {' or '.join(ways)}."
    if grouped and trained and any(one.mode == "static" for one in failing):
        text += " For int8-static, try calibration: group-balanced."
    repaired = {"int8"} if trained else {"onnx"}
    if audit.labelled and any(one.kind in repaired and (trained or one.paired) for one in failing):
        text += " To leave layers of int8 in float32: scotoma fix RUN --by layers."
    return text.strip()
