"""What a column of a source holds as text, or the sentence that refuses it."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from scotoma.answers.values import MISSING_TEXTS, ReadValues, is_plain, read_values
from scotoma.errors import DataError
from scotoma.printable import ONE_OF_THEM, nearest, printable
from scotoma.readers.tables import refuse_doubled


def absent_column(name: str, role: str, columns: Sequence[str], origin: str) -> DataError:
    """Build the refusal of a table that lacks a column.

    >>> str(absent_column("Male", "groups.sex", ["male", "split"], "t.csv"))
    "groups.sex column 'Male' is not in t.csv; it has male; did you mean 'male'?"
    """
    known = sorted(c for c in columns if c not in ("example_id", "split", "image"))
    return DataError(
        f"{role} column {printable(name)!r} is not in {origin}; it has "
        f"{printable(', '.join(known))}{nearest(name, known, ONE_OF_THEM)}"
    )


def checked_text(
    source: pl.DataFrame,
    name: str,
    role: str,
    origin: str,
    missing: Sequence[str] = MISSING_TEXTS,
) -> ReadValues:
    """Read the values of a column as text; null where there is none.

    Args:
        source: The table.
        name: The column.
        role: What the configuration wants it for.
        origin: What messages call the table.
        missing: See `read_values`.

    Raises:
        DataError: The column is absent, stands twice, or holds lists.
    """
    if name not in source.columns:
        raise absent_column(name, role, source.columns, origin)
    refuse_doubled(name, source.columns, origin)
    if not is_plain(source.schema[name]):
        raise DataError(
            f"{role} column {name!r} of {origin} must hold words or numbers, got "
            f"{source.schema[name]}; name another column"
        )
    return read_values(source[name], missing=missing)


def refuse_empty_labels(labels: pl.Series, ids: pl.Series, origin: str) -> None:
    """Refuse empty labels, with their number and the first.

    >>> refuse_empty_labels(pl.Series("y", ["cat", None]), pl.Series(["a", "b"]), "t.csv")
    Traceback (most recent call last):
    ...
    scotoma.errors.DataError: label column 'y' is empty in 1 of 2 rows of t.csv, the first is 'b'; \
fill or remove them
    """
    if empty := labels.null_count():
        first = ids.filter(labels.is_null())[0]
        raise DataError(
            f"label column {labels.name!r} is empty in {empty:,} of {len(labels):,} rows of "
            f"{origin}, the first is {printable(first)!r}; fill or remove them"
        )
