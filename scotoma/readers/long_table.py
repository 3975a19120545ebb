"""Predictions one a row: the long format, set beside the table of examples that it speaks of."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import polars as pl

from scotoma.answers.natural import natural_order
from scotoma.answers.pair import read_ids
from scotoma.answers.values import column_text
from scotoma.errors import ConfigError, DataError
from scotoma.printable import listed, quoted
from scotoma.readers.columns import column, texts

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
