"""Tables that commands read from CSV or Parquet, and the words for what is in them."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.array_files import read_arrays
from scotoma.columns import present, refuse_doubled
from scotoma.csv_files import scan_csv
from scotoma.errors import ConfigError, DataError
from scotoma.printable import printable
from scotoma.uncertainty import Estimate
from scotoma.unreadable import UNREADABLE, reason
from scotoma.untrusted import table_apart

MISSING = "(missing)"
PLAIN = 1e6  # larger numbers with significant digits are written with an exponent

Texts = npt.NDArray[np.object_]


def read_table(path: Path) -> pl.DataFrame:
    """Read CSV (also .csv.gz), every column as text, Parquet, or arrays of NumPy (.npz).

    Raises:
        ConfigError: No such file, or one of another kind.
        DataError: A file that cannot be read, has no rows, or names a column twice.
    """
    name = quoted(path.name)
    if not os.path.isfile(path):  # of a name that is too long a Path would raise
        raise ConfigError(f"table {quoted(str(path))} does not exist: check the path")
    kind = re.search(r"\.(csv|csv\.gz|parquet|npz)$", path.name.lower())
    if not kind:
        raise ConfigError(
            f"table must be a .csv, .csv.gz, .parquet or .npz file, got {name}: convert it"
        )
    path = path.absolute()  # the process that reads it may have been started elsewhere
    table = table_apart(_table, path, kind[1], name, path=path, called=path.name)
    if not table.height:
        raise DataError(f"table {name} holds no rows: give it one row per example or run")
    return table


def _table(path: Path, kind: str, name: str) -> pl.DataFrame:
    if kind == "npz":
        return read_arrays(path, path.name)
    try:
        if kind == "parquet":
            return pl.read_parquet(path, glob=False, hive_partitioning=False)
        return scan_csv(path).collect()
    except pl.exceptions.NoDataError:
        return pl.DataFrame()
    except UNREADABLE as error:
        raise DataError(
            f"table {name} cannot be read as {kind} ({reason(error)}): write it in UTF-8 with "
            "one header line and the same number of fields in every row"
        ) from error


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
    near = difflib.get_close_matches(name, table.columns, 1, 0.5)
    near += [other for other in table.columns if other.lower() == name.lower()]
    way = f"did you mean {quoted(near[-1])}?" if near else f"it has {listed(table.columns)}"
    raise ConfigError(f"{option} names column {quoted(name)}, which is not in the table; {way}")


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


def texts(table: pl.DataFrame, name: str, *, missing: str | None = None) -> Texts:
    """A column as text, shape (N,).

    Args:
        table: From `read_table`.
        name: The column.
        missing: What to put where it is empty, nan or null; None refuses such rows.

    Raises:
        DataError: Empty rows where none may be, or a column of lists.

    >>> texts(pl.DataFrame({"sex": ["f", None]}), "sex", missing="(missing)").tolist()
    ['f', '(missing)']
    """
    series = table[name]
    if series.dtype.is_nested():
        raise DataError(f"column {quoted(name)} holds lists: give every member its own column")
    try:
        text = series.cast(pl.String)
    except pl.exceptions.PolarsError as error:
        raise DataError(
            f"column {quoted(name)} must hold text or numbers, got values of type {series.dtype}: "
            "write it as text"
        ) from error
    text = pl.select(present(pl.lit(text))).to_series()
    if empty := text.null_count():
        if missing is None:
            row = int(text.is_null().arg_max() or 0) + 1
            raise DataError(
                f"column {quoted(name)} is empty in {empty:,} of {len(text):,} rows, first in row "
                f"{row:,}: fill or remove them"
            )
        text = text.fill_null(missing)
    return np.array(text.to_list(), dtype=object)


def numbers(table: pl.DataFrame, name: str) -> npt.NDArray[np.float64]:
    """A column as finite numbers, shape (N,).

    Raises:
        DataError: A row that is empty, no number or not finite.

    >>> numbers(pl.DataFrame({"value": ["0.5", "1e-3"]}), "value").tolist()
    [0.5, 0.001]
    """
    values = texts(table, name)
    stripped = pl.Series(values.tolist(), dtype=pl.String).str.strip_chars()
    cast = stripped.cast(pl.Float64, strict=False).fill_null(math.nan).to_numpy()
    bad = ~np.isfinite(cast)
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"column {quoted(name)} must hold finite numbers, got {quoted(values[row])} in row "
            f"{row + 1:,}: correct or remove the row"
        )
    return cast


def quoted(text: str) -> str:
    r"""A name from a table or a command line inside a message: printable, not too long.

    >>> quoted("a\x1b[31m")
    "'a [31m'"
    """
    shown = printable(text)
    return f"'{shown if len(shown) <= 60 else shown[:59] + '…'}'"


def listed(names: Sequence[str]) -> str:
    """The first names for a message.

    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(quoted(name) for name in names[:8]) + more


def number(value: float, digits: int = 3, sign: str = "", *, significant: bool = False) -> str:
    """A number with `digits` decimals, fewer from 10 upwards, or with `digits` significant ones.

    >>> number(0.14159), number(1234.5), number(-0.5, 1, "+"), number(math.inf)
    ('0.142', '1,234', '-0.5', 'inf')
    >>> number(0.00014159, significant=True), number(31415.9, significant=True)
    ('0.000142', '31,400')
    """
    if not math.isfinite(value):
        return "undefined" if math.isnan(value) else str(value)
    if significant:
        rounded = float(f"{value:.{digits}g}")
        plain = 10**digits <= abs(rounded) < PLAIN
        return f"{rounded:{sign},.0f}" if plain else f"{value:{sign}.{digits}g}"
    kept = max(0, min(digits, digits + 1 - len(str(int(abs(value))))))
    return f"{value:{sign},.{kept}f}"


def shown(
    estimate: Estimate,
    *,
    factor: float = 1.0,
    digits: int = 3,
    sign: str = "",
    significant: bool = False,
) -> str:
    """An estimate and its interval; `undefined` where there is none, the reason stands beside.

    >>> shown(Estimate(0.25, 0.125, 0.5, 40, 1, 9.0, 3.0), factor=100, digits=2)
    '25.0 [12.5, 50.0]'
    """

    def text(value: float) -> str:
        return number(factor * value, digits, sign, significant=significant)

    if math.isnan(estimate.value):
        return "undefined"
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return text(estimate.value)
    if estimate.note.startswith("upper bound only"):
        return f"{text(estimate.value)}, at most {text(estimate.high)}"
    return f"{text(estimate.value)} [{text(estimate.low)}, {text(estimate.high)}]"


def aside(estimates: Iterable[Estimate], *hidden: str) -> str:
    """Reasons and notes of estimates in a row, each once, without what is `hidden`."""
    parts = {
        part: None
        for estimate in estimates
        for text in (estimate.reason, estimate.note)
        for part in text.split("; ")
        if part and not part.startswith(hidden)
    }
    return "; ".join(parts)
