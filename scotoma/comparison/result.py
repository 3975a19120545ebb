"""A comparison as tables: every number with its n and interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from scotoma.numbers import Estimate

__all__ = ["as_html", "estimate_columns", "frame"]

NUMBERS = ("value", "low", "high")


def estimate_columns(estimate: Estimate, name: str = "") -> dict[str, float | str | None]:
    """An estimate as cells of a table, its name before each but the bare value; nan is null.

    >>> estimate_columns(Estimate(0.5, 0.4, 0.6, 9, 1, 3.0, 8.0), "change")
    {'change': 0.5, 'change_low': 0.4, 'change_high': 0.6}
    """
    cells = {part: getattr(estimate, part) for part in NUMBERS}
    return {
        (name if part == "value" else f"{name}_{part}") if name else part: None
        if value != value
        else value
        for part, value in cells.items()
    }


def frame(rows: Iterable[Mapping[str, Any]], schema: Mapping[str, Any]) -> pl.DataFrame:
    """Rows as a polars frame with these columns, also where there is no row."""
    return pl.DataFrame(list(rows), schema=dict(schema), orient="row")


def as_html(title: str, tables: Mapping[str, pl.DataFrame], notes: Iterable[str]) -> str:
    """Tables below each other as HTML, every text escaped.

    >>> "&lt;b&gt;" in as_html("t", {"groups": pl.DataFrame({"group": ["<b>"]})}, [])
    True
    """
    from html import escape

    parts = [f"<h4>{escape(title)}</h4>"]
    for name, table in tables.items():
        if not table.height:
            continue
        head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_cell(value))}</td>" for value in row) + "</tr>"
            for row in table.iter_rows()
        )
        parts.append(
            f"<table><caption>{escape(name)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )
    parts += [f"<p>{escape(note)}</p>" for note in notes]
    return "".join(parts)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
