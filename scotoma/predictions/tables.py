"""What do files of external predictions hold, and of which variants and models?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from scotoma import storage
from scotoma.answers.natural import natural_order
from scotoma.answers.values import as_numbers, column_text, read_values
from scotoma.config.label import ABSENT, PRESENT
from scotoma.config.limits import LIMITS, ReaderLimits
from scotoma.datasets.label_pairs import pair_ids
from scotoma.detection.table import BoxReading, found_table
from scotoma.errors import DataError
from scotoma.printable import nearest, printable
from scotoma.processes.untrusted import table_apart
from scotoma.readers.boxes import ground_truth_here
from scotoma.readers.tables import doubled_column, refuse_doubled, scan_table
from scotoma.run.mirror import folder_here

if TYPE_CHECKING:
    from numpy.typing import NDArray


KEY = "example_id"
PREDICTED = "predicted"
SCORES = "scores"  # an optional column: a score for each class
TOP5 = "predicted_top5"  # an optional column: five classes, the best first
ONLY_MODEL = "0"  # what the model of a variant is called where nothing names it
WAYS = {
    "variant": ", or write {variant} in source.files",
    PREDICTED: ", or name it in source.predicted, or the column of each variant in source.columns",
}
NAME_COLUMNS = ("variant", "model")  # columns that the name of a file can stand for
RERUN = "rerun"  # an optional one beside them: the same model, evaluated again
ONE_ROW = pl.DataFrame({"": [""]})  # of a table whose columns stand in the name of its file
AGAIN = "\x1f"  # between the name of a model and that of its rerun, where it has some


@dataclass(frozen=True)
class PredictionTable:
    """A file of predictions.

    Attributes:
        place: Its path or URI; of YOLO's text files their folder.
        from_name: Those of `variant`, `model` and `rerun` that the file's name has.
        key: The column of the ids, where none is called `example_id`; None numbers the rows.
        columns: Of a wide table, the columns of each variant, one a model; else empty.
        called: What a variant is called, as a format of columns, such as "{variant} at {site}", of
            which each combination is a variant; empty for the column `variant` alone.
        boxes: Of detections, how they become predictions; None for a table.
        predicted: The column of the predictions, where there are no `columns`.
        parts: Files below `place`, where it is a folder.
    """

    place: str
    from_name: Mapping[str, str]
    key: str | None = KEY
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    called: str = ""
    boxes: BoxReading | None = None
    predicted: str = PREDICTED
    parts: tuple[str, ...] = ()

    @property
    def called_by(self) -> tuple[str, ...]:
        """The columns that name a variant, where they are several; `variant` is the first."""
        return tuple(name for _, name, *_ in Formatter().parse(self.called) if name)

    @contextmanager
    def at_hand(self) -> Iterator[Path]:
        """The file, or the folder, on this machine."""
        if self.parts:
            yield folder_here(storage.StampedFiles(self.place, self.parts))
            return
        with storage.at_hand(self.place, listed=True) as path:
            yield path


def models_by_variant(
    tables: Sequence[PredictionTable], limits: ReaderLimits = LIMITS
) -> dict[str, list[str]]:
    """List the models of every variant, both in natural order.

    Args:
        tables: From `patterns.find_tables`. What their names do not say stands in columns; without
            a column `model` there is one model per variant, called `0`.
        limits: Memory and time for reading each file.

    Raises:
        DataError: A file that cannot be read or lacks a column, or a row without a name.
    """
    supplied = reruns_by_variant(tables, limits)
    return {variant: list(models) for variant, models in supplied.items()}


def reruns_by_variant(
    tables: Sequence[PredictionTable], limits: ReaderLimits = LIMITS
) -> dict[str, dict[str, list[str]]]:
    """List the reruns of every model of every variant, all in natural order.

    Args:
        tables: As for `models_by_variant`. A rerun is a column `rerun`, or stands in the name of
            the file; a model without any has one, that of its own name.
        limits: Memory and time for reading each file.

    Returns:
        Variant to model to the names of its reruns, as `read_columns` has them in `model`.

    Raises:
        DataError: As `models_by_variant`.
    """
    names: dict[str, set[str]] = {}
    for table in tables:
        for variant, columns in table.columns.items():
            names.setdefault(variant, set()).update(map(str, range(len(columns))))
        if table.columns:
            continue
        if table.from_name.keys() >= set(NAME_COLUMNS) and not table.called:
            pairs = _with_names(ONE_ROW, table).select(NAME_COLUMNS)
        else:
            pairs = _read_apart(_pairs, table, (), limits)
        for name in NAME_COLUMNS:
            refuse_missing(pairs[name], table)
        for variant, model in pairs.iter_rows():
            names.setdefault(variant, set()).add(model)
    supplied: dict[str, dict[str, list[str]]] = {}
    for variant in natural_order(names):
        models: dict[str, list[str]] = {}
        for name in natural_order(names[variant]):
            models.setdefault(name.partition(AGAIN)[0], []).append(name)
        supplied[variant] = {model: models[model] for model in natural_order(models)}
    return supplied


def predicted_classes(
    tables: Sequence[PredictionTable], variants: Iterable[str], limits: ReaderLimits = LIMITS
) -> list[str]:
    """List the classes that models of these variants predict, in natural order.

    Args:
        tables: From `patterns.find_tables`.
        variants: Names.
        limits: Memory and time for reading each file.

    Raises:
        DataError: As `read_columns`.
    """
    names, classes = list(variants), set[str]()
    for table in tables:
        if table.from_name.get("variant") in (None, *names):
            frame = read_columns(table, "predicted", limits=limits)
            kept = frame.filter(pl.col("variant").is_in(names))["predicted"]
            classes.update(kept.drop_nulls().unique())
    return natural_order(classes)


def refuse_missing(values: pl.Series, table: PredictionTable) -> None:
    """Refuse a column with empty rows.

    Raises:
        DataError: It has some.
    """
    if empty := values.null_count():
        raise DataError(
            printable(
                f"{table.place} has {empty:,} rows without {values.name}; fill or remove them"
            )
        )


def require_column(
    table: PredictionTable, name: str, known: Sequence[str], way_out: str, what: str = "the column"
) -> None:
    """Refuse a file that lacks a column.

    Raises:
        DataError: It is not among those that are known.
    """
    if name not in known:
        called = table.predicted if name == PREDICTED else name
        raise DataError(
            printable(
                f"{table.place} must have {what} {called!r}, got {', '.join(known[:20])}"
                f"{nearest(called, known)}; {way_out}"
            )
        )


def read_columns(
    table: PredictionTable, *needed: str, limits: ReaderLimits = LIMITS
) -> pl.DataFrame:
    """Read the names and the columns that are needed, as text but for `score` and lists.

    Args:
        table: The file.
        *needed: Columns beside those of the names; `predicted_top5` only if the file has it.
        limits: Memory and time for reading it.

    Raises:
        DataError: It cannot be read within the limits, lacks a column, or has two of one name.
    """
    return _read_apart(_wide_rows if table.columns else _rows, table, needed, limits)


def known_columns(table: PredictionTable, limits: ReaderLimits = LIMITS) -> list[str]:
    """List the columns of a file.

    Args:
        table: The file.
        limits: Memory and time for reading it.

    Raises:
        DataError: It cannot be read.
    """
    return _read_apart(_header, table, (), limits).columns


def _header(path: Path, table: PredictionTable, _: tuple[str, ...]) -> pl.DataFrame:
    known = _opened(path, table)[1]
    return pl.DataFrame(schema=dict.fromkeys(known, pl.String))


def _read_apart(
    read: Callable[[Path, PredictionTable, tuple[str, ...]], pl.DataFrame],
    table: PredictionTable,
    needed: tuple[str, ...],
    limits: ReaderLimits,
) -> pl.DataFrame:
    with table.at_hand() as path:
        if table.boxes is not None:
            truth = ground_truth_here(table.boxes.truth).absolute()
            table = replace(table, boxes=replace(table.boxes, truth=str(truth)))
        return table_apart(read, path, table, needed, path=path, called=table.place, limits=limits)


def _rows(path: Path, table: PredictionTable, needed: tuple[str, ...]) -> pl.DataFrame:
    return _with_names(_scan(path, table, needed).collect(), table)


def _pairs(path: Path, table: PredictionTable, needed: tuple[str, ...]) -> pl.DataFrame:
    """Read the variants and models of a file."""
    scan = _scan(path, table, needed)
    # Where the name says the variant and nothing a model, no column is read.
    names = scan.unique().collect() if scan.collect_schema() else ONE_ROW
    return _with_names(names, table).select(NAME_COLUMNS).unique()


def _wide_rows(path: Path, table: PredictionTable, needed: tuple[str, ...]) -> pl.DataFrame:
    """Read a table with a column a model as one with a row an example and model."""
    scan, known = _opened(path, table)
    if "score" in needed or SCORES in needed:
        raise DataError(
            f"{printable(table.place)} holds a column for each model and none for scores; set "
            "keep_scores: false, or write one row per example and model"
        )
    ids = [KEY] if KEY in needed else []
    names = [*ids, *(name for columns in table.columns.values() for name in columns)]
    for name in names:
        refuse_doubled(name, known, table.place)
        way = "correct source.columns" if name != KEY else "rename a column"
        require_column(table, name, known, way)
    frame = scan.select(names).collect()
    frame = frame.with_columns(_text(frame[name], table) for name in names)
    return pl.concat(
        frame.select(
            *ids,
            pl.col(name).alias("predicted"),
            pl.lit(variant).alias("variant"),
            pl.lit(str(model)).alias("model"),
        )
        for variant, columns in table.columns.items()
        for model, name in enumerate(columns)
    )


def _opened(path: Path, table: PredictionTable) -> tuple[pl.LazyFrame, list[str]]:
    """Scan a file, its ids in `example_id`; and list its columns."""
    if table.boxes is not None:
        scan = found_table(path, table.boxes).lazy()
    else:
        scan = scan_table(path, table.place)
    known = scan.collect_schema().names()
    called = {PREDICTED: table.predicted} | ({} if KEY in known else {KEY: table.key})
    named = {own: name for name, own in called.items() if own and own != name and own in known}
    scan = scan.drop(named.values(), strict=False).rename(named)
    if table.key is None and known:
        scan = scan.drop(KEY, strict=False).with_row_index(KEY)
    return scan, scan.collect_schema().names()


def _scan(path: Path, table: PredictionTable, needed: tuple[str, ...]) -> pl.LazyFrame:
    """Scan the columns that are needed and those of the names, as they stand in a file."""
    scan, known = _opened(path, table)
    if doubled := doubled_column(known):
        raise DataError(
            f"{printable(table.place)} has two columns {printable(doubled)!r}; rename one of them"
        )
    named = table.from_name.keys() >= set(NAME_COLUMNS)  # then what is inside is not looked for
    optional = NAME_COLUMNS if named or table.called else (*NAME_COLUMNS, RERUN)
    own = [name for name in optional if name not in table.from_name and name in known]
    if "variant" not in [*table.from_name, *own]:
        needed = (*needed, "variant")
    needed = (*needed, *(name for name in table.called_by[1:]))
    needed = tuple(name for name in needed if name != TOP5 or name in known)
    for name in needed:
        require_column(table, name, known, "rename a column" + WAYS.get(name, ""))
    return scan.select(*dict.fromkeys((*needed, *own)))


def _with_names(frame: pl.DataFrame, table: PredictionTable) -> pl.DataFrame:
    """Read the columns as text, and add those that the name of the file stands for."""
    kept = ("score", SCORES, TOP5)
    texts = [
        _text(column, table)
        for column in frame
        if column.name not in kept and not isinstance(column.dtype, pl.Array | pl.List)
    ]
    added = [pl.lit(value).alias(name) for name, value in table.from_name.items()]
    only = [] if "model" in [*frame.columns, *table.from_name] else [
        pl.lit(ONLY_MODEL).alias("model")
    ]  # fmt: skip
    frame = frame.with_columns(*texts, *added, *only)
    if table.called:
        parts = (pl.col(name).fill_null("") for name in table.called_by[1:])
        blanks = dict.fromkeys(table.called_by, "{}")
        named = pl.format(table.called.format(**blanks), pl.col("variant"), *parts)
        frame = frame.with_columns(named.alias("variant"))
    if RERUN not in [*frame.columns, *table.from_name]:
        return frame
    again = pl.concat_str("model", pl.lit(AGAIN), RERUN).alias("model")
    return frame.with_columns(again).drop(RERUN)


def _text(column: pl.Series, table: PredictionTable) -> pl.Series:
    """A column as text; of names and ids without outer blanks, null where they are empty."""
    try:
        if column.name in (KEY, *NAME_COLUMNS, RERUN):
            return read_values(column, missing=("",)).values
        return column_text(column)
    except DataError as error:
        raise DataError(f"{printable(table.place)}: {error}") from error


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
