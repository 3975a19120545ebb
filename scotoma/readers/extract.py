"""What does a log come to as tables on disk?

Called in the process that reads files from outside.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import polars as pl

from scotoma.answers.values import read_values
from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.readers.evaluation_tables import (
    LogColumns,
    is_timm,
    table_attributes,
    table_format,
)
from scotoma.readers.every_eval_ever import EVERY_EVAL_EVER
from scotoma.readers.files import Glimpse
from scotoma.readers.helm import HELM
from scotoma.readers.inspect_ai import INSPECT_AI, INSPECT_AI_JSON
from scotoma.readers.lighteval import LIGHTEVAL
from scotoma.readers.lm_eval import LM_EVAL
from scotoma.readers.record import (
    COLUMNS,
    SCORE,
    SHOWN_CHARACTERS,
    Evaluation,
    Format,
    Record,
    hash_text,
    masked_settings,
    quoted_id,
)

__all__ = [
    "FORMATS",
    "LETTERS_READ",
    "MOST_VALUES",
    "SUFFIXES",
    "detect",
    "format_of",
    "gather_log",
    "list_attributes",
    "script_of",
]

FORMATS = ("lm-eval", "inspect", "helm", "lighteval", "every-eval-ever", "timm", "mlflow", "table")
SUFFIXES = (".jsonl", ".eval", ".json", ".parquet", ".csv", ".csv.gz")
TOOLS = (INSPECT_AI, INSPECT_AI_JSON, HELM, LIGHTEVAL, LM_EVAL, EVERY_EVAL_EVER)
SPLIT = re.compile(rb'\s*\{\s*"columns"\s*:\s*\[')
Plain = str | int | float | bool
DEEPEST = 8
LETTERS_READ: Final = 2_000  # characters at the end of a text, where a prompt's own question stands
KANA_SHARE = 0.1  # of Han and kana together, from which the text is one that uses kana
KANA, HAN = "Kana", "Han"
NAMED = {"CJK": HAN, "HIRAGANA": KANA, "KATAKANA": KANA}
MOST_VALUES: Final = 1_000  # distinct values of an attribute that are counted
MOST_PATHS: Final = 10_000
PART_BYTES = 2**25  # of text that is held before it is written
PART_ROWS = 20_000
WORD = 64  # characters of a text whose hash is kept
TEXTS = {"row": pl.Int64} | dict.fromkeys(("prompt", "answer", "text", "target"), pl.String)
# A number in an object is a score only if it is called one.
CALLED_SCORE = re.compile(r"(^|_)(score|acc|accuracy|correct|match|em|f1)s?$", re.IGNORECASE)


def detect(path: Path, columns: LogColumns, scores: Sequence[str]) -> Format | None:
    """Tell the format of a file; None where it is no log and no table.

    Args:
        path: The file.
        columns: Columns of tables.
        scores: Columns of scores of tables.

    Raises:
        DataError: It cannot be read.
    """
    if path.is_dir():
        return table_format(columns, scores, "table")
    file = Glimpse(path)
    if known := next((tool for tool in TOOLS if tool.sniff(file)), None):
        return known
    if SPLIT.match(file.begins):
        return table_format(columns, scores, "mlflow")
    if not file.columns:
        return None
    return table_format(columns, scores, "timm" if is_timm(file.columns) else "table")


def values(
    nested: Mapping[str, Any], above: str = "", depth: int = DEEPEST
) -> Iterator[tuple[str, Plain]]:
    """List plain values with their paths; a list of plain values is one, joined by commas.

    >>> list(values({"doc": {"age": 3, "tags": ["a", "b"], "none": None}}))
    [('doc.age', 3), ('doc.tags', 'a, b')]
    """
    for name, value in nested.items():
        path = f"{above}.{name}" if above else str(name)
        if isinstance(value, Mapping):
            if depth:
                yield from values(value, path, depth - 1)
        elif (plain := _plain(value)) is not None:
            yield path, plain


def value_at(nested: Mapping[str, Any], path: str) -> Plain | None:
    """Find the value at a path; None where there is none, or no plain one.

    A name may itself hold dots.

    >>> value_at({"doc": {"a.b": {"c": 1}}}, "doc.a.b.c")
    1
    """
    if path in nested:
        value = nested[path]
        return None if isinstance(value, Mapping) else _plain(value)
    for place, sign in enumerate(path):
        if sign == "." and isinstance(nested.get(path[:place]), Mapping):
            found = value_at(nested[path[:place]], path[place + 1 :])
            if found is not None:
                return found
    return None


def plain_text(value: Plain) -> str:
    """Write a value as text, as JSON would write what is no text.

    >>> plain_text(True), plain_text(2), plain_text("a")
    ('true', '2', 'a')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(value: Any) -> Plain | None:
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, list) and value and all(isinstance(one, (str, int)) for one in value):
        return ", ".join(map(plain_text, value))
    return None


