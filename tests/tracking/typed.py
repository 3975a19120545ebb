"""Logging for audits and verdicts that a test has as plain content."""

from __future__ import annotations

from typing import Any

from scotoma.audit import GateResult
from scotoma.audit.base import At
from scotoma.impact import worst_change as worst
from scotoma.run import Run
from scotoma.tracking import records, registry, store
from scotoma.tracking.records import RunRecord
from tests.helpers.audits import filled, whole

__all__ = ["DATE", "audit_records", "log_audit", "member_records", "register", "worst_change"]

DATE = "2027-03"

Content = dict[str, Any]


def verdict(content: Content) -> GateResult:
    return GateResult.model_validate(filled(GateResult, content))


def log_audit(
    run: Run, content: Content, uri: str, *, gate: Content | None = None, job: str = ""
) -> store.Tracked:
    judged = None if gate is None else verdict(gate)
    return store.log_audit(run, whole(content), uri, gate=judged, job=job)


def register(run: Run, gate: Content, *others: str) -> registry.Registered:
    return registry.register(run, verdict(gate), *others)


def audit_records(
    content: Content, gate: Content | None = None
) -> tuple[RunRecord, list[RunRecord]]:
    judged = None if gate is None else verdict(gate)
    return records.audit_records(whole(content), judged, DATE, {"scotoma.place": "s3://b/run"})


def member_records(content: Content, recipe: Content, manifests: Content) -> list[RunRecord]:
    members = {name: one["members"] for name, one in manifests.items()}
    return records.member_records(whole(content), recipe, members, DATE, {})


def worst_change(content: Content, variant: str) -> At | None:
    return worst.worst_change(whole(content), variant)
