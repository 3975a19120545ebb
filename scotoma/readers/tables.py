"""Which rows does a table hold? CSV, Parquet or arrays, a file or a folder, as people send them."""

from __future__ import annotations

import codecs
import gzip
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple
from zoneinfo import available_timezones

import numpy as np
import polars as pl

from scotoma import storage
from scotoma.answers.note import AdmissionNote, reading_note
from scotoma.config.limits import ReaderLimits
from scotoma.errors import ConfigError, DataError
from scotoma.printable import printable, quoted
from scotoma.processes.unreadable import UNREADABLE, reason
from scotoma.processes.untrusted import read_apart, surely_small, table_apart
from scotoma.run.mirror import folder_here
from scotoma.storage import StampedFiles

TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".parquet", ".npz")
Kind = Literal["csv", "parquet", "npz"]
SEPARATORS = (",", ";", "\t", "|")
BYTE_ORDER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
MOST_HEADER_BYTES = 2**16
CHUNK_BYTES = 2**20
DAYS = -719_162, 2_932_896  # since 1970, of the first date of the year 1 and the last of 9999
DAY = {unit: 86_400 * 10**digits for unit, digits in (("ms", 3), ("us", 6), ("ns", 9))}
FIRST_ROWS = 1000  # that show whether bytes are text
MOST_COLUMNS = 1000  # that one array may become
AGAIN = "save the arrays with numpy.savez, text and numbers only"
SHEETS = (".xlsx", ".xls", ".ods")
SPOKEN: dict[Kind, tuple[str, str]] = {  # what messages call a kind, and how to write it anew
    "csv": ("CSV", "write it in UTF-8 with one header line and as many fields in every row"),
    "parquet": ("Parquet", "write the file again"),
    "npz": (".npz", AGAIN),
}


class ReadTable(NamedTuple):
    """A table, and what a reader should know of how it was read.

    Attributes:
        frame: Its rows: of CSV every column as text, of Parquet and arrays in their own types.
        notes: Sentences, such as the one on text that is not in UTF-8.
    """

    frame: pl.DataFrame
    notes: tuple[str, ...] = ()


def sniff(place: str | Path) -> Kind | None:
    """Tell the kind of a table by its name, or by the files of its folder; None of no table.

    >>> sniff("a/t.CSV.gz"), sniff("t.parquet"), sniff("t.json")
    ('csv', 'parquet', None)
    """
    name = str(place).lower()
    if os.path.isdir(place):
        files = table_files(Path(place))
        return sniff(files[0]) if files else None
    if name.endswith((".parquet", ".pq")):
        return "parquet"
    if name.endswith(".npz"):
        return "npz"
    return "csv" if re.search(r"\.(csv|tsv|txt)(\.gz)?$", name) else None


def table_files(folder: Path) -> list[Path]:
    """List the parts of a table that Spark, Dask or Hive wrote as a folder, in order; else none.

    See `table_parts`.
    """
    paths = (Path(above, name) for above, _, names in os.walk(folder) for name in names)
    return [folder / part for part in table_parts(p.relative_to(folder).as_posix() for p in paths)]


def table_parts(names: Iterable[str]) -> list[str]:
    """Choose the parts of a table among the files of a folder, in order.

    Parts are Parquet files at any depth, or files `part-*` of CSV; names that begin with `_` or `.`
    are none.

    >>> table_parts(["_SUCCESS", "b/1.parquet", "2.parquet", "a/3.parquet"])
    ['2.parquet', 'a/3.parquet', 'b/1.parquet']
    """
    steps = [name.split("/") for name in names]
    shown = [own for own in steps if not any(step[:1] in "_." for step in own)]
    shown.sort(key=lambda own: [*((1, folder) for folder in own[:-1]), (0, own[-1])])
    parquet = [own for own in shown if own[-1].lower().endswith((".parquet", ".pq"))]
    text = [own for own in shown if re.match(r"part-.*\.csv(\.gz)?$", own[-1].lower())]
    return ["/".join(own) for own in parquet or text]