def script_of(text: str | None) -> str | None:
    """Name the script of most letters among the last 2,000 characters of a text.

    Args:
        text: Any text; None where there is none.

    Returns:
        `Latin`, `Cyrillic`, `Arabic`, `Han`, `Kana` (text that mixes kana with Han), ..., the first
        word of the letters' Unicode names; None without a letter.

    References:
        The Unicode Standard, section 4.8 (names), as `unicodedata` has them.

    >>> script_of("What is 1 + 1?"), script_of("Сколько будет 1 + 1?"), script_of("1 + 1 = ?")
    ('Latin', 'Cyrillic', None)
    >>> script_of("日本の首都はどこですか"), script_of("法国的首都是哪里")
    ('Kana', 'Han')
    """
    if not text:
        return None
    end = text[-LETTERS_READ:]
    if end.isascii():
        return "Latin" if any(map(str.isalpha, end)) else None
    counts: Counter[str] = Counter()
    for sign, times in Counter(end).items():
        if name := _script(sign):
            counts[name] += times
    together = counts[HAN] + counts[KANA]
    if together:
        one, other = (KANA, HAN) if counts[KANA] >= KANA_SHARE * together else (HAN, KANA)
        counts[one] = together
        del counts[other]
    # Of two scripts with as many letters the first by name: the order of a text plays no part.
    return min(counts, key=lambda name: (-counts[name], name), default=None)


@lru_cache(maxsize=2**16)
def _script(sign: str) -> str:
    """The script of a letter; empty for other signs. Wide and mathematical letters are plain."""
    plain = unicodedata.normalize("NFKC", sign)[:1]
    if not plain.isalpha():
        return ""
    word = unicodedata.name(plain, "").partition(" ")[0]
    return NAMED.get(word, word.capitalize())


