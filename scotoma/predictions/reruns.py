"""Which rerun of one model stands beside which of another: reruns are rows, not models.

A model that is evaluated again is still one model. Its reruns repeat the measurement of each
example, so that they are rows of one cluster: noise of sampling or kernels averages out, and no
training run is added.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma.datasets import AuditedExamples
from scotoma.predictions.external import ExternalPredictions

MOST_ROWS = 4  # times as many rows an example as reruns, so that every rerun weighs the same
MARK = " #"  # between an example's id and the number of its rerun


def rerun_rows(reruns: Iterable[int]) -> int:
    """How many rows an example takes, so that each model's reruns fill them evenly.

    Args:
        reruns: Of each model, at least 1.

    Returns:
        The least common multiple, unless it is more than four times the largest; then the largest,
        and some reruns of other models occur once more than others.

    >>> rerun_rows([2, 3, 1]), rerun_rows([16, 14])
    (6, 16)
    """
    numbers = list(reruns)
    rows, most = math.lcm(*numbers), max(numbers)
    return rows if rows <= MOST_ROWS * most else most


def with_reruns(examples: AuditedExamples, rows: int) -> AuditedExamples:
    """Give each test example a row for every rerun; those of an example are one cluster.

    Args:
        examples: Of an audit.
        rows: From `rerun_rows`; with 1 nothing changes.
    """
    if rows == 1:
        return examples
    table = examples.table
    if "cluster" not in table.columns:
        table = table.with_columns(pl.col("example_id").alias("cluster"))
    tested = table.filter(pl.col("split") == "test")
    numbers = pl.int_ranges(1, rows + 1).alias("rerun")
    named = pl.concat_str(pl.col("example_id"), pl.lit(MARK), pl.col("rerun")).alias("example_id")
    repeated = tested.with_columns(numbers).explode("rerun").with_columns(named).drop("rerun")
    note = (
        f"each of {tested.height:,} examples has {rows} rows, one a rerun: they are one cluster, "
        "and reruns are no training runs"
    )
    kept = pl.concat([table.filter(pl.col("split") != "test"), repeated.select(table.columns)])
    return replace(examples, table=kept, notes=(*examples.notes, note))


def example_of_row(example_id: str) -> str:
    """The id of the example that a row of a rerun belongs to.

    >>> example_of_row("q7 #2")
    'q7'
    """
    return example_id.rpartition(MARK)[0]


def join_reruns(
    answers: ExternalPredictions, reruns: Mapping[str, Sequence[str]], rows: int
) -> ExternalPredictions:
    """Put the reruns of each model below each other: a column a model, `rows` rows an example.

    Args:
        answers: A column a rerun, those of one model side by side.
        reruns: Model to the names of its reruns, in the order of the columns.
        rows: From `rerun_rows` of all models.
    """
    if rows == 1:
        return answers
    starts = np.cumsum([0, *map(len, reruns.values())])[:-1]
    columns = np.stack(
        [
            start + np.arange(rows) % len(own)
            for start, own in zip(starts, reruns.values(), strict=True)
        ]
    )

    def stacked(table: NDArray[np.generic]) -> NDArray[np.generic]:
        chosen = table[:, columns.T]  # (N, rows, models, ...)
        return chosen.reshape(-1, *chosen.shape[2:])

    return ExternalPredictions(
        stacked(answers.predicted),
        None if answers.scores is None else stacked(answers.scores),  # type: ignore[arg-type]
        None if answers.top5 is None else stacked(answers.top5),
        admission=answers.admission,
    )
