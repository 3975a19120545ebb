"""Read external predictions: the class that every model gives every example."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from scotoma.answers.admission import WAY_OUT
from scotoma.answers.natural import natural_order
from scotoma.answers.note import AdmissionNote
from scotoma.answers.pair import admit_answers
from scotoma.answers.values import read_values
from scotoma.config.label import threshold_classes
from scotoma.config.limits import LIMITS, ReaderLimits
from scotoma.errors import DataError
from scotoma.predictions.matrix import TOP, kept_classes, smallest_type
from scotoma.predictions.tables import (
    NAME_COLUMNS,
    SCORES,
    TOP5,
    PredictionTable,
    read_columns,
    read_label_columns,
    refuse_missing,
)
from scotoma.printable import nearest, printable

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class PredictionRequest:
    """The models, examples and classes to read.

    Attributes:
        models: Names of the models of each variant, in the order of the members.
        ids: The examples in their order, unique.
        classes: Class names by id.
        scores: Whether the column `score` is to be read too.
        labels: Where an example has several labels, each and the score from which it is predicted;
            `ids` are then those of (example, label) pairs.
        threshold: Where labels are numbers, the one from which they are of the class
            `at least T`; None where they are class names.
        limits: Memory and time for reading each file.
        numbers: The column of a number that is kept as it is, instead of a class; empty for
            classes.
        left_out: Ids of examples that have no label; what models say of them is passed over.
        every_score: Whether the column `scores` is to be read, one for each class, which gives the
            probabilities of the predicted classes, too.
    """

    models: Mapping[str, Sequence[str]]
    ids: Sequence[str]
    classes: Sequence[str]
    scores: bool = False
    threshold: float | None = None
    limits: ReaderLimits = LIMITS
    labels: Mapping[str, float] = field(default_factory=dict)
    numbers: str = ""
    every_score: bool = False
    left_out: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ExternalPredictions:
    """The predictions of one external variant.

    Attributes:
        predicted: Class ids, uint8 or uint16, shape (N, K), one more than the last class where
            a model gave no answer; where numbers were asked for, these.
        scores: Probability of each predicted class, float16, shape (N, K), or None.
        top5: The five best class ids of each model, shape (N, K, 5); None where the label has at
            most 10 classes, or a file has no column `predicted_top5`.
        every_score: Scores of all classes, logarithms of probabilities where files have these,
            shape (K, N, C); None where they were not asked for.
        admission: How they were read.
        strange: Answers of any variant that are no class, with the ids C + 1 and so on; C stands
            for no answer.
    """

    predicted: NDArray[Any]
    scores: NDArray[np.float16] | None
    top5: NDArray[Any] | None = None
    every_score: NDArray[np.float32] | None = None
    admission: tuple[AdmissionNote, ...] = ()
    strange: tuple[str, ...] = ()


def read_external(
    tables: Sequence[PredictionTable], request: PredictionRequest
) -> dict[str, ExternalPredictions]:
    """Read what every model of every variant predicts; each file is read once.

    Args:
        tables: From `patterns.find_tables`. Variants and models that are not requested are passed
            over.
        request: What to read.

    Returns:
        Variant to its predictions, examples and models in the order of the request. Memory is that
        of the largest file and of all predictions.

    Raises:
        DataError: An example that is not known, a prediction that is missing, there twice or of no
            class, or a score that is no probability.
    """
    shape = {v: (len(request.ids), len(models)) for v, models in request.models.items()}
    seen = {variant: np.zeros(size, np.uint8) for variant, size in shape.items()}
    read = dict.fromkeys(shape, 0)
    held: dict[str, dict[str, NDArray[Any]]] = {variant: {} for variant in shape}
    without_five: set[str] = set()
    notes: dict[str, list[AdmissionNote]] = {}
    strange: dict[str, int] = {}
    places = pl.DataFrame({"id": request.ids}, schema={"id": pl.String}).with_row_index("row")
    for table in tables:
        for variant, part in _parts(table, request, places, notes, strange):
            row, place = (part[name].to_numpy() for name in ("row", "place"))
            cells = row * shape[variant][1] + place
            read[variant] += cells.size
            seen[variant].flat[cells] += 1  # once, however often this file says it
            if np.count_nonzero(seen[variant]) < read[variant]:
                _refuse_doubled(variant, cells, seen[variant], request)
            # One id more than there are classes stands for no answer.
            ids = smallest_type(len(request.classes) + 1 + len(strange))
            kinds: dict[str, Any] = {"score": np.float16, SCORES: np.float32, TOP5: ids}
            kinds["code"] = np.float64 if request.numbers else ids
            for name in part.columns[2:]:
                values, kind = part[name].to_numpy(), kinds[name]
                own = held[variant].get(name, np.zeros((*shape[variant], *values.shape[1:]), kind))
                held[variant][name] = own = own.astype(kind, copy=False)
                own[row, place] = values
            if TOP5 not in part:
                without_five.add(variant)
    for variant in request.models:
        if not seen[variant].all():
            _refuse_gaps(variant, seen[variant], request)
    for variant in without_five:
        held[variant].pop(TOP5, None)
    return {
        variant: _answers(own, tuple(dict.fromkeys(notes.get(variant, ()))), tuple(strange))
        for variant, own in held.items()
    }


def _answers(
    held: Mapping[str, NDArray[Any]], notes: tuple[AdmissionNote, ...], strange: tuple[str, ...]
) -> ExternalPredictions:
    """Make probabilities of the predicted classes of every score, where all are kept."""
    scores, every = held.get("score"), None
    if SCORES in held:
        every = np.stack([as_logits(one) for one in np.moveaxis(held[SCORES], 1, 0)])
        codes = held["code"].astype(np.int64).T
        chances = [predicted_probabilities(*one) for one in zip(every, codes, strict=True)]
        scores = np.stack(chances, axis=1)
    return ExternalPredictions(held["code"], scores, held.get(TOP5), every, notes, strange)


def _parts(
    table: PredictionTable,
    request: PredictionRequest,
    places: pl.DataFrame,
    notes: dict[str, list[AdmissionNote]],
    strange: dict[str, int],
) -> Iterator[tuple[str, pl.DataFrame]]:
    """The rows of a file by variant: row of the example, place of the model, class id, score."""
    named = table.from_name.get("variant")
    if named is not None and named not in request.models and not table.called:
        return
    more = ["score"] if request.scores else []
    more += [SCORES] if request.every_score else []
    more += [TOP5] if kept_classes(len(request.classes)) == TOP else []
    # Of a wide table every column of a model is read as `predicted`.
    value = "predicted" if table.columns else request.numbers or "predicted"
    if request.labels:
        frame = read_label_columns(table, request.labels, limits=request.limits)
    else:
        frame = read_columns(table, "example_id", value, *more, limits=request.limits)
    for name in (*NAME_COLUMNS, "example_id"):
        refuse_missing(frame[name], table)
    for variant, models in request.models.items():
        kept = frame.filter(variant=variant).filter(pl.col("model").is_in(models))
        if not kept.height:
            continue
        if request.left_out:
            kept = kept.filter(~pl.col("example_id").is_in(list(request.left_out)))
        rows = kept["example_id"].to_frame("id").join(
            places, on="id", how="left", maintain_order="left"
        )["row"]  # fmt: skip
        if rows.null_count():
            _refuse_unknown(kept.filter(rows.is_null()), table)
        columns = {
            "row": rows.cast(pl.Int64),
            "place": kept["model"].cast(pl.Enum(models)).to_physical().cast(pl.Int64),
            "code": _finite(kept, value, table)
            if request.numbers
            else _codes(kept, request, table, notes.setdefault(variant, []), strange),
        }
        silent = columns["code"] == len(request.classes)
        if request.scores:
            columns["score"] = _probabilities(kept, table, silent)
        if request.every_score and (columns["code"] >= len(request.classes)).any():
            raise DataError(
                f"{printable(table.place)} must answer every example with a class for keep_scores "
                "full, and some answers are none; set keep_scores: true or false"
            )
        if request.every_score:
            codes, count = columns["code"].to_numpy().astype(np.int64), len(request.classes)
            own = read_score_lists(kept, codes, count, table.place)
            columns[SCORES] = pl.Series(own, dtype=pl.Array(pl.Float32, count))
        if TOP5 in kept.columns:
            best = _five_best(kept, columns["code"], list(request.classes))
            outside = (columns["code"] >= len(request.classes)).to_numpy()
            best[outside] = columns["code"].to_numpy()[outside, None]
            if (wrong := best[:, 0] < 0).any():
                _refuse_five(kept.row(int(wrong.argmax()), named=True), table)
            columns[TOP5] = pl.Series(best, dtype=pl.Array(pl.Int64, TOP))
        yield variant, pl.DataFrame(columns)


def _codes(
    frame: pl.DataFrame,
    request: PredictionRequest,
    table: PredictionTable,
    notes: list[AdmissionNote],
    strange: dict[str, int],
) -> pl.Series:
    """Class ids of the predicted names; adds to the notes, and names that are no class."""
    values, rule = frame["predicted"], "which is no example's label"
    if request.threshold is not None:
        number = values.cast(pl.Float64, strict=False).fill_nan(None)
        above, below = threshold_classes(request.threshold)
        classes = pl.select(
            pl.when(number >= request.threshold).then(pl.lit(above))
            .when(number < request.threshold).then(pl.lit(below))
        ).to_series()  # fmt: skip
        rule = "and label.threshold needs numbers"
    else:
        classes, own = admit_answers(
            values, request.classes, missing=request.limits.missing,
            subject=_called(frame["variant"][0], table),
            way_out=f"{WAY_OUT}, or name the classes in source.classes",
        )  # fmt: skip
        notes += own
    names = list(request.classes)
    codes = classes.cast(pl.Enum(names), strict=False).to_physical().cast(pl.Int64)
    if request.threshold is None:
        for name in natural_order(classes.filter(codes.is_null()).drop_nulls().unique()):
            strange.setdefault(name, len(names) + 1 + len(strange))
        if strange:
            own_ids = classes.replace_strict(strange, default=None, return_dtype=pl.Int64)
            codes = codes.fill_null(own_ids)
    # A cell that says nothing is no answer; text that is no number says something.
    silent = classes.is_null() if request.threshold is None else _silent(values, request)
    codes = codes.zip_with(~silent, pl.repeat(len(names), len(codes), dtype=pl.Int64, eager=True))
    if wrong := codes.null_count():
        first = frame.filter(codes.is_null()).row(0, named=True)
        way = (
            f"correct {'it' if wrong == 1 else 'them'}, or name the class in source.classes"
            f"{nearest(first['predicted'], names)}"
            if request.threshold is None
            else "correct or remove the row"
        )
        raise DataError(
            printable(
                f"model {first['model']!r} of {first['variant']!r} predicts "
                f"{first['predicted']!r} for example {first['example_id']!r} ({wrong:,} such rows "
                f"in {table.place}), {rule}; {way}"
            )
        )
    return codes


def _called(variant: str, table: PredictionTable) -> str:
    """What messages call a variant: with its file, unless that holds all of them row by row."""
    own = table.columns or "variant" in table.from_name
    return f"{variant} in {PurePath(table.place).name}" if own else variant


def _silent(values: pl.Series, request: PredictionRequest) -> pl.Series:
    """Which cells of a column of scores hold no answer."""
    return read_values(values, missing=request.limits.missing).values.is_null()


def _finite(frame: pl.DataFrame, column: str, table: PredictionTable) -> pl.Series:
    """The numbers of a column."""
    numbers = frame[column].cast(pl.Float64, strict=False)
    wrong = ~numbers.is_finite().fill_null(False)
    if wrong.any():
        first = frame.filter(wrong).row(0, named=True)
        raise DataError(
            printable(
                f"column {column!r} of {table.place} must hold finite numbers, got "
                f"{first[column] or 'none'!r} of example {first['example_id']!r} "
                f"({int(wrong.sum()):,} such rows); an example that is not scored stays out: "
                "remove it from every file"
            )
        )
    return numbers


def _five_best(frame: pl.DataFrame, codes: pl.Series, names: Sequence[str]) -> NDArray[np.int64]:
    """Class ids of the five best names, shape (n, 5): -1 in rows that do not fit.

    Args:
        frame: `predicted_top5`, a list in Parquet and a JSON list in CSV.
        codes: Class ids of the predicted names.
        names: Class names by id.
    """
    ids = np.full((frame.height, TOP), -1, np.int64)
    whole, values = read_lists(frame[TOP5], TOP, pl.String())
    found = (
        values.cast(pl.Enum(names), strict=False)
        .to_physical()
        .cast(pl.Int64)
        .fill_null(-1)
        .to_numpy()
        .reshape(-1, TOP)
    )
    fits = (np.diff(np.sort(found), axis=1) > 0).all(axis=1) & (found >= 0).all(axis=1)
    fits &= (found == codes.filter(whole).to_numpy()[:, None]).any(axis=1)
    ids[np.flatnonzero(whole)[fits]] = found[fits]
    return ids


def _probabilities(frame: pl.DataFrame, table: PredictionTable, silent: pl.Series) -> pl.Series:
    """Probabilities of the predicted classes; nan where there is no answer."""
    scores = frame["score"].cast(pl.Float64, strict=False)
    scores = scores.zip_with(~silent, pl.repeat(np.nan, len(scores), eager=True))
    wrong = ~(scores.is_between(0, 1) | silent).fill_null(False)
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


def _refuse_five(row: Mapping[str, Any], table: PredictionTable) -> None:
    raise DataError(
        printable(
            f"{TOP5} in {table.place} must list {TOP} different classes, the predicted one among "
            f"them, got {str(row[TOP5])[:80]} of example {row['example_id']!r}; correct it, or "
            "remove the column"
        )
    )


def _refuse_unknown(rows: pl.DataFrame, table: PredictionTable) -> None:
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


def _refuse_doubled(
    variant: str, cells: NDArray[np.int64], times: NDArray[np.uint8], request: PredictionRequest
) -> None:
    once, here = np.unique(cells, return_counts=True)
    again = once[(here > 1) | (times.flat[once] > 1)]
    row, column = divmod(int(again[0]), times.shape[1])
    raise DataError(
        printable(
            f"model {request.models[variant][column]!r} of {variant!r} predicts example "
            f"{request.ids[row]!r} more than once; keep one row per example and model"
        )
    )


def _refuse_gaps(variant: str, times: NDArray[np.uint8], request: PredictionRequest) -> None:
    column = int(np.argmin(times.all(axis=0)))
    rows = np.flatnonzero(times[:, column] == 0)
    raise DataError(
        printable(
            f"model {request.models[variant][column]!r} of {variant!r} has no prediction for "
            f"{len(rows):,} of {len(request.ids):,} examples, the first is "
            f"{request.ids[rows[0]]!r}; predict them, or leave the model or the examples out"
        )
    )


SMALLEST = 1e-7  # of probabilities: their logarithms must be finite
SUM_TO_ONE = 1e-3


def read_score_lists(
    frame: pl.DataFrame, codes: NDArray[np.int64], classes: int, place: str
) -> NDArray[np.float32]:
    """Read the scores of each row, float32, shape (n, C).

    Args:
        frame: `scores`, a list in Parquet and a JSON list in CSV; `example_id` names the rows.
        codes: Class ids of the predicted classes, shape (n,). Each must have the highest score:
            scores in another order of classes would say something else.
        classes: C.
        place: The file, for errors.

    Raises:
        DataError: A row with another number of scores, one that is no finite number, or a higher
            score than that of the predicted class.

    >>> frame = pl.DataFrame({"example_id": ["a"], "scores": [[0.25, 0.75]]})
    >>> read_score_lists(frame, np.array([1]), 2, "preds.parquet").tolist()
    [[0.25, 0.75]]
    """
    found = np.full((frame.height, classes), np.nan, np.float32)
    whole, values = read_lists(frame[SCORES], classes, pl.Float64())
    found[whole] = values.to_numpy().reshape(-1, classes)
    highest = found[np.arange(len(found)), codes]
    fits = np.isfinite(found).all(axis=1) & (highest >= found.max(axis=1, initial=-np.inf))
    if not fits.all():
        first = frame.row(int(np.argmin(fits)), named=True)
        raise DataError(
            printable(
                f"{SCORES} in {place} must list {classes} finite numbers in the order of "
                f"source.classes, the highest that of the predicted class, got "
                f"{str(first[SCORES])[:80]} of example {first['example_id']!r} "
                f"({int((~fits).sum()):,} such rows); correct them, or set keep_scores: false"
            )
        )
    return found


def read_lists(
    lists: pl.Series, length: int, kind: pl.DataType
) -> tuple[NDArray[np.bool_], pl.Series]:
    """Which rows hold a list of some length, in CSV a JSON list; and the values of these lists."""
    try:
        if lists.dtype == pl.String:
            lists = lists.str.json_decode(pl.List(kind))
        lists = lists.cast(pl.List(kind))
    except pl.exceptions.PolarsError:
        return np.zeros(len(lists), np.bool_), pl.Series(dtype=kind)
    whole = (lists.list.len() == length).fill_null(False)
    return whole.to_numpy(), lists.filter(whole).explode()


def as_logits(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Take probabilities for their logarithms, and other scores as they are.

    Args:
        scores: Of one model, shape (N, C).

    >>> as_logits(np.float32([[0.25, 0.75]])).round(2).tolist()
    [[-1.3899999856948853, -0.28999999165534973]]
    """
    sums = scores.sum(axis=1, dtype=np.float64)
    if (scores < 0).any() or (abs(sums - 1) > SUM_TO_ONE).any():
        return scores
    return np.log(np.maximum(scores, SMALLEST))


def predicted_probabilities(
    logits: NDArray[np.float32], codes: NDArray[np.int64]
) -> NDArray[np.float16]:
    """The softmax probability of the predicted class, float16, shape (N,).

    >>> predicted_probabilities(np.float32([[0, 0]]), np.array([1])).tolist()
    [0.5]
    """
    from scipy.special import log_softmax

    likely = log_softmax(logits.astype(np.float64), axis=1)
    return np.exp(likely[np.arange(len(codes)), codes]).astype(np.float16)
