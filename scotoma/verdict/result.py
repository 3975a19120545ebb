"""The verdict as gate.json holds it: every test typed, with the sentences that readers get."""

from __future__ import annotations

import math

from scotoma.audit import GateFile, GateResult, Quantity
from scotoma.audit.gate import (
    GATE_VERSION,
    DecidingInterval,
    Forecast,
    JudgedExamples,
    JudgedVariant,
    LevelTest,
    Margins,
    TestResult,
)
from scotoma.numbers import Estimate
from scotoma.verdict.deciding import Deciding, Finding
from scotoma.verdict.gate import Gate, VariantVerdict
from scotoma.verdict.outlook import Outlook
from scotoma.verdict.question import Level
from scotoma.verdict.words import sentences, size_of

__all__ = ["gate_file", "gate_result"]


def gate_result(gate: Gate) -> GateResult:
    """Convert a verdict: what is not known is None, every interval has its level."""
    audit, examples = gate.audit, gate.audit.examples
    header = {
        name: getattr(audit, name)
        for name in ("scotoma", "project", "config_sha256", "scope", "level")
    }
    return GateResult(
        version=GATE_VERSION,
        examples=JudgedExamples(test=examples.test, clusters=examples.clusters),
        verdict=gate.verdict,
        exit_code=gate.exit_code(),
        rules=gate.rules,
        warnings=gate.warnings,
        previous_audit=gate.previous,
        variants_tried=len(gate.variants),
        variants=tuple(map(_variant, gate.variants)),
        **header,
    )


def gate_file(gate: Gate, audit_sha256: str) -> GateFile:
    """Convert a verdict to gate.json.

    Args:
        gate: The verdict.
        audit_sha256: SHA-256 of the audit.json that it judges.
    """
    result = gate_result(gate)
    return GateFile(**dict(result), as_of=gate.as_of, audit_sha256=audit_sha256)


def _variant(variant: VariantVerdict) -> JudgedVariant:
    outlook = variant.outlook if variant.verdict == "UNSURE" else None
    return JudgedVariant(
        name=variant.name,
        verdict=variant.verdict,
        members=variant.members,
        top1=_known(variant.top1),
        cies=variant.cies,
        outlook=None if outlook is None else f"{outlook.question.where} {outlook.outlook}",
        blocked=variant.blocked,
        too_small=tuple(size_of(finding) for finding in variant.too_small),
        sentences=tuple(sentences(variant)),
        tests=tuple(map(_test, variant.findings)),
    )


def _test(finding: Finding) -> TestResult:
    question, waiver = finding.question, finding.waiver
    change = question.change
    return TestResult(
        rule=question.rule,
        metric=question.metric,
        group=question.group,
        class_name=question.class_name,
        where=question.where,
        verdict=finding.verdict,
        reason=finding.reason,
        waived=None if waiver is None else waiver.reason,
        waived_until=None if waiver is None else waiver.until.isoformat(),
        margins=Margins(
            relative=question.relative, absolute=question.absolute, clearing=question.clearing
        ),
        relative=None
        if change is None or question.relative is None
        else _quantity(change.relative),
        absolute=None if change is None else _quantity(change.absolute),
        level=None if question.level is None else _level(question.level),
        harm_p=_known(finding.harm_p),
        harm_p_adjusted=_known(finding.harm_p_adjusted),
        noninferiority_p=_known(finding.noninferiority_p),
        decided_by=_deciding(finding.deciding),
        outlook=None if finding.outlook is None else _forecast(finding.outlook),
    )


def _deciding(deciding: Deciding | None) -> DecidingInterval | None:
    if deciding is None:
        return None
    return DecidingInterval(
        kind=deciding.kind,
        margin=deciding.margin,
        interval=Quantity.of(deciding.estimate),
        subject=deciding.subject,
    )


def _level(level: Level) -> LevelTest:
    return LevelTest(
        attribute=level.attribute,
        side=level.side,
        limit=level.limit,
        neutral=level.neutral,
        of=level.of,
        next_runs=level.next_runs,
        mean=_quantity(level.mean),
        worst_member="" if level.worst is None else level.worst.subject,
        worst=None if level.worst is None else _quantity(level.worst.estimate),
        dense=_quantity(level.dense),
    )


def _quantity(estimate: Estimate | None) -> Quantity | None:
    return None if estimate is None else Quantity.of(estimate)


def _forecast(outlook: Outlook) -> Forecast:
    return Forecast(
        leaning=outlook.leaning,
        by=outlook.by,
        low=_known(outlook.low),
        high=_known(outlook.high),
        now=outlook.now,
        passing_margin=_known(outlook.passing_margin),
        sentence=str(outlook),
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
