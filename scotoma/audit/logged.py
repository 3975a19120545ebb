"""One audit of a project as a tracking server knows it: finished, failed, missed or skipped."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from scotoma.audit.document import Audit
from scotoma.audit.gate import GateFile

__all__ = ["LoggedAudit"]


@dataclass(frozen=True)
class LoggedAudit:
    """One audit of a project.

    Attributes:
        at: When it was logged, UTC.
        state: `finished`, `failed`, `missed` or `skipped`.
        run: Id of the run that stands for it.
        reason: Why it has no result, as a sentence; else empty.
        audit: Its audit.json; None where there is none that this version reads.
        gate: Its gate.json, likewise.
    """

    at: datetime.datetime
    state: str
    run: str
    reason: str = ""
    audit: Audit | None = None
    gate: GateFile | None = None
