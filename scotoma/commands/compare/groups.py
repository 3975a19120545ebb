"""Which groups do the options of `scotoma compare` name?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from scotoma.answers.groups import GroupColumn, Groups, parse_groups
from scotoma.errors import ConfigError
from scotoma.group_keys import group_key
from scotoma.inputs import Flags
from scotoma.printable import printable

__all__ = ["Grouping", "compared_group_masks", "grouped", "groupings"]

MOST_GROUPS = 500


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


def grouped(table: pl.DataFrame, asked: Sequence[Grouping]) -> Groups:
    """Form the groups of every row.

    Raises:
        ConfigError: A column that the table has not.
    """
    for one in asked:
        if one.rule.column not in table.columns:
            raise ConfigError(
                f"--group names {printable(one.rule.column)!r}, which is not among "
                f"{printable(', '.join(table.columns))[:300]}"
            )
    columns = {one.name: table[one.rule.column] for one in asked}
    return Groups.of(columns, {one.name: one.rule for one in asked}, size=table.height)


def compared_group_masks(groups: Groups) -> dict[str, Flags]:
    """The rows of each group, by its key; an attribute of one value has none.

    Raises:
        ConfigError: More than 500 groups.
    """
    several = {name: own for name, own in groups.values.items() if own.n_unique() > 1}
    masks = dict(replace(groups, values=several).masks)
    del masks[group_key([])]
    if len(masks) > MOST_GROUPS:
        raise ConfigError(
            f"--group must form at most {MOST_GROUPS} groups, got {len(masks):,}; bin numbers "
            "(PATH:4), or name attributes of fewer values"
        )
    return masks
