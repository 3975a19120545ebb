"""The top of the page: the verdict in a sentence, four numbers, what to do, five answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scotoma.audit import Audit, GateResult
from scotoma.audit.divergence import Divergence, Excess, FlipShares
from scotoma.audit.document import AuditedVariant
from scotoma.audit.gate import JudgedVariant, TestResult
from scotoma.audit.groups import RATE_NAMES, RateChange
from scotoma.audit.worst_change import highest_error, largest_gap, most_changed, worst_change
from scotoma.report import numbers
from scotoma.report.numbers import Shown

__all__ = ["Answer", "Fact", "answers", "facts", "in_focus", "next_steps", "verdict_sentence"]

NAMED = 4  # variants listed by name in a sentence
SHOWN = 4  # steps of one kind that are advised


@dataclass(frozen=True)
class Fact:
    """One of the four numbers.

    Attributes:
        what: What is counted or compared.
        shown: The number with its interval, or the reason why there is none.
        n: What it rests on.
        beside: What it has to be read with.
    """

    what: str
    shown: Shown
    n: int
    beside: str


@dataclass(frozen=True)
class Answer:
    """A question that a reviewer asks, answered in a line.

    Attributes:
        question: The question.
        text: Its answer.
        section: Id of the section that holds the evidence.
        link: What stands there.
    """

    question: str
    text: str
    section: str
    link: str


def in_focus(audit: Audit, gate: GateResult | None) -> AuditedVariant:
    """Pick the variant at the top of the page: of the worst verdict, the most compressed."""
    verdicts = {} if gate is None else {v.name: v.verdict for v in gate.variants}
    grave = ("PASS", "UNSURE", "FAIL")

    def weight(variant: AuditedVariant) -> tuple[int, float]:
        verdict = verdicts.get(variant.name, "PASS")
        return grave.index(verdict), -variant.bits * (1 - variant.sparsity)

    return max(audit.compressed, key=weight)


def verdict_sentence(gate: GateResult) -> str:
    """Say the verdict on all variants."""
    by = {verdict: _of(gate, verdict) for verdict in ("PASS", "FAIL", "UNSURE")}
    parts = [f"{_names(by['PASS'])} may ship by these rules"] if by["PASS"] else []
    parts += [_failing(by["FAIL"])] if by["FAIL"] else []
    if by["UNSURE"]:
        parts.append(f"UNSURE for {_names(by['UNSURE'])}: the audit is too small to say")
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


def facts(audit: Audit, variant: str) -> tuple[Fact, ...]:
    """Sum up one variant: accuracy, examples, groups and classes, each number with its interval.

    Args:
        audit: The audit, groups called by their names.
        variant: A compressed variant.

    Returns:
        Four, in this order; without labels three about changed examples.
    """
    cie = audit.divergence[variant].cie
    beyond_noise = Fact(
        "Examples changed beyond seed noise, points",
        numbers.points(cie.excess),
        cie.excess.n,
        f"{numbers.count(cie.cie.count)} CIEs; {_differing(audit.divergence[variant])}",
    )
    if not audit.labelled:
        everyone, most = audit.divergence[variant].ledger[0], most_changed(audit, variant)
        return (
            Fact("Predictions that change", *_share_of(everyone), "all examples"),
            beyond_noise,
            Fact(f"Most changed group: {most.group}", *_share_of(most), "predictions that change"),
        )
    return (
        _accuracy(audit, variant),
        beyond_noise,
        _worst_group(audit, variant),
        _worst_class(audit, variant),
    )


def _share_of(row: FlipShares) -> tuple[Shown, int]:
    return numbers.rate(row.changed), row.changed.n


def _accuracy(audit: Audit, variant: str) -> Fact:
    """Of more than two classes with a positive one, the groups' error is that of this class."""
    positive, everyone = audit.examples.positive, audit.groups[0].name
    alone = positive is not None and len(audit.examples.classes) > 2
    what = f"accuracy, {positive} against the rest" if alone else "top-1 accuracy"
    for row in audit.subgroups[variant]:
        if (row.group, row.metric, row.class_name) == (everyone, "error", None):
            errors = (100 * (rate.value or 0.0) for rate in (row.dense, row.compressed))
            before, after = (f"{100 - error:.2f}%" for error in errors)
            change = numbers.points(numbers.mirrored(row.absolute))
            return Fact(f"Change of {what}, points", change, row.absolute.n, f"{before} to {after}")
    unknown = Shown("", "", "", "the error of all examples was not measured", ())
    return Fact(f"Change of {what}, points", unknown, 0, "")


def _differing(divergence: Divergence) -> str:
    """How much models differ, beside two dense ones; of paired members the flips."""
    differing, floor = numbers.rate(divergence.differing).value, divergence.cie.floor
    if divergence.cie.paired:
        return f"{differing} of predictions flip"
    if floor.value is None:
        return floor.reason
    dense = numbers.rate(floor).value
    return f"a dense and a compressed model differ on {differing}, two dense ones on {dense}"


def _worst_group(audit: Audit, variant: str) -> Fact:
    row = worst_change(audit, variant)
    if row is None:
        nothing = Shown("", "", "", "no group's change can be estimated", ())
        return Fact("Most affected group", nothing, 0, "")
    before, after = (numbers.rate(rate).value for rate in (row.dense, row.compressed))
    what = f"{_upper(RATE_NAMES[row.metric])} of the most affected group: {row.group}, points"
    beside = "; ".join(filter(None, (f"{before} to {after}", _relative(row))))
    return Fact(what, numbers.points(row.absolute), row.absolute.n, beside)


def _relative(row: RateChange) -> str:
    """The relative change with its interval; empty where it is undefined."""
    return _interval(numbers.percent(row.relative))


