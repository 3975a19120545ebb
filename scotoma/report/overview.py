"""The top of the page: one row for each variant, which says what it costs and whom."""

from __future__ import annotations

from dataclasses import dataclass

from scotoma.audit import Audit, GateResult
from scotoma.audit.gate import JudgedVariant
from scotoma.audit.worst_change import affected_words, most_changed, worst_change
from scotoma.document.cells import Shown
from scotoma.report import numbers

__all__ = ["VariantRow", "variant_rows"]


@dataclass(frozen=True)
class OverviewCell:
    """One number of a row.

    Attributes:
        shown: The number with its interval, or the reason why there is none.
        beside: What it has to be read with.
        n: What it rests on; None where there is no number.
    """

    shown: Shown
    beside: str = ""
    n: int | None = None


@dataclass(frozen=True)
class VariantRow:
    """What a reviewer sees first of a variant.

    Attributes:
        variant: Its name.
        verdict: PASS, UNSURE or FAIL; empty where nobody judged.
        accuracy: Change of accuracy, points; None without labels.
        flips: Share of predictions that change.
        affected: The group whose rate rises most, points; without labels the most changed one.
        margin: The coarsest margin that a test of it had, with its test; empty where none was.
    """

    variant: str
    verdict: str
    accuracy: OverviewCell | None
    flips: OverviewCell
    affected: OverviewCell
    margin: str


def variant_rows(audit: Audit, gate: GateResult | None) -> tuple[VariantRow, ...]:
    """Sum up every compressed variant in one row.

    Args:
        audit: The audit, groups called by their names.
        gate: The verdict; None where there is none.
    """
    judged = {} if gate is None else {variant.name: variant for variant in gate.variants}
    return tuple(
        VariantRow(
            variant=variant.name,
            verdict=judged[variant.name].verdict if variant.name in judged else "",
            accuracy=_accuracy(audit, variant.name) if audit.labelled else None,
            flips=_flips(audit, variant.name),
            affected=_affected(audit, variant.name),
            margin=_coarsest(judged.get(variant.name)),
        )
        for variant in audit.compressed
    )


def _accuracy(audit: Audit, variant: str) -> OverviewCell:
    """Of more than two classes with a positive one, the groups' error is that of this class."""
    positive, everyone = audit.examples.positive, audit.groups[0].name
    alone = positive is not None and len(audit.examples.classes) > 2
    whose = f", {positive} against the rest" if alone else ""
    for row in audit.subgroups[variant]:
        if (row.group, row.metric, row.class_name) == (everyone, "error", None):
            errors = (100 * (rate.value or 0.0) for rate in (row.dense, row.compressed))
            before, after = (f"{100 - error:.2f}%" for error in errors)
            change = numbers.points(numbers.complement(row.absolute))
            return OverviewCell(change, f"{before} to {after}{whose}", row.absolute.n)
    return OverviewCell(Shown("", "", "", "the error of all examples was not measured", ()))


def _flips(audit: Audit, variant: str) -> OverviewCell:
    """How many predictions change, beside how many differ between two dense models."""
    divergence = audit.divergence[variant]
    floor, n = divergence.cie.floor, divergence.differing.n
    beside = "" if floor.value is None else f"two dense models {numbers.rate(floor).value}"
    if divergence.cie.paired:
        beside = "same models before and after"
    return OverviewCell(numbers.rate(divergence.differing), beside, n)


def _affected(audit: Audit, variant: str) -> OverviewCell:
    if not audit.labelled:
        most = most_changed(audit, variant)
        return OverviewCell(numbers.rate(most.changed), f"{most.group}: changed", most.changed.n)
    row = worst_change(audit, variant)
    if row is None:
        return OverviewCell(Shown("", "", "", "no group's change can be estimated", ()))
    return OverviewCell(numbers.points(row.absolute), affected_words(audit, row), row.absolute.n)


def _coarsest(judged: JudgedVariant | None) -> str:
    """Name the test whose margin is widest: what a PASS may hide."""
    decided = [
        (test.decided_by.margin, test.where)
        for test in (judged.tests if judged else ())
        if test.decided_by is not None and test.decided_by.kind == "absolute"
    ]
    if not decided:
        return ""
    margin, where = max(decided, key=lambda pair: pair[0])
    return f"{100 * margin:.1f} points, {where}"
