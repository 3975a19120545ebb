"""What is shown: documents of sections, tables and charts, the same cells for every reader."""

from __future__ import annotations

from scotoma.document.cells import Cell, Interval, Noted, Shown, Unit, show
from scotoma.document.parts import Chart, Column, Document, Facts, Section, Table

__all__ = [
    "Cell",
    "Chart",
    "Column",
    "Document",
    "Facts",
    "Interval",
    "Noted",
    "Section",
    "Shown",
    "Table",
    "Unit",
    "show",
]
