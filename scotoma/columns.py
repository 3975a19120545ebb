"""Which columns of a table hold one word or number per row, and where do they hold none?"""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from scotoma.errors import DataError
from scotoma.printable import printable

__all__ = ["doubled_column", "is_plain", "present", "refuse_doubled"]

MISSING_TEXTS = ("", "nan", "null")  # what tables write where a value is missing, in any case


def is_plain(kind: pl.DataType) -> bool:
    """Whether every value of a column is text, a number, a truth value or a date.

    Args:
        kind: The type of the column.

    >>> [is_plain(kind) for kind in (pl.Int8(), pl.String(), pl.List(pl.Int8), pl.Binary())]
    [True, True, False, False]
    """
    return not (kind.is_nested() or kind.is_extension() or kind in (pl.Binary, pl.Object))


def present(text: pl.Expr) -> pl.Expr:
    """Text, and null where it is missing: empty, or the word nan or null in any case.

    Args:
        text: A column of text.

    >>> words = pl.Series("sex", ["f", " NaN ", "", "null", "none", None])
    >>> pl.select(present(pl.lit(words))).to_series().to_list()
    ['f', None, None, None, 'none', None]
    """
    return pl.when(~text.str.strip_chars().str.to_lowercase().is_in(MISSING_TEXTS)).then(text)


def refuse_doubled(name: str, columns: Sequence[str], where: str) -> None:
    """Refuse to read a column whose name another one has.

    Args:
        name: The column.
        columns: Those of the table, as Polars calls them.
        where: What messages call the table.

    Raises:
        DataError: There are two.

    >>> refuse_doubled("sex", ["label", "sex", "sex_duplicated_0"], "t.csv")
    Traceback (most recent call last):
    ...
    scotoma.errors.DataError: t.csv has two columns 'sex'; rename one of them
    """
    if f"{name}_duplicated_0" in columns:
        raise DataError(
            f"{printable(where)} has two columns {printable(name)!r}; rename one of them"
        )


def doubled_column(columns: Sequence[str]) -> str:
    """The name that two columns of a CSV share; empty where none does.

    Args:
        columns: Their names as Polars calls them: the second `sex` is `sex_duplicated_0`.

    >>> doubled_column(["label", "sex", "sex_duplicated_0"]), doubled_column(["label", "sex"])
    ('sex', '')
    """
    bases = (re.sub(r"_duplicated_\d+$", "", name) for name in columns)
    return next((base for base, name in zip(bases, columns, strict=True)
                 if base != name and base in columns), "")  # fmt: skip