@dataclass
class _Gathered:
    """One evaluation, as far as it has been read."""

    evaluation: Evaluation
    stem: str
    first_row: int
    attributes: Sequence[str]
    rows: int = 0
    held_bytes: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)
    texts: list[dict[str, Any]] = field(default_factory=list)
    score_names: dict[str, None] = field(default_factory=dict)
    known_scores: dict[str, None] = field(default_factory=dict)
    not_numbers: dict[str, list[Any]] = field(default_factory=dict)
    kinds: dict[str, set[str]] = field(default_factory=dict)
    seen: set[tuple[str, int]] = field(default_factory=set)
    doubled: list[tuple[str, int]] = field(default_factory=list)
    examples_files: list[str] = field(default_factory=list)
    texts_files: list[str] = field(default_factory=list)

    def add(self, record: Record, wanted: Sequence[str]) -> None:
        key = (record.example_id, record.rerun)
        if key in self.seen:
            self.doubled.append(key)
            return
        self.seen.add(key)
        texts = {"prompt": record.prompt, "answer": record.answer, "text": record.text,
                 "target": record.target}  # fmt: skip
        cells: dict[str, Any] = {
            "example_id": record.example_id,
            "rerun": record.rerun,
            "content_hash": record.content_hash,
            "prompt_hash": _hashed(record.prompt, record.prompt_hash),
            "target_hash": _hashed(record.target, record.target_hash),
            "target": _shown(record.target),
            "answer": _shown(record.answer),
            "answer_hash": _hashed(record.answer, None),
            "choice": record.choice,
            "row": self.first_row + self.rows,
            "answered": _is_answered(record),
        }
        if record.text is not None:
            cells |= {"text_hash": _hashed(record.text, None), "text_length": len(record.text)}
        if (prompt := record.prompt) is not None:
            cells |= {"prompt_length": len(prompt), "prompt_script": script_of(prompt)}
        for path in self.attributes:
            value = value_at(record.attributes, path)
            if value is not None:
                cells[path] = plain_text(value)
                self.kinds.setdefault(path, set()).add(_kind(value))
        self.examples.append(cells | self._scores(record, wanted))
        said = {name: _encodable(text) for name, text in texts.items() if text is not None}
        self.texts.append(said | {"row": cells["row"]})
        self.held_bytes += sum(map(len, filter(None, said.values())))
        self.rows += 1
        if self.held_bytes > PART_BYTES or len(self.texts) >= PART_ROWS:
            self.write()

    def _scores(self, record: Record, wanted: Sequence[str]) -> dict[str, float]:
        """Read the scores that are wanted as numbers, nan where they are none."""
        numbers = {}
        for name, value in _flat(record.scores).items():
            self.known_scores[name] = None
            if wanted and name not in wanted:
                continue
            number = _number(value)
            if number is None:
                fault = self.not_numbers.setdefault(name, [0, record.example_id, _called(value)])
                fault[0] += 1
            self.score_names[name] = None
            numbers[SCORE + name] = math.nan if number is None else number
        return numbers

    def write(self) -> None:
        """Write what is held as one more part of each table."""
        schema = COLUMNS | dict.fromkeys(self.attributes, pl.String)
        schema |= dict.fromkeys((SCORE + name for name in self.score_names), pl.Float64)
        for kind, rows, files, types in (
            ("examples", self.examples, self.examples_files, schema),
            ("texts", self.texts, self.texts_files, TEXTS),
        ):
            if rows:
                files.append(f"{self.stem}-{kind}-{len(files):04d}.parquet")
                table = pl.DataFrame(rows, schema=types)
                table.write_parquet(files[-1], compression="zstd", compression_level=1)
                rows.clear()
        self.held_bytes = 0


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
                "attempt": about.attempt,
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
    if (
        log
        and log.name == "table"
        and (frame := table_attributes(path, columns, scores)) is not None
    ):
        return {path.stem: {column.name: _counted(column) for column in frame}}
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


def _counted(column: pl.Series) -> list[Any]:
    """How many rows of a column have a value, its distinct values, and their kind."""
    known = read_values(column).values.drop_nulls()
    texts = known.unique(maintain_order=True).head(MOST_VALUES)
    kind = "text"
    if column.dtype.is_numeric():
        kind = "integer" if column.dtype.is_integer() else "number"
    distinct = sorted(text if len(text) <= WORD else hash_text(text) for text in texts)
    return [len(known), distinct, [kind] if len(known) else []]


def _kind(value: Any) -> str:
    if isinstance(value, (bool, str)):
        return "text"
    if isinstance(value, int):
        return "integer" if -(2**63) <= value < 2**63 else "text"
    return "number"


def _flat(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Name the scores of a metric that is an object METRIC.SCORE; ids and counts are none.

    >>> _flat({"acc": 1, "pope": {"question_id": 7, "score": 0.5}, "mmmu": {"id": 7}})
    {'acc': 1, 'pope.score': 0.5, 'mmmu': {'id': 7}}
    """
    flat: dict[str, Any] = {}
    for name, value in scores.items():
        if isinstance(value, Mapping):
            own = {f"{name}.{key}": one for key, one in value.items() if CALLED_SCORE.search(key)}
            flat |= own or {name: value}
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
    if isinstance(value, Mapping):
        return "an object without a number called score"
    if isinstance(value, list):
        return f"a list of {len(value)} values"
    return "text" if isinstance(value, str) else f"of type {type(value).__name__}"


def _is_answered(record: Record) -> bool:
    if record.answered is not None:
        return record.answered
    texts = (record.answer, record.text)
    return record.choice is not None or any(text and not text.isspace() for text in texts)


@lru_cache(2**12)
def _hash_of_word(text: str) -> str:
    """Hash a short text: answers and targets repeat."""
    return hash_text(text)


def _hashed(text: str | None, logged: str | None) -> str | None:
    if text is not None:
        return _hash_of_word(text) if len(text) <= WORD else hash_text(text)
    return None if logged is None else str(logged)


def _shown(text: str | None) -> str | None:
    return None if text is None else _encodable(text[:SHOWN_CHARACTERS])


def _encodable(text: str | None) -> str | None:
    """Replace halves of characters, which JSON can hold and UTF-8 cannot."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")
