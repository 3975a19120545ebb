"""Which models does a first configuration compare: columns of predictions, or ONNX files?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import polars as pl

from scotoma import storage
from scotoma.answers.admission import translate
from scotoma.answers.groups import kind_of_values
from scotoma.answers.natural import natural_order
from scotoma.answers.values import is_plain, read_values
from scotoma.config import Config
from scotoma.errors import ConfigError, DataError
from scotoma.predictions.patterns import find_tables
from scotoma.printable import listed, quoted
from scotoma.readers.columns import columns
from scotoma.readers.tables import read_table

IDS = ("example_id", "image", "id", "file", "filename", "path", "name", "key", "index")
SPLITS = (
    "partition", "split", "part", "fold", "set", "subset", "phase", "usage", "data_split",
    "dataset_split",
)  # fmt: skip
ROLES = {  # of a split: the values that say so, in lower case
    "train": ("train", "training", "trn", "fit"),
    "calibrate": ("val", "valid", "validation", "dev", "eval", "calib", "calibrate", "calibration"),
    "test": ("test", "testing", "tst", "holdout", "held-out", "heldout"),
}
CELEBA = {"train": "0", "calibrate": "1", "test": "2"}
# What says that a column of numbers with a fraction holds scores of models, and is no attribute.
SCORED = re.compile(
    r"(?i)(?:^|[\W_])(?:scores?|prob(?:a|s|abilit(?:y|ies))?|logits?|softmax|sigmoid|conf(?:idence)?|"
    r"likelihood|loss(?:es)?|entropy|margin)(?:[\W_\d]|$)"
)
IMAGES = r"(?i)\.(png|jpe?g|gif|webp|bmp|tiff?)$"
WHOLE = r"^\s*[+-]?\d+\s*$"
MOST_VALUES = 12  # groups of one attribute
MOST_ATTRIBUTES = 6  # more share out the examples too thinly, and every test the error rate
BINS = 4
FEWEST = 30  # test examples of a value that is a group of its own


PREDICTED = r"(?:y_?)?(?:pred(?:icted|ictions?|s)?|hat)"  # what says that a column is predicted
MODELS = r"dense|original|baseline|fp\d+|bf16|float\d+|int\d+|prun|quant|sparse|distil|compress"
SPOKEN = re.compile(rf"(?i)(?:^|[\W_]){PREDICTED}(?:[\W_\d]|$)|(?:^|[\W_])(?:{MODELS})|^yhat")


@dataclass(frozen=True)
class Attributes:
    """What a draft makes of the columns that are neither id, label nor split.

    Attributes:
        groups: Attribute to its entry in the configuration.
        left_out: Column to why it is of no use.
    """

    groups: dict[str, dict[str, Any]]
    left_out: dict[str, str]


def guessed_key(table: pl.DataFrame, *, images: bool) -> str | None:
    """The column that names each example: by its name, then by its values; None for none.

    Args:
        table: The table.
        images: Whether it names image files.

    >>> guessed_key(pl.DataFrame({"sex": ["f", "f"], "photo": ["a.png", "b.png"]}), images=True)
    'photo'
    """
    plain = [name for name in table.columns if is_plain(table.schema[name])]
    whole = [name for name in plain if not _texts(table, name).has_nulls()]
    if images:
        files = [name for name in whole if _texts(table, name).str.contains(IMAGES).all()]
        return next(iter(files), None) or next((name for name in whole if name == "image"), None)
    unique = [name for name in whole if table[name].n_unique() == table.height]
    ending = (name for name in unique if name.lower().endswith(("_id", "id", "_name", " id")))
    words = (name for name in unique if kind_of_values(_texts(table, name)) == "words")
    whole_numbers = (name for name in unique if _texts(table, name).str.contains(WHOLE).all())
    return _called(unique, IDS) or next(chain(ending, words, whole_numbers), None)


def _called(names: Sequence[str], known: Sequence[str]) -> str | None:
    """The first of the known names that is among others, whatever its case."""
    lower = {name.lower(): name for name in reversed(names)}
    return next((lower[name] for name in known if name in lower), None)


def guessed_split(table: pl.DataFrame, others: Sequence[str], *, trained: bool) -> dict[str, str]:
    """The column that splits rows into train, val and test, and the value of each part.

    Args:
        table: The table.
        others: Columns that have another role.
        trained: Whether models are trained on some of the rows.

    Returns:
        `column`, `train`, `test` and perhaps `calibrate`, as `source.split` takes them; without
        test rows, val is tested. Empty where no column splits rows.

    >>> table = pl.DataFrame({"split": ["Train", "val", "test"]})
    >>> guessed_split(table, [], trained=True)
    {'column': 'split', 'train': 'Train', 'test': 'test', 'calibrate': 'val'}
    """
    for name in table.columns:
        if name in others or not is_plain(table.schema[name]):
            continue
        values = _texts(table, name).drop_nulls().unique().sort().to_list()
        if len(values) > len(CELEBA):
            continue
        if name.lower() in SPLITS and {"0", "2"} <= set(values) <= set(CELEBA.values()):
            return {"column": name, **CELEBA}
        roles = {
            role: value
            for value in values
            for role, words in ROLES.items()
            if value.lower().strip() in words
        }
        if len(roles) < max(len(values), 1 if name.lower() in SPLITS else 2):
            continue
        tested = roles.get("test") or roles.get("calibrate")
        if tested is None or (trained and "train" not in roles):
            continue
        calibrated = roles.get("calibrate")
        rest = calibrated if calibrated != tested else "train"  # models took none of these rows
        split = {"column": name, "train": roles.get("train", str(rest)), "test": tested}
        if "train" not in roles:
            return split
        return split | ({"calibrate": calibrated} if calibrated not in (None, tested) else {})
    return {}


def guessed_attributes(table: pl.DataFrame, tested: pl.Series, others: Sequence[str]) -> Attributes:
    """Make groups of the columns whose values can be compared.

    Args:
        table: The table.
        tested: Whether a row is a test example, bool, shape (N,).
        others: Columns that have another role.

    >>> table = pl.DataFrame({"key": ["a", "b", "c", "d"], "sex": ["f", "m", "f", "m"]})
    >>> made = guessed_attributes(table, table["key"].is_not_null(), ["key"])
    >>> made.groups
    {'sex': {'column': 'sex'}}
    """
    groups: dict[str, dict[str, Any]] = {}
    left_out: dict[str, str] = {}
    for name in table.columns:
        if name in others or "_duplicated_" in name:
            continue
        if f"{name}_duplicated_0" in table.columns:
            left_out[name] = "stands twice"
        elif not is_plain(table.schema[name]):
            left_out[name] = f"holds {table.schema[name]}"
        elif _holds_scores(name, _texts(table, name).filter(tested)):
            left_out[name] = "holds scores of a model"
        else:
            entry = _entry(_texts(table, name).filter(tested))
            if isinstance(entry, str):
                left_out[name] = entry
            elif len(groups) == MOST_ATTRIBUTES:
                left_out[name] = f"is more than {MOST_ATTRIBUTES} attributes"
            else:
                groups[attribute(name)] = {"column": name, **entry}
    return Attributes(groups, left_out)


def _holds_scores(name: str, values: pl.Series) -> bool:
    """Whether a column is called like what models give, and holds numbers with a fraction."""
    if not (SCORED.search(name) or SPOKEN.search(name)):
        return False
    numbers = values.drop_nulls().cast(pl.Float64, strict=False).drop_nulls()
    return len(numbers) > 0 and bool((numbers != numbers.round()).any())


def _texts(table: pl.DataFrame, name: str) -> pl.Series:
    return read_values(table[name]).values


def _entry(values: pl.Series) -> dict[str, Any] | str:
    """How the values of a column are grouped; or why they are not, as a clause."""
    known = values.drop_nulls()
    distinct, kind = known.n_unique(), kind_of_values(values)
    if distinct < 2:
        return "is constant" if distinct else "is empty"
    whole = kind == "numbers" and bool(known.str.contains(WHOLE).all())
    if distinct == len(known) > MOST_VALUES and (whole or kind == "words"):
        return "identifies rows"
    if distinct <= MOST_VALUES and kind != "words":
        return {}
    if kind == "numbers":
        return {"bins": BINS}
    if kind == "dates":
        if known.str.slice(0, 7).n_unique() == 1:
            return "holds dates of one month"
        return {"period": "year" if known.str.slice(0, 4).n_unique() > 1 else "month"}
    times = known.value_counts(sort=True)["count"].to_list()
    fewest = min(FEWEST, max(1, len(known) // 20))
    if len(times) > MOST_VALUES:
        fewest = max(fewest, times[MOST_VALUES - 1] + 1)
    if not any(count < fewest for count in times):
        return {}
    often = sum(count >= fewest for count in times)
    return {"rare_below": fewest} if often else f"has {distinct:,} values, each of them rare"


def attribute(column: str) -> str:
    """A column as the name of an attribute; one that the audit uses itself gets an ending.

    >>> attribute("sex"), attribute("image")
    ('sex', 'image_')
    """
    reserved = ("intersections", "label", "split", "image", "image_name", "cluster", "example_id")
    return f"{column}_" if column in reserved else column


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
    return _called(names, BASELINES) or names[0]


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
