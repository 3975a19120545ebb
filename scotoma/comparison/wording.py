"""What happens to answers in free text, beside their score: wording, refusals, length?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from scotoma.comparison.flips import flips
from scotoma.comparison.means import MeanChange, mean_change
from scotoma.errors import ConfigError
from scotoma.numbers import Estimate
from scotoma.numbers.inputs import Codes

# How models that were trained to refuse usually begin.
REFUSALS = (
    r"^\s*(i'm|i am) (very |so |really )?sorry\b",
    r"\b(i|we) (cannot|can't|can not|won't|will not|am unable to|am not able to) "
    r"(assist|help|provide|answer|comply|fulfil|create|generate|discuss|engage|do that)",
    r"\bas an ai\b",
)


@dataclass(frozen=True)
class Wording:
    """How free text changes.

    Attributes:
        reworded: Share of answers with another text and the same extracted answer and score.
        reworded_count: The same as a number of examples.
        refusals: Share of answers that refuse, before and after.
        length: Characters, before and after.
    """

    reworded: Estimate
    reworded_count: float
    refusals: MeanChange
    length: MeanChange


def refusal_pattern(patterns: tuple[str, ...] = ()) -> str:
    """One regular expression of several; without any those of `REFUSALS`.

    Raises:
        ConfigError: One is no regular expression, as Rust's regex reads them.

    >>> refusal_pattern(("^no$",))
    '(?i)(?:^no$)'
    """
    chosen = patterns or REFUSALS
    for pattern in chosen:
        try:
            pl.Series([""]).str.contains(pattern)
        except pl.exceptions.PolarsError as error:
            raise ConfigError(
                f"--refusal must be a regular expression, got {pattern!r}; escape signs such as "
                "( and [ by a backslash"
            ) from error
    return "(?i)" + "|".join(f"(?:{pattern})" for pattern in chosen)


def wording(table: pl.DataFrame, refused: tuple[pl.Series, pl.Series], clusters: Codes) -> Wording:
    """Compare the texts of two models, apart from what they score.

    Args:
        table: Rows of `paired_rows`, whose texts are known.
        refused: Whether each row's text refuses, of the dense and the compressed model.
        clusters: Number of each row's example, shape (n,).

    >>> table = pl.DataFrame({
    ...     "score_before": [1.0, 0.0], "score_after": [1.0, 0.0], "answer_hash_before": ["a", "b"],
    ...     "answer_hash_after": ["a", "c"], "text_hash_before": ["x", "y"],
    ...     "text_hash_after": ["z", "w"], "text_length_before": [4, 6],
    ...     "text_length_after": [5, 9],
    ... })
    >>> no = pl.Series([False, False])
    >>> found = wording(table, (no, no), np.arange(2))
    >>> found.reworded_count, found.length.change.value
    (1.0, 2.0)
    """
    same_answer = pl.col("answer_hash_before").eq_missing(pl.col("answer_hash_after"))
    other_text = pl.col("text_hash_before") != pl.col("text_hash_after")
    same_score = pl.col("score_before") == pl.col("score_after")
    found = table.select((same_answer & other_text & same_score).fill_null(False)).to_series()
    codes = found.to_numpy().astype(np.intp)[:, None]
    (reworded,) = flips(None, np.zeros_like(codes), codes, clusters=clusters)
    lengths = (table[f"text_length_{side}"].fill_null(0).to_numpy() for side in ("before", "after"))
    return Wording(
        reworded.share,
        reworded.count,
        mean_change(*(side.to_numpy() for side in refused), clusters=clusters),
        mean_change(*lengths, clusters=clusters),
    )
