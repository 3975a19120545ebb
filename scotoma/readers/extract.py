"""What does a log come to as tables on disk?

Called in the process that reads files from outside.
"""

from __future__ import annotations

import gc
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Final

import polars as pl

from scotoma.answers.values import is_plain, read_values
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
from scotoma.readers.inspect_ai import INSPECT_AI
from scotoma.readers.lighteval import LIGHTEVAL
from scotoma.readers.lm_eval import LM_EVAL
from scotoma.readers.nemo_gym import NEMO_GYM
from scotoma.readers.nemo_skills import NEMO_SKILLS
from scotoma.readers.promptfoo import PROMPTFOO
from scotoma.readers.record import (
    COLUMNS,
    SCORE,
    SHOWN_CHARACTERS,
    Columns,
    Evaluation,
    Format,
    Record,
    hash_text,
    masked_settings,
    quoted_id,
    text_column,
)

FORMATS = (
    "lm-eval", "inspect", "helm", "lighteval", "every-eval-ever", "nemo-skills", "nemo-gym",
    "promptfoo", "timm", "mlflow", "table",
)  # fmt: skip
SUFFIXES = (".jsonl", ".eval", ".json", ".parquet", ".csv", ".csv.gz", ".jsonl.gz", ".json.gz")
TABLES = FORMATS[-3:]
TOOLS = (
    INSPECT_AI, HELM, LIGHTEVAL, LM_EVAL, EVERY_EVAL_EVER, NEMO_SKILLS, NEMO_GYM, PROMPTFOO,
)  # fmt: skip
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
WORD = 64  # characters of a value that is kept as it is
WORDS = ("prompt", "answer", "text", "target")
TEXTS = {"row": pl.Int64} | dict.fromkeys(WORDS, pl.String)
ENDED = ("stop_reason", "output_tokens", "tool_calls")
GIVEN = {"rerun": pl.Int32, "choice": pl.Int32, "answered": pl.Boolean}
GIVEN |= {name: COLUMNS[name] for name in ENDED}
GIVEN |= dict.fromkeys(("content_hash", "prompt_hash", "target_hash", *WORDS), pl.String)
HELD = ("example_id", *Record._fields[4:])  # cells of a record; scores and attributes go before
ANSWERED = pl.col("answered").fill_null(
    pl.col("choice").is_not_null()
    | pl.any_horizontal(pl.col("answer", "text").str.contains(r"\S").fill_null(value=False))
)
# A number in an object is a score only if it is called one.
CALLED_SCORE = re.compile(r"(^|_)(score|acc|accuracy|correct|match|em|f1)s?$", re.IGNORECASE)


