"""What do people read? Every number of an audit on one page that works offline."""

from __future__ import annotations

from scotoma.audit.findings import Beside, People
from scotoma.report.audit_page import audit_document, csv_tables, render

__all__ = ["Beside", "People", "audit_document", "csv_tables", "render"]
