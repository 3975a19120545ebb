"""The tables of the page as CSV inside it, for spreadsheets and scripts."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Download", "as_csv", "downloads"]

MOST = 400_000  # characters of one file inside the page
FORMULA = re.compile(r"^[=+\-@\t\r]")
NUMBER = ("value", "low", "high", "n", "reason", "note")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Download:
    """One file that the page carries.

    Attributes:
        name: Name of the file.
        what: What it holds.
        rows: Number of rows, without the head.
        uri: The file as a data URI; empty where it is too large for the page.
    """

    name: str
    what: str
    rows: int
    uri: str


def downloads(audit: Row, gate: Row | None) -> tuple[Download, ...]:
    """Every table worth taking along; those without rows are left out.

    Args:
        audit: The content of audit.json, groups called by their names.
        gate: The verdict; None where there is none.
    """
    compressed = [v["name"] for v in audit["variants"] if v["kind"] != "dense"]
    found = (
        ("topline.csv", "accuracy, CIEs, floor and excess by variant", _topline(audit)),
        ("gate.csv", "every test of the gate", _gate(gate)),
        ("groups.csv", "rates of every group, dense, compressed and change", _groups(audit)),
        ("classes.csv", "recall of every class", _classes(audit, compressed)),
        ("slices.csv", "slices on which the error rose", _slices(audit, compressed)),
        ("clarify.csv", "the Clarify metrics", _clarify(audit)),
    )
    return tuple(_file(name, what, rows) for name, what, rows in found if rows)


def as_csv(rows: Sequence[Row]) -> str:
    r"""Rows as CSV; text that a spreadsheet would take for a formula has an apostrophe before it.

    Args:
        rows: Values by column; the first row names the columns.

    >>> as_csv([{"group": "=1+1", "low": -0.5}, {"group": "a, b", "low": None}])
    'group,low\r\n\'=1+1,-0.5\r\n"a, b",\r\n'
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(map(_harmless, rows[0]))
    writer.writerows([_harmless(row[column]) for column in rows[0]] for row in rows)
    return text.getvalue()


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and FORMULA.match(value) else value


def _file(name: str, what: str, rows: Sequence[Row]) -> Download:
    # A mark at the start tells spreadsheets that it is UTF-8.
    content = base64.b64encode(as_csv(rows).encode("utf-8-sig", "replace")).decode("ascii")
    uri = f"data:text/csv;charset=utf-8;base64,{content}" if len(content) <= MOST else ""
    return Download(name, what, len(rows), uri)


def _numbers(**estimates: Row | None) -> dict[str, Any]:
    """Columns `NAME_value`, `NAME_low` and so on of each estimate; empty where there is none."""
    return {
        f"{name}_{key}": None if estimate is None else estimate[key]
        for name, estimate in estimates.items()
        for key in NUMBER
    }


def _topline(audit: Row) -> list[Row]:
    rows: list[Row] = []
    for variant in audit["variants"]:
        name = variant["name"]
        cie = audit["divergence"].get(name, {}).get("cie", {})
        count = cie.get("cie", {})
        rows.append(
            {"variant": name, "members": variant["members"]}
            | {f"cies_{key}": count.get(key) for key in ("count", "low", "high", "ties")}
            | _numbers(
                top1=audit["accuracy"][name]["top1"],
                cie_share=cie.get("cie_share"),
                floor=cie.get("floor_at_k"),
                excess=cie.get("excess"),
            )
        )
    return rows


def _gate(gate: Row | None) -> list[Row]:
    if gate is None:
        return []
    return [
        {"variant": variant["name"]}
        | {key: test[key] for key in ("rule", "where", "verdict", "waived", "reason")}
        | {f"limit_{key}": limit for key, limit in sorted(test["limits"].items())}
        | {
            key: test[key]
            for key in ("harm_p", "harm_p_adjusted", "noninferiority_p", "needed_words")
        }
        | _numbers(relative=test["relative"], absolute=test["absolute"])
        for variant in gate["variants"]
        for test in variant["tests"]
    ]


def _groups(audit: Row) -> list[Row]:
    return [
        {"variant": variant, "group": row["group"], "metric": row["metric"], "class": row["class"]}
        | _numbers(**{key: row[key] for key in ("dense", "compressed", "relative", "absolute")})
        for variant, rows in _in_order(audit, "subgroups")
        for row in rows
        if row["class"] is None or len(audit["examples"]["classes"]) <= 20
    ]


def _classes(audit: Row, variants: Iterable[str]) -> list[Row]:
    kept = (
        "class", "n", "dense_recall", "compressed_recall", "absolute", "normalised", "low", "high",
        "p", "p_adjusted", "significant", "reason",
    )  # fmt: skip
    return [
        {"variant": variant} | {key: row[key] for key in kept}
        for variant in variants
        for row in audit["classes"][variant]
    ]


def _slices(audit: Row, variants: Iterable[str]) -> list[Row]:
    return [
        {"variant": variant, "slice": one["text"], "examples": one["size"], "q": one["q"]}
        | _numbers(rise=one["effect"])
        for variant in variants
        for one in audit.get("slices", {}).get(variant, {}).get("slices", [])
    ]


def _clarify(audit: Row) -> list[Row]:
    found = audit.get("clarify")
    if not found:
        return []
    told = ("attribute", "disadvantaged", "advantaged", "metric")
    nothing = dict.fromkeys(("dense", "compressed", "change"))
    rows: list[Row] = [
        {"variant": None} | {key: row[key] for key in told}
        | _numbers(**nothing) | _numbers(labels=row["value"])
        for row in found["data"]
    ]  # fmt: skip
    for variant in audit["variants"]:
        rows += [
            {"variant": variant["name"]} | {key: row[key] for key in told}
            | _numbers(**{key: row[key] for key in nothing}) | _numbers(labels=None)
            for row in found["variants"].get(variant["name"], [])
        ]  # fmt: skip
    return rows


def _in_order(audit: Row, section: str) -> list[tuple[str, list[Row]]]:
    names = [variant["name"] for variant in audit["variants"]]
    return [(name, audit[section][name]) for name in names if name in audit[section]]
