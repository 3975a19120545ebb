"""What does a log come to as tables on disk?

Called in the process that reads files from outside.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import polars as pl

from scotoma.errors import DataError
from scotoma.evallogs.detection import detect
from scotoma.evallogs.dotted import plain_text, value_at, values
from scotoma.evallogs.log import COLUMNS, SCORE, SHOWN_CHARACTERS
from scotoma.evallogs.record import Evaluation, Record, hash_text, masked_settings, quoted_id
from scotoma.evallogs.scripts import script_of
from scotoma.evallogs.tables import LogColumns
from scotoma.printable import printable

__all__ = ["MOST_VALUES", "format_of", "gather_log", "list_attributes"]

MOST_VALUES: Final = 1_000  # distinct values of an attribute that are counted
MOST_PATHS: Final = 10_000
PART_BYTES = 2**25  # of text that is held before it is written
PART_ROWS = 20_000
TEXTS = {"row": pl.Int64} | dict.fromkeys(("prompt", "answer", "text", "target"), pl.String)
NUMBERS = ("integer", "number")


@dataclass
class _Gathered:
    """One evaluation, as far as it has been read."""

    evaluation: Evaluation
    stem: str
    first_row: int
    attributes: Sequence[str]
    rows: int = 0
    held_bytes: int = 0
    columns: dict[str, list[Any]] = field(default_factory=dict)
    texts: dict[str, list[Any]] = field(default_factory=dict)
    scores: dict[str, list[float]] = field(default_factory=dict)
    score_names: dict[str, None] = field(default_factory=dict)
    known_scores: dict[str, None] = field(default_factory=dict)
    not_numbers: dict[str, list[Any]] = field(default_factory=dict)
    kinds: dict[str, set[str]] = field(default_factory=dict)
    seen: set[tuple[str, int]] = field(default_factory=set)
    doubled: list[tuple[str, int]] = field(default_factory=list)
    examples_files: list[str] = field(default_factory=list)
    texts_files: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._empty()

    def _empty(self) -> None:
        self.columns = {name: [] for name in (*COLUMNS, *self.attributes)}
        self.texts = {name: [] for name in TEXTS}
        self.scores = {name: [] for name in self.score_names}
        self.held_bytes = 0

    def add(self, record: Record, wanted: Sequence[str]) -> None:
        key = (record.example_id, record.rerun)
        if key in self.seen:
            self.doubled.append(key)
            return
        self.seen.add(key)
        row = self.first_row + self.rows
        texts = {"prompt": record.prompt, "answer": record.answer, "text": record.text,
                 "target": record.target}  # fmt: skip
        cells = {
            "example_id": record.example_id,
            "rerun": record.rerun,
            "content_hash": record.content_hash,
            "prompt_hash": _hashed(record.prompt, record.prompt_hash),
            "target_hash": _hashed(record.target, record.target_hash),
            "target": _shown(record.target),
            "answer": _shown(record.answer),
            "answer_hash": _hashed(record.answer, None),
            "choice": record.choice,
            "text_hash": _hashed(record.text, None),
            "text_length": None if record.text is None else len(record.text),
            "prompt_length": None if record.prompt is None else len(record.prompt),
            "prompt_script": script_of(record.prompt),
            "row": row,
        }
        for path in self.attributes:
            value = value_at(record.attributes, path)
            cells[path] = None if value is None else plain_text(value)
            if value is not None:
                self.kinds.setdefault(path, set()).add(_kind(value))
        for name, cell in cells.items():
            self.columns[name].append(cell)
        self.texts["row"].append(row)
        for name, text in texts.items():
            self.texts[name].append(_encodable(text))
            self.held_bytes += len(text) if text else 0
        self._add_scores(record, wanted)
        self.rows += 1
        if self.held_bytes > PART_BYTES or len(self.texts["row"]) >= PART_ROWS:
            self.write()

    def _add_scores(self, record: Record, wanted: Sequence[str]) -> None:
        before = len(self.texts["row"]) - 1
        for name, value in _flat(record.scores).items():
            self.known_scores[name] = None
            if wanted and name not in wanted:
                continue
            number = _number(value)
            if number is None:
                fault = self.not_numbers.setdefault(name, [0, record.example_id, _called(value)])
                fault[0] += 1
                number = math.nan
            if name not in self.scores:
                self.score_names[name] = None
                self.scores[name] = [math.nan] * before
            self.scores[name].append(number)
        for numbers in self.scores.values():
            if len(numbers) == before:
                numbers.append(math.nan)

    def write(self) -> None:
        """Write what is held as one more part of each table."""
        if not self.texts["row"]:
            return
        number = len(self.texts_files)
        schema = COLUMNS | dict.fromkeys(self.attributes, pl.String)
        scores = [pl.Series(SCORE + n, one, dtype=pl.Float64) for n, one in self.scores.items()]
        examples = pl.DataFrame(self.columns, schema=schema).with_columns(scores)
        texts = pl.DataFrame(self.texts, schema=TEXTS)
        for table, files, kind in (
            (examples, self.examples_files, "examples"),
            (texts, self.texts_files, "texts"),
        ):
            files.append(f"{self.stem}-{kind}-{number:04d}.parquet")
            table.write_parquet(files[-1], compression="zstd", compression_level=1)
        self._empty()


def format_of(path: Path, columns: LogColumns, scores: Sequence[str]) -> str | None:
    """Tell the format of a file; see `detect`."""
    detected = detect(path, columns, scores)
    return detected.name if detected else None


def gather_log(
    path: Path,
    stem: str,
    first_row: int,
    attributes: Sequence[str],
    scores: Sequence[str],
    columns: LogColumns,
) -> list[dict[str, Any]]:
    """Read a log and leave its evaluations as Parquet.

    Args:
        path: A file whose format `detect` knows.
        stem: With what the paths of the Parquet files begin.
        first_row: Number of the first row.
        attributes: Dotted paths of the attributes to keep.
        scores: Names of the scores to keep; empty for all.
        columns: Columns of tables.

    Returns:
        An object for each evaluation: whose it is, what the log says of it, and its files.

    Raises:
        DataError: The file cannot be read, or holds an example twice.
    """
    log = detect(path, columns, scores)
    if log is None:
        raise DataError(f"{printable(path.name)} is no log of an evaluation; name another file")
    evaluations: dict[Evaluation, _Gathered] = {}
    for record in log.records(path):
        one = evaluations.get(record.evaluation)
        if one is None:
            one = evaluations[record.evaluation] = _Gathered(
                record.evaluation, f"{stem}-{len(evaluations)}", first_row, attributes
            )
            first_row += 2**32
        one.add(record, scores)
    gathered = []
    for evaluation, one in evaluations.items():
        _refuse_doubled(path, one)
        one.write()
        about = log.about(path, evaluation)
        gathered.append(
            {
                "format": log.name,
                "model": evaluation.model,
                "task": evaluation.task,
                "filter": evaluation.filter,
                "rows": one.rows,
                "settings": masked_settings(about.settings),
                "details": masked_settings(about.details),
                "notes": list(about.notes),
                "scores": list(one.score_names),
                "known_scores": list(one.known_scores),
                "not_numbers": one.not_numbers,
                "kinds": {path: sorted(kinds) for path, kinds in one.kinds.items()},
                "examples": one.examples_files,
                "texts": one.texts_files,
            }
        )
    return gathered


def _refuse_doubled(path: Path, one: _Gathered) -> None:
    if one.doubled:
        (example_id, rerun), others = one.doubled[0], len(one.doubled) - 1
        more = f" (and {others:,} more)" if others else ""
        raise DataError(
            f"{printable(path.name)} must hold each example once a rerun, and has "
            f"{quoted_id(example_id)}{more} twice{f' in rerun {rerun}' if rerun else ''}; it may "
            "be two logs in one file: keep one of them"
        )


def list_attributes(
    path: Path, columns: LogColumns, scores: Sequence[str]
) -> dict[str, dict[str, list[Any]]]:
    """Count the values of every attribute of a log.

    Returns:
        Task to dotted path to how many examples have a value, the distinct values (at most
        `MOST_VALUES`, as hashes where they are long), and their kinds.
    """
    log = detect(path, columns, scores)
    counted: dict[str, dict[str, tuple[int, set[str], set[str]]]] = {}
    filters: dict[tuple[str, str], str] = {}
    for record in log.records(path) if log else ():
        model, task, scored = record.evaluation
        if filters.setdefault((model, task), scored) != scored:
            continue  # the same examples again, after another filter
        paths = counted.setdefault(task or path.stem, {})
        for name, value in values(record.attributes):
            if name not in paths and len(paths) >= MOST_PATHS:
                continue
            count, distinct, kinds = paths.get(name, (0, set(), set()))
            if len(distinct) < MOST_VALUES:
                text = plain_text(value)
                distinct.add(text if len(text) <= 64 else hash_text(text))
            kinds.add(_kind(value))
            paths[name] = (count + 1, distinct, kinds)
    return {
        task: {name: [n, sorted(one), sorted(kinds)] for name, (n, one, kinds) in paths.items()}
        for task, paths in counted.items()
    }


def _kind(value: Any) -> str:
    if isinstance(value, (bool, str)):
        return "text"
    if isinstance(value, int):
        return "integer" if -(2**63) <= value < 2**63 else "text"
    return "number"


def _flat(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Name the numbers of a score that has several SCORE.NUMBER."""
    flat: dict[str, Any] = {}
    for name, value in scores.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{key}": one for key, one in value.items()}
        else:
            flat[str(name)] = value
    return flat


def _number(value: Any) -> float | None:
    """A score as a number, nan where there is none; None where it is something else.

    lm-evaluation-harness writes numbers that JSON does not know as text.
    """
    if value is None:
        return math.nan
    if isinstance(value, str):
        if value in ("True", "False"):
            return float(value == "True")
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, (bool, int, float)):
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if math.isfinite(number) else math.nan
    return None


def _called(value: Any) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)} values"
    return "text" if isinstance(value, str) else f"of type {type(value).__name__}"


def _hashed(text: str | None, logged: str | None) -> str | None:
    if text is not None:
        return hash_text(text)
    return None if logged is None else str(logged)


def _shown(text: str | None) -> str | None:
    return None if text is None else _encodable(text[:SHOWN_CHARACTERS])


def _encodable(text: str | None) -> str | None:
    """Replace halves of characters, which JSON can hold and UTF-8 cannot."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")