def files_of_table(place: str) -> StampedFiles:
    """List the file of a table, or the parts of a folder that is one.

    Args:
        place: A path or `s3://` URI. Where nothing is, it is taken for a file.
    """
    remote = storage.is_remote(place)
    if storage.exists(place) if remote else not os.path.isdir(place):
        return StampedFiles.one(place)
    parts = table_parts(storage.list_files(place))
    return StampedFiles(place, tuple(parts)) if parts or not remote else StampedFiles.one(place)


@contextmanager
def table_at_hand(place: str) -> Iterator[Path]:
    """A table on this machine; see `files_of_table`."""
    files = files_of_table(place)
    if files.root == place:
        yield folder_here(files)
        return
    with storage.at_hand(place) as path:
        yield path


def is_one_table(folder: Path) -> bool:
    """Whether a folder is one table in parts, as Spark, Dask and Hive write it."""
    parts = table_files(folder)
    return bool(parts) and (
        (folder / "_SUCCESS").exists()
        or all(part.name.startswith("part") or "=" in part.parent.name for part in parts)
    )


def read_table(path: Path) -> ReadTable:
    """Read a table, in a process of its own unless it is surely small.

    Args:
        path: CSV (separated by commas, semicolons, tabs or bars; also gzipped, in UTF-16 or
            Windows-1252), Parquet, or arrays of NumPy (.npz); or a folder of parts.

    Raises:
        ConfigError: No such file, or one of another kind.
        DataError: It cannot be read, has no rows, or its parts differ.
    """
    if not os.path.exists(path):  # of a name that is too long a Path would raise
        raise ConfigError(f"table {quoted(str(path))} does not exist: check the path")
    if sniff(path) is None:
        raise ConfigError(_no_table(path))
    path = path.absolute()  # the process that reads it may have been started elsewhere
    frame = table_apart(scan_table, path, path.name, path=path, called=path.name)
    if not frame.height:
        raise DataError(
            f"table {quoted(path.name)} holds no rows: give it one row per example or run"
        )
    notes = table_notes(path, path.name)
    if "" in frame.columns and frame.width > 1:  # what pandas and R write before the first column
        frame = frame.drop("")
        notes = (*notes, f"{printable(path.name)}: the column without a name was left out")
    return ReadTable(frame, notes)


def _no_table(path: Path) -> str:
    name = quoted(path.name)
    if path.is_dir():
        return (
            f"folder {name} holds no table: name a folder of Parquet files, or of part-*.csv as "
            "Spark writes them"
        )
    if path.name.lower().endswith(SHEETS):
        return f"table {name} is a spreadsheet: save its sheet as CSV in UTF-8, and name that file"
    return f"table must be a .csv, .csv.gz, .tsv, .parquet or .npz file, got {name}: convert it"


def encoding_notes(
    places: Iterable[str], limits: ReaderLimits | None = None
) -> Iterator[AdmissionNote]:
    """Tell of tables of an audit what was guessed to read them; see `table_notes`.

    Args:
        places: Paths or URIs; those that are no table are passed over.
        limits: Memory and time; None where no configuration sets them.
    """
    for place in dict.fromkeys(places):
        if sniff(place) == "csv":
            called = place.rpartition("/")[2]
            with table_at_hand(place) as path:
                notes = table_notes(path, called, limits)
            for note in notes:
                yield reading_note(called, note)


def table_notes(path: Path, called: str, limits: ReaderLimits | None = None) -> tuple[str, ...]:
    """Say of a table what was guessed to read it, in a process of its own unless it is small."""
    # Text that is surely small is in UTF-8.
    if sniff(path) != "csv" or (surely_small(path, called) and not path.is_dir()):
        return ()
    return tuple(
        read_apart(guessed_encoding, path, called, path=path, called=called, limits=limits)
    )


