"""Logging for audits and verdicts that a test has as plain content."""

from __future__ import annotations

from typing import Any

from scotoma import tracking
from scotoma.audit import GateResult
from scotoma.audit import worst_change as worst
from scotoma.audit.groups import RateChange
from scotoma.run import Run
from scotoma.tracking import records
from scotoma.tracking.run_record import RunRecord
from tests.audits import filled, whole

__all__ = ["log_audit", "member_records", "register", "variant_records", "worst_change"]

Content = dict[str, Any]


def verdict(content: Content) -> GateResult:
    return GateResult.model_validate(filled(GateResult, content))


def log_audit(
    run: Run, content: Content, uri: str, *, gate: Content | None = None
) -> tracking.Tracked:
    return tracking.log_audit(
        run, whole(content), uri, gate=None if gate is None else verdict(gate)
    )


def register(gate: Content, *others: str) -> tracking.Registered:
    return tracking.register(verdict(gate), *others)


def variant_records(content: Content, recipe: Content) -> list[RunRecord]:
    return records.variant_records(whole(content), recipe)


def member_records(content: Content, recipe: Content, manifests: Content) -> list[RunRecord]:
    return records.member_records(whole(content), recipe, manifests)


def worst_change(content: Content, variant: str) -> RateChange | None:
    return worst.worst_change(whole(content), variant)
