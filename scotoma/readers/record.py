"""What does a log say of one answer, and of one model on one task?"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from scotoma.answers.values import is_missing_text
from scotoma.printable import printable
from scotoma.readers.files import Glimpse
from scotoma.storage.credentials import looks_secret, masked

SCORE = "score."  # begins the name of every column of scores
SHOWN_CHARACTERS = 200  # of an answer or target that stand in `examples`
COLUMNS = {
    "example_id": pl.String,
    "rerun": pl.Int32,
    "content_hash": pl.String,
    "prompt_hash": pl.UInt64,
    "target_hash": pl.UInt64,
    "target": pl.String,
    "answer": pl.String,
    "answer_hash": pl.UInt64,
    "choice": pl.Int32,
    "text_hash": pl.UInt64,
    "text_length": pl.Int32,
    "prompt_length": pl.Int32,
    "prompt_script": pl.String,
    "row": pl.Int64,
    "answered": pl.Boolean,
    "stop_reason": pl.String,
    "output_tokens": pl.Int64,
    "tool_calls": pl.Int64,
}
MASK = "***"
LONGEST_ID = 80  # characters of an id in a message
LONGEST_SETTING = 500
UNCOUNTED = -1  # tool calls that a log tells of in a form that nobody can count


class Evaluation(NamedTuple):
    """Whose answers, to what, scored after which filter; empty where a log does not say."""

    model: str
    task: str
    filter: str = ""


class Record(NamedTuple):
    """One answer; None where a log has none.

    `scores` and `attributes` hold what the log holds: any JSON value. `answered` is for logs that
    say whether there is an answer; None where the answer itself says it.
    """

    evaluation: Evaluation
    example_id: str
    scores: Mapping[str, Any]
    attributes: Mapping[str, Any]
    rerun: int = 0
    content_hash: str | None = None
    prompt_hash: str | None = None
    target_hash: str | None = None
    prompt: str | None = None
    target: str | None = None
    answer: str | None = None
    text: str | None = None
    choice: int | None = None
    answered: bool | None = None
    stop_reason: str | None = None
    output_tokens: int | None = None
    tool_calls: int | None = None


class Columns(NamedTuple):
    """Many answers of an evaluation: what a `Record` holds of one, a column each.

    `cells` has the columns of a record from `rerun` on, as far as they are known, and `example_id`.
    `scores` and `attributes` hold the values as they stand in the log.
    """

    evaluation: Evaluation
    cells: pl.DataFrame
    scores: Mapping[str, Sequence[Any]]
    attributes: pl.DataFrame | Sequence[Mapping[str, Any]]


class Attempt(NamedTuple):
    """One try of an evaluation; tries of one id are the same evaluation, begun again."""

    id: str
    succeeded: bool
    time: str


class About(NamedTuple):
    """What a log says of an evaluation as a whole.

    `settings` must agree between two logs that are compared.
    """

    settings: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    attempt: Attempt | None = None


class Gathered(NamedTuple):
    """One evaluation of a file, as the process that reads it leaves it: what JSON can hold.

    Attributes:
        model: See `Evaluation`.
        task: Likewise.
        filter: Likewise.
        format: Of which tool the file is.
        settings: See `EvaluationLog`.
        notes: Likewise.
        attempt: Which try it is.
        scores: Names of the scores.
        not_numbers: Name of each score that is none, to how many examples have something else, the
            first of them, and what it is.
        kinds: Attribute to the kinds of its values.
        examples: Parquet files with a row an example.
        texts: Parquet files with their texts.
        path: The file.
        place: The place that was named.
    """

    model: str
    task: str
    filter: str
    format: str
    settings: Mapping[str, str]
    notes: Sequence[str]
    attempt: Attempt | None
    scores: Sequence[str]
    not_numbers: Mapping[str, Sequence[Any]]
    kinds: Mapping[str, Sequence[str]]
    examples: Sequence[str]
    texts: Sequence[str]
    path: Path
    place: str

    @property
    def succeeded(self) -> bool:
        """Whether it ended well, as far as the log says."""
        return self.attempt is None or self.attempt.succeeded


class Format(NamedTuple):
    """A format: its name, its records one after the other, what is said of the whole, its look."""

    name: str
    records: Callable[[Path], Iterator[Record | Columns]]
    about: Callable[[Path, Evaluation], About] = lambda path, evaluation: About({})
    sniff: Callable[[Glimpse], bool] = lambda _: False


def hash_text(*texts: str | None) -> str:
    """Hash texts, so that equal ones can be told without keeping them.

    >>> hash_text("a", "b") == hash_text("ab")
    False
    """
    content = b""
    for text in texts:
        part = b"" if text is None else text.encode("utf-8", "surrogatepass")
        content += b"%d%d:" % (text is None, len(part)) + part
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def counted(value: Any) -> int | None:
    """A count as a log writes it; None for what is none.

    >>> counted(12), counted(12.0), counted("12"), counted(True), counted(-1)
    (12, 12, None, None, None)
    """
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    return int(value) if known and 0 <= value < 2**53 else None


def called(value: Any) -> int | None:
    """Count tool calls as logs write them: a count, a list, whether there is any, or these as text.

    Returns:
        None where nothing is there; `UNCOUNTED` where it cannot be counted.

    >>> called([{"name": "f"}]), called('["f", "g"]'), called("[{'name': 'f'}]"), called(True)
    (1, 2, 1, 1)
    >>> called({"name": "f"}), called([]), called("0"), called(None), called("lookup")
    (1, 0, 0, None, -1)
    """
    if isinstance(value, str):
        if is_missing_text(value.strip()):
            return None
        try:
            value = json.loads(value)
        except ValueError:
            try:  # as pandas writes lists to CSV
                value = ast.literal_eval(value.strip())
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                return UNCOUNTED
    if isinstance(value, dict):
        value = [value] * any(one is not None for one in value.values())
    if isinstance(value, list):
        return sum(one is not None for one in value)
    if value is None or value != value:
        return None
    if isinstance(value, bool):
        return int(value)
    count = counted(value)
    return count if count == value and count is not None else UNCOUNTED


def likeliest(likelihoods: Sequence[Any], options: int) -> int | None:
    """Find the option of the highest log-likelihood; None where there is not one for each.

    >>> likeliest([-2.0, -1.0], 2), likeliest([-2.0], 2)
    (1, None)
    """
    numbers = [one for one in likelihoods if isinstance(one, (int, float))]
    if not len(numbers) == len(likelihoods) == options > 0:
        return None
    return max(range(options), key=numbers.__getitem__)


def text_column(column: Sequence[Any]) -> pl.Series:
    """A column of texts; halves of characters, which JSON can hold and UTF-8 cannot, replaced."""
    try:
        return pl.Series(column, dtype=pl.String, strict=False)
    except UnicodeEncodeError:
        whole = [one if one is None else str(one).encode("utf-8", "replace") for one in column]
        return pl.Series(whole, dtype=pl.Binary).cast(pl.String)


def masked_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Write settings as text, without credentials, in the order of their names.

    >>> masked_settings({"model_args": {"token": "abc", "dtype": "int4"}, "limit": None})
    {'limit': 'none', 'model_args': '{"dtype": "int4", "token": "***"}'}
    """
    shown = {}
    for name, value in sorted(settings.items()):
        if value is None or value in ("", [], {}):
            shown[name] = "none"
            continue
        open_value = _without_secrets(name, value)
        text = open_value if isinstance(open_value, str) else json.dumps(open_value, sort_keys=True)
        text = masked(text)
        if len(text) > LONGEST_SETTING:
            text = f"{text[:LONGEST_SETTING]}... ({hash_text(text)})"
        shown[name] = text
    return shown