def guessed_encoding(path: Path, called: str) -> list[str]:
    """Say which encoding a CSV file, or the first part of a folder, has where it is not UTF-8."""
    name = text_encoding(table_files(path)[0] if path.is_dir() else path)
    spoken = {"cp1252": "Windows-1252", "latin-1": "Latin-1", "utf-16": "UTF-16"}.get(name)
    return [f"{printable(called)} is not in UTF-8 and was read as {spoken}"] if spoken else []


def scan_table(path: Path, called: str) -> pl.LazyFrame:
    """Scan a table: of CSV every column as text, of Parquet in its own types.

    Args:
        path: As in `read_table`; must be a table by `sniff`, or by the name that messages use.
        called: What messages call it; its ending decides where the path has none.

    Raises:
        DataError: It cannot be read; some faults are found only as rows are collected.
    """
    kind = sniff(path) or sniff(Path(called)) or "csv"
    with readable_table(called, kind):
        if kind == "npz":
            return _arrays(path, called).lazy()
        parts = table_files(path) if path.is_dir() else [path]
        if kind == "parquet":
            return _scan_parquet(parts, path)
        try:
            scan = pl.concat(map(_scan_csv, parts), how="vertical")
            scan.collect_schema()
        except pl.exceptions.NoDataError:  # a file without a header
            return pl.LazyFrame()
        return scan


@contextmanager
def readable_table(called: str, kind: Kind) -> Iterator[None]:
    """Refuse in one sentence a table that cannot be read in this block.

    Raises:
        DataError: It cannot.
    """
    try:
        yield
    except UNREADABLE as error:
        spoken, way = SPOKEN[kind]
        raise DataError(
            f"table {quoted(called)} cannot be read as {spoken} ({reason(error)}); {way}"
        ) from error


def _scan_parquet(parts: Sequence[Path], path: Path) -> pl.LazyFrame:
    hive = path.is_dir() and any("=" in part.parent.name for part in parts)
    os.environ["POLARS_IGNORE_TIMEZONE_PARSE_ERROR"] = "1"  # those are read as UTC
    scan = pl.scan_parquet(list(parts), glob=False, hive_partitioning=hive)
    odd = [_usual(pl.col(name), kind) for name, kind in scan.collect_schema().items()]
    return scan.with_columns(one for one in odd if one is not None)


