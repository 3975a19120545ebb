"""Which columns of a table do options name, and what do they hold?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.answers.values import as_numbers, read_values, refuse_empty
from scotoma.errors import ConfigError, DataError
from scotoma.printable import listed, nearest, quoted
from scotoma.readers.tables import refuse_doubled

Texts = npt.NDArray[np.object_]
LABELS = ("label", "target", "class", "y", "digit", "category")


def column(table: pl.DataFrame, name: str, option: str) -> str:
    """The name, if the table has such a column.

    Raises:
        ConfigError: It has not; the message has the nearest name.

    >>> column(pl.DataFrame({"sex": ["f"]}), "sex", "--group")
    'sex'
    """
    if name in table.columns:
        refuse_doubled(name, table.columns, "the table")
        return name
    way = nearest(name, table.columns, f"; it has {listed(table.columns)}")
    raise ConfigError(f"{option} names column {quoted(name)}, which is not in the table{way}")


def guessed_label(table: pl.DataFrame) -> str | None:
    """The column that is called as labels usually are; None without one."""
    lower = {name.lower(): name for name in reversed(table.columns)}
    return next((lower[name] for name in LABELS if name in lower), None)


def label_column(table: pl.DataFrame, named: str) -> tuple[str, tuple[str, ...]]:
    """The column of the true labels, and a sentence where it was guessed.

    Args:
        table: From `read_table`.
        named: As `--label` has it; empty for the column with a usual name.

    Raises:
        ConfigError: There is none.

    >>> label_column(pl.DataFrame({"sex": ["f"], "Target": [1]}), "")
    ('Target', ("no --label: column 'Target' is taken for the true labels",))
    """
    if named:
        return column(table, named, "--label"), ()
    if name := guessed_label(table):
        return name, (f"no --label: column {quoted(name)} is taken for the true labels",)
    raise ConfigError(
        f"--label is missing; name the column of the true labels, one of {listed(table.columns)}"
    )


def columns(table: pl.DataFrame, patterns: Iterable[str], option: str) -> list[str]:
    """The columns that names or patterns (`member_*`) stand for, in the order of the table.

    >>> columns(pl.DataFrame({"m_1": [0], "m_2": [0], "sex": [1]}), ["m_*"], "--predicted")
    ['m_1', 'm_2']
    """
    matches: dict[str, None] = {}
    for pattern in patterns:
        exact = [pattern] if pattern in table.columns else []
        matched = exact or [name for name in table.columns if fnmatchcase(name, pattern)]
        matches |= dict.fromkeys(matched or [column(table, pattern, option)])
    return list(matches)


def check_compared(
    what: str, after: Sequence[str], before: Sequence[str], label: str | None, *, paired: bool
) -> None:
    """Check that columns of compressed models can be compared with those of a baseline.

    Args:
        what: What the columns hold, as the option is called.
        after: Columns of compressed models.
        before: Columns of the baseline.
        label: Column of the label; None for none.
        paired: Whether each compressed model has a partner in the baseline.

    Raises:
        ConfigError: A column is named twice, or models lack a partner.
    """
    if clash := (set(after) & set(before)) | ({label} & {*after, *before}):
        raise ConfigError(
            f"label, baseline and {what} must be different columns, got "
            f"{quoted(min(map(str, clash)))} twice: narrow the pattern"
        )
    if paired and len(before) != len(after):
        raise ConfigError(
            f"--paired needs as many baseline as {what} columns, got {len(before)} and "
            f"{len(after)}: leave out models without a partner"
        )


def texts(table: pl.DataFrame, name: str) -> Texts:
    """A column as text, shape (N,).

    Raises:
        DataError: Empty rows, or a column of lists.

    >>> texts(pl.DataFrame({"sex": ["f", "m "]}), "sex").tolist()
    ['f', 'm']
    """
    return np.array(refuse_empty(read_values(table[name]).values).to_list(), dtype=object)


def numbers(table: pl.DataFrame, name: str, *, truths: bool = False) -> npt.NDArray[np.float64]:
    """A column as finite numbers, shape (N,).

    Args:
        table: From `read_table`.
        name: The column.
        truths: Whether true is 1 and false 0.

    Raises:
        DataError: A row that is empty, no number or not finite.

    >>> numbers(pl.DataFrame({"value": ["0.5", "1e-3"]}), "value").tolist()
    [0.5, 0.001]
    """
    values = texts(table, name)
    cast = as_numbers(pl.Series(values.tolist(), dtype=pl.String), truths=truths)
    if cast.null_count():
        row = int(cast.is_null().arg_max() or 0)
        raise DataError(
            f"column {quoted(name)} must hold finite numbers, got {quoted(values[row])} in row "
            f"{row + 1:,}: correct or remove the row"
        )
    return cast.to_numpy()
