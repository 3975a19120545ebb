"""How does a document become one page of HTML that needs nothing from outside?"""

from __future__ import annotations

import base64
import functools
import hashlib
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup

from scotoma.document.cells import Ranged, Unit, finite_ends, is_ranged, show
from scotoma.document.charts import drawings
from scotoma.document.parts import Chart, Column, Document, Facts, Section, Table, Verbatim
from scotoma.document.pictures import Picture, Pictures

FOLDER = Path(__file__).parents[1] / "page"
STYLES = ("page.css", "figures.css")
SCRIPTS = ("page.js",)
FIRST = 4  # pairs of examples before anything is unfolded
GALLERY = "gallery.js"  # where examples can be sifted
PARTS = (Table, Chart, Facts, Verbatim, Picture, Pictures)
WIDTH, HEIGHT, MARGIN = 160, 16, 8  # of the drawing of an interval, in SVG units


def html_page(document: Document, files: Mapping[str, str] | None = None) -> str:
    """Write a document as one page: its own styles and script, pictures inside, nothing else.

    Names are shown as text, whatever they hold. The page's policy allows its style sheets and its
    script by their hashes; nothing in it evaluates text as code.

    Args:
        document: What to write.
        files: Where the CSV file of a table lies, by its id; the page links there.

    Returns:
        The page; equal documents give equal text.
    """
    pictures = any(isinstance(part, Pictures) for one in document.sections for part in one.parts)
    scripts = (*SCRIPTS, GALLERY) if pictures else SCRIPTS
    style_texts, script_texts = (
        [(FOLDER / name).read_text(encoding="utf-8") for name in names]
        for names in (STYLES, scripts)
    )
    return (
        _environment()
        .get_template("page.html")
        .render(
            document=document,
            files=files or {},
            policy=Markup(content_policy(style_texts, script_texts)),
            styles=list(map(Markup, style_texts)),
            scripts=list(map(Markup, script_texts)),
        )
    )


def fragment(shown: Document | Table) -> str:
    """Write a document or a table as HTML inside another page, such as a notebook's."""
    if isinstance(shown, Table):
        shown = Document("", sections=[Section(shown.id, "", parts=[shown])])
    styles = [Markup((FOLDER / name).read_text(encoding="utf-8")) for name in ("cell.css",)]
    return _environment().get_template("fragment.html").render(
        document=shown, files={}, styles=styles
    )  # fmt: skip


def content_policy(styles: Iterable[str], scripts: Iterable[str]) -> str:
    """Write a page's policy: its own styles and scripts, images inside it, and nothing else.

    >>> content_policy(["p{}"], [])[:64]
    "default-src 'none'; img-src data:; style-src 'sha256-gG2yISYereR"
    """
    return "; ".join(
        [
            "default-src 'none'",
            "img-src data:",
            " ".join(["style-src", *map(_source, styles)]),
            " ".join(["script-src", *map(_source, scripts)]),
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@dataclass(frozen=True)
class ColumnAxis:
    """One axis for all intervals drawn in a column, so that they can be compared; 0 is on it."""

    low: float
    high: float
    unit: Unit

    def at(self, value: float) -> float:
        """Place of a number in SVG units, held inside the drawing.

        >>> ColumnAxis(-1.0, 1.0, "change").at(0.0), ColumnAxis(-1.0, 1.0, "change").at(9.0)
        (80.0, 152.0)
        """
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(MARGIN + share * (WIDTH - 2 * MARGIN), 1)

    def mark(self, number: Any) -> DrawnInterval | None:
        """What to draw of an estimate; None where it has no value.

        >>> from scotoma.document import Interval
        >>> ColumnAxis(0.0, 2.0, "change").mark(Interval(1.0, 0.5, 1.5))
        DrawnInterval(zero=8.0, value=80.0, low=44.0, high=116.0, beyond=True)
        """
        if not is_ranged(number) or number.value is None or math.isnan(number.value):
            return None
        zero, value = self.at(0.0), self.at(number.value)
        low, high = number.low, number.high
        if low is None or high is None or math.isnan(low) or math.isnan(high):
            return DrawnInterval(zero, value, None, None, beyond=False)
        return DrawnInterval(zero, value, self.at(low), self.at(high), beyond=low > 0 or high < 0)

    def ends(self) -> tuple[str, str]:
        """Its ends as text."""
        return show(self.low, self.unit).value, show(self.high, self.unit).value


@dataclass(frozen=True)
class DrawnInterval:
    """An interval as drawn, places in SVG units; `beyond`: it lies wholly on one side of 0."""

    zero: float
    value: float
    low: float | None
    high: float | None
    beyond: bool


def column_axis(table: Table, column: Column) -> ColumnAxis | None:
    """The axis that holds 0 and all finite ends of a drawn column; None where nothing is drawn."""
    numbers: list[Ranged] = [
        cell  # type: ignore[misc]
        for row in table.rows
        if column.drawn and is_ranged(cell := row.get(column.key))
    ]
    ends = [end for number in numbers for end in finite_ends(number, "change") if end is not None]
    if not ends:
        return None
    low, high = min(0.0, *ends), max(0.0, *ends)
    return ColumnAxis(low, high if high > low else low + 0.01, column.unit)


def _kind(part: object) -> str:
    return type(part).__name__.lower() if isinstance(part, PARTS) else ""


class _Compiled(FileSystemBytecodeCache):
    """Compiled templates, in a folder that may be missing, full or read-only."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template, if that can be."""
        with suppress(OSError):
            super().dump_bytecode(bucket)


@functools.cache
def _environment() -> Environment:
    """Build the templates: what goes in is text, and what is missing raises an error.

    Compiled they lie beside what Python compiles, which takes as long as the drawings of a page.
    """
    templates = Environment(
        loader=FileSystemLoader(FOLDER),
        bytecode_cache=_Compiled(str(Path(__file__).parent / "__pycache__")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.globals |= {
        "WIDTH": WIDTH, "HEIGHT": HEIGHT, "column_axis": column_axis,
        "drawings": drawings, "kind": _kind, "FIRST": FIRST,
    }  # fmt: skip
    return templates
