"""What does a table of answers hold: CSV, Parquet or JSONL, of timm, of MLflow, or anybody's?

timm's `inference.py` writes `filename`, `index`, `label` (what the model says) and `prob` or
`logit`, of one class or of the best k; MLflow's `eval_results_table.json` is read by column too.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, time
from decimal import Decimal
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from scotoma.answers.admission import speak_of_classes
from scotoma.answers.pair import admit_answers, label_notes, read_labels
from scotoma.answers.values import (
    NEVER_A_CLASS,
    infer_type,
    is_missing_text,
    is_plain,
    read_values,
)
from scotoma.errors import ConfigError, DataError
from scotoma.printable import nearest, printable
from scotoma.readers.files import column_names, json_file, json_lines, rows_of_table, table_frame
from scotoma.readers.record import About, Evaluation, Format, Record, hash_text
from scotoma.readers.tables import guessed_encoding, sniff

__all__ = ["LogColumns", "is_timm", "table_attributes", "table_format"]

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
}
SCORES = ("score", CORRECT, "is_correct", "accuracy", "acc", "exact_match", "prob", "logit")
SURE = ("score", "prob", "logit")  # how sure a model is
ALIASES = ("accuracy", "acc")  # of `correct`, where a table has label and answer
TIMM_OUTPUTS = ("prob", "logit")


@dataclass(frozen=True)
class LogColumns:
    """Which columns of a table say what; empty for the usual names.

    Attributes:
        example_id: What each example is called.
        rerun: Number of the rerun.
        content_hash: A hash of the example's content.
        label: The true answer.
        answer: The model's answer.
        text: The raw text in which that answer stood.
        prompt: What the model was asked.
    """

    example_id: str = ""
    rerun: str = ""
    content_hash: str = ""
    label: str = ""
    answer: str = ""
    text: str = ""
    prompt: str = ""


def is_timm(names: Sequence[str]) -> bool:
    """Whether columns are those of timm's `inference.py`.

    >>> is_timm(["filename", "index", "prob"]), is_timm(["filename", "label"])
    (True, False)
    """
    bases = {name.rstrip("0123456789").rstrip("_") for name in names}
    return (
        "filename" in bases and bool(bases & {"index", "label"}) and bool(bases & {*TIMM_OUTPUTS})
    )


def table_format(columns: LogColumns, scores: Sequence[str], kind: str) -> Format:
    """Read tables whose columns are named like this.

    Args:
        columns: Which columns say what.
        scores: Columns of scores; empty for the usual names, and for whether label and answer are
            equal.
        kind: `mlflow` for a table of JSON, else `table`.
    """
    notes: list[str] = []
    return Format(
        kind,
        partial(_records, columns=columns, scores=tuple(scores), notes=notes),
        partial(_about, said=notes),
    )


def _rows(path: Path) -> tuple[list[str], Iterator[Mapping[str, Any]]]:
    """Read the names of columns, and the rows."""
    name = path.name.lower()
    if sniff(path):
        return column_names(path), rows_of_table(path)
    if name.endswith(".json"):
        return _split_rows(path)
    first = next(json_lines(path), {})
    return list(map(str, first)), json_lines(path)


def _split_rows(path: Path) -> tuple[list[str], Iterator[Mapping[str, Any]]]:
    table = json_file(path)
    names, rows = table.get("columns"), table.get("data")
    whole = isinstance(names, list) and isinstance(rows, list)
    if not whole or any(not isinstance(row, list) or len(row) != len(names) for row in rows):
        raise DataError(
            f"{printable(path.name)} must have columns, and data with a value for each in every "
            "row, as MLflow writes tables; log the table again"
        )
    names = list(map(str, names))
    return names, (dict(zip(names, row, strict=True)) for row in rows)


def _records(
    path: Path, *, columns: LogColumns, scores: tuple[str, ...], notes: list[str]
) -> Iterator[Record]:
    frame = None
    if sniff(path) == "csv":
        frame = table_frame(path)
        notes += guessed_encoding(path, path.name)
    names, rows = _rows(path) if frame is None else (frame.columns, iter(()))
    timm = is_timm(names)
    known, scored, used = _roles(path, names, columns, scores, timm=timm)
    # timm's score is how sure the model is, not whether it is right.
    compared = (timm or not scored or CORRECT in scored) and bool(
        known["label"] and known["answer"]
    )
    scored = [name for name in scored if name in names]
    spoken = None
    if compared and not timm:
        spoken = _spoken(path, frame, known["label"], known["answer"])
        notes += spoken.notes
    if frame is not None:
        rows = _typed(frame, used).iter_rows(named=True)
    read = ("label", "answer") if spoken else ()
    roles = [(role, name) for role, name in known.items() if name and role not in read]
    absent: dict[str, str | None] = dict.fromkeys(known)
    times: Counter[str] = Counter()
    own = path.parent.name if path.name == MLFLOW_TABLE else path.name.partition(".")[0]
    for number, row in enumerate(rows, 1):
        cells = absent | {role: _cell(row.get(name)) for role, name in roles}
        if timm:
            cells["answer"] = _best(row.get(known["answer"]))
        if spoken is not None:
            cells["label"] = spoken.labels[number - 1]
            cells["answer"] = spoken.answers[number - 1]
            if cells["label"] is None:
                continue  # it is told
        example_id, content = cells["example_id"], cells["content_hash"]
        if not known["example_id"]:  # an example is what was asked, however often it was asked
            content = hash_text(cells["prompt"], cells["label"])
            times[content] += 1
            example_id = f"{content[:12]}-{times[content]}"
        if example_id is None:
            raise DataError(
                f"{printable(path.name)} must give every row an id, and row {number:,} has none "
                f"in column {printable(known['example_id'])!r}; fill or remove it"
            )
        values = {name: _score(row.get(name), timm=timm) for name in scored}
        if compared:
            # No answer is a wrong one; without a label nobody can tell.
            asked = cells["label"] is not None
            right = float(cells["label"] == cells["answer"]) if asked else None
            values = {CORRECT: right} | values
        yield Record(
            Evaluation(_cell(row.get(MODEL)) or own, _cell(row.get(TASK)) or ""),
            example_id,
            values,
            {name: _whole(value) for name, value in row.items() if name not in used},
            rerun=_rerun(cells["rerun"], path, number),
            content_hash=content,
            prompt=cells["prompt"],
            target=cells["label"],
            answer=cells["answer"],
            text=cells["text"],
        )


def _roles(
    path: Path, names: Sequence[str], columns: LogColumns, scores: Sequence[str], *, timm: bool
) -> tuple[dict[str, str], list[str], set[str]]:
    """Columns by role, columns of scores, and all that are no attributes."""
    known = _known(columns, names, path, timm=timm)
    named = bool(known["label"] and known["answer"])
    scored = _scored(scores, names, known, path, compared=named and _are_named(columns, known))
    return known, scored, {*known.values(), *scored, TASK, MODEL}


def _typed(frame: pl.DataFrame, used: Collection[str]) -> pl.DataFrame:
    """A CSV whose attributes are numbers where Parquet would have numbers."""
    typed = [infer_type(column)[0] for column in frame if column.name not in used]
    return frame.with_columns(one for one in typed if one.dtype.is_numeric())


def table_attributes(path: Path, columns: LogColumns, scores: Sequence[str]) -> pl.DataFrame | None:
    """The attributes of a table of one task in the types of their values; None of other files."""
    if sniff(path) is None:
        return None
    frame = table_frame(path)
    if is_timm(frame.columns) or TASK in frame.columns:
        return None
    used = _roles(path, frame.columns, columns, scores, timm=False)[2]
    frame = _typed(frame, used) if sniff(path) == "csv" else frame
    attributes = [column for column in frame if column.name not in used]
    return pl.DataFrame(
        [one for one in attributes if is_plain(one.dtype) and one.dtype != pl.Binary]
    )


class _Spoken(NamedTuple):
    """Labels and answers of every row in one language, None where they are missing."""

    labels: list[str | None]
    answers: list[str | None]
    notes: tuple[str, ...]


def _spoken(path: Path, frame: pl.DataFrame | None, label: str, answer: str) -> _Spoken:
    """Read labels and answers in one language, if they are classes; else each as it stands."""
    if sniff(path):
        frame = table_frame(path, label, answer) if frame is None else frame
        truth, said = frame[label], frame[answer]
    else:
        cells = [(_cell(row.get(label)), _cell(row.get(answer))) for row in _rows(path)[1]]
        truth = pl.Series(label, [one for one, _ in cells], dtype=pl.String)
        said = pl.Series(answer, [one for _, one in cells], dtype=pl.String)
    read = read_labels(truth)
    known, labels = read.values.is_not_null(), read.values.drop_nulls()
    notes = label_notes(label, read)
    if speak_of_classes(labels.n_unique(), len(labels)):
        try:
            said = pl.select(pl.when(known).then(said)).to_series().alias(answer)
            answered, more = admit_answers(said, labels.unique().to_list(), strangers=False)
        except DataError as error:
            raise DataError(f"{printable(path.name)}: {error}") from error
    else:
        answered, more = read_values(said, missing=NEVER_A_CLASS).values, ()
    name = printable(path.name)
    return _Spoken(
        read.values.to_list(),
        answered.to_list(),
        tuple(f"{name}: {note.sentence}." for note in (*notes, *more)),
    )


def _known(columns: LogColumns, names: Sequence[str], path: Path, *, timm: bool) -> dict[str, str]:
    """Find the column of each role; empty where there is none."""
    known = {}
    for field in fields(LogColumns):
        asked = getattr(columns, field.name)
        if asked and asked not in names:
            raise ConfigError(
                f"column {printable(asked)!r} is not in {printable(path.name)}, which has "
                f"{printable(', '.join(names))[:300]}{nearest(asked, names)}"
            )
        usual = [name for name in USUAL[field.name] if name in names]
        known[field.name] = asked or (usual[0] if usual else "")
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


def _scored(
    asked: Sequence[str],
    names: Sequence[str],
    known: Mapping[str, str],
    path: Path,
    *,
    compared: bool,
) -> list[str]:
    """List the columns of scores: those asked for, else those with the usual names.

    Where label and answer say what is right, a column `score` is a probability and no quality.
    """
    taken = set(known.values())
    usual = [
        name
        for name in names
        if name not in taken
        and (name in SCORES or name.startswith("score.") or "/score" in name)
        and not (compared and name in SURE)
    ]
    equal = {CORRECT, *ALIASES} if known["label"] and known["answer"] else {CORRECT}
    missing = [name for name in asked if name not in names and name not in equal]
    if missing:
        raise ConfigError(
            f"score {printable(missing[0])!r} is not a column of {printable(path.name)}, which has "
            f"{printable(', '.join(names))[:300]}{nearest(missing[0], names)}"
        )
    return [name if name in names else CORRECT for name in asked] if asked else usual


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
    if value is None or isinstance(value, int | Decimal | date | time):
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


def _rerun(value: str | None, path: Path, number: int) -> int:
    if value is None:
        return 0
    if not value.isdecimal() or len(value) > 6:
        raise DataError(
            f"{printable(path.name)} must number reruns by whole numbers, and row {number:,} has "
            f"{printable(value)[:40]!r}; number them from 0"
        )
    return int(value)


def _about(path: Path, _: Evaluation, *, said: Sequence[str]) -> About:
    note = f"{printable(path.name)} does not say how the model was asked: settings are not checked."
    return About({}, {}, (note, *said))
