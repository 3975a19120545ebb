"""Read the examples of external predictions: a table of labels and attributes, without images."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path

import polars as pl

from scotoma import storage
from scotoma.config import PredictionsSource
from scotoma.config.limits import LIMITS, ReaderLimits
from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.unreadable import UNREADABLE, reason
from scotoma.untrusted import table_apart

__all__ = ["load_example_table"]

KEY = "example_id"


def load_example_table(source: PredictionsSource, limits: ReaderLimits = LIMITS) -> pl.DataFrame:
    """Read the table of examples; all of them are test examples.

    Args:
        source: `examples` is a CSV (also .csv.gz) or Parquet file, or its `s3://` URI.
        limits: Memory and time for reading it.

    Returns:
        One row an example: `example_id` as text, `split`, which is `test`, its other columns, and
        `image_name` where it has a column `image` of text.

    Raises:
        DataError: The table cannot be read, has no row or no column `example_id`, a row without an
            id, or an image outside its folder.
    """
    place = source.examples
    table = _read(place, limits)
    if KEY not in table.columns:
        raise DataError(
            f"{printable(place)} must have the column {KEY!r}, got "
            f"{printable(', '.join(table.columns))}; rename a column"
        )
    if not table.height:
        raise DataError(f"{printable(place)} holds no example; give it one row per example")
    if empty := table[KEY].null_count():
        raise DataError(
            f"{printable(place)} has {empty:,} row{'s' if empty > 1 else ''} without {KEY}; fill "
            "or remove them"
        )
    if "split" in table.columns:
        table = table.drop("split")  # all that is listed was predicted, and is tested
    named = "image" in table.columns and table.schema["image"] == pl.String
    if "image" in table.columns and not named:
        table = table.drop("image")
    if named:
        _refuse_outside(table["image"], place)
        table = table.rename({"image": "image_name"})
    return table.with_columns(pl.col(KEY).cast(pl.String), pl.lit("test").alias("split"))


def _refuse_outside(names: pl.Series, place: str) -> None:
    """Refuse names of images that lead out of the folder of their table."""
    for name in names.filter(names.str.contains(r"^/|\.\.|://|\x00")):
        if "\0" in name or "://" in name or posixpath.normpath(name).startswith(("/", "..")):
            raise DataError(
                f"image {printable(name)[:60]!r} in {printable(place)} leads out of the folder of "
                "its table; name files inside it"
            )


def _read(place: str, limits: ReaderLimits) -> pl.DataFrame:
    if not storage.is_remote(place) and not os.path.isfile(place):
        raise DataError(
            f"source.examples {printable(place)} is not a file; name a CSV or Parquet file with "
            f"the columns {KEY}, label and attributes"
        )
    with storage.at_hand(place) as path:
        return table_apart(_table, path, place, path=path, called=place, limits=limits)


def _table(path: Path, place: str) -> pl.DataFrame:
    try:
        if place.lower().endswith(".parquet"):
            return pl.read_parquet(path, glob=False, hive_partitioning=False)
        return pl.read_csv(path, infer_schema=False, glob=False)
    except pl.exceptions.NoDataError:
        return pl.DataFrame({KEY: []})
    except UNREADABLE as error:
        raise DataError(
            f"{printable(place)} cannot be read ({reason(error)}); write it as "
            "Parquet, or as CSV in UTF-8 with one header line"
        ) from error
