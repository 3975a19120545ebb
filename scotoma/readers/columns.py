"""Which columns of a table do options name, and what do they hold?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.answers.natural import natural_order
from scotoma.answers.pair import read_ids
from scotoma.answers.values import as_numbers, column_text, read_values, refuse_null
from scotoma.errors import ConfigError, DataError
from scotoma.printable import listed, nearest, quoted
from scotoma.readers.tables import refuse_doubled

Texts = npt.NDArray[np.object_]
LABELS = ("label", "target", "class", "y", "digit", "category")


def column(table: pl.DataFrame, name: str, option: str) -> str:
    """The name, if the table has such a column.

    Raises:
        ConfigError: It has not; the message has the nearest name.

    >>> column(pl.DataFrame({"sex": ["f"]}), "sex", "--group")
    'sex'
    """
    if name in table.columns:
        refuse_doubled(name, table.columns, "the table")
        return name
    way = nearest(name, table.columns, f"; it has {listed(table.columns)}")
    raise ConfigError(f"{option} names column {quoted(name)}, which is not in the table{way}")


def guessed_label(table: pl.DataFrame) -> str | None:
    """The column that is called as labels usually are; None without one."""
    lower = {name.lower(): name for name in reversed(table.columns)}
    return next((lower[name] for name in LABELS if name in lower), None)


def label_column(table: pl.DataFrame, named: str) -> tuple[str, tuple[str, ...]]:
    """The column of the true labels, and a sentence where it was guessed.

    Args:
        table: From `read_table`.
        named: As `--label` has it; empty for the column with a usual name.

    Raises:
        ConfigError: There is none.

    >>> label_column(pl.DataFrame({"sex": ["f"], "Target": [1]}), "")
    ('Target', ("no --label: column 'Target' is taken for the true labels",))
    """
    if named:
        return column(table, named, "--label"), ()
    if name := guessed_label(table):
        return name, (f"no --label: column {quoted(name)} is taken for the true labels",)
    raise ConfigError(
        f"--label is missing; name the column of the true labels, one of {listed(table.columns)}"
    )


def columns(table: pl.DataFrame, patterns: Iterable[str], option: str) -> list[str]:
    """The columns that names or patterns (`member_*`) stand for, in the order of the table.

    >>> columns(pl.DataFrame({"m_1": [0], "m_2": [0], "sex": [1]}), ["m_*"], "--predicted")
    ['m_1', 'm_2']
    """
    matches: dict[str, None] = {}
    for pattern in patterns:
        exact = [pattern] if pattern in table.columns else []
        matched = exact or [name for name in table.columns if fnmatchcase(name, pattern)]
        matches |= dict.fromkeys(matched or [column(table, pattern, option)])
    return list(matches)


def check_compared(
    what: str, after: Sequence[str], before: Sequence[str], label: str | None, *, paired: bool
) -> None:
    """Check that columns of compressed models can be compared with those of a baseline.

    Args:
        what: What the columns hold, as the option is called.
        after: Columns of compressed models.
        before: Columns of the baseline.
        label: Column of the label; None for none.
        paired: Whether each compressed model has a partner in the baseline.

    Raises:
        ConfigError: A column is named twice, or models lack a partner.
    """
    if clash := (set(after) & set(before)) | ({label} & {*after, *before}):
        raise ConfigError(
            f"label, baseline and {what} must be different columns, got "
            f"{quoted(min(map(str, clash)))} twice: narrow the pattern"
        )
    if paired and len(before) != len(after):
        raise ConfigError(
            f"--paired needs as many baseline as {what} columns, got {len(before)} and "
            f"{len(after)}: leave out models without a partner"
        )


def texts(table: pl.DataFrame, name: str) -> Texts:
    """A column as text, shape (N,).

    Raises:
        DataError: Empty rows, or a column of lists.

    >>> texts(pl.DataFrame({"sex": ["f", "m "]}), "sex").tolist()
    ['f', 'm']
    """
    return np.array(refuse_null(read_values(table[name]).values).to_list(), dtype=object)


def numbers(table: pl.DataFrame, name: str, *, truths: bool = False) -> npt.NDArray[np.float64]:
    """A column as finite numbers, shape (N,).

    Args:
        table: From `read_table`.
        name: The column.
        truths: Whether true is 1 and false 0.

    Raises:
        DataError: A row that is empty, no number or not finite.

    >>> numbers(pl.DataFrame({"value": ["0.5", "1e-3"]}), "value").tolist()
    [0.5, 0.001]
    """
    values = texts(table, name)
    cast = as_numbers(pl.Series(values.tolist(), dtype=pl.String), truths=truths)
    if cast.null_count():
        row = int(cast.is_null().arg_max() or 0)
        raise DataError(
            f"column {quoted(name)} must hold finite numbers, got {quoted(values[row])} in row "
            f"{row + 1:,}: correct or remove the row"
        )
    return cast.to_numpy()


EXAMPLE = "example_id"  # unless --id says otherwise


class WideTable(NamedTuple):
    """Examples with a column of predictions a model.

    Attributes:
        frame: A row an example.
        predicted: Columns of the models, in natural order.
        baseline: Columns of those that they are compared with.
        identifier: Column of ids.
    """

    frame: pl.DataFrame
    predicted: tuple[str, ...]
    baseline: tuple[str, ...]
    identifier: str


def widened(
    predictions: pl.DataFrame,
    examples: pl.DataFrame,
    predicted: Sequence[str],
    baseline: Sequence[str] = (),
    *,
    identifier: str = "",
    paired: bool = False,
) -> WideTable:
    """Set predictions, one a row, beside the table of examples that they speak of.

    Args:
        predictions: Columns `example_id` (or `identifier`), `variant`, `model` and `predicted`; one
            row per example and model.
        examples: A row an example, with the same column of ids.
        predicted: Name of a variant, or a pattern for one.
        baseline: The same of the variant to compare with; empty for none.
        identifier: Column of ids; empty for `example_id`.
        paired: Whether models of the same name derive from one another.

    Returns:
        As many rows as `examples`, in their order. Other variants are left out.

    Raises:
        ConfigError: A column or a variant that is not there, several variants for one, or paired
            variants of different models.
        DataError: An id, a variant, a model or a prediction that is missing or there twice.

    >>> long = pl.DataFrame({"example_id": ["a", "b"], "variant": ["int8"] * 2, "model": ["0"] * 2,
    ...                      "predicted": ["yes", "no"]})
    >>> table = widened(long, pl.DataFrame({"example_id": ["b", "a"]}), ["int8"])
    >>> table.predicted, table.frame["int8/0"].to_list()
    (('int8/0',), ['no', 'yes'])
    """
    key = identifier or EXAMPLE
    names = [
        column(predictions, name, "the long format")
        for name in (key, "variant", "model", "predicted")
    ]
    frame = pl.DataFrame(
        {
            place: texts(predictions, name).tolist()
            for place, name in zip("ivm", names[:3], strict=True)
        },
        schema=dict.fromkeys("ivm", pl.String),
    ).with_columns(p=column_text(predictions[names[3]]).fill_null(""))  # a row may have no answer
    ids = read_ids(examples[column(examples, key, "--examples")]).alias("i").to_frame()
    populations: dict[str, dict[str, pl.Series]] = {}
    paired_by: dict[str, list[str]] = {"--baseline": []}
    for option, patterns in (
        ("--baseline", baseline),
        ("--predicted", predicted),
    ):
        if patterns or option == "--predicted":
            variant = _variant(frame["v"].unique().to_list(), patterns, option)
            models = _models(frame.filter(v=variant), variant, ids)
            populations[option] = {f"{variant}/{model}": column for model, column in models.items()}
            paired_by[option] = list(models)
    after, before = populations["--predicted"], populations.get("--baseline", {})
    if clash := {*after, *before} & set(examples.columns) or set(after) & set(before):
        raise ConfigError(
            f"--baseline, --predicted and the columns of the examples must differ, got "
            f"{quoted(min(clash))} twice: name two variants, or rename the column"
        )
    if paired and paired_by["--baseline"] != paired_by["--predicted"]:
        raise ConfigError(
            "--paired needs the same models in both variants, got "
            f"{listed(paired_by['--baseline'])} and {listed(paired_by['--predicted'])}: leave out "
            "models without a partner"
        )
    wide = examples.with_columns(**before, **after)
    return WideTable(wide, tuple(after), tuple(before), key)


def _variant(variants: list[str], patterns: Sequence[str], option: str) -> str:
    """The one variant that the patterns name."""
    matches = [
        name
        for name in natural_order(variants)
        if any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)
    ]
    if len(matches) != 1:
        matched = listed(matches) if matches else f"none by {listed(list(patterns))}"
        raise ConfigError(
            f"{option} must name one variant, got {matched}: choose among "
            f"{listed(natural_order(variants))}"
        )
    return matches[0]


def _models(frame: pl.DataFrame, variant: str, ids: pl.DataFrame) -> dict[str, pl.Series]:
    """Predictions of each model of a variant, on the examples in their order."""
    keys = frame.select("i", "m")
    if keys.is_duplicated().any():
        example, model = keys.filter(keys.is_duplicated()).row(0)
        raise DataError(
            f"model {quoted(model)} of {quoted(variant)} predicts example {quoted(example)} more "
            "than once: keep one row per example and model"
        )
    unknown = frame.join(ids, on="i", how="anti")
    if unknown.height:
        raise DataError(
            f"predictions must be for the examples, but {quoted(unknown['i'][0])} of "
            f"{quoted(variant)} is not among them: add it, or leave its predictions out"
        )
    predictions = {}
    for model in natural_order(frame["m"]):
        joined = ids.join(frame.filter(m=model), on="i", how="left", maintain_order="left")
        if joined["p"].null_count():
            lacking = joined.filter(pl.col("p").is_null())["i"][0]
            raise DataError(
                f"model {quoted(model)} of {quoted(variant)} has no prediction for example "
                f"{quoted(lacking)}: predict it, or leave the model out"
            )
        predictions[model] = joined["p"]
    return predictions
