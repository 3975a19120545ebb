"""The sentences of the page: the verdict, what to do, whom it harms, and what seeds explain."""

from __future__ import annotations

from collections.abc import Sequence

from scotoma.audit import Audit, GateResult
from scotoma.audit.document import AuditedVariant
from scotoma.audit.gate import JudgedVariant, TestResult
from scotoma.audit.worst_change import (
    affected_words,
    gap_words,
    highest_error,
    most_changed,
    shown_gaps,
    worst_change,
)
from scotoma.document.cells import Shown
from scotoma.report import numbers

__all__ = ["beyond_noise", "in_focus", "next_steps", "verdict_sentence", "whom"]

NAMED = 4  # variants listed by name in a sentence
SHOWN = 4  # steps of one kind that are advised


def in_focus(audit: Audit, gate: GateResult | None) -> AuditedVariant:
    """Pick the variant at the top of the page: of the worst verdict, the most compressed."""
    verdicts = {} if gate is None else {v.name: v.verdict for v in gate.variants}
    grave = ("PASS", "UNSURE", "FAIL")

    def weight(variant: AuditedVariant) -> tuple[int, float]:
        verdict = verdicts.get(variant.name, "PASS")
        bits = 32 if variant.bits is None else variant.bits  # for the order alone
        return grave.index(verdict), -bits * (1 - (variant.sparsity or 0))

    return max(audit.compressed, key=weight)


def verdict_sentence(gate: GateResult) -> str:
    """Say the verdict on all variants."""
    by = {verdict: _of(gate, verdict) for verdict in ("PASS", "FAIL", "UNSURE")}
    parts = [f"{_names(by['PASS'])} may ship by these rules"] if by["PASS"] else []
    parts += [_failing(by["FAIL"])] if by["FAIL"] else []
    # What keeps a PASS from being given is no matter of size, and its sentence ends the sentence.
    blocked = [variant for variant in by["UNSURE"] if variant.blocked]
    small = [variant for variant in by["UNSURE"] if not variant.blocked]
    parts += [f"UNSURE for {_names(small)}: the test set is too small"] if small else []
    parts += [f"UNSURE for {_names(blocked)}: {blocked[0].blocked[0]}"] if blocked else []
    text = "; ".join(parts) + "."
    if by["PASS"]:
        return text
    if len(gate.variants) > 1:
        return f"No variant is shown to be safe to ship: {text}"
    return f"The only variant must not ship by these rules: {text}" if by["FAIL"] else text


def _failing(variants: Sequence[JudgedVariant]) -> str:
    if len(variants) > 1:
        return f"{_names(variants)} fail"
    worst = _failed(variants[0])
    return f"{_names(variants)} fails" + (f" on {worst[0].where}" if worst else "")


def next_steps(
    gate: GateResult, *, labelled: bool = True, mitigated: str = "", scored: bool = False
) -> list[str]:
    """Say what to do, most pressing first.

    Args:
        gate: The verdict.
        labelled: Whether the examples have labels: without, a FAIL shows change and not harm.
        mitigated: Ways to mitigate a FAIL without training, as a sentence; see `mitigations`.
        scored: Whether examples have scores instead of classes.
    """
    failed, unsure, passed = (_of(gate, verdict) for verdict in ("FAIL", "UNSURE", "PASS"))
    steps = []
    if failed and not labelled:
        steps.append(
            f"Before {_names(failed)} {'ships' if len(failed) == 1 else 'ship'}: label the "
            "examples that change; scotoma examples RUN --unlabelled ranks them."
        )
    elif failed:
        steps.append(
            f"Do not ship {_names(failed)}. Compress less, or train with more examples of the "
            f"groups that it harms; the {'page lists' if scored else 'gallery shows'} changed "
            "examples."
        )
        steps += [mitigated] if mitigated else []
    steps += _open(unsure)
    if passed:
        steps.append(
            f"Before {_names(passed)} {'ships' if len(passed) == 1 else 'ship'}: read the rules. "
            f"Nothing else was tested.{_too_small(passed)}"
        )
    return steps + _waived(gate)


def _too_small(passed: Sequence[JudgedVariant]) -> str:
    """Name what a PASS says nothing about, since the test set was too small."""
    names = list(dict.fromkeys(size for variant in passed for size in variant.too_small))
    if not names:
        return ""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f" Too small to judge: {', '.join(names[:NAMED])}{more}."


