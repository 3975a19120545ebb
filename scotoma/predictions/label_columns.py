"""Read predictions of several labels: a column a label, or one column with a list of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from scotoma.answers.values import as_numbers, read_values
from scotoma.config.label import ABSENT, PRESENT
from scotoma.config.limits import LIMITS, ReaderLimits
from scotoma.datasets.label_pairs import pair_ids
from scotoma.errors import DataError
from scotoma.predictions.tables import (
    NAME_COLUMNS,
    PredictionTable,
    known_columns,
    read_columns,
    refuse_missing,
    require_column,
)
from scotoma.printable import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray


LISTS = ("score", "predicted")  # columns that may hold a list with one number a label


def read_label_columns(
    table: PredictionTable, labels: Mapping[str, float], *, limits: ReaderLimits = LIMITS
) -> pl.DataFrame:
    """Read a file with one row an example (and model) as one with a row for each of its labels.

    Args:
        table: The file: a column of 0 and 1, or of scores, for each label; or in Parquet one column
            `predicted` or `score` with a list of them in the order of `labels`.
        labels: Each label and the score from which it is predicted.
        limits: Memory and time for reading it.

    Returns:
        `example_id` of `pair_ids`, `variant`, `model`, `predicted` (present or absent, null where a
        cell or number is missing), and `score`, the probability of that, float32.

    Raises:
        DataError: The file cannot be read, lacks a label, or holds no number from 0 to 1.
    """
    known, names = known_columns(table, limits), list(labels)
    listed = [name for name in LISTS if name in known]
    if listed and names[0] not in known:
        frame = read_columns(table, "example_id", listed[0], limits=limits)
        refuse_missing(frame["example_id"], table)
        numbers = _of_lists(frame, listed[0], names, table)
        silent = np.isnan(numbers)
    else:
        way_out = "add it, or leave the label out of label.columns"
        for name in names:
            require_column(table, name, known, way_out, "a column for the label")
        frame = read_columns(table, "example_id", *names, limits=limits)
        refuse_missing(frame["example_id"], table)
        numbers = np.stack([as_numbers(frame[name], truths=True) for name in names], axis=1)
        read = [read_values(frame[name], missing=limits.missing).values for name in names]
        silent = np.stack([values.is_null() for values in read], axis=1)
    wrong = ~((numbers >= 0) & (numbers <= 1)) & ~silent
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise DataError(
            printable(
                f"{table.place} must hold a number from 0 to 1 for every label, got "
                f"{_shown(numbers[row, column])} for {names[column]!r} of example "
                f"{frame['example_id'][int(row)]!r}; write 0 and 1, or sigmoid scores"
            )
        )
    numbers = np.where(silent, np.nan, numbers)
    present = numbers >= np.array(list(labels.values()))
    answers = np.where(present, PRESENT, ABSENT).astype(object)
    answers[silent] = None
    n = frame.height
    pairs = frame.select("example_id", *NAME_COLUMNS).select(
        pl.all().repeat_by(len(names)).explode()
    )
    named = pl.Series("label", names * n, dtype=pl.String)
    return pairs.with_columns(
        pair_ids(pl.col("example_id"), pl.lit(named)).alias("example_id"),
        pl.Series("predicted", answers.ravel().tolist(), pl.String),
        pl.Series("score", np.where(present, numbers, 1 - numbers).astype(np.float32).ravel()),
    )


def _of_lists(
    frame: pl.DataFrame, column: str, names: list[str], table: PredictionTable
) -> NDArray[np.float64]:
    """Numbers of a column of lists, shape (n, L)."""
    lists = frame[column]
    if not isinstance(lists.dtype, pl.List | pl.Array):
        raise DataError(
            printable(
                f"{table.place} must have a column for each label, or lists in {column!r}, got "
                f"{lists.dtype}; write a column named {names[0]!r} and one for each other label"
            )
        )
    none = pl.lit([None] * len(names), pl.List(pl.Float64))  # such an example has no answer
    values = pl.select(pl.lit(lists).cast(pl.List(pl.Float64)).fill_null(none)).to_series()
    lengths = values.list.len().fill_null(0)
    if (wrong := lengths != len(names)).any():
        first = int(wrong.arg_true()[0])
        raise DataError(
            printable(
                f"{column!r} of {table.place} must list {len(names)} numbers, one for each of "
                f"label.columns, got {lengths[first]} for example {frame['example_id'][first]!r}"
            )
        )
    return values.explode().fill_null(np.nan).to_numpy().reshape(-1, len(names))


def _shown(number: float) -> str:
    return "no number" if np.isnan(number) else f"{number:g}"
