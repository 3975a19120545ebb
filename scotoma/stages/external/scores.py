"""From the numbers of external models to scores: as given, or how far off they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma.answers.admission import chance_note, number_skill, unasked_chance
from scotoma.answers.note import AdmissionNote
from scotoma.config import Config, ScoresSource
from scotoma.datasets.example_table import load_example_table
from scotoma.datasets.text_columns import absent_column
from scotoma.errors import DataError
from scotoma.printable import printable

__all__ = ["as_scores", "skill_notes"]


def as_scores(
    numbers: NDArray[np.float64], config: Config, ids: Sequence[str]
) -> NDArray[np.float64]:
    """Turn the numbers of the models of one variant into scores.

    Args:
        numbers: One an example and model, shape (N, K).
        config: Of an audit of scores; its source says what the numbers are.
        ids: The examples, as the source calls them.

    Returns:
        Scores, shape (N, K).

    Raises:
        DataError: Errors are asked for, and an example has no true number.
    """
    source = config.source
    assert isinstance(source, ScoresSource)
    if source.measure == "given":
        return numbers
    off = numbers - _truth(source, config, ids)[:, None]
    return np.abs(off) if source.measure == "absolute_error" else off**2


def skill_notes(
    numbers: NDArray[np.float64],
    config: Config,
    ids: Sequence[str],
    clusters: NDArray[np.int64] | None,
) -> tuple[AdmissionNote, ...]:
    """Ask whether the numbers of the baseline are better than the same dealt to other examples.

    Args:
        numbers: As for `as_scores`.
        config: Likewise.
        ids: Likewise.
        clusters: Ids of the examples' clusters, shape (N,); None where each is its own.

    Returns:
        A note where they are not shown to be, or where nobody can ask; else none.
    """
    source = config.source
    assert isinstance(source, ScoresSource)
    if source.measure == "given":
        return (unasked_chance("examples have scores and no labels"),)
    truth = _truth(source, config, ids)
    off = float(np.abs(numbers - truth[:, None]).mean())
    note = chance_note(
        number_skill(numbers, truth, clusters=clusters), f"off by {off:.3g} on average"
    )
    return () if note is None else (note,)


def _truth(source: ScoresSource, config: Config, ids: Sequence[str]) -> NDArray[np.float64]:
    """The true number of each example."""
    column = config.label.column
    assert column is not None  # an error has a label
    table = load_example_table(source, {}, config.limits)
    if column not in table.columns:
        raise absent_column(column, "label", table.columns, source.examples)
    truth = table.select("example_id", number=pl.col(column).cast(pl.Float64, strict=False))
    wrong = ~truth["number"].is_finite().fill_null(False)
    if wrong.any():
        first = table.filter(wrong).row(0, named=True)
        raise DataError(
            printable(
                f"label column {column!r} of {source.examples} must hold finite numbers, got "
                f"{first[column]!r} in the row of {first['example_id']!r} "
                f"({int(wrong.sum()):,} such rows); correct or remove them"
            )
        )
    wanted = pl.DataFrame({"example_id": list(ids)}, schema={"example_id": pl.String})
    joined = wanted.join(truth, on="example_id", how="left", maintain_order="left")
    return joined["number"].to_numpy().astype(np.float64)
