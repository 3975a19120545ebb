"""The tables of the page as CSV inside it, for spreadsheets and scripts."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scotoma.audit import Audit, GateResult, Quantity
from scotoma.audit.outcomes import LabelMetric, ModelMetric

__all__ = ["Download", "as_csv", "downloads"]

MOST = 400_000  # characters of one file inside the page
FORMULA = re.compile(r"^[=+\-@\t\r]")

Row = Mapping[str, Any]  # of a CSV file: values by column


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


def downloads(audit: Audit, gate: GateResult | None) -> tuple[Download, ...]:
    """List the tables to download; those without rows are left out.

    Args:
        audit: The audit, groups called by their names.
        gate: The verdict; None where there is none.
    """
    compressed = [variant.name for variant in audit.compressed]
    tables: tuple[tuple[str, str, list[Row]], ...]
    if audit.scores is not None:
        tables = (
            ("gate.csv", "every test of the gate", _gate(gate)),
            ("means.csv", "mean of every group, dense, compressed and change", _means(audit)),
            ("quantiles.csv", "quantiles of every group", _quantiles(audit)),
            ("slices.csv", "slices on which the mean gets worse", _slices(audit, compressed)),
        )
        return tuple(_file(name, what, rows) for name, what, rows in tables if rows)
    tables = (
        ("topline.csv", "accuracy, CIEs, floor and excess by variant", _topline(audit)),
        ("gate.csv", "every test of the gate", _gate(gate)),
        ("groups.csv", "rates of every group, dense, compressed and change", _groups(audit)),
        ("classes.csv", "recall of every class", _classes(audit, compressed)),
        ("flips.csv", "predictions that change, by group", _flips(audit, compressed)),
        ("slices.csv", "slices on which the error rose", _slices(audit, compressed)),
        ("clarify.csv", "the Clarify metrics", _clarify(audit)),
    )
    return tuple(_file(name, what, rows) for name, what, rows in tables if rows)


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


def _numbers(**quantities: Quantity | None) -> dict[str, Any]:
    """Columns `NAME_value`, `NAME_low` and so on of each quantity; empty where there is none."""
    columns: dict[str, Any] = {}
    for name, q in quantities.items():
        columns |= {
            f"{name}_value": q and q.value,
            f"{name}_low": q and q.low,
            f"{name}_high": q and q.high,
            f"{name}_n": q and q.n,
            f"{name}_reason": q and q.reason,
            f"{name}_note": q and q.note,
        }
    return columns


def _topline(audit: Audit) -> list[Row]:
    rows: list[Row] = []
    for variant in audit.variants:
        divergence = audit.divergence.get(variant.name)
        cie = None if divergence is None else divergence.cie
        rows.append(
            {
                "variant": variant.name,
                "members": variant.members,
                "cies_count": cie and cie.cie.count,
                "cies_low": cie and cie.cie.low,
                "cies_high": cie and cie.cie.high,
                "cies_ties": cie and cie.cie.ties,
            }
            | _numbers(
                top1=audit.accuracy[variant.name].top1 if audit.labelled else None,
                cie_share=None if cie is None else cie.cie_share,
                disagreement=None if cie is None else cie.disagreement,
                floor=None if cie is None else cie.floor,
                excess=None if cie is None else cie.excess,
            )
        )
    return rows


def _gate(gate: GateResult | None) -> list[Row]:
    if gate is None:
        return []
    return [
        {
            "variant": variant.name,
            "rule": test.rule,
            "where": test.where,
            "verdict": test.verdict,
            "waived": test.waived,
            "reason": test.reason,
            "margin_absolute": test.margins.absolute,
            "margin_relative": test.margins.relative,
            "limit": None if test.level is None else f"{test.level.side} {test.level.limit:g}",
            "harm_p": test.harm_p,
            "harm_p_adjusted": test.harm_p_adjusted,
            "noninferiority_p": test.noninferiority_p,
            "outlook": None if test.outlook is None else test.outlook.sentence,
        }
        | _numbers(
            relative=test.relative,
            absolute=test.absolute,
            level=None if test.level is None else test.level.mean,
        )
        for variant in gate.variants
        for test in variant.tests
    ]


def _groups(audit: Audit) -> list[Row]:
    return [
        {"variant": name, "group": row.group, "metric": row.metric, "class": row.class_name}
        | _numbers(
            dense=row.dense, compressed=row.compressed, relative=row.relative, absolute=row.absolute
        )
        for name in (variant.name for variant in audit.compressed)
        for row in audit.subgroups.get(name, ())
        if row.class_name is None or len(audit.examples.classes) <= 20
    ]


def _means(audit: Audit) -> list[Row]:
    assert audit.scores is not None
    return [
        {"variant": name, "group": row.group, "p_adjusted": row.p_adjusted}
        | _numbers(
            dense=row.dense, compressed=row.compressed, absolute=row.absolute, worse=row.worse,
            relative=row.relative,
        )
        for name, rows in audit.scores.means.items()
        for row in rows
    ]  # fmt: skip


def _quantiles(audit: Audit) -> list[Row]:
    assert audit.scores is not None
    return [
        {"variant": name, "group": row.group, "share": row.share}
        | _numbers(dense=row.dense, compressed=row.compressed, absolute=row.absolute)
        for name, rows in audit.scores.quantiles.items()
        for row in rows
    ]


def _classes(audit: Audit, variants: Iterable[str]) -> list[Row]:
    return [
        {
            "variant": variant,
            "class": row.class_name,
            "dense_recall": row.dense_recall,
            "compressed_recall": row.compressed_recall,
        }
        | _numbers(loss=row.loss)
        | {"p": row.p, "p_adjusted": row.p_adjusted, "significant": row.significant}
        for variant in variants
        for row in audit.classes.get(variant, ())
    ]


def _flips(audit: Audit, variants: Iterable[str]) -> list[Row]:
    return [
        {"variant": variant, "group": row.group}
        | _numbers(
            changed=row.changed,
            right_to_wrong=row.right_to_wrong,
            wrong_to_right=row.wrong_to_right,
            wrong_to_other=row.wrong_to_other,
        )
        for variant in variants
        for row in audit.divergence[variant].ledger
    ]


def _slices(audit: Audit, variants: Iterable[str]) -> list[Row]:
    return [
        {"variant": variant, "slice": row.text, "examples": row.size, "q": row.q}
        | _numbers(rise=row.effect)
        for variant in variants
        if variant in audit.slices
        for row in audit.slices[variant].slices
    ]


def _clarify(audit: Audit) -> list[Row]:
    rows: list[Row] = [
        {"variant": None, "labels_of": row.split} | _facets(row)
        | _numbers(dense=None, compressed=None, change=None, labels=row.value)
        for row in audit.clarify.data
    ]  # fmt: skip
    rows += [
        {"variant": variant.name, "labels_of": None} | _facets(row)
        | _numbers(dense=row.dense, compressed=row.compressed, change=row.change, labels=None)
        for variant in audit.compressed
        for row in audit.clarify.variants.get(variant.name, ())
    ]  # fmt: skip
    return rows


def _facets(row: LabelMetric | ModelMetric) -> dict[str, Any]:
    return {
        "attribute": row.attribute,
        "disadvantaged": row.disadvantaged,
        "advantaged": row.advantaged,
        "metric": row.metric,
    }
