"""Read CSV as people send it: separated by commas, semicolons or tabs, with or without a BOM."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl

__all__ = ["scan_csv"]

SEPARATORS = (",", ";", "\t")
MOST_HEADER_BYTES = 2**16


def scan_csv(path: Path) -> pl.LazyFrame:
    """Scan a CSV file, also gzipped, every column as text.

    Args:
        path: The file. What stands most often in its first line, outside quotes, separates.

    Raises:
        OSError: It cannot be read.
        PolarsError: It is no CSV in UTF-8; some are found only as the rows are collected.
    """
    return pl.scan_csv(path, separator=_separator(path), infer_schema=False, glob=False)


def _separator(path: Path) -> str:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    with gzip.open(path) if zipped else path.open("rb") as file:
        header = file.readline(MOST_HEADER_BYTES).decode("utf-8", "replace")
    bare = "".join(header.split('"')[::2])  # what stands outside quotes
    return max(SEPARATORS, key=bare.count)
