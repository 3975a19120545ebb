"""What does an evaluation tool say of one model on one task, and where does its text lie?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

__all__ = ["COLUMNS", "SCORE", "SHOWN_CHARACTERS", "AttributePath", "EvaluationLog"]

SCORE = "score."  # begins the name of every column of scores
SHOWN_CHARACTERS = 200  # of an answer or target that stand in `examples`
COLUMNS = {
    "example_id": pl.String,
    "rerun": pl.Int32,
    "content_hash": pl.String,
    "prompt_hash": pl.String,
    "target_hash": pl.String,
    "target": pl.String,
    "answer": pl.String,
    "answer_hash": pl.String,
    "choice": pl.Int32,
    "text_hash": pl.String,
    "text_length": pl.Int32,
    "prompt_length": pl.Int32,
    "prompt_script": pl.String,
    "row": pl.Int64,
}


@dataclass(frozen=True)
class EvaluationLog:
    """One model's answers to the examples of one task.

    Attributes:
        model: What the log calls the model, without credentials.
        task: What the log calls the task, or dataset; a file's stem where it names none.
        format: Of which tool the log is: lm-eval, inspect, helm, lighteval, every-eval-ever, timm,
            mlflow or table.
        files: The files that were read.
        settings: How examples were asked and scored (few_shot, filter, limit, ...): these must be
            equal for two logs to be compared. Values that look secret are masked.
        details: What may differ, such as the model's arguments and the version of the tool, masked.
        examples: One row an example and rerun, in the order of the log, with the columns of
            `COLUMNS`, then those of `scores`, then those of `attributes`:

            - `example_id`: the log's id of the example. Unique within a rerun.
            - `rerun`: from 0; all 0 where each example was evaluated once.
            - `content_hash`: of the example as the dataset holds it; null where the log has none.
            - `prompt_hash`, `target_hash`: of the whole prompt and target, by the log or by its
              reader; null where the log holds neither hash nor text.
            - `target`, `answer`: the true answer and the extracted one, cut after
              `SHOWN_CHARACTERS`; null where the log has none.
            - `answer_hash`, `text_hash`: of the whole extracted answer and raw text; equal where
              these are equal, null where they are absent.
            - `choice`: the chosen option of a multiple-choice question, from 0; null elsewhere.
            - `text_length`, `prompt_length`: in characters; null where absent.
            - `prompt_script`: script of most letters of the prompt, see `script_of`; null where
              there is no letter or no prompt.
            - `row`: the row of this example in `texts`.
            - `score.NAME`: Float64. nan where unscored, which is not the same as wrong.
            - one column an attribute, named by its dotted path: Int64 or Float64 where every
              value is a number, String elsewhere; null where an example has none.
        scores: Names of the scores, without `score.`.
        attributes: Dotted paths of the attributes that were asked for.
        texts: Parquet files with the columns `row`, `prompt`, `answer`, `text` and `target`, whole.
        notes: Sentences that a reader of the result should know.
    """

    model: str
    task: str
    format: str
    files: tuple[str, ...]
    settings: Mapping[str, str]
    examples: pl.DataFrame
    scores: tuple[str, ...]
    attributes: tuple[str, ...] = ()
    texts: tuple[Path, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def scan_texts(self) -> pl.LazyFrame:
        """Scan `row`, `prompt`, `answer`, `text` and `target` of all rows; they stay on disk."""
        return pl.scan_parquet(list(self.texts), glob=False)

    def read_texts(self, rows: Iterable[int]) -> pl.DataFrame:
        """Read the prompt, answer, text and target of a few rows, in the order of `row`.

        Args:
            rows: Values of the column `row`.
        """
        wanted = sorted(set(rows))
        return self.scan_texts().filter(pl.col("row").is_in(wanted)).collect().sort("row")


@dataclass(frozen=True)
class AttributePath:
    """An attribute that a log holds.

    Attributes:
        path: Dotted, as `attributes` takes it.
        examples: How many rows have a value.
        values: Number of distinct values, counted up to `MOST_VALUES`.
        kind: `numbers`, `text` or `mixed`.
    """

    path: str
    examples: int
    values: int
    kind: str
