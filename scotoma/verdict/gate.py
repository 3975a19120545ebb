"""The verdict on an audit: every variant's answers put together."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from scotoma.audit import Audit
from scotoma.audit.gate import PreviousReference
from scotoma.audit.groups import RATE_NAMES
from scotoma.audit.previous import PreviousAudit
from scotoma.config.gate import GateRules, Waiver, default_rules
from scotoma.errors import ConfigError, DataError
from scotoma.printable import nearest, printable
from scotoma.verdict.deciding import Finding, Verdict, decide
from scotoma.verdict.evidence import AuditRows, known
from scotoma.verdict.question import Question
from scotoma.verdict.rules import questions
from scotoma.verdict.since_previous import Before

__all__ = ["Gate", "VariantVerdict", "judge", "rules_without_file"]

RATES = (*RATE_NAMES, "since_previous")
HARMLESS = {
    "bh": "correct: bh bounds the share of false alarms, not the chance of one: harmless variants "
    "fail more often than alpha says; use holm",
    "none": "correct: none adjusts nothing: the more groups there are, the more often a harmless "
    "variant fails; use holm",
}


@dataclass(frozen=True)
class VariantVerdict:
    """The answers about one variant.

    Attributes:
        name: The variant.
        members: Size of the smaller of its population and the dense one.
        findings: One a question, in the order of the rules.
        top1: Accuracy of its population, a fraction.
        cies: Number of CIEs.
        blocked: What keeps a PASS from being given: sentences of admission.
    """

    name: str
    members: int
    findings: tuple[Finding, ...]
    top1: float = math.nan
    cies: int = 0
    blocked: tuple[str, ...] = ()

    @property
    def counted(self) -> list[Finding]:
        """The findings that no waiver takes out."""
        return [finding for finding in self.findings if finding.waiver is None]

    @property
    def verdict(self) -> Verdict:
        """FAIL if any question is, else UNSURE if any is, else PASS.

        What was waived, or too small to judge before compression, does not count; where nothing was
        judged, or the answers do not admit a PASS, nothing is known.
        """
        outcomes = [f.verdict for f in self.counted if f.verdict != "NOT JUDGED"]
        outcomes += ["UNSURE"] if self.blocked or (self.counted and not outcomes) else []
        return _worst(outcomes)

    @property
    def too_small(self) -> list[Finding]:
        """The findings that no PASS rests on, since their test set was too small."""
        return [f for f in self.counted if f.verdict == "NOT JUDGED" and f.question.too_small]

    @property
    def outlook(self) -> Finding | None:
        """The finding that says what would settle an UNSURE variant.

        One harm is enough: the first that would be shown. Where no test leans to FAIL, all must be
        cleared: the last to be. Nothing would settle one whose answers do not admit a PASS.
        """
        if self.blocked:
            return None
        opened = [f for f in self.counted if f.verdict == "UNSURE" and f.outlook is not None]
        harmful = [f for f in opened if f.outlook is not None and f.outlook.leaning == "FAIL"]
        if harmful:
            return min(harmful, key=_effort)
        return max(opened, key=_effort, default=None)


@dataclass(frozen=True)
class Gate:
    """The verdict on an audit.

    Attributes:
        rules: What it was judged by, as applied.
        as_of: The day that decides which waivers have expired.
        variants: A verdict a compressed variant, in the order of the audit.
        warnings: What a reader has to know: sentences.
        audit: The audit that it judges.
        previous: The audit before it; None where none was compared.
    """

    rules: GateRules
    as_of: datetime.date
    variants: tuple[VariantVerdict, ...]
    warnings: tuple[str, ...]
    audit: Audit
    previous: PreviousReference | None = None

    @property
    def verdict(self) -> Verdict:
        """The worst of the variants'."""
        return _worst([variant.verdict for variant in self.variants])

    def exit_code(self, shipped: str | None = None) -> Literal[0, 1, 3]:
        """0 pass, 1 failed, 3 unsure where the rules say that this fails.

        Args:
            shipped: The variant that counts; None for the worst of all.

        Raises:
            ConfigError: No such variant was judged.
        """
        verdict = self.verdict
        if shipped is not None:
            variant = self.variant(shipped)
            if variant is None:
                names = [one.name for one in self.variants]
                raise ConfigError(
                    f"--variant must name a variant that was judged, got {printable(shipped)!r}"
                    f"{nearest(shipped, names)}"
                )
            verdict = variant.verdict
        if verdict == "FAIL":
            return 1
        return 3 if verdict == "UNSURE" and self.rules.on_unsure == "fail" else 0

    def variant(self, name: str) -> VariantVerdict | None:
        """The verdict on one variant; None for the dense one."""
        return next((variant for variant in self.variants if variant.name == name), None)


