"""Predictions one a row: the long format, set beside the table of examples that it speaks of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

import polars as pl

from scotoma.answers.natural import natural_order
from scotoma.answers.values import column_text
from scotoma.commands.bias.table import BiasQuestion
from scotoma.commands.shared.tables import column, texts
from scotoma.errors import ConfigError, DataError
from scotoma.printable import listed, quoted

__all__ = ["widened"]

EXAMPLE = "example_id"  # unless --id says otherwise


def widened(
    predictions: pl.DataFrame, examples: pl.DataFrame, question: BiasQuestion
) -> tuple[pl.DataFrame, BiasQuestion]:
    """The table of examples with a column of predictions a model, and the question about it.

    Args:
        predictions: Columns `example_id` (or the question's identifier), `variant`, `model` and
            `predicted`; one row per example and model.
        examples: A row an example, with the same column of ids.
        question: `predicted` and `baseline` name a variant each, or are a pattern for one.

    Returns:
        As many rows as `examples`, in their order, models in natural order; the question then names
        columns. Other variants are left out.

    Raises:
        ConfigError: A column or a variant that is not there, several variants for one, or paired
            variants of different models.
        DataError: An id, a variant, a model or a prediction that is missing or there twice.

    >>> asked = BiasQuestion(label="label", predicted=["int8"], groups=["sex"])
    >>> long = pl.DataFrame({"example_id": ["a", "b"], "variant": ["int8"] * 2, "model": ["0"] * 2,
    ...                      "predicted": ["yes", "no"]})
    >>> table, asked = widened(long, pl.DataFrame({"example_id": ["b", "a"]}), asked)
    >>> asked.predicted, table["int8/0"].to_list()
    (['int8/0'], ['no', 'yes'])
    """
    key = question.identifier or EXAMPLE
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
    ids = _ids(examples, key)
    populations: dict[str, dict[str, pl.Series]] = {}
    paired_by: dict[str, list[str]] = {"--baseline": []}
    for option, patterns in (
        ("--baseline", question.baseline),
        ("--predicted", question.predicted),
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
    if question.paired and paired_by["--baseline"] != paired_by["--predicted"]:
        raise ConfigError(
            "--paired needs the same models in both variants, got "
            f"{listed(paired_by['--baseline'])} and {listed(paired_by['--predicted'])}: leave out "
            "models without a partner"
        )
    wide = examples.with_columns(**before, **after)
    return wide, replace(question, predicted=list(after), baseline=list(before), identifier=key)


def _ids(examples: pl.DataFrame, key: str) -> pl.DataFrame:
    ids = pl.DataFrame({"i": texts(examples, column(examples, key, "--examples")).tolist()})
    if ids.is_duplicated().any():
        twice = ids.filter(ids.is_duplicated())["i"][0]
        raise DataError(
            f"example ids must be unique, but {quoted(twice)} is in the examples more than once: "
            "keep one row per example"
        )
    return ids


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
