"""Clarify's metrics by the question that they answer, as the page lists them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["SAID", "concerns"]

SAID = ("upper bound only",)  # above the tables, not in every cell
MOST_ROWS = 40  # of one metric; the CSV holds all

Row = dict[str, Any]


def concerns(audit: Mapping[str, Any]) -> list[Row]:
    """The questions of the guide, each with the rows of its metrics.

    Args:
        audit: The content of audit.json; without `clarify` there is nothing to list.

    Returns:
        Of each question `key`, `question`, `start`, `why`, `metrics` (with `rows`), `of_models`,
        `aside`, and `silent`: why none of its metrics could be had, else empty.
    """
    found = audit.get("clarify")
    if not found or not found["data"]:
        return []
    names = {group["key"]: group["name"] for group in audit["groups"]}
    variants = [v["name"] for v in audit["variants"] if v["kind"] != "dense"]
    rows = [_named(row, names, None) for row in found["data"]]
    rows += [_named(row, names, name) for name in variants for row in found["variants"][name]]
    return [_concern(concern, rows) for concern in found["questions"]]


def _concern(concern: Mapping[str, Any], rows: list[Row]) -> Row:
    metrics = [
        {**metric, "rows": [row for row in rows if row["metric"] == metric["name"]]}
        for metric in concern["metrics"]
    ]
    mine = [row for metric in metrics for row in metric["rows"]]
    cut = any(len(metric["rows"]) > MOST_ROWS for metric in metrics)
    of_models = any(row["variant"] for row in mine)
    return {
        **concern,
        "metrics": [{**metric, "rows": metric["rows"][:MOST_ROWS]} for metric in metrics],
        "of_models": of_models,
        "silent": _silent(mine),
        "aside": "d: the disadvantaged group; a: the advantaged one. "
        + ("Distances have an upper bound only. " if of_models else "")
        + (f"The first {MOST_ROWS} rows of each metric; clarify.csv holds all." if cut else ""),
    }


def _silent(rows: list[Row]) -> str:
    """Why nothing can be said, where one reason stands for all."""
    estimates = [estimate for row in rows for estimate in _estimates(row)]
    if any(estimate["value"] is not None for estimate in estimates):
        return ""
    reasons = sorted({estimate["reason"] for estimate in estimates})
    return "; ".join(reasons)[:1].upper() + "; ".join(reasons)[1:] + "." if reasons else "No rows."


def _estimates(row: Row) -> Iterator[Mapping[str, Any]]:
    yield from (row[key] for key in ("value", "dense", "compressed", "change") if key in row)


def _named(row: Mapping[str, Any], names: Mapping[str, str], variant: str | None) -> Row:
    shown = row["value"] if "value" in row else row["change"]
    return {
        **row,
        "variant": variant,
        "n": shown["n"],
        **{key: names.get(row[key], row[key]) for key in ("disadvantaged", "advantaged")},
    }