def _usual(column: pl.Expr, kind: pl.DataType) -> pl.Expr | None:
    """An odd kind of column as a usual one; None for a column that stays.

    Text that is marked as JSON is text. Times in a zone that nobody knows, such as +05:30, are read
    as UTC; dates beyond the calendar, such as the infinity of databases, are missing.
    """
    if kind.is_extension():
        return column.ext.storage()
    if kind == pl.Date:
        return pl.when(column.to_physical().is_between(*DAYS)).then(column)
    if not isinstance(kind, pl.Datetime):
        return None
    physical = column.to_physical()
    zones = available_timezones() if kind.time_zone else ()  # none where the system lists none
    if kind.time_zone and (kind.time_zone[:1] in "+-" or (zones and kind.time_zone not in zones)):
        column = physical.cast(pl.Datetime(kind.time_unit, "UTC"))
    return pl.when((physical // DAY[kind.time_unit]).is_between(*DAYS)).then(column)


def _scan_csv(path: Path) -> pl.LazyFrame:
    """Scan a CSV file; what stands most often in its first line, outside quotes, separates."""
    encoding = text_encoding(path)
    with _opened(path) as file:
        raw = file.readline(MOST_HEADER_BYTES) if encoding != "utf-16" else file.read(2**16)
        header = raw.decode(encoding, "replace").lstrip("\ufeff")
    declared = re.match(r"sep=(.)\r?\n", header)  # Excel's own line
    if declared:
        separator = declared[1]
    else:
        bare = "".join(header.split("\n")[0].split('"')[::2])  # what stands outside quotes
        separator = max(SEPARATORS, key=bare.count)
    source: Path | bytes = path
    if encoding != "utf-8":
        with _opened(path) as file:
            source = file.read().decode(encoding, "replace").lstrip("\ufeff").encode()
    return pl.scan_csv(
        source, separator=separator, infer_schema=False, glob=False, skip_rows=bool(declared)
    )


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, unpacked if it is gzipped."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    with gzip.open(path) if zipped else path.open("rb") as opened:
        yield opened  # type: ignore[misc]  # a GzipFile reads as a file does


def text_encoding(path: Path) -> str:
    """Tell the encoding of a text: utf-16 by its mark, utf-8 where it is, else cp1252 or latin-1.

    Windows-1252 leaves five bytes without a meaning; text that has them is taken for Latin-1.
    """
    with _opened(path) as file:
        if file.read(2) in BYTE_ORDER_MARKS:
            return "utf-16"
    for name in ("utf-8", "cp1252"):
        with _opened(path) as file, suppress(UnicodeDecodeError):
            for _ in codecs.iterdecode(iter(partial(file.read, CHUNK_BYTES), b""), name):
                pass
            return name
    return "latin-1"


@contextmanager
def open_arrays(path: Path, name: str) -> Iterator[Any]:
    """Open a file of `numpy.savez`; nothing is unpickled.

    Args:
        path: The file.
        name: What messages call it, printable.

    Yields:
        Its arrays, as `numpy.load` has them.

    Raises:
        DataError: It cannot be read, then or in the block.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            yield arrays
    except (DataError, MemoryError):
        raise
    except Exception as error:  # numpy and zipfile raise many kinds of a damaged file
        raise DataError(f"{name} cannot be read as .npz; {AGAIN}") from error


def _arrays(path: Path, called: str) -> pl.DataFrame:
    """Read the arrays of a file, each a column; one of shape (N, K) becomes `NAME_0` and so on."""
    name = printable(called)
    columns: dict[str, pl.Series] = {}
    with open_arrays(path, name) as arrays:
        for key in arrays.files:
            array = arrays[key]
            if array.dtype.kind in "fc" and array.ndim == 2:
                raise DataError(
                    f"array {printable(key)!r} of {name} holds scores of shape {array.shape}; "
                    "save predicted classes instead, such as scores.argmax(axis=1)"
                )
            if array.dtype.kind not in "biufUM" or array.ndim not in (1, 2):
                raise DataError(
                    f"array {printable(key)!r} of {name} must hold text or numbers, one an "
                    f"example, got {array.dtype} of shape {array.shape}; {AGAIN}"
                )
            if array.ndim == 2 and array.shape[1] > MOST_COLUMNS:
                raise DataError(
                    f"array {printable(key)!r} of {name} must hold at most {MOST_COLUMNS:,} "
                    f"models, got shape {array.shape}; transpose it, or save fewer"
                )
            whole = {key: array} if array.ndim == 1 else {}
            many = {} if whole else {f"{key}_{k}": one for k, one in enumerate(array.T)}
            columns |= {column: pl.Series(column, one) for column, one in (whole | many).items()}
    if len(lengths := {len(column): column.name for column in columns.values()}) > 1:
        shown = " and ".join(f"{n:,} in {printable(one)!r}" for n, one in [*lengths.items()][:2])
        raise DataError(
            f"arrays of {name} must have one value per example, got {shown}; save arrays of one "
            "length"
        )
    return pl.DataFrame(columns)


def refuse_doubled(name: str, columns: Sequence[str], where: str) -> None:
    """Refuse to read a column whose name another one has.

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

    >>> doubled_column(["label", "sex", "sex_duplicated_0"]), doubled_column(["label", "sex"])
    ('sex', '')
    """
    bases = (re.sub(r"_duplicated_\d+$", "", name) for name in columns)
    return next((base for base, name in zip(bases, columns, strict=True)
                 if base != name and base in columns), "")  # fmt: skip
