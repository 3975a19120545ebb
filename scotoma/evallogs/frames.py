"""Which rows does a table hold, a batch at a time?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from scotoma.csv_files import scan_csv
from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.unreadable import UNREADABLE, reason

__all__ = ["column_names", "csv_rows", "parquet_rows"]

BATCH = 5_000  # rows that are read at a time


def parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Read the rows of a Parquet file.

    Raises:
        DataError: It cannot be read.
    """
    return _rows(pl.scan_parquet(path, glob=False, hive_partitioning=False), path, "Parquet")


def csv_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Read the rows of a CSV file, every cell as text.

    Raises:
        DataError: It cannot be read.
    """
    try:
        yield from scan_csv(path).collect().iter_rows(named=True)
    except UNREADABLE as error:
        raise _unreadable(path, "CSV", error) from error


def column_names(path: Path) -> list[str]:
    """Read the names of the columns of a Parquet or CSV file.

    Raises:
        DataError: It cannot be read.
    """
    parquet = path.name.lower().endswith(".parquet")
    try:
        scan = (
            pl.scan_parquet(path, glob=False, hive_partitioning=False)
            if parquet
            else scan_csv(path)
        )
        return scan.collect_schema().names()
    except UNREADABLE as error:
        raise _unreadable(path, "Parquet" if parquet else "CSV", error) from error


def _rows(scan: pl.LazyFrame, path: Path, kind: str) -> Iterator[dict[str, Any]]:
    try:
        height = scan.select(pl.len()).collect().item()
        for start in range(0, height, BATCH):
            yield from scan.slice(start, BATCH).collect().iter_rows(named=True)
    except UNREADABLE as error:
        raise _unreadable(path, kind, error) from error


def _unreadable(path: Path, kind: str, error: BaseException) -> DataError:
    return DataError(
        f"{printable(path.name)} cannot be read as {kind} ({reason(error)}); write it again"
    )