def rules_without_file(audit: Audit) -> GateRules:
    """Choose the rules that hold for an audit where no file is given; see `default_rules`."""
    return default_rules(
        positive=audit.examples.positive is not None,
        groups=len(audit.groups) > 1,
        shipped=audit.scope == "shipped",
        labelled=audit.labelled,
        scored=audit.scores is not None,
        unanswered=bool(audit.unanswered),
    )


def judge(
    audit: Audit, rules: GateRules, as_of: datetime.date, previous: PreviousAudit | None = None
) -> Gate:
    """Judge every compressed variant of an audit.

    Args:
        audit: The audit.
        rules: The gate.
        as_of: The day that decides which waivers have expired.
        previous: The audit before it, for rules about what changed since; None where none was
            named.

    Returns:
        The verdict; the same audits, rules and day give the same.

    Raises:
        DataError: The audit compares nothing.
    """
    if not audit.compressed:
        raise DataError(
            "audit.json must hold a compressed variant, got dense alone; name one in the "
            "configuration and run the audit again"
        )
    before = Before.of(audit, previous)
    by_variant = {
        variant.name: [
            *questions(AuditRows(audit, variant.name), rules),
            *before.questions(variant.name, rules),
        ]
        for variant in audit.compressed
    }
    expired = [waiver for waiver in rules.waivers if waiver.until < as_of]
    standing = [waiver for waiver in rules.waivers if waiver.until >= as_of]
    variants = tuple(
        VariantVerdict(
            name=variant.name,
            members=min(audit.dense.members, variant.members),
            findings=_waived(variant.name, decide(by_variant[variant.name], rules), standing),
            top1=known(audit.accuracy[variant.name].top1.value) if audit.labelled else math.nan,
            cies=0 if audit.scores else audit.divergence[variant.name].cie.cie.count,
            blocked=tuple(
                note.sentence
                for note in audit.admission
                if note.blocks_pass and note.variant in ("", variant.name)
            ),
        )
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
        if waiver.variant not in by_variant
    ]
    warnings += [
        line for variant in variants for line in _few_but_far(variant, rules.min.effective_events)
    ]
    warnings += before.warnings(rules, list(by_variant))
    compared = None
    if previous is not None and previous.audit is not None:
        compared = PreviousReference(of=previous.of, sha256=previous.sha256)
    return Gate(rules, as_of, variants, tuple(warnings), audit, compared)


def _few_but_far(variant: VariantVerdict, min_events: float) -> list[str]:
    """Name rates with too few effective events for a test, which rose beyond an absolute margin."""
    lines = []
    for finding in variant.counted:
        question, change = finding.question, finding.question.change
        if change is None or question.metric not in RATES or not question.events < min_events:
            continue
        low, margin = change.absolute.low, question.absolute or 0.0
        if low > margin:
            lines.append(
                f"{variant.name}: {question.where} has too few effective events to show harm "
                f"({math.floor(question.events):,}), but it rises by at least {100 * low:.2f} "
                f"points (margin {100 * margin:g}); look at it"
            )
    return lines


def _waived(
    variant: str, findings: Sequence[Finding], waivers: Sequence[Waiver]
) -> tuple[Finding, ...]:
    # Waived tests stay in the family: a waiver makes no other test easier to fail.
    own = [waiver for waiver in waivers if waiver.variant == variant]

    def waiver(question: Question) -> Waiver | None:
        return next(
            (w for w in own if w.rule == question.rule and w.group in (None, question.group)), None
        )

    return tuple(replace(finding, waiver=waiver(finding.question)) for finding in findings)


def _worst(verdicts: Sequence[str]) -> Verdict:
    return "FAIL" if "FAIL" in verdicts else "UNSURE" if "UNSURE" in verdicts else "PASS"


def _effort(finding: Finding) -> tuple[float, float]:
    """Rank what would settle a finding: models first, then examples, then nothing that is known."""
    known = finding.outlook
    if known is None or known.by is None:
        return 2, 0.0
    return (0 if known.by == "models" else 1), known.high / known.now