def _waived(gate: GateResult) -> list[str]:
    """Name the rules that are waived: without them a PASS would mislead."""
    waived = {
        (variant.name, test.rule, test.waived_until): None
        for variant in gate.variants
        for test in variant.tests
        if test.waived is not None and test.verdict != "PASS"
    }
    return [
        f"Not counted, because it is waived until {until}: {rule} for {name}."
        for name, rule, until in waived
    ]


def whom(audit: Audit, gate: GateResult | None, variant: str) -> str:
    """Name the highest error, the most affected group and the gaps that are shown.

    Without labels it names the group whose predictions change most.

    Args:
        audit: The audit, groups called by their names.
        gate: The verdict; None where there is none.
        variant: The variant in focus.
    """
    if not audit.labelled:
        return _whose_labels(audit, variant)
    judged = _judged(gate, variant)
    sentences = []
    if judged is not None and all(test.verdict != "FAIL" for test in judged.tests):
        sentences.append("No harm beyond a margin is shown.")
    if highest := highest_error(audit, variant):
        rate = highest.compressed
        sentences.append(
            f"Highest error after compression: {highest.group}, {_interval(numbers.rate(rate))}, "
            f"n {numbers.count(rate.n)}."
        )
    if row := worst_change(audit, variant):
        sentences.append(
            f"Most affected: {affected_words(audit, row)}, "
            f"{_interval(numbers.points(row.absolute))} points, "
            f"n {numbers.count(row.absolute.n)}."
        )
    sentences += [f"{_upper(gap_words(audit, gap))}." for gap in shown_gaps(audit, variant)]
    return " ".join(sentences) or "No group's rise can be estimated; the table gives the reasons."


def _judged(gate: GateResult | None, variant: str) -> JudgedVariant | None:
    return next((one for one in gate.variants if one.name == variant), None) if gate else None


def _whose_labels(audit: Audit, variant: str) -> str:
    """Name the group that changes most, and what that says of its error."""
    most = most_changed(audit, variant).changed
    high = "" if most.high is None else f", so that its error rises by at most {most.high:.2%}"
    return (
        f"{most_changed(audit, variant).group}: {_interval(numbers.rate(most))} of its "
        f"predictions change{high}. Whether for better or worse only labels can tell."
    )


def _interval(shown: Shown) -> str:
    return f"{shown.value} [{shown.low}, {shown.high}]" if shown.low else shown.value


def beyond_noise(audit: Audit, gate: GateResult | None, variant: str) -> str:
    """Say whether more examples change than another seed would change.

    By the CIEs, or by a FAIL: the intervals of a population's tests cover its seeds.

    Args:
        audit: The audit.
        gate: The verdict; None where there is none.
        variant: The variant in focus.
    """
    judged, cie = _judged(gate, variant), audit.divergence[variant].cie
    excess = cie.excess
    shown = numbers.points(excess)
    interval = f"{shown.value} [{shown.low}, {shown.high}] points of CIEs beyond seed noise"
    if (excess.low or 0.0) > 0:
        return f"More than seed noise: {interval}."
    if judged is not None and judged.verdict == "FAIL" and audit.scope == "population":
        beside = _upper(interval if shown.low else shown.reason)
        return f"More than seed noise: {judged.sentences[0]}. {beside}."
    if not shown.low:
        return f"Whether it is more than seed noise is unknown: {shown.reason}."
    if (excess.high or 0.0) < 0:
        return f"Not more than seed noise: {interval}."
    return f"Not shown to be more than seed noise: {interval}; the interval includes 0."


def _open(unsure: Sequence[JudgedVariant]) -> list[str]:
    """Say what would decide the UNSURE variants; those with the same answer share a line."""
    by_text: dict[str, list[JudgedVariant]] = {}
    for variant in unsure:
        if variant.sentences:
            by_text.setdefault(variant.sentences[0], []).append(variant)
    lines = [
        f"Hold {_names(variants)} until settled: {text}." for text, variants in by_text.items()
    ]
    if len(lines) <= SHOWN:
        return lines
    return [*lines[:SHOWN], f"{len(lines) - SHOWN} more are UNSURE: see the gate's table."]


def _of(gate: GateResult, verdict: str) -> list[JudgedVariant]:
    return [variant for variant in gate.variants if variant.verdict == verdict]


def _failed(variant: JudgedVariant) -> list[TestResult]:
    """The tests that a variant fails, the surest first."""
    failed = [t for t in variant.tests if t.verdict == "FAIL" and t.waived is None]
    return sorted(failed, key=lambda test: test.harm_p_adjusted or 0.0)


def _names(variants: Sequence[JudgedVariant]) -> str:
    names = [variant.name for variant in variants]
    if len(names) > NAMED:
        return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
