"""Which groups do the options of `scotoma compare` name?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from scotoma.answers.groups import GroupColumn, Groups, parse_groups
from scotoma.datasets.select_examples import RESERVED
from scotoma.errors import ConfigError, DataError
from scotoma.printable import printable
from scotoma.readers.tables import read_table
from scotoma.run.mirror import place_here

MOST_GROUPS = 500


def groupings(texts: Sequence[str]) -> dict[str, GroupColumn]:
    """Read `--group`: paths separated by commas, each with bins behind a colon; by short name.

    >>> {name: one.bins for name, one in groupings(["doc.age:18,40,doc.sex", "meta.sex"]).items()}
    {'age': [18.0, 40.0], 'doc.sex': None, 'meta.sex': None}
    >>> list(groupings(["doc.label"]))  # `label` is the name of something else in an audit
    ['doc.label']
    """
    rules = parse_groups(texts, [])
    last = [rule.column.rpartition(".")[2] for rule in rules]
    return {
        rule.column if last.count(short) > 1 or short in RESERVED else short: rule
        for rule, short in zip(rules, last, strict=True)
    }


def grouped(table: pl.DataFrame, asked: Mapping[str, GroupColumn]) -> Groups:
    """Form the groups of every row; an attribute of one value has none.

    Raises:
        ConfigError: A column that the table has not, or more than 500 groups.
    """
    for rule in asked.values():
        if rule.column not in table.columns:
            raise ConfigError(
                f"--group names {printable(rule.column)!r}, which is not among "
                f"{printable(', '.join(table.columns))[:300]}; name one of these"
            )
    columns = {name: table[rule.column] for name, rule in asked.items()}
    groups = Groups.of(columns, asked, size=table.height)
    several = {name: own for name, own in groups.values.items() if own.n_unique() > 1}
    if (count := sum(own.n_unique() for own in several.values())) > MOST_GROUPS:
        raise ConfigError(
            f"--group must form at most {MOST_GROUPS} groups, got {count:,}; bin numbers "
            "(PATH:4), or name attributes of fewer values"
        )
    return replace(groups, values=several)


def joined(
    place: str, table: pl.DataFrame, keys: Mapping[str, Sequence[str]], called: str
) -> pl.DataFrame:
    """Add the columns of the table that `--examples` names to the rows that it speaks of.

    Args:
        place: CSV or Parquet, a row an example; here or in `s3://`.
        table: The rows.
        keys: Column that names examples there, to those that may name them here.
        called: What the rows are called.

    Raises:
        ConfigError: It has no such column.
        DataError: It names an example twice, or none of the rows.
    """
    path = place_here(place)
    own, name = read_table(path).frame, printable(path.name)
    key = next((one for one in keys if one in own.columns), None)
    if key is None:
        raise ConfigError(
            f"--examples {name} must have a column that names {called}, such as "
            f"{' or '.join(keys)}, got {printable(', '.join(own.columns))[:200]}; rename it"
        )
    own = own.with_columns(pl.col(key).cast(pl.String))
    if own[key].n_unique() < own.height:
        raise DataError(
            f"--examples {name} must have one row for each {key}, and some repeat; keep one of each"
        )
    on = max(keys[key], key=lambda way: table[way].is_in(own[key].implode()).sum())
    if not table[on].is_in(own[key].implode()).any():
        raise DataError(
            f"--examples {name} must hold {called}, and none is in both; the first {on} there is "
            f"{printable(str(table[on][0]))[:60]!r}"
        )
    added = own.select(key, *(one for one in own.columns if one not in (*table.columns, key)))
    return table.join(added, left_on=on, right_on=key, how="left", maintain_order="left")
