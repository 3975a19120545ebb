"""The verdict on an audit: every variant's answers put together."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scotoma.config.gate import GateRules, SinceLastRule, Waiver
from scotoma.errors import DataError
from scotoma.jsonable import jsonable
from scotoma.verdict.deciding import Finding, Verdict, decide
from scotoma.verdict.questions import LABELS, questions
from scotoma.verdict.since_last import Last, not_compared, since_last

__all__ = ["Gate", "VariantVerdict", "judge"]

RATES = (*LABELS, "since_last")
HARMLESS = {
    "bh": "correct: bh bounds the share of false alarms among alarms, not the chance of one: a "
    "harmless variant fails more often than alpha says; use holm",
    "none": "correct: none lets every test raise a false alarm of its own: a harmless variant "
    "fails the more often the more groups there are; use holm",
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
    """

    name: str
    members: int
    findings: tuple[Finding, ...]
    top1: float = math.nan
    cies: int = 0

    @property
    def counted(self) -> list[Finding]:
        """The findings that no waiver takes out."""
        return [finding for finding in self.findings if finding.waiver is None]

    @property
    def verdict(self) -> Verdict:
        """FAIL if any question is, else UNSURE if any is, else PASS; waived ones do not count."""
        return _worst([finding.verdict for finding in self.counted])

    @property
    def outlook(self) -> Finding | None:
        """Of an UNSURE variant the finding that says what it takes to decide.

        Where some estimate lies beyond its limits, one harm is enough: the first that members
        would show. Where none does, all must be cleared: the last to be.
        """
        opened = [f for f in self.counted if f.verdict == "UNSURE" and f.needed is not None]
        beyond = [f for f in opened if f.needed is not None and f.needed.towards == "harm"]
        if beyond:
            return min(beyond, key=_effort)
        return max(opened, key=_effort, default=None)


@dataclass(frozen=True)
class Gate:
    """The verdict on an audit.

    Attributes:
        rules: What it was judged by.
        today: The day on which waivers were looked at.
        variants: A verdict a compressed variant, in the order of the audit.
        warnings: What a reader has to know: sentences.
        facts: Of the audit: project, scope, digest of its configuration.
    """

    rules: GateRules
    today: datetime.date
    variants: tuple[VariantVerdict, ...]
    warnings: tuple[str, ...]
    facts: dict[str, Any]

    @property
    def verdict(self) -> Verdict:
        """The worst of the variants'."""
        return _worst([variant.verdict for variant in self.variants])

    @property
    def exit_code(self) -> int:
        """0 pass, 1 failed, 3 unsure where the rules say that this fails.

        >>> from scotoma.config.gate import default_rules
        >>> Gate(default_rules(positive=True), datetime.date(2027, 3, 1), (), (), {}).exit_code
        0
        """
        if self.verdict == "FAIL":
            return 1
        return 3 if self.verdict == "UNSURE" and self.rules.on_unsure == "fail" else 0

    def variant(self, name: str) -> VariantVerdict | None:
        """The verdict on one variant; None for the dense one."""
        return next((variant for variant in self.variants if variant.name == name), None)

    def as_dict(self) -> dict[str, Any]:
        """The content of gate.json: nan is null, every interval with its level."""
        plain: dict[str, Any] = jsonable(
            {
                "version": 1,
                **self.facts,
                "verdict": self.verdict,
                "exit_code": self.exit_code,
                "today": self.today.isoformat(),
                "rules": self.rules.model_dump(mode="json"),
                "warnings": self.warnings,
                "variants_tried": len(self.variants),
                "variants": [
                    {
                        "name": variant.name,
                        "verdict": variant.verdict,
                        "members": variant.members,
                        "top1": variant.top1,
                        "cies": variant.cies,
                        "outlook": _outlook(variant),
                        "tests": [_as_dict(finding) for finding in variant.findings],
                    }
                    for variant in self.variants
                ],
            }
        )
        return plain


