"""Which groups do the options of `scotoma compare` name?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from scotoma.answers.groups import GroupColumn, group_values, parse_groups
from scotoma.errors import ConfigError
from scotoma.group_keys import group_key
from scotoma.inputs import Flags
from scotoma.printable import printable

__all__ = ["Grouping", "compared_group_masks", "grouped", "groupings"]

MOST_GROUPS = 500
MISSING = "(missing)"


@dataclass(frozen=True)
class Grouping:
    """An attribute whose values are groups.

    Attributes:
        name: As groups are called.
        rule: Its column, and how values form groups.
    """

    name: str
    rule: GroupColumn


def groupings(texts: Sequence[str]) -> list[Grouping]:
    """Read `--group`: paths separated by commas, each with bins behind a colon.

    >>> [(one.name, one.rule.bins) for one in groupings(["doc.age:18,40,doc.sex", "meta.sex"])]
    [('age', [18.0, 40.0]), ('doc.sex', None), ('meta.sex', None)]
    """
    rules = parse_groups(texts, [])
    last = [rule.column.rpartition(".")[2] for rule in rules]
    return [
        Grouping(rule.column if last.count(short) > 1 else short, rule)
        for rule, short in zip(rules, last, strict=True)
    ]


def grouped(table: pl.DataFrame, asked: Sequence[Grouping]) -> dict[str, pl.Series]:
    """Form the groups of every row, by attribute.

    Raises:
        ConfigError: A column that the table has not.
    """
    every = pl.Series([True]).new_from_index(0, table.height)
    values = {}
    for one in asked:
        if one.rule.column not in table.columns:
            raise ConfigError(
                f"--group names {printable(one.rule.column)!r}, which is not among "
                f"{printable(', '.join(table.columns))[:300]}"
            )
        text = _text(table[one.rule.column])
        formed = group_values(text, one.rule, every, repr(printable(one.name)))
        values[one.name] = formed.values.fill_null(MISSING)
    return values


def _text(values: pl.Series) -> pl.Series:
    if values.dtype.is_float():
        values = values.fill_nan(None)
        known = values.drop_nulls()
        if len(known) and bool((known == known.round()).all()):
            values = values.cast(pl.Int64, strict=False)
    return values.cast(pl.String)


def compared_group_masks(values: Mapping[str, pl.Series]) -> dict[str, Flags]:
    """The rows of each group, by its key; an attribute of one value has none.

    Raises:
        ConfigError: More than 500 groups.
    """
    masks: dict[str, Flags] = {}
    for name, column in values.items():
        kinds = sorted(column.unique().to_list())
        if len(kinds) < 2:
            continue  # one value is all examples
        for value in kinds:
            masks[group_key([(name, value)])] = np.asarray((column == value).to_numpy())
    if len(masks) > MOST_GROUPS:
        raise ConfigError(
            f"--group must form at most {MOST_GROUPS} groups, got {len(masks):,}; bin numbers "
            "(PATH:4), or name attributes of fewer values"
        )
    return masks
