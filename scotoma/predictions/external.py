"""Predictions made elsewhere: what every model says of every example."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from scotoma.config.model import threshold_classes
from scotoma.errors import DataError
from scotoma.predictions.matrix import smallest_type
from scotoma.predictions.tables import NAMED, Table, collect, columns_of, named, refuse_missing
from scotoma.printable import nearest, printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Answers", "Asked", "read_answers"]


@dataclass(frozen=True)
class Asked:
    """What is to be read.

    Attributes:
        models: Names of the models of each variant, in the order of the members.
        ids: The examples in their order, unique.
        classes: Class names by id.
        scores: Whether the column `score` is to be read too.
        threshold: Where labels are numbers, the one from which they are of the class
            `at least T`; None where they are class names.
    """

    models: Mapping[str, Sequence[str]]
    ids: Sequence[str]
    classes: Sequence[str]
    scores: bool = False
    threshold: float | None = None


@dataclass(frozen=True)
class Answers:
    """What the models of one variant said.

    Attributes:
        predicted: Class ids, uint8 or uint16, shape (N, K).
        scores: Probability of each predicted class, float16, shape (N, K), or None.
    """

    predicted: NDArray[Any]
    scores: NDArray[np.float16] | None


def read_answers(tables: Sequence[Table], asked: Asked) -> dict[str, Answers]:
    """What every model of every variant says of every example; each file is read once.

    Args:
        tables: From `find_tables`. Variants and models that are not asked for are passed over.
        asked: Models, examples, classes.

    Returns:
        Variant to its answers, examples and models in the order in which they are asked for.
        Memory is that of the largest file and of all answers.

    Raises:
        DataError: An example that is not known, a prediction that is missing, there twice or of no
            class, or a score that is no probability.
    """
    shape = {v: (len(asked.ids), len(models)) for v, models in asked.models.items()}
    times = {variant: np.zeros(size, np.uint8) for variant, size in shape.items()}
    predicted = {v: np.zeros(size, smallest_type(len(asked.classes))) for v, size in shape.items()}
    scores = {v: np.zeros(size, np.float16) for v, size in shape.items() if asked.scores}
    read = dict.fromkeys(shape, 0)
    places = pl.DataFrame({"id": asked.ids}, schema={"id": pl.String}).with_row_index("row")
    for table in tables:
        for variant, part in _parts(table, asked, places):
            cells = part["row"].to_numpy() * shape[variant][1] + part["place"].to_numpy()
            read[variant] += cells.size
            times[variant].flat[cells] += 1  # once, however often this file says it
            if np.count_nonzero(times[variant]) < read[variant]:
                once, many = np.unique(cells, return_counts=True)
                times[variant].flat[once] += np.minimum(many - 1, 1).astype(np.uint8)
                _refuse_doubled(variant, times[variant], asked)
            predicted[variant].flat[cells] = part["code"].to_numpy()
            if asked.scores:
                scores[variant].flat[cells] = part["score"].to_numpy()
    for variant in asked.models:
        if not times[variant].all():
            _refuse_gaps(variant, times[variant], asked)
    return {v: Answers(predicted[v], scores.get(v)) for v in asked.models}


def _parts(table: Table, asked: Asked, places: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """The rows of a file by variant: row of the example, place of the model, class id, score."""
    if not asked.models.keys() >= ({table.named["variant"]} if "variant" in table.named else set()):
        return
    with columns_of(table, "example_id", "predicted", *(["score"] if asked.scores else [])) as scan:
        frame = collect(named(scan, table), table)
    for name in (*NAMED, "example_id", "predicted"):
        refuse_missing(frame[name], table)
    for variant, models in asked.models.items():
        kept = frame.filter(variant=variant).filter(pl.col("model").is_in(models))
        if not kept.height:
            continue
        rows = kept["example_id"].to_frame("id").join(
            places, on="id", how="left", maintain_order="left"
        )["row"]  # fmt: skip
        if rows.null_count():
            _refuse_unknown(kept.filter(rows.is_null()), table)
        found = {
            "row": rows.cast(pl.Int64),
            "place": kept["model"].cast(pl.Enum(models)).to_physical().cast(pl.Int64),
            "code": _codes(kept, asked, table),
        }
        if asked.scores:
            found["score"] = _probabilities(kept, table)
        yield variant, pl.DataFrame(found)


def _codes(frame: pl.DataFrame, asked: Asked, table: Table) -> pl.Series:
    """Class ids of what was said."""
    said, rule = frame["predicted"], "which no example is labelled"
    if asked.threshold is not None:
        number = said.cast(pl.Float64, strict=False).fill_nan(None)
        above, below = threshold_classes(asked.threshold)
        classes = pl.select(
            pl.when(number >= asked.threshold).then(pl.lit(above)).when(number < asked.threshold)
            .then(pl.lit(below))
        ).to_series()  # fmt: skip
        rule = "and label.threshold needs numbers"
    else:
        classes = said
    names = list(asked.classes)
    codes = classes.cast(pl.Enum(names), strict=False).to_physical()
    if wrong := codes.null_count():
        first = frame.filter(codes.is_null()).row(0, named=True)
        way = (
            f"correct {'it' if wrong == 1 else 'them'}, or name the class in source.classes"
            f"{nearest(first['predicted'], names)}"
            if asked.threshold is None
            else "correct or remove the row"
        )
        raise DataError(
            printable(
                f"model {first['model']!r} of {first['variant']!r} says {first['predicted']!r} of "
                f"example {first['example_id']!r} ({wrong:,} such rows in {table.place}), {rule}; "
                f"{way}"
            )
        )
    return codes


def _probabilities(frame: pl.DataFrame, table: Table) -> pl.Series:
    scores = frame["score"].cast(pl.Float64, strict=False)
    wrong = ~(scores.is_between(0, 1)).fill_null(False)
    if wrong.any():
        first = frame.filter(wrong).row(0, named=True)
        raise DataError(
            printable(
                f"scores in {table.place} must be probabilities from 0 to 1, got "
                f"{first['score']!r} of example {first['example_id']!r}; correct them, or set "
                "keep_scores: false"
            )
        )
    return scores.cast(pl.Float32)


def _refuse_unknown(rows: pl.DataFrame, table: Table) -> None:
    first = rows.row(0, named=True)
    count = rows["example_id"].n_unique()
    raise DataError(
        printable(
            f"predictions must be for examples of source.examples, but {table.place} has "
            f"{count:,} other{'s' if count > 1 else ''}, the first is {first['example_id']!r} of "
            f"model {first['model']!r} of {first['variant']!r}; add {'them' if count > 1 else 'it'}"
            " there, or remove the rows"
        )
    )


def _refuse_doubled(variant: str, times: NDArray[np.uint8], asked: Asked) -> None:
    row, column = np.argwhere(times > 1)[0]
    raise DataError(
        printable(
            f"model {asked.models[variant][column]!r} of {variant!r} predicts example "
            f"{asked.ids[row]!r} more than once; keep one row an example and model"
        )
    )


def _refuse_gaps(variant: str, times: NDArray[np.uint8], asked: Asked) -> None:
    column = int(np.argmin(times.all(axis=0)))
    rows = np.flatnonzero(times[:, column] == 0)
    raise DataError(
        printable(
            f"model {asked.models[variant][column]!r} of {variant!r} has no prediction for "
            f"{len(rows):,} of {len(asked.ids):,} examples, the first is {asked.ids[rows[0]]!r}; "
            "predict them, or leave the model or the examples out"
        )
    )
