"""The verdict on an audit: every variant's answers put together."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Sequence
from typing import Literal

from scotoma.audit import Audit, GateFile, GateResult
from scotoma.audit.document import AuditedVariant
from scotoma.audit.gate import (
    GATE_VERSION,
    JudgedExamples,
    JudgedVariant,
    PreviousReference,
    TestResult,
    VerdictWord,
)
from scotoma.audit.groups import RATE_NAMES
from scotoma.audit.previous import PreviousAudit
from scotoma.config.gate import GateRules, Waiver, default_rules
from scotoma.errors import ConfigError, DataError
from scotoma.printable import nearest, printable
from scotoma.verdict.deciding import decide
from scotoma.verdict.evidence import AuditRows
from scotoma.verdict.gate_test import GateTest
from scotoma.verdict.rules import gate_tests
from scotoma.verdict.since_previous import Before
from scotoma.verdict.words import hangs_on, sentences, size_of

RATES = (*RATE_NAMES, "since_previous")
HARMLESS = {
    "bh": "correct: bh bounds the share of false alarms, not the chance of one: harmless variants "
    "fail more often than alpha says; use holm",
    "none": "correct: none adjusts nothing: the more groups there are, the more often a harmless "
    "variant fails; use holm",
}


def applied_rules(rules: GateRules | None, audit: Audit) -> GateRules:
    """The rules that hold for an audit: those given, or the built-in ones of `default_rules`."""
    classes = [
        at for variant in audit.compressed[:1]
        for at in AuditRows(audit, variant.name).at("impact", "dense")
    ]  # fmt: skip
    standard = default_rules(
        positive=audit.examples.positive is not None,
        groups=len(audit.groups) > 1,
        shipped=audit.scope == "shipped",
        labelled=audit.labelled,
        scored=audit.scores is not None,
        unanswered=bool(audit.numbers("unanswered")),
        one_label=sum(at["dense"].number.n > 0 for at in classes) == 1,
        strata=audit.strata,
    )
    return standard if rules is None else rules.on(standard)


def judge(
    audit: Audit,
    rules: GateRules,
    as_of: datetime.date,
    previous: PreviousAudit | None = None,
    audit_sha256: str = "",
) -> GateFile:
    """Judge every compressed variant of an audit.

    Args:
        audit: The audit.
        rules: The gate.
        as_of: The day that decides which waivers have expired.
        previous: The audit before it, for rules about what changed since; None where none was
            named.
        audit_sha256: SHA-256 of its audit.json.

    Returns:
        The verdict as gate.json holds it; the same audits, rules and day give the same.

    Raises:
        DataError: The audit compares nothing.
    """
    if not audit.compressed:
        raise DataError(
            "audit.json must hold a compressed variant, got dense alone; name one in the "
            "configuration and run the audit again"
        )
    before = Before.of(audit, previous)
    asked = {
        variant.name: gate_tests(AuditRows(audit, variant.name), rules, before)
        for variant in audit.compressed
    }
    expired = [waiver for waiver in rules.waivers if waiver.until < as_of]
    standing = [waiver for waiver in rules.waivers if waiver.until >= as_of]
    variants = tuple(
        _judged(audit, variant, asked[variant.name], rules, standing)
        for variant in audit.compressed
    )
    warnings = list(audit.collapsed)
    warnings += [HARMLESS[rules.correct]] if rules.correct in HARMLESS else []
    warnings += [
        f"the waiver of {waiver.rule} for {waiver.variant} expired after {waiver.until}: "
        f"{waiver.reason}"
        for waiver in expired
    ]
    warnings += [
        f"the waiver of {waiver.rule} is for {waiver.variant}, which this audit does not have"
        for waiver in standing
        if waiver.variant not in asked
    ]
    least = rules.min.effective_events
    warnings += [line for one in variants for line in _few_but_far(one, asked[one.name], least)]
    warnings += before.warnings(rules, list(asked))
    compared = None
    if previous is not None and previous.audit is not None:
        compared = PreviousReference(of=previous.of, sha256=previous.sha256)
    verdict = _worst(variant.verdict for variant in variants)
    header = ("scotoma", "project", "config_sha256", "scope", "level")
    return GateFile(
        version=GATE_VERSION,
        examples=JudgedExamples(test=audit.examples.test, clusters=audit.examples.clusters),
        verdict=verdict,
        exit_code=_exit_code(verdict, rules),
        rules=rules,
        warnings=tuple(warnings),
        previous_audit=compared,
        variants_tried=len(variants),
        variants=variants,
        as_of=as_of,
        audit_sha256=audit_sha256,
        **{name: getattr(audit, name) for name in header},
    )


def exit_code(gate: GateResult, shipped: str | None = None) -> Literal[0, 1, 3]:
    """0 pass, 1 failed, 3 unsure where the rules say that this fails.

    Args:
        gate: The verdict.
        shipped: The variant that counts; None for the worst of all.

    Raises:
        ConfigError: No such variant was judged.
    """
    if shipped is None:
        return gate.exit_code
    if (variant := gate.variant(shipped)) is None:
        names = [one.name for one in gate.variants]
        raise ConfigError(
            f"--variant must name a variant that was judged, got {printable(shipped)!r}"
            f"{nearest(shipped, names)}"
        )
    return _exit_code(variant.verdict, gate.rules)


def _exit_code(verdict: VerdictWord, rules: GateRules) -> Literal[0, 1, 3]:
    if verdict == "FAIL":
        return 1
    return 3 if verdict == "UNSURE" and rules.on_unsure == "fail" else 0


def _judged(
    audit: Audit,
    variant: AuditedVariant,
    asked: Sequence[GateTest],
    rules: GateRules,
    standing: Sequence[Waiver],
) -> JudgedVariant:
    name = variant.name
    own = [waiver for waiver in standing if waiver.variant == name]
    # Waived tests stay in the family: a waiver makes no other test easier to fail.
    tests = [_waived(test, own) for test in decide(asked, rules)]
    blocked = tuple(
        note.sentence for note in audit.admission if note.blocks_pass and note.variant in ("", name)
    )
    verdict = verdict_of(tests, blocked)
    settles = None if blocked or verdict != "UNSURE" else hangs_on(tests)
    small = tuple(
        size_of(test)
        for test, one in zip(tests, asked, strict=True)
        if one.too_small and test.verdict == "NOT JUDGED" and test.waived is None
    )
    top1 = audit.number("accuracy", name, "top1")
    return JudgedVariant(
        name=name,
        verdict=verdict,
        members=min(audit.dense.members, variant.members),
        top1=None if top1 is None else top1.value,
        cies=0 if audit.scores else audit.divergence[name].cie.cie.count,
        outlook=f"{settles.where} {settles.outlook.sentence}"
        if settles is not None and settles.outlook is not None
        else None,
        blocked=blocked,
        too_small=small,
        sentences=tuple(sentences(verdict, tests, blocked, settles)),
        tests=tuple(tests),
    )


def _waived(test: TestResult, waivers: Iterable[Waiver]) -> TestResult:
    for waiver in waivers:
        if waiver.rule == test.rule and waiver.group in (None, test.group):
            until = waiver.until.isoformat()
            return test.model_copy(update={"waived": waiver.reason, "waived_until": until})
    return test


def verdict_of(tests: Sequence[TestResult], blocked: Sequence[str] = ()) -> VerdictWord:
    """FAIL if any test is, else UNSURE if any is, else PASS.

    What was waived, or too small to judge before compression, does not count; where nothing was
    judged, or the answers do not admit a PASS, nothing is known.
    """
    counted = [test.verdict for test in tests if test.waived is None]
    outcomes = [verdict for verdict in counted if verdict != "NOT JUDGED"]
    return _worst([*outcomes, *(["UNSURE"] if blocked or (counted and not outcomes) else [])])


def _few_but_far(variant: JudgedVariant, asked: Sequence[GateTest], min_events: float) -> list[str]:
    """Name rates with too few effective events for a test, which rose beyond an absolute margin."""
    lines = []
    for test, one in zip(variant.tests, asked, strict=True):
        change = test.absolute
        known = test.waived is None and test.metric in RATES and one.events < min_events
        if not known or change is None or change.low is None:
            continue
        if change.low > (margin := test.margins.absolute or 0.0):
            lines.append(
                f"{variant.name}: {test.where} has too few effective events to show harm "
                f"({math.floor(one.events):,}), but it rises by at least "
                f"{100 * change.low:.2f} points (margin {100 * margin:g}); look at it"
            )
    return lines


def _worst(verdicts: Iterable[str]) -> VerdictWord:
    words = set(verdicts)
    return "FAIL" if "FAIL" in words else "UNSURE" if "UNSURE" in words else "PASS"
