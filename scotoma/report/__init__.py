"""What people read: every number of an audit on one page that works offline."""

from __future__ import annotations

from scotoma.audit.findings import Beside, People
from scotoma.report.page import render

__all__ = ["Beside", "People", "render"]
