"""What does a table of answers hold: CSV, Parquet or JSONL, of timm, of MLflow, or anybody's?

timm's `inference.py` writes `filename`, `index`, `label` (what the model says) and `prob` or
`logit`, of one class or of the best k; MLflow's `eval_results_table.json` is read by column too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from scotoma.answers.admission import speak_of_classes
from scotoma.answers.pair import admit_answers, label_notes, read_labels
from scotoma.answers.values import (
    NEVER_A_CLASS,
    column_text,
    holds_text,
    infer_type,
    is_missing_text,
    is_plain,
    present,
    read_values,
)
from scotoma.errors import ConfigError, DataError
from scotoma.printable import ONE_OF_THEM, nearest, printable
from scotoma.readers.files import json_file, json_lines, table_frames
from scotoma.readers.record import (
    UNCOUNTED,
    About,
    Columns,
    Evaluation,
    Format,
    called,
    hash_text,
    text_column,
)
from scotoma.readers.tables import guessed_encoding, sniff

CORRECT = "correct"  # the score of tables that have label and answer and no score of their own
TASK, MODEL = "task", "model"
MLFLOW_TABLE = "eval_results_table.json"  # of every run
USUAL = {
    "example_id": ("example_id", "sample_id", "instance_id", "id", "filename"),
    "rerun": ("rerun", "epoch"),
    "content_hash": ("content_hash", "sample_hash", "doc_hash"),
    "label": ("label", "target", "targets", "ground_truth", "expected_response"),
    "answer": ("predicted", "prediction", "predictions", "answer", "outputs", "output"),
    "text": ("text", "response"),
    "prompt": ("prompt", "inputs", "input", "question"),
    "stop_reason": ("stop_reason", "finish_reason"),
    "output_tokens": ("output_tokens", "completion_tokens", "num_generated_tokens"),
    "tool_calls": ("tool_calls",),
}
SCORES = ("score", CORRECT, "is_correct", "accuracy", "acc", "exact_match", "prob", "logit")
SURE = ("score", "prob", "logit")  # how sure a model is
TIMM_OUTPUTS = ("prob", "logit")
WRITTEN = (pl.Categorical, pl.Enum, pl.Binary)  # as text, beside dates and times


@dataclass(frozen=True)
class LogColumns:
    """Which columns of a table say what; empty for the usual names.

    Attributes:
        example_id: What each example is called.
        label: The true answer.
        answer: The model's answer.
    """

    example_id: str = ""
    label: str = ""
    answer: str = ""


def is_timm(names: Sequence[str]) -> bool:
    """Whether columns are those of timm's `inference.py`.

    >>> is_timm(["filename", "index", "prob"]), is_timm(["filename", "label"])
    (True, False)
    """
    bases = {name.rstrip("0123456789").rstrip("_") for name in names}
    return (
        "filename" in bases and bool(bases & {"index", "label"}) and bool(bases & {*TIMM_OUTPUTS})
    )


def table_format(columns: LogColumns, kind: str) -> Format:
    """Read tables whose columns are named like this.

    Args:
        columns: Which columns say what.
        kind: `mlflow` for a table of JSON, else `table`.
    """
    notes: list[str] = []
    return Format(
        kind,
        partial(_records, columns=columns, notes=notes),
        partial(_about, notes=notes),
    )


class _Opened(NamedTuple):
    """A table whose columns are read by name: a column that is not there is empty."""

    names: list[str]
    height: int
    column: Callable[[str], pl.Series | list[Any]]
    attributes: Callable[[Collection[str]], pl.DataFrame | list[dict[str, Any]]]


def _open(path: Path) -> _Opened:
    if kind := sniff(path):
        (frame,) = table_frames(path)
        frame = frame.with_columns(pl.selectors.decimal().cast(pl.Float64))
        absent = pl.repeat(None, frame.height, dtype=pl.String, eager=True)
        nested = [one.name for one in frame if not is_plain(one.dtype)]
        return _Opened(
            frame.columns,
            frame.height,
            lambda name: (
                frame[name].to_list() if name in nested else frame.get_column(name, default=absent)
            ),
            lambda used: _attributes(frame, used, typed=kind != "csv"),
        )
    split = path.name.lower().endswith((".json", ".json.gz"))
    names, rows = _split_rows(path) if split else ([], [])
    rows = rows or list(json_lines(path))
    return _Opened(
        names or list(map(str, rows[0] if rows else {})),
        len(rows),
        lambda name: [row.get(name) for row in rows],
        lambda used: [
            {name: _whole(value) for name, value in row.items() if name not in used} for row in rows
        ],
    )


def _split_rows(path: Path) -> tuple[list[str], list[dict[str, Any]]]:
    table = json_file(path)
    names, rows = table.get("columns"), table.get("data")
    whole = isinstance(names, list) and isinstance(rows, list)
    if not whole or any(not isinstance(row, list) or len(row) != len(names) for row in rows):
        raise DataError(
            f"{printable(path.name)} must have columns, and data with a value for each in every "
            "row, as MLflow writes tables; log the table again"
        )
    names = list(map(str, names))
    return names, [dict(zip(names, row, strict=True)) for row in rows]


def _records(path: Path, *, columns: LogColumns, notes: list[str]) -> Iterator[Columns]:
    table = _open(path)
    timm = is_timm(table.names)
    if sniff(path) == "csv":
        notes += guessed_encoding(path, path.name)
    known, scored, used = _roles(path, table.names, columns, timm=timm)
    # timm's score is how sure the model is, not whether it is right.
    compared = (timm or not scored or CORRECT in scored) and bool(
        known["label"] and known["answer"]
    )
    cells = {role: _cells(table.column(name)) for role, name in known.items()}
    cells |= {name: _cells(table.column(name)) for name in (MODEL, TASK)}
    if own := known["tool_calls"]:
        cells["tool_calls"], told = _tool_calls(table.column(own), f"{path.name}, {own}")
        notes += told
    values = {name: [_score(value, timm=timm) for value in table.column(name)] for name in scored}
    if timm:
        cells["answer"] = text_column(list(map(_best, table.column(known["answer"]))))
    elif compared:
        both = (table.column(known[role]) for role in ("label", "answer"))
        labels, answers = (own if isinstance(own, pl.Series) else _cells(own) for own in both)
        cells["label"], cells["answer"], told = _spoken(
            path, labels.alias(known["label"]), answers.alias(known["answer"])
        )
        notes += told
    rows = pl.DataFrame(cells).rename({"label": "target"}).with_row_index("place")
    if compared:
        # No answer is a wrong one; without a label nobody can tell.
        right = pl.col("target").eq(pl.col("answer")).fill_null(value=False).cast(pl.Float64)
        right = pl.when(pl.col("target").is_not_null()).then(right)
        values = {CORRECT: rows.select(right).to_series().to_list()} | values
        rows = rows if timm else rows.drop_nulls("target")  # those without a label are told
    if not known["example_id"]:  # an example is what was asked, however often it was asked
        asked = rows.select("prompt", "target").iter_rows()
        hashes = pl.Series("content_hash", [hash_text(*one) for one in asked], pl.String)
        times = pl.int_range(1, pl.len() + 1).over("content_hash").cast(pl.String)
        begins = pl.col("content_hash").str.head(12)
        rows = rows.with_columns(hashes).with_columns(
            pl.concat_str(begins, times, separator="-").alias("example_id")
        )
    if (nameless := rows.filter(pl.col("example_id").is_null())).height:
        raise DataError(
            f"{printable(path.name)} must give every row an id, and row "
            f"{nameless['place'][0] + 1:,} has none in column "
            f"{printable(known['example_id'])!r}; fill or remove it"
        )
    tokens = pl.col("output_tokens", "tool_calls").cast(pl.Float64, strict=False)
    rows = rows.with_columns(_reruns(path, rows), tokens.cast(pl.Int64, strict=False))
    own = path.parent.name if path.name == MLFLOW_TABLE else path.name.partition(".")[0]
    attributes = table.attributes(used)
    evaluation = pl.col(MODEL).replace("", None).fill_null(own), pl.col(TASK).fill_null("")
    for (model, task), part in rows.group_by(*evaluation, maintain_order=True):
        places = part["place"].to_list()
        yield Columns(
            Evaluation(str(model), str(task)),
            part.drop(MODEL, TASK, "place"),
            {name: [column[place] for place in places] for name, column in values.items()},
            _taken(attributes, places),
        )


def _taken(
    attributes: pl.DataFrame | list[dict[str, Any]], places: list[int]
) -> pl.DataFrame | list[dict[str, Any]]:
    if isinstance(attributes, pl.DataFrame):
        return attributes[places] if attributes.width else attributes
    return [attributes[place] for place in places]


def _cells(values: pl.Series | list[Any]) -> pl.Series:
    """Cells as text; see `_cell`."""
    if isinstance(values, pl.Series) and values.dtype.is_temporal():
        values = column_text(values)
    if isinstance(values, list) or values.dtype != pl.String:
        return text_column(list(map(_cell, values)))
    gone = values.str.strip_chars().str.to_lowercase().is_in(list(NEVER_A_CLASS))
    return values.set(gone, None)


def _tool_calls(values: pl.Series | list[Any], where: str) -> tuple[pl.Series, list[str]]:
    """How many tools each answer called, and what a reader should know."""
    counts, notes = [*map(called, values)], []
    odd = [one for one, count in zip(values, counts, strict=True) if count == UNCOUNTED]
    if odd:
        notes.append(
            f"{printable(where)}: {len(odd):,} of {len(counts):,} cells are neither a count nor a "
            f"list, such as {printable(str(odd[0]))[:40]!r}; these tool calls are not known."
        )
    # OpenAI's answers have no list where no tool was called.
    begins = [one.lstrip()[:1] if isinstance(one, str) else type(one) for one in values]
    lists = not {"[", "{", list, dict}.isdisjoint(begins)
    if lists and (empty := counts.count(None)):
        counts = [0 if count is None else count for count in counts]
        notes.append(
            f"{printable(where)}: {empty:,} of {len(counts):,} cells are empty beside lists, which "
            "is read as no tool call."
        )
    return pl.Series("tool_calls", counts, pl.Int64), notes


def _reruns(path: Path, rows: pl.DataFrame) -> pl.Series:
    numbers = rows["rerun"].fill_null("0")
    for place in rows["place"].filter(~numbers.str.contains(r"^[0-9]{1,6}$")):
        value = rows.filter(pl.col("place") == place)["rerun"][0]
        raise DataError(
            f"{printable(path.name)} must number reruns by whole numbers, and row {place + 1:,} "
            f"has {printable(value)[:40]!r}; number them from 0"
        )
    return numbers.cast(pl.Int32)


def _roles(
    path: Path, names: Sequence[str], columns: LogColumns, *, timm: bool
) -> tuple[dict[str, str], list[str], set[str]]:
    """Columns by role, columns of scores, and all that are no attributes."""
    known = _known(columns, names, path, timm=timm)
    # Where label and answer say what is right, a column `score` is a probability and no quality.
    compared = known["label"] and known["answer"] and _are_named(columns, known)
    scored = [
        name
        for name in names
        if name not in known.values()
        and (name in SCORES or name.startswith("score.") or "/score" in name)
        and not (compared and name in SURE)
    ]
    return known, scored, {*known.values(), *scored, TASK, MODEL}


def _attributes(frame: pl.DataFrame, used: Collection[str], *, typed: bool) -> pl.DataFrame:
    """All other columns: numbers of CSV in the types that Parquet would have, null if missing."""
    columns = [
        column_text(one) if one.dtype.is_temporal() or one.dtype in WRITTEN else one
        for one in frame
        if one.name not in used and (one.dtype != pl.Binary or holds_text(one))
    ]
    if not typed:
        own = [infer_type(column)[0] for column in columns]
        columns = [
            number if number.dtype.is_numeric() else text
            for number, text in zip(own, columns, strict=True)
        ]
    return pl.DataFrame(columns).with_columns(
        pl.when(present(pl.col(pl.String)).is_not_null()).then(pl.col(pl.String))
    )


def table_attributes(
    path: Path, columns: LogColumns
) -> Iterator[tuple[str, pl.DataFrame | list[dict[str, Any]]]]:
    """List the tasks of a table, and the attributes of each, whatever its labels and answers."""
    table = _open(path)
    used = _roles(path, table.names, columns, timm=is_timm(table.names))[2]
    attributes = table.attributes(used)
    rows = pl.DataFrame({TASK: _cells(table.column(TASK)).fill_null("")}).with_row_index("place")
    for (task,), part in rows.group_by(TASK, maintain_order=True):
        yield str(task), _taken(attributes, part["place"].to_list())


def _spoken(
    path: Path, labels: pl.Series, answers: pl.Series
) -> tuple[pl.Series, pl.Series, list[str]]:
    """Read labels and answers in one language, if they are classes; else each as it stands.

    Returns:
        Both, null where they are missing, and what a reader should know.
    """
    label, answer = labels.name, answers.name
    read = read_labels(labels)
    known, labels = read.values.is_not_null(), read.values.drop_nulls()
    notes = label_notes(label, read)
    if speak_of_classes(labels.n_unique(), len(labels)):
        try:
            answers = pl.select(pl.when(known).then(answers)).to_series().alias(answer)
            answered, more = admit_answers(answers, labels.unique().to_list(), strangers=False)
        except DataError as error:
            raise DataError(f"{printable(path.name)}: {error}") from error
    else:
        answered, more = read_values(answers, missing=NEVER_A_CLASS).values, ()
    name = printable(path.name)
    return read.values, answered, [f"{name}: {note.sentence}." for note in (*notes, *more)]


def _known(columns: LogColumns, names: Sequence[str], path: Path, *, timm: bool) -> dict[str, str]:
    """Find the column of each role; empty where there is none."""
    known = {}
    for role, usual in USUAL.items():
        asked = getattr(columns, role, "")
        if asked and asked not in names:
            raise ConfigError(
                f"column {printable(asked)!r} is not in {printable(path.name)}, which has "
                f"{printable(', '.join(names))[:300]}{nearest(asked, names, ONE_OF_THEM)}"
            )
        known[role] = asked or next((name for name in usual if name in names), "")
    if timm and not columns.answer:  # its label is what the model says
        own = [name for name in ("label", "label_0", "index", "index_0") if name in names]
        known |= {"answer": own[0], "label": columns.label}
    if not known["example_id"] and not known["prompt"]:
        raise ConfigError(
            f"{printable(path.name)} must have a column of ids, and has "
            f"{printable(', '.join(names))[:300]}: name it with --id"
        )
    return known


def _are_named(columns: LogColumns, known: Mapping[str, str]) -> bool:
    """Whether label and answer were named, or are called so: then their equality is the score."""
    asked = bool(columns.label and columns.answer)
    return asked or (known["label"] == "label" and known["answer"] in ("predicted", "prediction"))


def _whole(value: Any) -> Any:
    """An attribute; text that says that it is missing is None."""
    return None if isinstance(value, str) and _is_missing(value) else value


@lru_cache(2**12)
def _is_missing(text: str) -> bool:
    return is_missing_text(text.strip())


def _cell(value: Any) -> str | None:
    """A cell as text: whole numbers without a point, nested values as JSON, None where it is empty.

    >>> _cell(3.0), _cell("x"), _cell(""), _cell([1])
    ('3', 'x', None, '[1]')
    """
    if isinstance(value, str):
        return None if value.strip().lower() in NEVER_A_CLASS else value
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is None or isinstance(value, int):
        return None if value is None else str(value)
    return json.dumps(value, default=str, sort_keys=True)


def _best(value: Any) -> str | None:
    """The first of the best k, as timm writes them to Parquet, or to CSV.

    >>> _best([7, 2]), _best("[7 2]"), _best("['cat' 'dog']"), _best("cat")
    ('7', '7', 'cat', 'cat')
    """
    if isinstance(value, list):
        return _cell(value[0]) if value else None
    text = _cell(value)
    if text is None or not text.startswith("["):
        return text
    inside = text.strip("[]").strip()
    quote = inside[:1]
    if quote in ("'", '"'):
        return inside[1:].partition(quote)[0]
    return inside.split()[0].rstrip(",") if inside else None


def _score(value: Any, *, timm: bool) -> Any:
    """A score as a number where it is text that writes one, as in CSV."""
    if timm and (isinstance(value, list) or str(value).startswith("[")):
        value = _best(value)
    if not isinstance(value, str):
        return value
    if is_missing_text(value.strip()):
        return None
    if value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    try:
        return float(value)
    except ValueError:
        return value


def _about(path: Path, _: Evaluation, *, notes: Sequence[str]) -> About:
    note = f"{printable(path.name)} does not say how the model was asked: settings are not checked."
    return About({}, (note, *notes))