def _worst_class(audit: Audit, variant: str) -> Fact:
    rows = [row for row in audit.classes[variant] if row.low is not None]
    if not rows:
        nothing = Shown("", "", "", "no class has an interval", ())
        return Fact("Most affected class", nothing, 0, "")
    row = min(rows, key=lambda row: (row.high or 0.0, row.class_name))
    before, after = (100.0 * (part or 0.0) for part in (row.dense_recall, row.compressed_recall))
    return Fact(
        f"Recall of the most affected class: {row.class_name}",
        numbers.class_change(numbers.normalised(row)),
        row.n,
        f"points beyond the change of top-1; {before:.2f}% to {after:.2f}%",
    )


def next_steps(gate: GateResult, *, labelled: bool = True, mitigated: str = "") -> list[str]:
    """Say what to do, most pressing first.

    Args:
        gate: The verdict.
        labelled: Whether the examples have labels: without, a FAIL shows change and not harm.
        mitigated: Ways to mitigate a FAIL without training, as a sentence; see `mitigations`.
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
            f"Do not ship {_names(failed)}. Compress less, or train with more examples "
            "of the groups that it harms; the gallery shows changed images."
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


def answers(audit: Audit, gate: GateResult | None, variant: str) -> tuple[Answer, ...]:
    """Answer the five questions of a reviewer.

    Args:
        audit: The audit, groups called by their names.
        gate: The verdict; None where there is none.
        variant: The variant in focus.

    Returns:
        Five answers; each names the section where its evidence stands.
    """
    cie = audit.divergence[variant].cie
    judged = next((v for v in gate.variants if v.name == variant), None) if gate else None
    shown = len(audit.gallery[variant])
    count = cie.cie.count
    several = "example changes its" if count == 1 else "examples change their"
    return (
        Answer(
            "Which variant may ship?",
            "No gate was applied." if gate is None else verdict_sentence(gate),
            "gate" if gate else "topline",
            "rules, margins and intervals" if gate else "every variant beside dense",
        ),
        Answer(
            f"Whom does {variant} harm, and how certain is it?",
            _whom(audit, judged, variant),
            "groups",
            "every group, with intervals",
        )
        if audit.labelled
        else Answer(
            f"For whom does {variant} change most?",
            _whose_labels(audit, variant),
            "cies",
            "every group, with intervals",
        ),
        Answer(
            "Which images change?",
            f"{numbers.count(count)} {several} most frequent label; {shown} of them are shown.",
            "gallery",
            "the gallery",
        ),
        Answer(
            "Is the change more than seed noise?",
            _beyond_noise(audit, judged, cie),
            "topline",
            "floors and excesses",
        ),
        Answer("What would settle it?", _settles(gate), "gate", "what decided each verdict")
        if gate
        else Answer(
            "What would settle it?",
            "Run scotoma gate RUN: it says how many models or test examples are missing.",
            "methods",
            "methods and limitations",
        ),
    )


def _whom(audit: Audit, judged: JudgedVariant | None, variant: str) -> str:
    """Name the harm, the largest rise in points, the highest error and the largest gap."""
    sentences = []
    if judged is not None and judged.verdict == "FAIL":
        sentences.append(_upper("; ".join(judged.sentences)) + ".")
    rise = worst_change(audit, variant)
    if rise is None:
        sentences.append("No group's rise can be estimated; the table gives the reasons.")
    else:
        if judged is not None and all(test.verdict != "FAIL" for test in judged.tests):
            sentences.append("No harm beyond a margin is shown.")
        relative = numbers.percent(rise.relative).value
        sentences.append(
            f"Largest rise: {RATE_NAMES[rise.metric]} of {rise.group}, "
            f"{_interval(numbers.points(rise.absolute))} points"
            f"{f' ({relative})' if relative else ''}."
        )
    if highest := highest_error(audit, variant):
        rate = highest.compressed
        sentences.append(
            f"Highest error after compression: {highest.group}, {_interval(numbers.rate(rate))}, "
            f"n {numbers.count(rate.n)}."
        )
    if gap := largest_gap(audit, variant):
        sentences.append(
            f"Largest gap: error rises {_interval(numbers.points(gap.gap))} points more for "
            f"{gap.group_b} than for {gap.group_a}."
        )
    return " ".join(sentences)


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


def _beyond_noise(audit: Audit, judged: JudgedVariant | None, cie: Excess) -> str:
    """Answer by the CIEs, or by a FAIL: the intervals of a population's tests cover its seeds."""
    excess = cie.excess
    shown = numbers.points(excess)
    interval = f"{shown.value} [{shown.low}, {shown.high}] points of CIEs beyond seed noise"
    if (excess.low or 0.0) > 0:
        return f"Yes: {interval}."
    if judged is not None and judged.verdict == "FAIL" and audit.scope == "population":
        return f"Yes: {judged.sentences[0]}. {_upper(interval if shown.low else shown.reason)}."
    if not shown.low:
        return f"Unknown: {shown.reason}."
    if (excess.high or 0.0) < 0:
        return f"No: {interval}."
    return f"Not shown: {interval}; the interval includes 0."


def _settles(gate: GateResult) -> str:
    unsure = _of(gate, "UNSURE")
    if not unsure:
        return "Nothing: every variant is decided."
    return " ".join(_open(unsure))


def _open(unsure: Sequence[JudgedVariant]) -> list[str]:
    """Say what would decide the UNSURE variants; those with the same answer share a line."""
    by_text: dict[str, list[JudgedVariant]] = {}
    for variant in unsure:
        if variant.sentences:
            by_text.setdefault(variant.sentences[0], []).append(variant)
    lines = [f"{_names(variants)}: {text}." for text, variants in by_text.items()]
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
