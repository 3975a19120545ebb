"""What do readers see? Sections, tables and charts, the same cells for every reader."""

from __future__ import annotations

from scotoma.document.cells import (
    Cell,
    Interval,
    Linked,
    Noted,
    Shown,
    Unit,
    complement,
    in_words,
    show,
)
from scotoma.document.parts import Chart, Column, Document, Facts, Section, Table, Verbatim
from scotoma.document.pictures import Album, Card, ExamplePair, Filter, Picture, Pictures

__all__ = [
    "Album",
    "Card",
    "Cell",
    "Chart",
    "Column",
    "Document",
    "ExamplePair",
    "Facts",
    "Filter",
    "Interval",
    "Linked",
    "Noted",
    "Picture",
    "Pictures",
    "Section",
    "Shown",
    "Table",
    "Unit",
    "Verbatim",
    "complement",
    "in_words",
    "show",
]
