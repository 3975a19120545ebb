"""Every estimate of an audit as one row: what it is about, its interval, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from scotoma.audit.base import Quantity, Row, Spread
from scotoma.audit.document import Audit
from scotoma.questions import QUESTIONS

NUMBERS = "numbers.parquet"
ADDRESS = ("question", "variant", "metric", "group", "class", "condition", "what")
VARIANCE = tuple(f"variance_{part}" for part in Spread.model_fields)
SCHEMA: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(ADDRESS, pl.String),
    **dict.fromkeys(("value", "low", "high", "level"), pl.Float64),
    **dict.fromkeys(("n", "models"), pl.Int64),
    "effective_events": pl.Float64,
    **dict.fromkeys(("reason", "note"), pl.String),
    **dict.fromkeys(("se", "df"), pl.Float64),
    "scale": pl.String,
    **dict.fromkeys(VARIANCE, pl.Float64),
}


def audit_rows(audit: Audit) -> pl.DataFrame:
    """Lay out every estimate of an audit.

    Args:
        audit: The audit.

    Returns:
        The columns of `SCHEMA`. `what` says which of the estimates at an address it is, such as
        `dense`, `compressed`, `absolute` (the change) and `relative`; `condition` what else tells
        it apart. A value or an end of an interval that is missing is null, and `reason` says why.
    """
    rows = [cells(question, row) for question in QUESTIONS for row in audit.numbers(question)]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def cells(question: str, row: Row) -> tuple[Any, ...]:
    """The cells of `SCHEMA` of a row."""
    condition = ", ".join(f"{name}={value}" for name, value in sorted(row.facts.items())) or None
    number, spread = row.number, row.spread
    return (
        question, row.variant, row.metric, row.group, row.class_name, condition, row.what,
        number.value, number.low, number.high, number.level, number.n, number.members,
        number.effective_events, number.reason, number.note, number.se, number.df, number.scale,
        *(getattr(spread, part, None) for part in Spread.model_fields),
    )  # fmt: skip


def stored_rows(table: pl.DataFrame) -> Iterator[Row]:
    """Yield the rows of a table of `SCHEMA` that no condition tells apart, such as rates."""
    for cells in table.rename({"models": "members"}).iter_rows(named=True):
        number = {name: cells[name] for name in Quantity.model_fields}
        spread = {part: cells[f"variance_{part}"] for part in Spread.model_fields}
        yield Row.model_construct(
            **{part: cells[part] for part in ("variant", "metric", "group", "what")},
            class_name=cells["class"], facts={}, number=Quantity.model_construct(**number),
            spread=Spread.model_construct(**spread),
        )  # fmt: skip
