"""How is a chart drawn? A Vega-Lite file is filled with a table's records and drawn as SVG."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from scotoma.document.cells import Cell, Interval, finite_ends, is_ranged, show, unnoted
from scotoma.document.lines import broken
from scotoma.document.parts import Chart

FOLDER = Path(__file__).parents[1] / "page" / "charts"
STYLES = FOLDER.parent / "figures.css"  # its first rule is the palette on white paper
VEGA_LITE = "6.4"
MOST_COLUMNS = 30  # of text in a line beside a chart
LINE_PIXELS = 15
MARGIN = 44  # pixels: a wider font than the one measured has room for a line of a name
# What XML cannot hold ends the process of vl-convert; the others end a line of JavaScript.
NOT_DRAWN = re.compile("[^\t\x20-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
SPOKEN = re.compile(r' (?:role|aria-[a-z]+|pointer-events|class)="[^"]*"')
EMPTY = re.compile(r'<path(?: d="(?:M0,0h0v0h0Z)?"| display="none")+/>')
COLOUR = re.compile(r"(--figure-[a-z0-9]+):\s*(#[0-9a-fA-F]+)")
NAMED_COLOUR = re.compile(r"var\((--figure-[a-z0-9]+)\)")
SIZE = re.compile(r'(<svg [^>]*?)width="([\d.]+)" height="([\d.]+)" viewBox="[^"]*"([^>]*>)')


@dataclass(frozen=True)
class Drawing:
    """One drawing of a chart: what a reader picks to see it, and its SVG."""

    choice: str
    svg: Markup


def drawings(chart: Chart) -> list[Drawing]:
    """Draw a chart: once, or once for each value of the column that a reader picks from.

    The value that stands first is drawn first. What the records lack is not drawn.
    """
    groups: dict[str, list[Mapping[str, Cell]]] = {}
    for row in chart.table.rows:
        groups.setdefault(str(row.get(chart.by, "")) if chart.by else "", []).append(row)
    first = chart.first if chart.first in groups else next(iter(groups), "")
    order = sorted(groups, key=lambda choice: choice != first)
    return [Drawing(choice, _svg(chart, groups[choice])) for choice in order]


def _svg(chart: Chart, rows: list[Mapping[str, Cell]]) -> Markup:
    import vl_convert

    spec = filled(chart, rows)
    vega = _mute(vl_convert.vegalite_to_vega(spec, vl_version=VEGA_LITE))
    return Markup(_lean(vl_convert.vega_to_svg(vega), f"figure-{chart.id}-says"))


def filled(chart: Chart, rows: list[Mapping[str, Cell]]) -> dict[str, Any]:
    """The specification with the rows as its data, numbers in the unit shown.

    An estimate is `key`, `key_low`, `key_high` and `key_text`, as a table shows it. Names are
    wrapped in lines, each row's height has room for the longest.
    """
    spec = _read(chart.spec)
    names = _names(row.get(c.key) for row in rows for c in chart.table.columns if not c.numeric)
    units = {column.key: column.unit for column in chart.table.columns}
    values: list[dict[str, Any]] = []
    for row in rows:
        record: dict[str, Any] = {}
        for key, cell in row.items():
            one, unit = unnoted(cell), units.get(key, "text")
            if is_ranged(one):
                ends = finite_ends(one, unit)  # type: ignore[arg-type]
                record |= dict(zip((key, f"{key}_low", f"{key}_high"), ends, strict=True))
                record[f"{key}_text"] = show(one, unit).value or "not estimable"
            elif isinstance(one, str):
                record[key] = names.get(one, one)
            elif isinstance(one, int | float):
                record[key], *_ = finite_ends(Interval(float(one)), unit)
            else:
                record[key] = one
        values.append(record)
    lines = max((1 + name.count("\n") for name in names.values()), default=1)
    if isinstance(step := spec.get("height"), dict):
        spec["height"] = {"step": max(step["step"], LINE_PIXELS * lines + 4)}
    return spec | {"data": {"values": values}, "config": _read("config")}


def _names(cells: Any) -> dict[str, str]:
    r"""Texts as they are drawn: whole, in lines, and told apart where they would look alike.

    >>> _names(["owl", "a\x00", "a\x1b"])
    {'owl': 'owl', 'a\x00': 'a�', 'a\x1b': 'a� (2)'}
    """
    shown: dict[str, str] = {}
    for text in dict.fromkeys(cell for cell in cells if isinstance(cell, str)):
        name = drawn = "\n".join(broken(NOT_DRAWN.sub("\ufffd", text), MOST_COLUMNS))
        number = 1
        while drawn in shown.values():
            number += 1
            drawn = f"{name} ({number})"
        shown[text] = drawn
    return shown


@functools.cache
def _text(stem: str) -> str:
    return (FOLDER / f"{stem}.vl.json").read_text(encoding="utf-8")


def _read(stem: str) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(_text(stem))
    return spec


def _mute(vega: dict[str, Any]) -> dict[str, Any]:
    """Without labels for readers on every mark: the caption says more, and the table says all."""
    muted = [_mute(mark) | {"aria": False} for mark in vega.get("marks", ())]
    return vega | {"marks": muted} if muted else vega


def _lean(svg: str, says: str) -> str:
    """One image with one name, without what draws nothing."""
    lean = EMPTY.sub("", SPOKEN.sub("", svg))
    return lean.replace("<svg ", f'<svg role="img" aria-labelledby="{escape(says)}" ', 1)


def self_contained(svg: str, title: str) -> str:
    """Make a drawing an image of its own, for pages without our style sheet.

    It brings the colours of light paper and the paper itself, so that it looks the same on any
    ground.

    Args:
        svg: Of a `Drawing`.
        title: The name for readers who do not see it.
    """
    palette = STYLES.read_text(encoding="utf-8").split("}", 1)[0]
    colours = dict(COLOUR.findall(palette))
    own = NAMED_COLOUR.sub(lambda match: colours[match[1]], svg)
    own = re.sub(
        r'aria-labelledby="[^"]*"', lambda _: f'aria-label="{escape(title)}"', own, count=1
    )
    return SIZE.sub(lambda found: _on_paper(found, colours["--figure-ground"]), own, count=1)


def _on_paper(size: re.Match[str], colour: str) -> str:
    """Open a drawing on paper that is wider: another font than the one measured may be longer."""
    before, width, height, after = size[1], float(size[2]), float(size[3]), size[4]
    room = f"{-MARGIN} 0 {width + 2 * MARGIN:g} {height:g}"
    paper = f'<rect x="{-MARGIN}" width="100%" height="100%" fill="{colour}"/>'
    return (
        f'{before}width="{width + 2 * MARGIN:g}" height="{height:g}" viewBox="{room}"{after}{paper}'
    )
