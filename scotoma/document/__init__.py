"""What is shown: documents of sections, tables and charts, the same cells for every reader."""

from __future__ import annotations

from scotoma.document.cells import Cell, Interval, Linked, Noted, Shown, Unit, complement, show
from scotoma.document.parts import Chart, Column, Document, Facts, Section, Table, Verbatim
from scotoma.document.pictures import Album, Card, Filter, Pair, Picture, Pictures

__all__ = [
    "Album",
    "Card",
    "Cell",
    "Chart",
    "Column",
    "Document",
    "Facts",
    "Filter",
    "Interval",
    "Linked",
    "Noted",
    "Pair",
    "Picture",
    "Pictures",
    "Section",
    "Shown",
    "Table",
    "Unit",
    "Verbatim",
    "complement",
    "show",
]
