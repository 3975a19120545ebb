"""Which column of a table holds ids, labels, splits and attributes, and what is of no use?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import polars as pl

from scotoma.answers.groups import kind_of_values
from scotoma.answers.values import is_plain, read_values

LABELS = ("label", "target", "class", "y", "digit", "category")
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
    lower = {name.lower(): name for name in reversed(unique)}
    named = (lower[name] for name in IDS if name in lower)
    ending = (name for name in unique if name.lower().endswith(("_id", "id", "_name", " id")))
    words = (name for name in unique if kind_of_values(_texts(table, name)) == "words")
    whole_numbers = (name for name in unique if _texts(table, name).str.contains(WHOLE).all())
    return next(chain(named, ending, words, whole_numbers), None)


def guessed_label(table: pl.DataFrame) -> str | None:
    """The column that is called as labels are; None for none.

    >>> guessed_label(pl.DataFrame({"ID": [1], "Target": ["x"]}))
    'Target'
    """
    lower = {name.lower(): name for name in reversed(table.columns)}
    return next((lower[name] for name in LABELS if name in lower), None)


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
