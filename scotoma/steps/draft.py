"""Which first configuration fits a table? It is drafted from the headers."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import typer
import yaml

from scotoma.answers.groups import parse_groups
from scotoma.answers.natural import natural_order
from scotoma.answers.pair import read_labels
from scotoma.answers.values import holds_text
from scotoma.commands.asking import Answer
from scotoma.commands.init import InitOptions
from scotoma.comparison.scores import SCORES
from scotoma.config import parse_config
from scotoma.config.label import Label
from scotoma.errors import ConfigError, DataError
from scotoma.predictions.patterns import find_tables
from scotoma.predictions.tables import models_by_variant
from scotoma.printable import ONE_OF_THEM, listed, nearest, quoted
from scotoma.readers.columns import column, columns, guessed_label
from scotoma.readers.tables import read_table
from scotoma.run.mirror import place_here
from scotoma.sources.drafted import (
    Attributes,
    attribute,
    baseline_of,
    file_columns,
    guessed_attributes,
    guessed_key,
    guessed_split,
    model_input,
    onnx_variants,
    prediction_columns,
    variants_of,
)
from scotoma.sources.onnx import OnnxSource
from scotoma.steps.plan import require_sound
from scotoma.storage.files import write_whole

MOST_LABELS = 12  # that are crossed with an attribute in the draft
MOST_CROSSED = 5  # values of an attribute in the drafted intersection, a missing one too
PATHS = ("files", "examples", "images", "attributes", "models")  # of source, in the draft
HEAD = """\
# A draft for `scotoma audit`, from the headers of {table}. Look at label, groups and variants,
# then: scotoma audit {out} --plan
"""


def draft_file(options: InitOptions) -> Answer:
    """Draft a configuration, and write it where the answer is not printed.

    Raises:
        ConfigError: The file is there, the table does not say enough, or `scotoma audit --plan`
            would refuse what it says.
        DataError: The table cannot be read, or `scotoma audit --plan` would refuse the data.
    """
    out, place, writes = options.out, options.table, options.form == "text"
    if out.exists() and writes:
        raise ConfigError(f"{out} already exists; choose another --out, or remove it")
    if options.predictions is not None and options.images is not None:
        raise ConfigError(
            "init takes either --predictions 'preds/{variant}/{model}.csv' or --images FOLDER, "
            "got both; give one of them"
        )
    if options.models is not None and options.images is None:
        raise ConfigError("--models needs the images that they are shown; add --images FOLDER")
    if options.predicted and options.images is not None:
        raise ConfigError("--predicted names columns of predictions; leave out --images")
    table = place_here(place)
    frame = read_table(table).frame
    pictures = [one.name for one in frame if one.dtype == pl.Binary and not holds_text(one)]
    frame = frame.drop(pictures)
    parts = [[one] if one in frame.columns else one.split(",") for one in options.label]
    named = [name for part in parts for name in part]
    targets: list[str] = []
    if options.score is None or options.score.endswith("_error"):
        targets = columns(frame, named, "--label") if named else [_label(frame)]
    drafted = _scores if options.score is not None else draft
    made = drafted(frame, table, options, targets)
    made.values["project"], source = _project(Path(place)), made.values["source"]
    source |= {key: place for key, value in source.items() if value == str(table)}
    require_sound(parse_config(yaml.safe_dump(made.values), str(out)))
    _place_beside(source, out.parent)
    text = HEAD.format(table=table.name, out=out) + yaml.safe_dump(
        made.values, sort_keys=False, allow_unicode=True
    )
    text += "".join(f"# {line}\n" for line in made.questions)
    if not writes:
        return Answer(text, made.values)
    write_whole(out, text)
    attributes = [name for name in made.values.get("groups", {}) if name != "intersections"]
    shown = f"label{'s' if len(targets) > 1 else ''} {listed(targets)}"
    shown = shown if targets else "scores without a label"
    notes = [f"{out}: {shown}, groups {listed(attributes) or 'none'}"]
    notes += [f"note    {note}" for note in made.notes]
    notes += [f"look at {line}" for line in made.questions[:1]]
    return Answer("", notes=[*notes, f"next    scotoma audit {out} --plan"])


@dataclass(frozen=True)
class Draft:
    """A configuration, and what its reader should know.

    Attributes:
        values: The configuration.
        notes: Sentences on what was chosen, and on columns that were left out.
        questions: Lines about keys that only a person can fill in.
    """

    values: dict[str, Any]
    notes: tuple[str, ...]
    questions: tuple[str, ...] = ()


def _place_beside(source: dict[str, Any], folder: Path) -> None:
    """Write paths as a configuration in a folder reads them: relative to it."""
    for key in PATHS:
        path = source.get(key)
        if path is not None and "://" not in path and not os.path.isabs(path):
            source[key] = os.path.relpath(path, folder)


def draft(frame: pl.DataFrame, table: Path, options: InitOptions, labels: Sequence[str]) -> Draft:
    """The configuration that fits a table.

    Args:
        frame: The table.
        table: Where it lies.
        options: What was asked.
        labels: Column of the labels, or columns of several labels.

    Raises:
        ConfigError: No column names the examples, splits images into training and test, or holds
            predictions; the models are not laid out by variant; or they have one label.

    >>> from scotoma.commands.init import InitOptions
    >>> frame = pl.DataFrame({"example_id": ["a", "b"], "label": ["x", "y"], "sex": ["f", "m"]})
    >>> asked = InitOptions(table="t.csv", predictions="p/*.csv")
    >>> draft(frame, Path("t.csv"), asked, ["label"]).values["groups"]
    {'sex': {'column': 'sex'}}
    """
    images, models, predictions = options.images, options.models, options.predictions
    notes: list[str] = []
    label, several = labels[0], len(labels) > 1
    truth = read_labels(frame[label]).values
    classes = natural_order(truth.drop_nulls().unique())
    tested, others = truth.is_not_null(), [*labels]
    values: dict[str, Any] = {"version": 1, "project": _project(table)}
    source: dict[str, Any]
    if several and (models is not None or (images is None and predictions is None)):
        raise ConfigError(
            f"--label names {len(labels)} labels, which models to train or files of predictions "
            "have; give --images FOLDER without --models, or --predictions "
            "'preds/{variant}/{model}.csv'"
        )
    if images is None:
        source, own, compared = (
            _labels(frame, table, options, labels, notes)
            if several
            else _predictions(frame, table, label, classes, options, notes)
        )
        others += own
        values |= compared
    else:
        kind = "image_folder" if models is None else "onnx"
        source = {"kind": kind, "images": images, "attributes": str(table)}
        source |= {} if models is None else {"models": models}
        key = guessed_key(frame.drop(labels), images=True)
        if key is None:
            raise ConfigError(
                f"{quoted(table.name)} has no column that names an image file in each row, got "
                f"{listed(frame.columns)}; add one"
            )
        source |= {} if key == "image" else {"key": key}
        others.append(key)
        if split := guessed_split(frame, others, trained=models is None):
            source["split"] = split
            tested = (frame[split["column"]].cast(pl.String) == split["test"]).fill_null(False)
            others.append(split["column"])
        elif models is None:
            raise ConfigError(
                "images need a column that splits rows into train and test, such as `partition`, "
                f"got {listed(frame.columns)}; add one"
            )
        if models is not None:
            pairs = pl.DataFrame({"example_id": frame[key].cast(pl.String), "label": truth})
            order = OnnxSource.model_validate(source).class_order(pairs.drop_nulls(), table.name)
            notes.append(order[1].sentence)
    key = source.get("key", "example_id" if images is None else "image")
    if "numbered" in source:
        notes.append("rows have no ids: they are numbered, in one order in all files")
    elif key not in ("example_id", "image"):
        notes.append(f"ids in column {quoted(key)}")
    target: dict[str, Any] = {"column": label}
    if several:
        target = {"columns": list(labels)}
    elif len(classes) == 2:
        target["positive"] = classes[-1]
    values |= {"source": source, "label": target}
    _add_groups(values, frame, options, tested, others, notes)
    questions: tuple[str, ...] = ()
    if models is not None:
        values |= onnx_variants(models)
        read, questions = model_input(parse_config(yaml.safe_dump(values), str(table)), source)
        source |= read
    elif images is not None:
        values["variants"] = ["dense", {"prune": [0.5, 0.9]}, {"int8": ["dynamic", "static"]}]
    return Draft(values, tuple(notes), questions)


def _add_groups(
    values: dict[str, Any],
    frame: pl.DataFrame,
    options: InitOptions,
    tested: pl.Series,
    others: Sequence[str],
    notes: list[str],
) -> None:
    """Add the groups that are named, else those that columns of few values form."""
    if options.group:
        rules = parse_groups(options.group, frame.columns)
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
        if crossed and 1 < len(values.get("label", {}).get("columns", ())) <= MOST_LABELS:
            crossed = [Label.model_fields["attribute"].default, *crossed]
        if len(crossed) > 1:
            values["groups"]["intersections"] = [crossed[:2]]


def _scores(frame: pl.DataFrame, table: Path, options: InitOptions, labels: Sequence[str]) -> Draft:
    """The configuration of an audit of scores that fits a table."""
    score, predictions, predicted = options.score or "", options.predictions, options.predicted
    if score not in SCORES:
        raise ConfigError(
            f"--score must be one of {', '.join(SCORES)}, got {quoted(score)}"
            f"{nearest(score, SCORES, ONE_OF_THEM)}"
        )
    if options.images is not None or (predictions is None and not predicted):
        raise ConfigError(
            "--score needs the numbers of two models; name their files with --predictions "
            "'scores/{variant}/{model}.csv', or their columns with --predicted"
        )
    if len(labels) > 1:
        raise ConfigError(f"--score takes the true number from one --label, got {listed(labels)}")
    notes: list[str] = []
    variants: dict[str, list[str]] = {}
    if predicted:
        held = frame if predictions is None else file_columns(predictions)
        variants = variants_of(columns(frame if held is None else held, predicted, "--predicted"))
    own = [] if predictions else _every(variants)
    key = guessed_key(frame.drop([*labels, *own]), images=False)
    source, others, compared = _of_tables(frame, table, options, labels, variants, key, notes)
    source["kind"] = "scores"
    source |= {"measure": score} if labels else {"lower_is_better": score == "lower"}
    values: dict[str, Any] = {"version": 1, "project": _project(table), "source": source}
    values |= ({"label": {"column": labels[0]}} if labels else {}) | compared
    everyone = pl.repeat(True, frame.height, eager=True)
    _add_groups(values, frame, options, everyone, others, notes)
    return Draft(values, tuple(notes))


def _every(variants: Mapping[str, Sequence[str]]) -> list[str]:
    return [name for names in variants.values() for name in names]


def _of_tables(
    frame: pl.DataFrame,
    table: Path,
    options: InitOptions,
    labels: Sequence[str],
    variants: Mapping[str, Sequence[str]],
    key: str | None,
    notes: list[str],
) -> tuple[dict[str, Any], list[str], dict[str, str]]:
    """The section `source`, columns that are no attributes, and the key `baseline`."""
    pattern, named = options.predictions, {"columns": variants} if variants else {}
    source = {"kind": "predictions", "files": pattern or str(table), **named}
    source |= {"examples": str(table)} | _ids_in(key)
    own = [*labels, *([] if pattern else _every(variants))]
    others = [*own, *filter(None, [key]), "image", *_split_of_table(frame, own, notes)]
    baseline = baseline_of(variants) if variants else _baseline(pattern or "", key)
    if baseline in ("", "dense"):
        return source, others, {}
    notes.append(f"baseline {quoted(baseline)}: others are compared with it")
    return source, others, {"baseline": baseline}


def _ids_in(key: str | None) -> dict[str, Any]:
    """What `source` says of the column of ids: nothing where it has the usual name."""
    return {"numbered": True} if key is None else {} if key == "example_id" else {"key": key}


def _predictions(
    frame: pl.DataFrame,
    table: Path,
    label: str,
    classes: Sequence[str],
    options: InitOptions,
    notes: list[str],
) -> tuple[dict[str, Any], list[str], dict[str, str]]:
    """What `_of_tables` says of files of predictions."""
    pattern, predicted = options.predictions, options.predicted
    others = frame.drop(label)
    first = others if pattern is None else file_columns(pattern)
    key = guessed_key(others, images=False)
    variants: dict[str, list[str]] = {}
    column_of: dict[str, str] = {}
    if first is not None and (pattern is None or predicted or "predicted" not in first.columns):
        own = first.drop([label, key or "example_id", "example_id"], strict=False)
        names = prediction_columns(own, classes, predicted, spoken=pattern is None)
        named = pattern is not None and ("{variant}" in pattern or "variant" in first.columns)
        if len(names) == 1 and named:  # a variant a file, or a row an example and variant
            column_of = {} if names[0] == "predicted" else {"predicted": names[0]}
            notes.append(f"predictions in column {quoted(names[0])}")
        elif len(names) < 2:
            raise ConfigError(
                f"init needs predictions of two models, got {listed(names) or 'none'} in "
                f"{quoted(table.name if pattern is None else pattern)}; name their columns with "
                "--predicted 'pred_*', their files with --predictions "
                "'preds/{variant}/{model}.csv', or the images of models to train with --images"
            )
        else:
            variants = variants_of(names)
            notes.append(f"predictions of {listed(list(variants))} in columns {listed(names)}")
    if pattern is None:
        key = guessed_key(others.drop(_every(variants)), images=False)
    if key and first is not None and not {key, "example_id"} & {*first.columns}:
        key = None
    if key is None and first is not None and first.height != frame.height:
        raise ConfigError(
            f"{quoted(table.name)} has {frame.height:,} rows and no column of ids that the "
            f"predictions have too, which have {first.height:,} rows; add one to both"
        )
    made = _of_tables(frame, table, options, [label], variants, key, notes)
    made[0].update(column_of)
    return made


def _split_of_table(frame: pl.DataFrame, others: Sequence[str], notes: list[str]) -> list[str]:
    """The columns that split a table of predictions: an audit takes every row of it."""
    names: list[str] = []
    while split := guessed_split(frame, [*others, *names], trained=False):
        name = split["column"]
        counts = frame[name].cast(pl.String).drop_nulls().value_counts(sort=True).iter_rows()
        parts = ", ".join(f"{rows:,} {quoted(part)}" for part, rows in counts)
        notes.append(
            f"column {quoted(name)} splits rows ({parts}): all are audited, keep the test rows only"
        )
        names.append(name)
    return names


def _labels(
    frame: pl.DataFrame,
    table: Path,
    options: InitOptions,
    labels: Sequence[str],
    notes: list[str],
) -> tuple[dict[str, Any], list[str], dict[str, str]]:
    """What `_of_tables` says of files with a column for each of several labels."""
    key = guessed_key(frame.drop(labels), images=False)
    if key is None:
        raise ConfigError(
            f"{quoted(table.name)} has no column that names each example, got "
            f"{listed(frame.drop(labels).columns)}; add one, as the predictions have it"
        )
    return _of_tables(frame, table, options, labels, {}, key, notes)


def _has_few_values(frame: pl.DataFrame, entry: Mapping[str, Any]) -> bool:
    """Whether an attribute is one to cross with another: more groups would hold few examples."""
    return "bins" in entry or frame[entry["column"]].n_unique() <= MOST_CROSSED


def _project(table: Path) -> str:
    """The name of the table's folder, of the characters that a project may have."""
    name = re.sub(r"[^\w .-]+", " ", table.resolve().parent.name).strip(" .-")
    return name[:80] or "audit"


def _baseline(pattern: str, key: str | None) -> str:
    """The variant that others are compared with; empty where no file is there yet."""
    try:
        return baseline_of(models_by_variant(find_tables(pattern, key)))
    except DataError:  # `check` says it, of the draft
        return ""


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