def judge(
    audit: Mapping[str, Any], rules: GateRules, today: datetime.date, last: Last | None = None
) -> Gate:
    """Judge every compressed variant of an audit.

    Args:
        audit: Content of audit.json.
        rules: The gate.
        today: The day that decides which waivers have expired.
        last: The audit before it, for rules about what changed since; None where none was named.

    Returns:
        The verdict; the same audits, rules and day give the same.

    Raises:
        DataError: The audit lacks what every audit holds, or compares nothing.
    """
    try:
        dense = next(v["members"] for v in audit["variants"] if v["name"] == "dense")
        asked = {
            variant["name"]: [
                *questions(audit, variant["name"], rules),
                *since_last(audit, variant["name"], rules, last),
            ]
            for variant in audit["variants"]
            if variant["name"] != "dense"
        }
        measured = {
            variant["name"]: {
                "members": min(dense, variant["members"]),
                "top1": float(audit["accuracy"][variant["name"]]["top1"]["value"]),
                "cies": int(audit["divergence"][variant["name"]]["cie"]["cie"]["count"]),
            }
            for variant in audit["variants"]
            if variant["name"] in asked
        }
        facts = {
            key: audit[key] for key in ("project", "scope", "config_sha256", "level", "scotoma")
        }
        facts["examples"] = {key: audit["examples"][key] for key in ("test", "units")}
        warnings = [str(line) for line in audit.get("collapsed", ())]
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as error:
        found = f"no {error}" if isinstance(error, KeyError) else f"{error}" or "no dense variant"
        raise DataError(
            f"audit.json must hold what an audit writes, got {found}; run the audit again with "
            "this version"
        ) from error
    if not asked:
        raise DataError(
            "audit.json must hold a compressed variant, got dense alone; name one in the "
            "configuration and run the audit again"
        )
    applied = _of_these_models(rules) if facts["scope"] == "shipped" else rules
    expired = [waiver for waiver in rules.waivers if waiver.until < today]
    standing = [waiver for waiver in rules.waivers if waiver.until >= today]
    variants = tuple(
        VariantVerdict(
            name=name, findings=_waived(name, decide(found, applied), standing), **measured[name]
        )
        for name, found in asked.items()
    )
    warnings += [HARMLESS[rules.correct]] if rules.correct in HARMLESS else []
    warnings += [
        f"the waiver of {waiver.rule} for {waiver.variant} expired after {waiver.until}: "
        f"{waiver.reason}"
        for waiver in expired
    ]
    warnings += [
        f"the waiver of {waiver.rule} names {waiver.variant}, which this audit does not have"
        for waiver in standing
        if waiver.variant not in asked
    ]
    warnings += [line for variant in variants for line in _few_but_far(variant, rules.min.events)]
    warnings += _about_last(audit, list(asked), rules, last)
    if last is not None and last.audit is not None:
        facts["last_audit"] = {"of": last.of, "sha256": last.sha256}
    return Gate(rules, today, variants, tuple(warnings), facts)


def _of_these_models(rules: GateRules) -> GateRules:
    """The rules for one dense and one compressed model, which speak of these two alone.

    A least number of models guards the variance between training runs, which such an audit neither
    estimates nor claims; a gate file that names one is obeyed.
    """
    if "models" in rules.min.model_fields_set:
        return rules
    return rules.model_copy(update={"min": rules.min.model_copy(update={"models": 1})})


def _few_but_far(variant: VariantVerdict, min_events: float) -> list[str]:
    """Rates that too few examples carry to be tested, which rose beyond an absolute limit.

    A rate that hardly occurs among the dense members is one, however far it rises.
    """
    lines = []
    for finding in variant.counted:
        asked, change = finding.question, finding.question.change
        if change is None or asked.metric not in RATES or not change.events < min_events:
            continue
        low, limit = change.absolute.low, asked.absolute or 0.0
        if low > limit:
            lines.append(
                f"{variant.name}: {asked.where} is not tested ({finding.reason}), but its change "
                f"lies above {100 * limit:g} points, at {100 * low:.2f} or more; look at it"
            )
    return lines


def _about_last(
    audit: Mapping[str, Any], variants: Sequence[str], rules: GateRules, last: Last | None
) -> list[str]:
    """What rules about the last audit do not answer, and why."""
    asking = [rule.id for rule in rules.rules if isinstance(rule, SinceLastRule)]
    if not asking or (last is not None and last.missing):
        return []
    if last is None or last.audit is None:
        why = "no last audit was named" if last is None else last.reason
        return [f"{', '.join(asking)} is not judged: {why}"]
    return [line for name in variants for line in not_compared(last.audit, audit, name)]


def _waived(
    variant: str, findings: Sequence[Finding], waivers: Sequence[Waiver]
) -> tuple[Finding, ...]:
    # Waived tests stay in the family: a waiver makes no other test easier to fail.
    by_rule = {waiver.rule: waiver for waiver in waivers if waiver.variant == variant}
    return tuple(
        replace(finding, waiver=by_rule.get(finding.question.rule)) for finding in findings
    )


def _worst(verdicts: Sequence[Verdict]) -> Verdict:
    return "FAIL" if "FAIL" in verdicts else "UNSURE" if "UNSURE" in verdicts else "PASS"


def _effort(finding: Finding) -> tuple[float, float]:
    """What it takes to decide: members first; where they cannot, or it is not known, examples."""
    needed = finding.needed
    if needed is None or math.isnan(needed.high):
        return math.inf, math.inf
    return needed.high, 0.0 if math.isnan(needed.examples) else needed.examples


def _outlook(variant: VariantVerdict) -> str | None:
    if variant.verdict != "UNSURE" or variant.outlook is None:
        return None
    return str(variant.outlook.needed)


def _as_dict(finding: Finding) -> dict[str, Any]:
    asked, deciding = finding.question, finding.deciding
    change = asked.change
    return {
        "rule": asked.rule,
        "metric": asked.metric,
        "group": asked.group,
        "class": asked.class_name,
        "where": asked.where,
        "verdict": finding.verdict,
        "reason": finding.reason,
        "waived": finding.waiver.reason if finding.waiver else None,
        "waived_until": finding.waiver.until.isoformat() if finding.waiver else None,
        "limits": {"relative": asked.relative, "absolute": asked.absolute},
        "relative": None if change is None or asked.relative is None else change.relative,
        "absolute": None if change is None else change.absolute,
        "harm_p": finding.harm_p,
        "harm_p_adjusted": finding.harm_p_adjusted,
        "clear_p": finding.clear_p,
        "decided_by": None
        if deciding is None
        else {
            "limit": deciding.limit,
            "bound": deciding.bound,
            "interval": deciding.estimate,
        },
        "needed": finding.needed,
        "needed_words": None if finding.needed is None else str(finding.needed),
    }
