"""Which columns of a table hold one word or number per row."""

from __future__ import annotations

import polars as pl

__all__ = ["is_plain"]


def is_plain(kind: pl.DataType) -> bool:
    """Whether every value of a column is text, a number, a truth value or a date.

    Args:
        kind: The type of the column.

    >>> [is_plain(kind) for kind in (pl.Int8(), pl.String(), pl.List(pl.Int8), pl.Binary())]
    [True, True, False, False]
    """
    return not (kind.is_nested() or kind.is_extension() or kind in (pl.Binary, pl.Object))
