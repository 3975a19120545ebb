"""Read files from outside: regular files only, in a process with limits on memory and time.

A small file can hold a table that no memory holds, and declare a size that is not its own. So it is
read in another process, which is ended where it takes more than its size on the disk allows.
"""

from __future__ import annotations

import atexit
import gzip
import os
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from scotoma.config.limits import LIMITS, ReaderLimits
from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.processes import CrashedError, IsolatedProcess, MemoryLimitError
from scotoma.processes.unreadable import readable
from scotoma.storage.files import bytes_on_disk, open_regular

# Of a table that no configuration names, for each byte on disk, beside what limits give: a cell of
# CSV takes two bytes on disk and 16 in memory.
MORE_BYTES, MORE_S = 20, 6e-7
WRITE_AGAIN = "write the file again, with as many values in every row"
SMALL_BYTES = 2**20  # of text
SEPARATORS = (b",", b";", b"\t", b"|")
SMALL_CELLS = 2**20  # in memory some 16 bytes each
_one_call = threading.RLock()


def table_apart(
    read: Callable[..., pl.DataFrame | pl.LazyFrame],
    *arguments: Any,
    path: Path,
    called: str,
    limits: ReaderLimits | None = None,
) -> pl.DataFrame:
    """Read a table in another process.

    Args:
        read: Reads it, or scans it; can be pickled, as can its arguments.
        *arguments: Its arguments.
        path: The file that it reads, which sets its limits.
        called: What messages call the file.
        limits: Memory and time, as configured; None where no configuration can raise them, and a
            GB on disk has 20 times as much memory, and 10 minutes.

    Returns:
        The table, as the other process has left it in a file.

    Raises:
        DataError: Reading takes more memory or time, ends the process, or `read` refuses it.
    """
    if surely_small(path, called):
        with readable(called, WRITE_AGAIN, ""):
            return read(*arguments).lazy().collect()
    with _one_call:
        left = read_apart(
            _leave, read, _absolute(arguments), called, path=path, called=called, limits=limits
        )
        return pl.read_ipc(left)


def read_apart(
    read: Callable[..., Any],
    *arguments: Any,
    path: Path,
    called: str,
    limits: ReaderLimits | None = None,
) -> Any:
    """Call a function that reads a file, in another process.

    Args:
        read: As in `table_apart`; returns what JSON can hold.
        *arguments: As in `table_apart`.
        path: As in `table_apart`.
        called: As in `table_apart`.
        limits: As in `table_apart`.

    Returns:
        Its result.

    Raises:
        DataError: As in `table_apart`.
    """
    size = _size(path)
    name = printable(called)
    memory_bytes, limit_s = (limits or LIMITS).memory_bytes(size), (limits or LIMITS).seconds(size)
    if limits is None:
        memory_bytes, limit_s = memory_bytes + MORE_BYTES * size, limit_s + MORE_S * size
    try:
        with _one_call:
            return _reader().call(
                read, *_absolute(arguments), limit_s=limit_s, memory_bytes=memory_bytes
            )
    except MemoryLimitError as error:
        raise DataError(
            f"{name} must be read within {memory_bytes / 2**30:.1f} GiB of memory, and takes more; "
            + _way_out(limits, "reader_memory_gib")
        ) from error
    except TimeoutError as error:
        raise DataError(
            f"{name} must be read within {limit_s:.0f} s, and was not; "
            + _way_out(limits, "reader_seconds")
        ) from error
    except CrashedError as error:
        # A library that gets no memory may end in an error of its own.
        how = "was stopped by the system" if error.killed else "crashed, perhaps for want of memory"
        raise DataError(
            f"the reader of {name} {how}; {_way_out(limits, 'reader_memory_gib')}, or write the "
            "file again"
        ) from error


def _size(path: Path) -> int:
    """Count the bytes of a file, or of all files of a folder."""
    if not path.is_dir():
        return bytes_on_disk(path)
    return sum(bytes_on_disk(file) for file in path.rglob("*") if file.is_file())


def _absolute(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Name files wholly: the process that reads them stays in the folder where it was started."""
    return tuple(one.absolute() if isinstance(one, Path) else one for one in arguments)


def _way_out(limits: ReaderLimits | None, key: str) -> str:
    return "make it smaller" + (f", or raise limits.{key}" if limits else "")


@cache
def _reader() -> IsolatedProcess:
    """Start the process that reads all files of this one, one after the other."""
    reader = IsolatedProcess(_import_polars)
    atexit.register(reader.end)
    reader.start()
    return reader


def _import_polars() -> None:
    import polars  # noqa: F401


def _leave(
    read: Callable[..., pl.DataFrame | pl.LazyFrame], arguments: tuple[Any, ...], called: str
) -> str:
    """Read a table and leave it in a file; the one before has been read by now."""
    folder = Path(tempfile.gettempdir())
    for before in folder.glob("*.arrow"):
        before.unlink()
    path = folder / f"{os.urandom(8).hex()}.arrow"
    with readable(called, WRITE_AGAIN, ""):
        read(*arguments).lazy().sink_ipc(path)
    return str(path)


def surely_small(path: Path, called: str) -> bool:
    """Whether a table is small whatever it holds: a CSV of few characters, lines and columns.

    What Parquet declares of its sizes may be wrong, so it is never surely small.
    """
    name = called.lower()
    if not name.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt")) or path.is_dir():
        return False
    try:
        with open_regular(path) as file:
            opened = gzip.GzipFile(fileobj=file) if name.endswith(".gz") else file
            text = opened.read(SMALL_BYTES + 1)
        text.decode()
    except (OSError, EOFError, ValueError):  # Polars unpacks what begins as zlib or Zstandard do
        return False
    if len(text) > SMALL_BYTES or text[1:2] == b"\1" or b"\r" in text.replace(b"\r\n", b"\n"):
        return False
    # The header may be any line, and with quotes it may be several.
    lines = [text] if b'"' in text else text.split(b"\n")
    columns = max(line.count(separator) for line in lines for separator in SEPARATORS) + 1
    return (text.count(b"\n") + 1) * columns <= SMALL_CELLS
