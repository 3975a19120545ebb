"""One audit of a project as a tracking server knows it: finished, failed or skipped."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace

from scotoma.audit.document import Audit
from scotoma.audit.gate import GateFile
from scotoma.audit.reading import parse_audit, parse_gate
from scotoma.errors import DataError


@dataclass(frozen=True)
class LoggedAudit:
    """One audit of a project.

    Attributes:
        at: When it was logged, UTC.
        state: `finished`, `failed` or `skipped`.
        run: Id of the run that stands for it.
        reason: Why it has no result, as a sentence; else empty.
        audit: Its audit.json; None where this version reads none.
        gate: Its gate.json, likewise.
        page: Address of that run's page; empty where no server serves it.
        report: Address of the report; empty where there is none.
        data_date: Day or month that its data are from, YYYY-MM-DD or YYYY-MM; else empty.
    """

    at: datetime.datetime
    state: str
    run: str
    reason: str = ""
    audit: Audit | None = None
    gate: GateFile | None = None
    page: str = ""
    report: str = ""
    data_date: str = ""

    def with_files(self, audit: bytes, gate: bytes) -> LoggedAudit:
        """Read the files of a finished audit; `reason` says why one of them cannot be read.

        Args:
            audit: Content of its audit.json.
            gate: Content of its gate.json.
        """
        try:
            return replace(
                self, audit=parse_audit(audit, "audit.json"), gate=parse_gate(gate, "gate.json")
            )
        except DataError as error:
            return replace(self, reason=str(error))