def _without_secrets(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _without_secrets(str(key), one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_secrets(name, one) for one in value]
    if isinstance(value, str):
        parts = value.split(",")  # pretrained=org/model,token=...
        pairs = [part.partition("=") for part in parts]
        if looks_secret(name, ""):
            return MASK
        return ",".join(
            f"{key}={MASK}" if equals and looks_secret(key.strip(), one) else f"{key}{equals}{one}"
            for key, equals, one in pairs
        )
    return MASK if isinstance(value, (int, float)) and _names_secret(name) else value


def _names_secret(name: str) -> bool:
    """Whether a number is a secret: not where tokens are counted.

    >>> _names_secret("password"), _names_secret("max_tokens")
    (True, False)
    """
    return "token" not in name.lower() and looks_secret(name, "")


def quoted_id(example_id: str) -> str:
    """Quote an id for a message.

    >>> quoted_id("a" * 100)[-6:]
    "aa...'"
    """
    text = masked(printable(example_id))
    return repr(text if len(text) <= LONGEST_ID else f"{text[: LONGEST_ID - 3]}...")


@dataclass(frozen=True)
class EvaluationLog:
    """One model's answers to the examples of one task.

    Attributes:
        model: What the log calls the model, without credentials.
        task: What the log calls the task, or dataset; a file's stem where it names none.
        format: Of which tool the log is: lm-eval, inspect, helm, lighteval, every-eval-ever, timm,
            mlflow or table.
        files: The files that were read.
        settings: How examples were asked and scored (few_shot, filter, limit, ...): these must be
            equal for two logs to be compared. Values that look secret are masked.
        examples: One row an example and rerun, in the order of the log, with the columns of
            `COLUMNS`, then those of `scores`, then those of `attributes`:

            - `example_id`: the log's id of the example. Unique within a rerun.
            - `rerun`: from 0; all 0 where each example was evaluated once.
            - `content_hash`: of the example as the dataset holds it; null where the log has none.
            - `prompt_hash`, `target_hash`: of the whole prompt and target, by the log or by its
              reader; null where the log holds neither hash nor text.
            - `target`, `answer`: the true answer and the extracted one, cut after
              `SHOWN_CHARACTERS`; null where the log has none.
            - `answer_hash`, `text_hash`: of the whole extracted answer and raw text; equal where
              these are equal, null where they are absent.
            - `choice`: the chosen option of a multiple-choice question, from 0; null elsewhere.
            - `text_length`, `prompt_length`: in characters; null where absent.
            - `prompt_script`: script of most letters of the prompt, see `script_of`; null where
              there is no letter or no prompt.
            - `row`: the row of this example in `texts`.
            - `answered`: whether the model gave an answer, a text or a choice.
            - `stop_reason`: why the answer ended, in the log's own word; null where it has none.
            - `output_tokens`, `tool_calls`: of the answer; null where the log counts none,
              `UNCOUNTED` where what it says of tool calls cannot be counted.
            - `score.NAME`: Float64. nan where unscored, which is not the same as wrong.
            - one column an attribute, named by its dotted path: Int64 or Float64 where every
              value is a number, String elsewhere; null where an example has none.
        scores: Names of the scores, without `score.`.
        attributes: Dotted paths of the attributes that were asked for.
        texts: Parquet files with the columns `row`, `prompt`, `answer`, `text` and `target`, whole.
        notes: Sentences that a reader of the result should know.
    """

    model: str
    task: str
    format: str
    files: tuple[str, ...]
    settings: Mapping[str, str]
    examples: pl.DataFrame
    scores: tuple[str, ...]
    attributes: tuple[str, ...] = ()
    texts: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()

    def scan_texts(self) -> pl.LazyFrame:
        """Scan `row`, `prompt`, `answer`, `text` and `target` of all rows; they stay on disk."""
        return pl.scan_parquet(list(self.texts), glob=False)

    def read_texts(self, rows: Iterable[int]) -> pl.DataFrame:
        """Read the prompt, answer, text and target of a few rows, in the order of `row`.

        Args:
            rows: Values of the column `row`.
        """
        wanted = sorted(set(rows))
        return self.scan_texts().filter(pl.col("row").is_in(wanted)).collect().sort("row")


@dataclass(frozen=True)
class AttributePath:
    """An attribute that a log holds.

    Attributes:
        path: Dotted, as `attributes` takes it.
        examples: How many rows have a value.
        values: Number of distinct values, counted up to `MOST_VALUES`.
        kind: `numbers`, `text` or `mixed`.
    """

    path: str
    examples: int
    values: int
    kind: str
