"""Read the examples of external predictions: tables of labels and attributes, without images."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from scotoma import storage
from scotoma.answers.values import read_values
from scotoma.config import DetectionsSource, PredictionsSource
from scotoma.config.limits import LIMITS, ReaderLimits
from scotoma.datasets.coco_labels import GENDER, captioned_genders, coco_labels
from scotoma.datasets.text_columns import absent_column
from scotoma.detection.table import box_table
from scotoma.errors import DataError
from scotoma.printable import nearest, printable
from scotoma.readers.boxes import ground_truth_here, read_ground_truth
from scotoma.readers.tables import refuse_doubled, scan_table, table_at_hand
from scotoma.unreadable import reason
from scotoma.untrusted import table_apart

__all__ = ["load_example_table"]

KEY = "example_id"
OWN = (KEY, "split", "image", "image_name")  # columns that training examples do not bring


def load_example_table(
    source: PredictionsSource, needed: Mapping[str, str], limits: ReaderLimits = LIMITS
) -> pl.DataFrame:
    """Read the table of examples, and that of training examples where one is named.

    Args:
        source: `examples` and `training` are CSV (also .csv.gz) or Parquet files, or instances of
            COCO in JSON, and `captions` those of COCO; or `s3://` URIs of them.
        needed: Columns that training examples must have, and what each is for.
        limits: Memory and time for reading a table.

    Returns:
        One row an example: `example_id` as text, `split`, its other columns, and `image_name` where
        it has a column `image` of text. All of `examples` are test examples. Those of `training`
        get ids of their own, since two tables may count from 0 each.

    Raises:
        DataError: A table cannot be read, has no row, lacks a column or has two of one name, or a
            row has no id or names an image outside the table's folder.
    """
    if isinstance(source, DetectionsSource):
        return _boxes(source.examples, limits)
    table = _test_examples(source.examples, source.id_column, limits)
    if source.captions is not None:
        if GENDER in table.columns:
            raise DataError(
                f"{printable(source.examples)} has a column {GENDER!r}, which source.captions "
                "gives too; leave out one of them"
            )
        with storage.at_hand(source.captions) as path:
            genders = table_apart(
                captioned_genders, path, source.captions, path=path, called=source.captions,
                limits=limits,
            )  # fmt: skip
        table = table.join(genders, on=KEY, how="left", maintain_order="left")
    if source.training is None:
        return table
    training = _read(source.training, "source.training", "the columns label and attributes", limits)
    for name, role in needed.items():
        if name not in training.columns:
            raise absent_column(name, role, training.columns, printable(source.training))
    if not training.height:
        raise DataError(
            f"source.training {printable(source.training)} holds no example; give it one row per "
            "example, or leave it out"
        )
    common = [name for name in table.columns if name in training.columns and name not in OWN]
    own_id = pl.format("training {}", pl.int_range(pl.len())).alias(KEY)
    rows = training.select(own_id, pl.lit("train").alias("split"), *map(pl.col, common))
    try:
        return pl.concat([table, rows], how="diagonal_relaxed")
    except pl.exceptions.PolarsError as error:
        raise DataError(
            f"source.training {printable(source.training)} must hold columns like those of "
            f"source.examples, got {reason(error)}; write both as text, or as numbers"
        ) from error


def _boxes(place: str, limits: ReaderLimits) -> pl.DataFrame:
    """Read the boxes of a ground truth as examples; what is written of numbers is text."""
    if not storage.is_remote(place) and not os.path.isfile(place):
        raise DataError(
            f"source.examples {printable(place)} is not a file; name COCO's instances JSON"
        )
    table = box_table(read_ground_truth(ground_truth_here(place), limits=limits))
    if not table.height:
        raise DataError(
            f"{printable(place)} must hold a box that is no crowd, got none; add annotations"
        )
    return table.with_columns(pl.lit("test").alias("split"))


def _test_examples(place: str, key: str | None, limits: ReaderLimits) -> pl.DataFrame:
    ids = "" if key is None else f"{key}, "
    table = _read(place, "source.examples", f"the columns {ids}label and attributes", limits)
    if key is None:
        table, key = table.drop(KEY, strict=False).with_row_index(KEY), KEY
    if key not in table.columns:
        raise DataError(
            f"{printable(place)} must have the column {printable(key)!r}, got "
            f"{printable(', '.join(table.columns))}{nearest(key, table.columns)}; rename a column, "
            "or name the one with the ids as source.key"
        )
    refuse_doubled(key, table.columns, place)
    if key != KEY:
        table = table.drop(KEY, strict=False).rename({key: KEY})
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
    ids_read = read_values(table[KEY], missing=("",)).values
    return table.with_columns(ids_read, pl.lit("test").alias("split"))


def _refuse_outside(names: pl.Series, place: str) -> None:
    """Refuse names of images that lead out of the folder of their table."""
    for name in names.filter(names.str.contains(r"^/|\.\.|://|\x00")):
        if "\0" in name or "://" in name or posixpath.normpath(name).startswith(("/", "..")):
            raise DataError(
                f"image {printable(name)[:60]!r} in {printable(place)} leads out of the folder of "
                "its table; name files inside it"
            )


def _read(place: str, key: str, columns: str, limits: ReaderLimits) -> pl.DataFrame:
    if not storage.is_remote(place) and not os.path.exists(place):
        raise DataError(
            f"{key} {printable(place)} is not a file; name a CSV or Parquet file with {columns}"
        )
    with table_at_hand(place) as path:
        return table_apart(_table, path, place, path=path, called=place, limits=limits)


def _table(path: Path, place: str) -> pl.DataFrame | pl.LazyFrame:
    table = coco_labels(path, place) if place.lower().endswith(".json") else scan_table(path, place)
    return table if table.lazy().collect_schema() else pl.DataFrame({KEY: []})
