"""What people read: every number of an audit on one page that works offline."""

from __future__ import annotations

from scotoma.report.page import render
from scotoma.report.people import People
from scotoma.report.views import Beside

__all__ = ["Beside", "People", "render"]
