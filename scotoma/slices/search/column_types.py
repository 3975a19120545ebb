"""Which numbers or dates a column of text holds."""

from __future__ import annotations

import polars as pl

from scotoma.answers.values import read_values
from scotoma.printable import printable

__all__ = ["convert", "infer_type"]

NEARLY = 0.9  # of a column's values are numbers: the others look like a slip


def infer_type(column: pl.Series, *, named: bool = False) -> tuple[pl.Series, str]:
    """Turn text into the numbers or dates that it holds, and say what is odd about it.

    Numbers with leading zeros are codes and stay text, as does a column in which a single value is
    no number.

    Args:
        column: All values of a column; numbers and dates stay as they are.
        named: Whether its values are names, even where they are written as numbers.

    Returns:
        The column, and a sentence for the reader, else empty.

    >>> infer_type(pl.Series("age", ["31", None, "42"]))[0].dtype
    Int64
    >>> infer_type(pl.Series("zip", ["02139", "94103"]))[0].dtype
    String
    """
    if named:
        return read_values(column).values, ""
    if not _is_text(column.dtype):
        return column, ""
    text = read_values(column).values
    known = text.drop_nulls()
    if known.is_empty() or known.str.contains(r"^[+-]?0\d").any():
        return text, ""
    decimal = text.cast(pl.Float64, strict=False)
    good = decimal.is_finite().fill_null(value=False)
    if int(good.sum()) == len(known):
        whole = text.cast(pl.Int64, strict=False)
        return (whole if whole.null_count() == text.null_count() else decimal), ""
    if known.str.contains(r"^\d{4}-\d\d-\d\d$").all():
        days = text.str.to_date("%Y-%m-%d", strict=False)
        if days.null_count() == text.null_count():
            return days, ""
    if good.sum() < NEARLY * len(known):
        return text, ""
    odd = text.filter(~good & text.is_not_null())
    name, value = printable(column.name), printable(odd[0])
    return text, (
        f"column {name!r} holds numbers, but in {len(odd):,} of {len(text):,} rows something else, "
        f"such as {value!r}: its values are taken as words; empty those cells to have ranges"
    )


def convert(column: pl.Series, kind: pl.DataType) -> pl.Series:
    """Turn some rows of a column into the type that `infer_type` gave the whole.

    >>> convert(pl.Series(["31", "nan"]), pl.Int64()).to_list()
    [31, None]
    """
    if kind == pl.String:
        return read_values(column).values
    if not _is_text(column.dtype):
        return column
    text = read_values(column).values
    if kind == pl.Date:
        return text.str.to_date("%Y-%m-%d", strict=False)
    return text.cast(kind, strict=False)


def _is_text(kind: pl.DataType) -> bool:
    return kind in (pl.String, pl.Categorical, pl.Enum, pl.Binary) or kind.is_decimal()
