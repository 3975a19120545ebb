"""The init command: a configuration from the headers of a table."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import typer
import yaml

from scotoma.commands.init_columns import (
    Attributes,
    attribute,
    guessed_attributes,
    guessed_key,
    guessed_label,
)
from scotoma.commands.tables import column, listed, quoted, read_table
from scotoma.config import parse_config
from scotoma.config.groups import parse_group
from scotoma.errors import ConfigError, DataError
from scotoma.natural import natural_order
from scotoma.predictions.tables import find_tables, models_by_variant
from scotoma.storage.files import written

__all__ = ["Draft", "draft", "run_init"]

SPLITS = ("partition", "split", "part", "fold", "set")
MOST_CROSSED = 5  # values of an attribute in the drafted intersection, a missing one too
BASELINES = ("dense", "fp32", "float32", "bf16", "bfloat16", "fp16", "original", "baseline", "base")
HEAD = """\
# A draft for `scotoma audit`, from the headers of {table}. Look at label, groups and variants,
# then: scotoma check {out}
"""


def run_init(
    table: Path,
    *,
    out: Path,
    label: str | None,
    groups: Sequence[str],
    predictions: str | None,
    images: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write a configuration.

    Args:
        table: CSV or Parquet, one row per example.
        out: File to write; one that is there is never overwritten.
        label: Column of the labels; None takes one by its name, or asks.
        groups: Columns whose values are groups; empty takes those whose values can be compared.
        predictions: Pattern of files of predictions, for `source.kind: predictions`.
        images: Folder of the images, for `source.kind: image_folder`.
        as_json: Print the configuration as JSON and write nothing.
        quiet: No messages.

    Raises:
        ConfigError: The file is there, or the table does not say enough.
        DataError: The table cannot be read.
    """
    if out.exists() and not as_json:
        raise ConfigError(f"{out} already exists; choose another --out, or remove it")
    if (predictions is None) == (images is None):
        raise ConfigError(
            "init needs either --predictions 'preds/{variant}/{model}.csv' or --images "
            f"FOLDER, got {'neither' if predictions is None else 'both'}; give one of them"
        )
    frame = read_table(table)
    target = column(frame, label, "--label") if label else _label(frame)
    made = draft(frame, table, label=target, groups=groups, predictions=predictions, images=images)
    text = HEAD.format(table=table.name, out=out) + yaml.safe_dump(
        made.values, sort_keys=False, allow_unicode=True
    )
    parse_config(text, str(out))  # what is written is what can be read
    if as_json:
        import json

        sys.stdout.write(json.dumps(made.values, indent=1, ensure_ascii=False) + "\n")
        return
    with written(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    if not quiet:
        attributes = [name for name in made.values.get("groups", {}) if name != "intersections"]
        lines = [f"{out}: label {quoted(target)}, groups {listed(attributes) or 'none'}"]
        lines += [f"note    {note}" for note in made.notes]
        sys.stderr.write("\n".join([*lines, f"next    scotoma check {out}"]) + "\n")


@dataclass(frozen=True)
class Draft:
    """A configuration, and what its reader should know.

    Attributes:
        values: The configuration.
        notes: Sentences on what was chosen, and on columns that were left out.
    """

    values: dict[str, Any]
    notes: tuple[str, ...]


def draft(
    frame: pl.DataFrame,
    table: Path,
    *,
    label: str,
    groups: Sequence[str],
    predictions: str | None,
    images: str | None,
) -> Draft:
    """The configuration that fits a table.

    Args:
        frame: The table.
        table: Where it lies.
        label: Column of the labels.
        groups: Columns whose values are groups, as `parse_group` reads them; empty takes those
            whose values can be compared.
        predictions: Pattern of files of predictions, or None.
        images: Folder of the images; given if `predictions` is None.

    Raises:
        ConfigError: No column names the examples, or splits images into training and test.

    >>> frame = pl.DataFrame({"example_id": ["a", "b"], "label": ["x", "y"], "sex": ["f", "m"]})
    >>> draft(frame, Path("t.csv"), label="label", groups=["sex"], predictions="p/*.csv",
    ...       images=None).values["groups"]
    {'sex': {'column': 'sex'}}
    """
    notes = []
    key = guessed_key(frame.drop(label), images=images is not None)
    if key is None:
        what = "names an image file in each row" if images else "has another value in each row"
        raise ConfigError(
            f"{quoted(table.name)} has no column that {what}, got {listed(frame.columns)}; add one"
        )
    source: dict[str, Any]
    tested, others = frame[label].is_not_null(), [label, key]
    values: dict[str, Any] = {"version": 1, "project": _project(table)}
    if predictions is not None:
        source = {"kind": "predictions", "files": predictions, "examples": str(table)}
        source |= {} if key == "example_id" else {"key": key}
        others.append("image")
        if (baseline := _baseline(predictions, key)) not in ("", "dense"):
            values["baseline"] = baseline
            notes.append(f"baseline {quoted(baseline)}: others are compared with it")
    else:
        split = _split(frame)
        source = {"kind": "image_folder", "images": images, "attributes": str(table)}
        source |= {} if key == "image" else {"key": key}
        source["split"] = split
        tested = frame[split["column"]].cast(pl.String) == split["test"]
        others.append(split["column"])
    if key not in ("example_id", "image"):
        notes.append(f"ids in column {quoted(key)}")
    target: dict[str, Any] = {"column": label}
    classes = natural_order(frame[label].drop_nulls().cast(pl.String))
    if len(classes) == 2:
        target["positive"] = classes[-1]
    values |= {"source": source, "label": target}
    if groups:
        rules = [parse_group(name, frame.columns) for name in groups]
        named = {
            attribute(column(frame, rule.column, "--group")): rule.model_dump(exclude_defaults=True)
            for rule in rules
        }
        chosen = Attributes(named, {})
    else:
        chosen = guessed_attributes(frame, tested, others)
    notes += [f"column {quoted(name)} {why}: left out" for name, why in chosen.left_out.items()]
    if chosen.groups:
        values["groups"] = dict(chosen.groups)
        crossed = [name for name, entry in chosen.groups.items() if _has_few_values(frame, entry)]
        if len(crossed) > 1:
            values["groups"]["intersections"] = [crossed[:2]]
    if predictions is None:
        values["variants"] = ["dense", {"prune": [0.5, 0.9]}, {"int8": ["dynamic", "static"]}]
    return Draft(values, tuple(notes))


def _has_few_values(frame: pl.DataFrame, entry: Mapping[str, Any]) -> bool:
    """Whether an attribute is one to cross with another: more groups would hold few examples."""
    return "bins" in entry or frame[entry["column"]].n_unique() <= MOST_CROSSED


def _project(table: Path) -> str:
    """The name of the table's folder, of the characters that a project may have."""
    name = re.sub(r"[^\w .-]+", " ", table.resolve().parent.name).strip(" .-")
    return name[:80] or "audit"


def _baseline(pattern: str, key: str) -> str:
    """The variant that others are compared with; empty where no file is there yet."""
    try:
        variants = list(models_by_variant(find_tables(pattern, key)))
    except DataError:  # `check` says it, of the draft
        return ""
    lower = {name.lower(): name for name in reversed(variants)}
    return next((lower[name] for name in BASELINES if name in lower), variants[0])


def _label(frame: pl.DataFrame) -> str:
    if name := guessed_label(frame):
        return name
    if sys.stdin.isatty():
        answer = typer.prompt(f"Which column is the label? {', '.join(frame.columns)}", err=True)
        return column(frame, answer, "the answer")
    raise ConfigError(
        "no column is called label, target or class; name it with --label, one of "
        f"{listed(frame.columns)}"
    )


def _split(frame: pl.DataFrame) -> dict[str, str]:
    for name in frame.columns:
        values = set(frame[name].drop_nulls().cast(pl.String).unique())
        if name.lower() in SPLITS and {"train", "test"} <= values:
            return {"column": name, "train": "train", "test": "test"}
        if name.lower() in SPLITS and {"0", "2"} <= values:  # as CelebA has it
            return {"column": name, "train": "0", "calibrate": "1", "test": "2"}
    raise ConfigError(
        "images need a column that splits rows into train and test, such as `partition`, got "
        f"{listed(frame.columns)}; add one"
    )
