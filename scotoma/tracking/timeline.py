"""What does the trend page show of each audit of a project?"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace

from scotoma.audit import Audit, Quantity
from scotoma.audit.gate import JudgedVariant
from scotoma.audit.groups import RATE_NAMES
from scotoma.audit.logged import LoggedAudit
from scotoma.audit.worst_change import worst_change

SCORED = "an audit of scores has no rates to draw; its own report has its means"
UNREADABLE = "MLflow holds no readable audit.json and gate.json for it"


@dataclass(frozen=True)
class TrendVariant:
    """One variant in one audit.

    Attributes:
        variant: Its name.
        verdict: PASS, UNSURE or FAIL.
        members: Size of the smaller of its population and the dense one.
        top1: Accuracy; None without labels.
        excess: CIEs beyond those that seeds produce, a share of the examples.
        worst: The rise of the most affected group's rate, a fraction; None where none is estimable.
        worst_relative: The same, % of the dense rate.
        where: Which rate of which group that is.
        failed: Tests of the gate that failed.
        unsure: Tests that decided nothing.
    """

    variant: str
    verdict: str
    members: int
    top1: Quantity | None
    excess: Quantity
    worst: Quantity | None
    worst_relative: Quantity | None
    where: str
    failed: int
    unsure: int


@dataclass(frozen=True)
class Audited:
    """One audit of the project, finished or not.

    Attributes:
        at: When its data are from, where it says so; else when it was logged; UTC.
        state: `finished`, `failed`, `skipped` or `unreadable`.
        run: Id of the MLflow run that stands for it.
        reason: Why it has no result; empty where it has one.
        verdict: Of the whole gate; empty without a result.
        examples: Number of test examples; 0 without a result.
        variants: What was measured, in the order of the audit.
        warnings: Warnings of the gate.
        page: Address of that run's page, or empty.
        report: Address of its report, or empty.
        data_date: Day or month that its data are from, or empty.
    """

    at: datetime.datetime
    state: str
    run: str
    reason: str = ""
    verdict: str = ""
    examples: int = 0
    variants: tuple[TrendVariant, ...] = ()
    warnings: tuple[str, ...] = ()
    page: str = ""
    report: str = ""
    data_date: str = ""

    @property
    def day(self) -> str:
        """The time as a reader takes it in."""
        return self.data_date or f"{self.at:%Y-%m-%d %H:%M}"

    @property
    def why(self) -> str:
        """Why it has no result, in words."""
        if self.reason.startswith("The audit "):
            return self.reason
        state = "cannot be read" if self.state == "unreadable" else self.state
        return f"{state}: {self.reason}"


def audited(logged: LoggedAudit) -> Audited:
    """Pick what a page shows of one audit.

    Args:
        logged: The audit as the tracking server knows it.
    """
    dated = _moment(logged.data_date)
    shared = Audited(
        at=dated or logged.at, state=logged.state, run=logged.run, reason=logged.reason,
        page=logged.page, report=logged.report, data_date=logged.data_date if dated else "",
    )  # fmt: skip
    if logged.state != "finished":
        return shared
    audit, gate = logged.audit, logged.gate
    names = [variant.name for variant in gate.variants] if gate else []
    if audit is not None and gate is not None and audit.scores is not None:  # nothing in points
        return replace(shared, state="unreadable", reason=SCORED)
    if audit is None or gate is None or not set(names) <= set(audit.divergence):
        return replace(shared, state="unreadable", reason=logged.reason or UNREADABLE)
    return replace(
        shared,
        verdict=gate.verdict,
        examples=audit.examples.test,
        variants=tuple(_measured(audit, judged) for judged in gate.variants),
        warnings=gate.warnings,
    )


def _moment(date: str) -> datetime.datetime | None:
    """The first moment of a day or month, UTC; None for what is neither."""
    try:
        day = datetime.date.fromisoformat(date if len(date) > 7 else f"{date}-01")
    except ValueError:
        return None
    return datetime.datetime.combine(day, datetime.time(), datetime.UTC)


def _measured(audit: Audit, judged: JudgedVariant) -> TrendVariant:
    name = judged.name
    counted = [test.verdict for test in judged.counted]
    worst = worst_change(audit, name)
    return TrendVariant(
        variant=name,
        verdict=judged.verdict,
        members=judged.members,
        top1=audit.accuracy[name].top1 if audit.labelled else None,
        excess=audit.divergence[name].cie.excess,
        worst=None if worst is None else worst.absolute,
        worst_relative=None if worst is None else worst.relative,
        where=""
        if worst is None
        else f"{RATE_NAMES[worst.metric]} {audit.group_names[worst.group]}",
        failed=counted.count("FAIL"),
        unsure=counted.count("UNSURE"),
    )
