"""Predictions made elsewhere: which files hold them, which models speak in them, what they say."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from scotoma import storage
from scotoma.config.model import threshold_classes
from scotoma.errors import DataError
from scotoma.predictions.matrix import smallest_type
from scotoma.printable import nearest, printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Answers", "Asked", "Table", "find_models", "find_tables", "read_answers"]

COLUMNS = ("example_id", "variant", "model", "predicted")
ONLY_MODEL = "0"  # what the model of a variant is called where nothing names it
NAMED = ("variant", "model")  # columns that the name of a file can stand for


@dataclass(frozen=True)
class Table:
    """A file of predictions.

    Attributes:
        place: Its path or URI.
        named: What its name says: `variant`, `model`, both or neither.
    """

    place: str
    named: Mapping[str, str]


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


def find_tables(pattern: str) -> list[Table]:
    """The files that a pattern names, in the order of their names.

    Args:
        pattern: A path or `s3://` URI. In its parts `*` stands for any characters but `/`,
            `{variant}` and `{model}` for the names of variant and model.

    Raises:
        DataError: No file matches, or one is neither CSV nor Parquet.
    """
    steps = pattern.split("/")
    fixed = next((i for i, step in enumerate(steps) if re.search(r"[*{]", step)), len(steps) - 1)
    folder, rest = "/".join(steps[:fixed]) or ("/" if fixed else "."), "/".join(steps[fixed:])
    expected = re.compile(_expression(rest))
    found = [
        Table(storage.join(folder, name), {k: v for k, v in match.groupdict().items() if v})
        for name in storage.list_files(folder)
        if (match := expected.fullmatch(name))
    ]
    if not found:
        raise DataError(
            f"source.files {printable(pattern)} matches no file; * stands for any characters of a "
            "name, {variant} and {model} for the names of variant and model"
        )
    for table in found:
        if not table.place.lower().endswith((".csv", ".csv.gz", ".parquet")):
            raise DataError(
                f"source.files matches {printable(table.place)}, which is neither .csv, .csv.gz "
                "nor .parquet; narrow the pattern, or convert the file"
            )
    return found


def _expression(rest: str) -> str:
    """The regular expression of a pattern; a name that stands twice must be the same twice."""
    found, seen = "", set()
    for part in re.split(r"(\*|\{variant\}|\{model\})", rest):
        name = part.strip("{}")
        if part == "*":
            found += "[^/]*"
        elif part.startswith("{") and name in NAMED:
            found += f"(?P={name})" if name in seen else f"(?P<{name}>[^/]+?)"
            seen.add(name)
        else:
            found += re.escape(part)
    return found


def find_models(tables: Sequence[Table]) -> dict[str, list[str]]:
    """Names of the models of every variant, both in natural order.

    Args:
        tables: From `find_tables`. What their names do not say stands in columns; without a column
            `model` there is one model a variant, called `0`.

    Raises:
        DataError: A file that cannot be read or lacks a column, or a row without a name.
    """
    found: dict[str, set[str]] = {}
    for table in tables:
        if len(table.named) == len(NAMED):
            found.setdefault(table.named["variant"], set()).add(table.named["model"])
            continue
        with _columns(table) as scan:
            if not scan.collect_schema():  # the name says the variant, nothing says a model
                found.setdefault(table.named["variant"], set()).add(ONLY_MODEL)
                continue
            pairs = _collect(_named(scan, table).select(NAMED).unique(), table)
        for name in NAMED:
            _refuse_missing(pairs[name], table)
        for variant, model in pairs.iter_rows():
            found.setdefault(variant, set()).add(model)
    return {
        variant: sorted(found[variant], key=_natural) for variant in sorted(found, key=_natural)
    }


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
    with _columns(table, "example_id", "predicted", *(["score"] if asked.scores else [])) as scan:
        frame = _collect(_named(scan, table), table)
    for name in (*NAMED, "example_id", "predicted"):
        _refuse_missing(frame[name], table)
    for (variant,), part in frame.group_by("variant", maintain_order=True):
        models = list(asked.models.get(str(variant), ()))
        kept = part.filter(pl.col("model").is_in(models))
        if not kept.height:
            continue
        rows = kept["example_id"].to_frame("id").join(
            places, on="id", how="left", maintain_order="left"
        )["row"]  # fmt: skip
        if rows.null_count():
            _refuse_unknown(kept.filter(rows.is_null()), table)
        found = {
            "row": rows.cast(pl.Int64),
            "place": kept["model"].replace_strict(
                models, range(len(models)), return_dtype=pl.Int64
            ),
            "code": _codes(kept, asked, table),
        }
        if asked.scores:
            found["score"] = _probabilities(kept, table)
        yield str(variant), pl.DataFrame(found)


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
    codes = classes.replace_strict(names, range(len(names)), default=None, return_dtype=pl.Int64)
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


def _refuse_missing(values: pl.Series, table: Table) -> None:
    if empty := values.null_count():
        raise DataError(
            printable(
                f"{table.place} has {empty:,} rows without {values.name}; fill or remove them"
            )
        )


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


@contextmanager
def _columns(table: Table, *needed: str) -> Iterator[pl.LazyFrame]:
    """A file with the columns that are needed beside the names, as they stand in it."""
    with _here(table.place) as path:
        try:
            scan = (
                pl.scan_parquet(path, glob=False)
                if table.place.lower().endswith(".parquet")
                else pl.scan_csv(path, infer_schema=False, glob=False)
            )
            known = scan.collect_schema().names()
        except (OSError, pl.exceptions.PolarsError) as error:
            raise _unreadable(table, error) from error
        named = [name for name in NAMED if name not in table.named and name in known]
        if "variant" not in [*table.named, *named]:
            needed = (*needed, "variant")
        for name in needed:
            if name not in known:
                raise DataError(
                    printable(
                        f"{table.place} must have the column {name!r}, got {', '.join(known)}"
                        f"{nearest(name, known)}; name it so"
                        + (", or write {variant} in source.files" if name == "variant" else "")
                    )
                )
        yield scan.select(*dict.fromkeys((*needed, *named)))


def _named(scan: pl.LazyFrame, table: Table) -> pl.LazyFrame:
    """The columns as text, with those that the name of the file stands for."""
    kinds = scan.collect_schema()
    texts = [_text(name, kind) for name, kind in kinds.items() if name != "score"]
    added = [pl.lit(said).alias(name) for name, said in table.named.items()]
    only = [] if "model" in [*kinds, *table.named] else [pl.lit(ONLY_MODEL).alias("model")]
    return scan.with_columns(*texts, *added, *only)


def _text(name: str, kind: pl.DataType) -> pl.Expr:
    """Words; whole numbers without a fraction, as other libraries write them of gaps."""
    value = pl.col(name)
    if kind.is_float():
        value = value.fill_nan(None)
        whole = (value == value.round()).all() & value.is_finite().all()
        text = pl.when(whole).then(value.cast(pl.Int64, strict=False).cast(pl.String))
        return text.otherwise(value.cast(pl.String)).alias(name)
    return value.cast(pl.String)


def _collect(scan: pl.LazyFrame, table: Table) -> pl.DataFrame:
    try:
        return scan.collect()
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise _unreadable(table, error) from error


def _unreadable(table: Table, error: BaseException) -> DataError:
    why = printable(str(error).splitlines()[0] if str(error) else type(error).__name__)[:200]
    return DataError(
        f"{printable(table.place)} cannot be read ({why}); write it as Parquet, or as CSV in UTF-8 "
        "with one header line"
    )


@contextmanager
def _here(place: str) -> Iterator[Path]:
    """A file of this machine; one of object storage is downloaded, and removed after."""
    if not storage.is_remote(place):
        yield Path(place)
        return
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        path = Path(folder, "table")
        storage.download(place, path, listed=True)
        yield path


def _natural(name: str) -> tuple[int, float, str]:
    """Numbers in the order of their size, before words in the order of the alphabet."""
    try:
        return (0, float(name), name)
    except ValueError:
        return (1, 0.0, name)
