"""What does a cell of a table say: a word, a number, or nothing? Every entrance asks here."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Sequence
from datetime import time
from typing import NamedTuple

import polars as pl

from scotoma.answers.natural import natural_order
from scotoma.errors import DataError
from scotoma.printable import listed, printable, quoted

MISSING = "(missing)"  # the group of examples that have no value
# Whole cells that stand for a missing value. An entry in lower case matches any case.
MISSING_TEXTS = ("", "nan", "null", "n/a", "#n/a", "<na>", "NA", "None", "?", "-")
NEVER_A_CLASS = ("", "nan", "null")  # the others may be names: the label column shows it
# White space, no-break spaces and signs of no width, which no reader sees.
BLANKS = " \t\n\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000\u180e\u200b\u200c\u200d"
BLANKS += "\u2060\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))
WHOLE = r"^[+-]?\d+\.0+$"
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
NEARLY = 0.9  # of a column's values are numbers: the others look like a slip
EXACT = 2.0**53  # up to which whole numbers are floats of their own
TRUTHS = {"true": 1.0, "false": 0.0}


class ReadValues(NamedTuple):
    """One value of a column for each row.

    Attributes:
        values: Text, null where a value is missing, shape (N,).
        notes: Sentences about what was folded.
        missing: Each text that stands for a missing value, to how many rows hold it; `` for empty.
    """

    values: pl.Series
    notes: tuple[str, ...] = ()
    missing: dict[str, int] = {}  # noqa: RUF012  never changed


def is_plain(kind: pl.DataType) -> bool:
    """Whether every value of a column is text, a number, a truth value, a date or a time.

    Bytes count as text: Impala, Hive and old Spark write text without saying so (SPARK-2927).

    >>> [is_plain(kind) for kind in (pl.Int8(), pl.String(), pl.List(pl.Int8), pl.Binary())]
    [True, True, False, True]
    """
    return not (kind.is_nested() or kind.is_extension() or kind == pl.Object)


def column_text(column: pl.Series) -> pl.Series:
    """Write a column as text, as a person would: 3.0 as 3 where every number is whole.

    Args:
        column: Of any plain type.

    Returns:
        Text of the same name; null where the column is null or nan.

    Raises:
        DataError: Lists, structures, or bytes that are not text in UTF-8.

    >>> column_text(pl.Series([1.0, None])).to_list(), column_text(pl.Series([0.5, 1.0])).to_list()
    (['1', None], ['0.5', '1.0'])
    >>> column_text(pl.Series(["9" * 37 + ".9"]).cast(pl.Decimal(38, 1))).to_list()
    ['1e+37']
    """
    kind = column.dtype
    if not is_plain(kind):
        raise DataError(
            f"column {quoted(column.name)} must hold words or numbers, got {kind}; give each value "
            "a column of its own"
        )
    if kind.is_decimal():
        # As text, since 38 digits may have no room to be rounded in.
        whole = not column.cast(pl.String).str.contains(r"\.\d*[1-9]").any()
        column = column.cast(pl.Int128 if whole else pl.Float64)
    if column.dtype.is_float():
        column = column.fill_nan(None)
        if bool((column == column.round()).all()) and bool(column.is_finite().all()):
            integers = column.cast(pl.Int64, strict=False)
            if integers.null_count() == column.null_count():
                column = integers
    elif isinstance(kind, pl.Datetime) and bool((column.dt.time() == time(0)).all()):
        column = column.dt.date()
    elif kind in (pl.Duration, pl.Time):
        return column.dt.to_string("iso")
    elif kind == pl.Binary and not holds_text(column):
        raise DataError(
            f"column {quoted(column.name)} must hold text in UTF-8, got other bytes; write it as "
            "text"
        )
    return column.cast(pl.String)


def holds_text(column: pl.Series) -> bool:
    """Whether bytes are text in UTF-8: no picture, and no UUID.

    >>> holds_text(pl.Series([b"male"])), holds_text(pl.Series([bytes(16)]))
    (True, False)
    """
    try:
        text = column.cast(pl.String)
    except pl.exceptions.PolarsError:
        return False
    return not bool(text.str.contains(r"[\x00-\x08]").any())


def read_values(
    column: pl.Series,
    *,
    missing: Sequence[str] = MISSING_TEXTS,
    classes: Collection[str] = (),
) -> ReadValues:
    r"""Read a column of names or numbers: normal form NFC, without outer blanks, null if missing.

    Args:
        column: Of any plain type.
        missing: Whole cells that stand for a missing value; in lower case they match any case.
        classes: Texts that are classes and never missing.

    Raises:
        DataError: See `column_text`.

    >>> read = read_values(pl.Series("sex", ["f\xa0", "f", "?", "m"]))
    >>> read.values.to_list(), read.missing
    (['f', 'f', None, 'm'], {'?': 1})
    >>> read.notes
    ("column 'sex': outer blanks were left out of 1 value",)
    >>> read_values(pl.Series("age", ["31.0", "42.0", ""])).values.to_list()
    ['31', '42', None]
    """
    text = column_text(column)
    written = text.drop_nulls().unique(maintain_order=True)
    tidy = written.str.strip_chars(BLANKS)
    if bool(tidy.str.contains(r"[^\x00-\x7f]").any()):
        tidy = tidy.str.normalize("NFC")
    gone = tidy.is_in(list(missing)) | tidy.str.to_lowercase().is_in(list(missing))
    gone &= ~tidy.is_in(list(classes))
    kept = tidy.filter(~gone)
    if len(kept) and re.fullmatch(WHOLE, kept[0]) and bool(kept.str.contains(WHOLE).all()):
        tidy = tidy.str.replace(r"\.0+$", "")
    changed = gone | (tidy != written)
    empty = text.null_count()
    counts = {"": empty} if empty else {}
    if not changed.any():
        return ReadValues(text, (), counts)
    old, new = written.filter(changed), tidy.set(gone, None).filter(changed)
    values = text.replace_strict(old, new, default=text, return_dtype=pl.String)
    marks = dict(zip(written.filter(gone), tidy.filter(gone), strict=True))
    if marks:
        rows = text.filter(text.is_in(list(marks))).value_counts(sort=True)
        for mark, count in rows.iter_rows():
            counts[marks[mark]] = counts.get(marks[mark], 0) + count
    notes = tuple(_folded(column.name, text, written.filter(changed & ~gone).to_list()))
    return ReadValues(values.alias(column.name), notes, counts)


def refuse_null(text: pl.Series) -> pl.Series:
    """A column as it is, every row of which must have a value.

    Raises:
        DataError: A row is null.
    """
    if empty := text.null_count():
        raise DataError(
            f"column {quoted(text.name)} is empty in {empty:,} of {len(text):,} rows, first in row "
            f"{int(text.is_null().arg_max() or 0) + 1:,}: fill or remove them"
        )
    return text


def _folded(name: str, text: pl.Series, changed: list[str]) -> list[str]:
    """Say of how many values outer blanks were left out, and how many letters were composed."""
    notes = []
    blank = [one for one in changed if one != one.strip(BLANKS)]
    composed = [one for one in changed if one == one.strip(BLANKS) and not one.isascii()]
    for kind, what in ((blank, "outer blanks were left out of"), (composed, "letters and accents "
                       "were joined (NFC) in")):  # fmt: skip
        if kind:
            rows = int(text.is_in(kind).sum())
            values = "value" if rows == 1 else "values"
            notes.append(f"column {quoted(name)}: {what} {rows:,} {values}")
    return notes


def tidy(text: str) -> str:
    r"""Write one word as `read_values` writes those of a column, such as a word of an option.

    >>> tidy(" f\xa0")
    'f'
    """
    return unicodedata.normalize("NFC", text).strip(BLANKS)


def is_missing_text(value: str) -> bool:
    """Whether a whole cell stands for a missing value.

    >>> [is_missing_text(cell) for cell in ("NaN", "N/A", "na", "None", "none", "?")]
    [True, True, False, True, False, True]
    """
    return value in MISSING_TEXTS or value.lower() in MISSING_TEXTS


def present(text: pl.Expr) -> pl.Expr:
    """Text without outer blanks, and null where it stands for a missing value.

    >>> words = pl.Series("sex", ["f ", " NaN ", "", "null", "none", None])
    >>> pl.select(present(pl.lit(words))).to_series().to_list()
    ['f', None, None, None, 'none', None]
    """
    bare = text.str.strip_chars(BLANKS)
    gone = bare.is_in(MISSING_TEXTS) | bare.str.to_lowercase().is_in(MISSING_TEXTS)
    return pl.when(~gone).then(bare)


def look_alikes(name: str, values: pl.Series) -> tuple[str, ...]:
    """Say which values of a column differ in nothing but case.

    >>> look_alikes("sex", pl.Series(["Female", "female", "male"]))
    ("column 'sex': 'Female' and 'female' differ in case alone and stay apart",)
    """
    by_fold: dict[str, list[str]] = {}
    for value in natural_order(values.drop_nulls().unique()):
        by_fold.setdefault(value.casefold(), []).append(value)
    return tuple(
        f"column {quoted(name)}: {' and '.join(map(quoted, alike))} differ in case alone and stay "
        "apart"
        for alike in by_fold.values()
        if len(alike) > 1
    )


def number_in(text: str, *, truths: bool = True) -> float | None:
    """The number that a cell writes; true is 1, false 0; None where it writes none or a huge one.

    >>> number_in("00"), number_in("1.0"), number_in("False"), number_in("1,5")
    (0.0, 1.0, 0.0, None)
    >>> number_in("9007199254740993") is None  # two such ids would be one float
    True
    """
    if truths and text.lower() in TRUTHS:
        return TRUTHS[text.lower()]
    value = float(text) if NUMBER.fullmatch(text) else math.inf
    return value if abs(value) < EXACT else None


def as_numbers(values: pl.Series, *, truths: bool = False) -> pl.Series:
    """The numbers that text writes, Float64; null where it writes none, or an infinite one.

    Args:
        values: Text.
        truths: Whether true is 1 and false 0.

    >>> as_numbers(pl.Series(["0.5", "x", None])).to_list()
    [0.5, None, None]
    """
    if truths:
        values = values.str.to_lowercase().replace({"true": "1", "false": "0"})
    numbers = values.str.strip_chars(BLANKS).cast(pl.Float64, strict=False)
    return numbers.set(~numbers.is_finite(), None)


def missing_note(name: str, read: ReadValues) -> tuple[str, ...]:
    """Say how many rows of a column of groups have no value, and what stands there.

    >>> missing_note("work", read_values(pl.Series("work", ["?", "a"])))
    ("column 'work' is missing in 1 of 2 rows ('?'): they form the group '(missing)'",)
    """
    rows = sum(read.missing.values())
    if not rows:
        return ()
    marks = listed([mark for mark in read.missing if mark])
    return (
        f"column {quoted(name)} is missing in {rows:,} of {len(read.values):,} rows"
        f"{f' ({marks})' if marks else ''}: they form the group {quoted(MISSING)}",
    )


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