def detect(path: Path, columns: LogColumns) -> Format | None:
    """Tell the format of a file; None where it is no log and no table.

    Args:
        path: The file.
        columns: Columns of tables.

    Raises:
        DataError: It cannot be read.
    """
    if path.is_dir():
        return table_format(columns, "table")
    file = Glimpse(path)
    if known := next((tool for tool in TOOLS if tool.sniff(file)), None):
        return known
    if SPLIT.match(file.begins):
        return table_format(columns, "mlflow")
    if not file.columns:
        return None
    return table_format(columns, "timm" if is_timm(file.columns) else "table")


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
            inner = value_at(nested[path[:place]], path[place + 1 :])
            if inner is not None:
                return inner
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
    held: list[tuple[Any, ...]] = field(default_factory=list)
    score_names: dict[str, None] = field(default_factory=dict)
    not_numbers: dict[str, list[Any]] = field(default_factory=dict)
    kinds: dict[str, set[str]] = field(default_factory=dict)
    keys: list[pl.DataFrame] = field(default_factory=list)
    examples_files: list[str] = field(default_factory=list)
    texts_files: list[str] = field(default_factory=list)

    def add(self, record: Record) -> None:
        # Only what is asked of the attributes is held: they are most of a log.
        own = {path: value_at(record.attributes, path) for path in self.attributes}
        self.held.append((record.scores, own, record.example_id, *record[4:]))
        self.held_bytes += sum(map(len, filter(None, record[8:12])))
        if self.held_bytes > PART_BYTES or len(self.held) >= PART_ROWS:
            self.write_held()

    def write_held(self) -> None:
        """Write the records that are held as one more part of each table."""
        if not self.held:
            return
        rows, attributes, *cells = zip(*self.held, strict=True)
        flat = [*map(_flat, rows)]
        names = dict.fromkeys(chain.from_iterable(flat))
        scores = {name: [row.get(name) for row in flat] for name in names}
        table = pl.DataFrame(
            {
                name: text_column(column) if GIVEN.get(name, pl.String) == pl.String else column
                for name, column in zip(HELD, cells, strict=True)
            }
        )
        self.write(Columns(self.evaluation, table, scores, attributes))
        self.held.clear()
        self.held_bytes = 0

    def write(self, columns: Columns) -> None:
        """Write answers as one more part of each table."""
        given, height = columns.cells, columns.cells.height
        self.keys.append(given.select("example_id", pl.col("rerun").cast(pl.Int32)))
        given = given.with_columns(
            pl.lit(None, kind).alias(name) for name, kind in GIVEN.items() if name not in given
        )
        first = self.first_row + self.rows
        texts = given.select(
            pl.int_range(first, first + height).alias("row"),
            *(pl.col(name) for name in TEXTS if name != "row"),
        )
        cells = texts.select("row", pl.col("target", "answer").str.slice(0, SHOWN_CHARACTERS))
        for name in WORDS:
            own = f"{name}_hash"
            known = _hashed(texts[name])
            if own in given:
                known = known.zip_with(known.is_not_null(), _hashed(given[own]))
            cells = cells.with_columns(
                known.alias(own), texts[name].str.len_chars().alias(f"{name}_length")
            )
        cells = cells.with_columns(
            *given.select("example_id", "rerun", "content_hash", "choice", *ENDED),
            given.select(answered=ANSWERED).to_series(),
            pl.Series("prompt_script", [*map(script_of, texts["prompt"])], pl.String),
            *(self._attribute(columns, path) for path in self.attributes),
            *self._scores(columns),
        )
        schema = COLUMNS | dict.fromkeys(self.attributes, pl.String)
        schema |= dict.fromkeys((SCORE + name for name in self.score_names), pl.Float64)
        for kind, table, files, types in (
            ("examples", cells, self.examples_files, schema),
            ("texts", texts, self.texts_files, TEXTS),
        ):
            files.append(f"{self.stem}-{kind}-{len(files):04d}.parquet")
            written = [
                pl.col(name) if name in table else pl.lit(None).alias(name) for name in types
            ]
            table = table.select(written).cast(types)  # type: ignore[arg-type]
            table.write_parquet(files[-1], compression="zstd", compression_level=1)
        self.rows += height

    def _attribute(self, columns: Columns, path: str) -> pl.Series:
        """Read an attribute as text, and note the kinds of its values."""
        attributes, kinds = columns.attributes, self.kinds.setdefault(path, set())
        if isinstance(attributes, pl.DataFrame):
            if path in attributes and is_plain(attributes[path].dtype):
                column = attributes[path]
                column = column.fill_nan(None) if column.dtype.is_float() else column
                kinds |= _kinds(column)
                return column.cast(pl.String)
            own = [name for name in attributes.columns if f"{path}.".startswith(f"{name}.")]
            attributes = attributes.select(own).to_dicts() or [{}] * columns.cells.height
        raw = [
            value if type(value := row.get(path)) in (str, int) else value_at(row, path)
            for row in attributes
        ]
        if {*map(type, raw)} <= {str, type(None)}:
            kinds |= {"text"} if raw.count(None) < len(raw) else set()
        else:
            kinds.update(_kind(value) for value in raw if value is not None)
            raw = [None if value is None else plain_text(value) for value in raw]
        return text_column(raw).alias(path)

    def _scores(self, columns: Columns) -> Iterator[pl.Series]:
        """Read the scores as numbers, nan where they are none."""
        for name, values in columns.scores.items():
            self.score_names[name] = None
            numbers = list(map(_number, values))
            if None in numbers:
                place = numbers.index(None)
                first = [0, columns.cells["example_id"][place], _called(values[place])]
                fault = self.not_numbers.setdefault(name, first)
                fault[0] += numbers.count(None)
            yield pl.Series(SCORE + name, numbers, pl.Float64).fill_null(math.nan)


def format_of(path: Path, columns: LogColumns) -> str | None:
    """Tell the format of a file; see `detect`."""
    detected = detect(path, columns)
    return detected.name if detected else None


