"""Which models does a first configuration compare: columns of predictions, or ONNX files?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from scotoma import storage
from scotoma.answers.admission import translate
from scotoma.answers.natural import natural_order
from scotoma.answers.values import is_plain, read_values
from scotoma.config import Config
from scotoma.errors import ConfigError, DataError
from scotoma.predictions.patterns import find_tables
from scotoma.printable import listed, quoted
from scotoma.readers.columns import columns
from scotoma.readers.tables import read_table
from scotoma.sources.roles import PREDICTED, SPOKEN

BASELINES = ("dense", "fp32", "float32", "bf16", "bfloat16", "fp16", "original", "baseline", "base")
Lines = tuple[str, ...]
PIXELS = (  # below a draft whose models say nothing of them
    "Which pixels do the models take? No file says so: they get numbers from 0 to 1. Networks of",
    "ImageNet mostly take, as keys of source:",
    "  preprocessing: {mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}",
    "  crop: 0.875",
)
LAYOUT = "put the .onnx files of each variant into a folder of its own, the baseline's into dense"


def baseline_of(variants: Iterable[str]) -> str:
    """The variant that others are compared with: by its name, else the first.

    >>> baseline_of(["int8", "FP32"])
    'FP32'
    """
    names = list(variants)
    lower = {name.lower(): name for name in reversed(names)}
    return next((lower[name] for name in BASELINES if name in lower), names[0])


def prediction_columns(
    table: pl.DataFrame, classes: Iterable[str], patterns: Sequence[str], *, spoken: bool
) -> list[str]:
    """The columns that hold predictions.

    Args:
        table: Columns that may be, the label not among them.
        classes: The labels.
        patterns: Names or patterns from the command line; empty to go by values.
        spoken: Whether the name of a column must say it, too: `pred_int8`, `fp32`.

    Raises:
        ConfigError: A pattern that names no column.

    >>> table = pl.DataFrame({"smoker": ["yes", "no"], "pred_int8": ["no", "no"]})
    >>> prediction_columns(table, ["no", "yes"], [], spoken=True)
    ['pred_int8']
    """
    if patterns:
        return columns(table, patterns, "--predicted")
    known = list(classes)
    named = [
        name
        for name, kind in table.schema.items()
        if is_plain(kind) and (SPOKEN.search(name) or not spoken)
    ]
    return [name for name in named if _are_classes(table[name], known)]


def _are_classes(column: pl.Series, classes: Sequence[str]) -> bool:
    """Whether all values of a column are classes, as an audit would read them.

    >>> _are_classes(pl.Series([1.0, 0.0]), ["0", "1"]), _are_classes(pl.Series(["a"]), ["b"])
    (True, False)
    """
    said = read_values(column, classes=classes).values.drop_nulls().unique()
    language = translate(classes, said)
    known = {language.labels.get(name, name) for name in classes}
    return all(language.answers.get(one, one) in known for one in said)


def variants_of(names: Sequence[str]) -> dict[str, list[str]]:
    """Variants by the names of their columns: without what all share, members put together.

    Columns are members of one variant where each variant has the same numbers at its end.

    >>> variants_of(["pred_fp32", "pred_int8"])
    {'fp32': ['pred_fp32'], 'int8': ['pred_int8']}
    >>> variants_of(["dense_0", "dense_1", "prune_0", "prune_1"])
    {'dense': ['dense_0', 'dense_1'], 'prune': ['prune_0', 'prune_1']}
    >>> variants_of(["dense", "prune_50", "prune_90"])
    {'dense': ['dense'], 'prune_50': ['prune_50'], 'prune_90': ['prune_90']}
    """
    short = [re.sub(rf"(?i)^{PREDICTED}[\W_]+|[\W_]+{PREDICTED}$", "", name) for name in names]
    short = [re.sub(r"[^\w .,+=@()-]", " ", name).strip(" .,-+=@()") for name in short]
    if len(set(short)) < len(names) or not all(short):
        short = list(names)
    members: dict[str, dict[str, str]] = {}
    for name, column in zip(short, names, strict=True):
        parts = re.fullmatch(r"(.*?)[\W_]*(?:seed|model|run|m)?[\W_]*(\d+)", name)
        stem, number = (parts[1], parts[2]) if parts and parts[1] else (name, "")
        members.setdefault(stem, {})[number] = column
    numbers = {frozenset(own) for own in members.values()}
    if len(members) > 1 and len(numbers) == 1 and len(next(iter(numbers))) > 1:
        return {stem: [own[k] for k in natural_order(own)] for stem, own in members.items()}
    return {name: [column] for name, column in zip(short, names, strict=True)}


def file_columns(pattern: str) -> pl.DataFrame | None:
    """Read the first file of a pattern; None where no file is there yet.

    Raises:
        DataError: It cannot be read.
    """
    try:
        tables = find_tables(pattern)
    except DataError:  # `check` says it, of the draft
        return None
    with tables[0].at_hand() as path:
        return read_table(path).frame


def model_input(config: Config, drafted: Mapping[str, Any]) -> tuple[dict[str, Any], Lines]:
    """What images the models take, as their files and the files beside them say.

    Args:
        config: The draft.
        drafted: Keys of its `source`.

    Returns:
        Further keys of `source`, and lines that ask for what no file says.
    """
    source = config.completed().source.model_dump(exclude_defaults=True)
    read = {key: value for key, value in source.items() if key not in drafted and key != "kind"}
    pixels = read.get("preprocessing", {})
    if {"scale", "mean", "std"} & pixels.keys():
        return read, ()
    return read, PIXELS


def onnx_variants(folder: str) -> dict[str, Any]:
    """The keys `variants` and `population` for a folder with a folder of models a variant.

    Raises:
        ConfigError: There is no folder `dense`, or no other one, with .onnx files.
    """
    files: Mapping[str, list[str]] = {
        name: sorted(
            file
            for file in storage.list_names(storage.join(folder, name), folders=False)
            if file.endswith(".onnx")
        )
        for name in storage.list_names(folder, folders=True)
    }
    names = [name for name in natural_order(files) if files[name]]
    if "dense" not in names or len(names) < 2:
        held = f"folders with models {listed(names)}" if names else "no folder with models"
        raise ConfigError(
            f"--models {quoted(folder)} must hold dense and another variant, got {held}; {LAYOUT}"
        )
    entries: list[Any] = ["dense"]
    for name in names:
        if name == "dense":
            continue
        entry: dict[str, Any] = {"onnx": [name]}
        entry |= {"paired": True} if files[name] == files["dense"] else {}
        bits = re.search(r"(?i)int([48])|(?:fp|float|bf)(16)", name)
        entry |= {"bits": int(bits[1] or bits[2])} if bits else {}
        same = len(files[name]) == len(files["dense"])
        entries.append(entry if same else entry | {"models": len(files[name])})
    return {"variants": entries, "population": {"models": len(files["dense"])}}
