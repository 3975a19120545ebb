"""Which JSON, rows of a table or members of a zip does a file hold?"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import polars as pl
import zstandard

from scotoma.answers.natural import natural_order
from scotoma.errors import ConfigError, DataError
from scotoma.printable import printable
from scotoma.readers.tables import readable_table, scan_table, sniff
from scotoma.storage.files import open_regular

BEGINNING = 2**14  # bytes that are looked at
MOST_FILES = 10_000
ZSTANDARD = 93  # Python's zipfile reads it from 3.14 on
MEMBER_BYTES = 2**28  # of one file in a zip, unpacked: a sample, or all summaries
BLANKS = " \t\r\n"  # of JSON
GZIP = b"\x1f\x8b"
_decode = json.JSONDecoder().raw_decode
LOCAL_HEADER = struct.Struct("<4s22xHH")  # ends with the lengths of name and extra field


def files_below(root: Path, suffixes: tuple[str, ...], called: str) -> list[Path]:
    """List files of a folder in natural order; links to folders are not followed.

    Args:
        root: The folder.
        suffixes: How their names end, in lower case.
        called: What messages call the folder.

    Raises:
        ConfigError: There are more than `MOST_FILES`.
    """
    paths = [
        os.path.join(above, name)
        for above, _, names in os.walk(root)
        for name in names
        if name.lower().endswith(suffixes)
    ]
    if len(paths) > MOST_FILES:
        raise ConfigError(
            f"{called} holds {len(paths):,} files that may be logs, more than {MOST_FILES:,}; name "
            "a folder below it"
        )
    return [Path(path) for path in natural_order(paths)]


def part(value: Any, *names: str) -> dict[str, Any]:
    """Take an object out of nested objects; an empty one where there is none.

    >>> part({"eval": {"task": "sums"}}, "eval"), part([], "eval"), part({"a": {"b": {}}}, "a", "c")
    ({'task': 'sums'}, {}, {})
    """
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[dict[str, Any]]:
    """List the objects of a list; none where there is no list.

    >>> objects([{"name": "acc"}, 1]), objects(None)
    ([{'name': 'acc'}], [])
    """
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def parsed(line: str | bytes, called: str, place: str) -> Any:
    """Parse JSON.

    Args:
        line: The text.
        called: What messages call the file.
        place: Where in it, such as `line 3`.

    Raises:
        DataError: It is no JSON.
    """
    try:  # as json.loads does, which spends half as long again on what it accepts
        text = line if isinstance(line, str) else line.decode()
        value, end = _decode(text)
        return json.loads(line) if text[end:].strip(BLANKS) else value
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _no_json(called, place, error) from error


def _no_json(called: str, place: str, error: Exception) -> DataError:
    why = error.msg if isinstance(error, json.JSONDecodeError) else "it cannot be decoded"
    return DataError(
        f"{printable(called)} must hold JSON, and {place} does not ({why}): the file may have been "
        "cut off; copy it again, or remove that part"
    )


@contextmanager
def unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, unpacked if it is gzipped.

    Raises:
        DataError: It is damaged or was cut off, then or in the block.
    """
    with open_regular(path) as file:
        if file.peek(2)[:2] != GZIP:
            yield file
            return
        try:
            yield gzip.GzipFile(fileobj=file)  # type: ignore[misc]  # it reads as a file does
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(
                f"{printable(path.name)} must be a whole gzip file, and is damaged or was cut off; "
                "copy it again"
            ) from error


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Read one object a line, or the objects of one array; empty lines are passed over.

    Raises:
        DataError: A line holds no JSON object; the message has its number.
    """
    with unpacked(path) as file:
        for number, line in enumerate(file, 1):
            if line.isspace():
                continue
            if number == 1 and line.lstrip().startswith(b"["):
                for place, item in enumerate(_items(line + file.read(), path), 1):
                    yield _object(item, path, f"value {place:,}")
                return
            where = f"line {number:,}"
            yield _object(parsed(line, path.name, where), path, where)


def _object(value: Any, path: Path, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(
            f"{printable(path.name)} must hold one JSON object a line, or an array of objects, and "
            f"{place} is a {type(value).__name__}; write the log again"
        )
    return value


def _items(content: bytes, path: Path) -> Iterator[Any]:
    """Read the items of an array one after the other: all at once need far more memory."""
    decoder, number = json.JSONDecoder(), 1
    try:
        text = content.decode("utf-8-sig")
        place = _past_space(text, text.index("[") + 1)
        while text[place] != "]":
            item, place = decoder.raw_decode(text, place)
            yield item
            number += 1
            place = _past_space(text, place)
            if text[place] == ",":
                place = _past_space(text, place + 1)
            elif text[place] != "]":
                raise json.JSONDecodeError("Expecting ',' delimiter", text, place)
    except (ValueError, RecursionError, IndexError) as error:
        raise _no_json(path.name, f"value {number:,}", error) from error


def _past_space(text: str, place: int) -> int:
    while text[place].isspace():
        place += 1
    return place


def json_file(path: Path, called: str = "") -> Any:
    """Read a file that is one JSON value.

    Raises:
        DataError: It is not.
    """
    with unpacked(path) as file:
        return parsed(file.read(), called or path.name, "it")


def object_beside(path: Path) -> dict[str, Any]:
    """Read a file beside a log that is one JSON object; empty where there is none."""
    content = json_file(path) if path.is_file() else {}
    return content if isinstance(content, dict) else {}


def table_frames(path: Path, rows: int | None = None) -> Iterator[pl.DataFrame]:
    """Read a table whole, or some rows at a time; of CSV every cell as text.

    Raises:
        DataError: It cannot be read.
    """
    scan = scan_table(path, path.name)
    with readable_table(path.name, sniff(path) or "csv"):
        if rows is None:
            yield scan.collect()
        else:
            yield from scan.collect_batches(chunk_size=rows, maintain_order=True)


def column_names(path: Path) -> list[str]:
    """Read the names of the columns of a table.

    Raises:
        DataError: It cannot be read.
    """
    return scan_table(path, path.name).collect_schema().names()


class Glimpse:
    """What tells the format of a file, read only as far as a reader asks.

    Args:
        path: The file.

    Attributes:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def begins(self) -> bytes:
        """The first bytes."""
        with unpacked(self.path) as file:
            return file.read(BEGINNING)

    @cached_property
    def members(self) -> tuple[str, ...]:
        """Names in a zip; none elsewhere."""
        if not self.begins.startswith(b"PK\x03\x04"):
            return ()
        with ZipMembers(self.path) as members:
            return members.names

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of a table, or of the keys of the first object of JSON lines."""
        name = self.path.name.lower().removesuffix(".gz")
        if self.begins.startswith(b"PK\x03\x04"):
            return ()
        if name.endswith((".parquet", ".csv")):
            return tuple(column_names(self.path))
        return tuple(map(str, next(json_lines(self.path), {}))) if name.endswith(".jsonl") else ()


class ZipMembers:
    """A zip that is open for reading.

    Args:
        path: The file.

    Raises:
        DataError: It is no zip, or was cut off.

    Attributes:
        path: The file.
        names: Names of its members, in its order, each once.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open_regular(path)
        try:
            self._zip = zipfile.ZipFile(self._file)
            self.names = tuple(dict.fromkeys(self._zip.namelist()))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
            self._file.close()
            raise self._damaged() from error

    def __enter__(self) -> ZipMembers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._zip.close()
        self._file.close()

    def read(self, name: str) -> bytes:
        """Read a member whole.

        Raises:
            DataError: It is damaged, or holds more than `MEMBER_BYTES`.
        """
        info = self._zip.getinfo(name)
        try:
            if info.compress_type == ZSTANDARD:
                content = self._zstandard(info)
            else:
                with self._zip.open(info) as member:
                    content = member.read(MEMBER_BYTES + 1)
        except (
            zipfile.BadZipFile,
            zstandard.ZstdError,
            zlib.error,
            lzma.LZMAError,
            OSError,  # a place before its beginning
            RuntimeError,  # it has a password, or an unknown compression
            ValueError,
            EOFError,
            struct.error,
        ) as error:
            raise self._damaged() from error
        if len(content) > MEMBER_BYTES:
            raise DataError(
                f"{printable(self.path.name)} must hold files of at most {MEMBER_BYTES >> 20} MiB, "
                f"and {printable(name)[:80]!r} unpacks to more; leave it out"
            )
        if zlib.crc32(content) != info.CRC:
            raise self._damaged()
        return content

    def _zstandard(self, info: zipfile.ZipInfo) -> bytes:
        self._file.seek(info.header_offset)
        signature, name, extra = LOCAL_HEADER.unpack(self._file.read(LOCAL_HEADER.size))
        if signature != b"PK\x03\x04":
            raise zipfile.BadZipFile
        self._file.seek(name + extra, 1)
        packed = self._file.read(info.compress_size)
        with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as reader:
            content: bytes = reader.read(MEMBER_BYTES + 1)
        return content

    def _damaged(self) -> DataError:
        return DataError(
            f"{printable(self.path.name)} must be a whole zip, as logs of inspect_ai are, and is "
            "damaged or was cut off; copy it again"
        )