def gather_log(
    path: Path,
    stem: str,
    first_row: int,
    attributes: Sequence[str],
    columns: LogColumns,
) -> list[list[Any]]:
    """Read a log and leave its evaluations as Parquet.

    Args:
        path: A file whose format `detect` knows.
        stem: With what the paths of the Parquet files begin.
        first_row: Number of the first row.
        attributes: Dotted paths of the attributes to keep.
        columns: Columns of tables.

    Returns:
        For each evaluation the fields of `Gathered` but path and place.

    Raises:
        DataError: The file cannot be read, or holds an example twice.
    """
    log = detect(path, columns)
    if log is None:
        raise DataError(f"{printable(path.name)} is no log of an evaluation; name another file")
    evaluations: dict[Evaluation, _Gathered] = {}
    with _no_search_for_cycles():
        for record in log.records(path):
            one = evaluations.get(record.evaluation)
            if one is None:
                one = evaluations[record.evaluation] = _Gathered(
                    record.evaluation, f"{stem}-{len(evaluations)}", first_row, attributes
                )
                first_row += 2**32
            if isinstance(record, Columns):
                one.write(record)
            else:
                one.add(record)
    gathered = []
    for evaluation, one in evaluations.items():
        one.write_held()
        _refuse_doubled(path, pl.concat(one.keys))
        about = log.about(path, evaluation)
        gathered.append(
            [
                *evaluation,
                log.name,
                masked_settings(about.settings),
                about.notes,
                about.attempt,
                [*one.score_names],
                one.not_numbers,
                {path: sorted(kinds) for path, kinds in one.kinds.items()},
                one.examples_files,
                one.texts_files,
            ]
        )
    return gathered


@contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """Keep Python from looking for cycles, of which logs hold none: a tenth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _refuse_doubled(path: Path, keys: pl.DataFrame) -> None:
    again = keys.filter(~pl.struct(pl.all()).is_first_distinct())
    if again.height:
        (example_id, rerun), others = again.row(0), again.height - 1
        more = f" (and {others:,} more)" if others else ""
        raise DataError(
            f"{printable(path.name)} must hold each example once a rerun, and has "
            f"{quoted_id(example_id)}{more} twice{f' in rerun {rerun}' if rerun else ''}; it may "
            "be two logs in one file: keep one of them"
        )


def list_attributes(path: Path, columns: LogColumns) -> dict[str, dict[str, list[Any]]]:
    """Count the values of every attribute of a log.

    Returns:
        Task to dotted path to how many examples have a value, the distinct values (at most
        `MOST_VALUES`, as hashes where they are long), and their kinds.
    """
    log = detect(path, columns)
    parts: Iterable[tuple[str, pl.DataFrame | Sequence[Mapping[str, Any]]]] = ()
    if log:
        table = log.name in TABLES
        parts = table_attributes(path, columns) if table else _attributes(log, path)
    counted: dict[str, dict[str, tuple[int, set[str], set[str]]]] = {}
    for task, attributes in parts:
        paths = counted.setdefault(task or path.stem, {})
        if isinstance(attributes, pl.DataFrame):
            paths |= {one.name: _counted(one) for one in attributes if is_plain(one.dtype)}
            continue
        for name, value in chain.from_iterable(map(values, attributes)):
            if name not in paths and len(paths) >= MOST_PATHS:
                continue
            count, distinct, kinds = paths.get(name, (0, set(), set()))
            if len(distinct) < MOST_VALUES:
                text = plain_text(value)
                distinct.add(text if len(text) <= WORD else hash_text(text))
            kinds.add(_kind(value))
            paths[name] = (count + 1, distinct, kinds)
    return {
        task: {name: [n, sorted(one), sorted(kinds)] for name, (n, one, kinds) in paths.items()}
        for task, paths in counted.items()
    }


def _attributes(log: Format, path: Path) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    filters: dict[tuple[str, str], str] = {}
    for record in log.records(path):
        model, task, scored = record.evaluation
        # Otherwise it is the same examples again, after another filter.
        if filters.setdefault((model, task), scored) == scored and isinstance(record, Record):
            yield task, [record.attributes]


def _counted(column: pl.Series) -> tuple[int, set[str], set[str]]:
    """How many rows of a column have a value, its distinct values, and their kind."""
    known = read_values(column).values.drop_nulls()
    texts = known.unique(maintain_order=True).head(MOST_VALUES)
    distinct = {text if len(text) <= WORD else hash_text(text) for text in texts}
    return len(known), distinct, _kinds(column)


def _kinds(column: pl.Series) -> set[str]:
    """The kinds of the values of a plain column; see `_kind`."""
    if column.null_count() == len(column):
        return set()
    return {_kind(column.max()) if column.dtype.is_numeric() else "text"}


def _hashed(texts: pl.Series) -> pl.Series:
    """Hash texts as this version of polars does, which is enough to tell equal ones."""
    return texts.hash().set(texts.is_null(), None)


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
