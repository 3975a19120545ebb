"""The init command: a configuration from the headers of a table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import typer
import yaml

from scotoma.commands.tables import column, listed, quoted, read_table
from scotoma.config import parse_config
from scotoma.errors import ConfigError
from scotoma.natural import natural_order
from scotoma.storage.files import written

__all__ = ["draft", "run_init"]

LABELS = ("label", "target", "class", "y", "digit", "category")
SPLITS = ("partition", "split", "part", "fold", "set")
IDS = ("example_id", "image", "id", "file", "filename", "path")
MOST_VALUES = 12  # of a column that is taken for an attribute
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
        groups: Columns whose values are groups; empty takes those of few values.
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
    target = column(frame, label, "--label") if label else _guessed_label(frame)
    attributes = [column(frame, name, "--group") for name in groups]
    attributes = attributes or _guessed_groups(frame, target)
    values = draft(
        frame, table, label=target, groups=attributes, predictions=predictions, images=images
    )
    text = HEAD.format(table=table.name, out=out) + yaml.safe_dump(values, sort_keys=False)
    parse_config(text, str(out))  # what is written is what can be read
    if as_json:
        import json

        sys.stdout.write(json.dumps(values, indent=1, ensure_ascii=False) + "\n")
        return
    with written(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    if not quiet:
        sys.stderr.write(
            f"{out}: label {quoted(target)}, groups {listed(attributes) or 'none'}\n"
            f"next    scotoma check {out}\n"
        )


def draft(
    frame: pl.DataFrame,
    table: Path,
    *,
    label: str,
    groups: Sequence[str],
    predictions: str | None,
    images: str | None,
) -> dict[str, Any]:
    """The configuration that fits a table.

    Args:
        frame: The table.
        table: Where it lies.
        label: Column of the labels.
        groups: Columns whose values are groups.
        predictions: Pattern of files of predictions, or None.
        images: Folder of the images; given if `predictions` is None.

    Raises:
        ConfigError: Images without a column that splits them into training and test.

    >>> frame = pl.DataFrame({"example_id": ["a", "b"], "label": ["x", "y"], "sex": ["f", "m"]})
    >>> draft(frame, Path("t.csv"), label="label", groups=["sex"], predictions="p/*.csv",
    ...       images=None)["groups"]
    {'sex': {'column': 'sex'}}
    """
    source: dict[str, Any]
    if predictions is not None:
        source = {"kind": "predictions", "files": predictions, "examples": str(table)}
    else:
        source = {
            "kind": "image_folder", "images": images, "attributes": str(table),
            "split": _split(frame),
        }  # fmt: skip
    classes = natural_order(frame[label].drop_nulls().cast(pl.String))
    target: dict[str, Any] = {"column": label}
    if len(classes) == 2:
        target["positive"] = classes[-1]
    values: dict[str, Any] = {"version": 1, "source": source, "label": target}
    if groups:
        attributes: dict[str, Any] = {_key(name): {"column": name} for name in groups}
        if len(attributes) > 1:
            attributes["intersections"] = [list(attributes)[:2]]
        values["groups"] = attributes
    if predictions is None:
        values["variants"] = ["dense", {"prune": [0.5, 0.9]}, {"int8": ["dynamic", "static"]}]
    return values


def _guessed_label(frame: pl.DataFrame) -> str:
    lower = {name.lower(): name for name in frame.columns}
    for name in LABELS:
        if name in lower:
            return lower[name]
    if sys.stdin.isatty():
        answer = typer.prompt(f"Which column is the label? {', '.join(frame.columns)}", err=True)
        return column(frame, answer, "the answer")
    raise ConfigError(
        "no column is called label, target or class; name it with --label, one of "
        f"{listed(frame.columns)}"
    )


def _guessed_groups(frame: pl.DataFrame, label: str) -> list[str]:
    """Columns of 2 to 12 values that are neither id, label nor split."""
    reserved = {*IDS, *SPLITS}
    return [
        name
        for name in frame.columns
        if name != label
        and name.lower() not in reserved
        and 2 <= frame[name].drop_nulls().n_unique() <= MOST_VALUES
    ]


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


def _key(name: str) -> str:
    """A column as the name of an attribute; one that the audit uses itself gets an ending."""
    return f"{name}_" if name in ("intersections", "label", "split", "image", "cluster") else name
