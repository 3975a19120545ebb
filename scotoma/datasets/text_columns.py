"""What a column of a source holds as text, or the sentence that refuses it."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from scotoma.columns import is_plain, present, refuse_doubled
from scotoma.errors import DataError
from scotoma.printable import nearest, printable

__all__ = ["absent_column", "text_column"]


def absent_column(name: str, role: str, columns: Sequence[str], origin: str) -> DataError:
    """Build the refusal of a table that lacks a column.

    >>> str(absent_column("Male", "groups.sex", ["male", "split"], "t.csv"))
    "groups.sex column 'Male' is not in t.csv; it has male; did you mean 'male'?"
    """
    known = sorted(c for c in columns if c not in ("example_id", "split", "image"))
    return DataError(
        f"{role} column {printable(name)!r} is not in {origin}; it has "
        f"{printable(', '.join(known))}{nearest(name, known)}"
    )


def text_column(source: pl.DataFrame, name: str, role: str, origin: str) -> pl.Expr:
    """Read the values of a column as text; null where there is none."""
    if name not in source.columns:
        raise absent_column(name, role, source.columns, origin)
    refuse_doubled(name, source.columns, origin)
    kind, value = source.schema[name], pl.col(name)
    refusal = DataError(
        f"{role} column {name!r} of {origin} must hold words or numbers, got {kind}; name "
        "another column"
    )
    if not is_plain(kind):
        raise refusal
    if kind.is_float():
        value = value.fill_nan(None)
        # What other libraries make of whole numbers as soon as one of them is missing.
        if source.select((value == value.round()).all() & value.is_finite().all()).item():
            value = value.cast(pl.Int64, strict=False)
    text = value.cast(pl.String)
    try:
        source.select(text)
    except pl.exceptions.PolarsError as error:  # a span of time, which has no text
        raise refusal from error
    return present(text)
