"""Which groups do the values of an attribute form, and who is in them? Made once, used everywhere.

Numbers fall into bins and dates into years or months; values that few examples have go together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import Annotated, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from scotoma.answers.group_keys import group_key
from scotoma.answers.natural import natural_order
from scotoma.answers.values import (
    MISSING,
    MISSING_TEXTS,
    as_numbers,
    look_alikes,
    missing_note,
    read_values,
)
from scotoma.errors import ConfigError, DataError
from scotoma.printable import nearest, printable, quoted

Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.intp]

OTHER = "(other)"
MOST_NUMBERS = 20  # values of a column of numbers or dates that are groups each, unless asked
BINS = 4  # of a column with more
NAMED = 10  # groups in a note
ISO_DATE = r"^(\d{4}-\d{2}-\d{2})(?:[T ].*)?$"
SAYS_LITTLE = re.compile(r"[-+<>=.]*\d|(yes|no|true|false|other)$", re.IGNORECASE)
MOST_BINS = 20
Bins = (
    Annotated[int, Field(ge=2, le=MOST_BINS)]
    | Annotated[list[float], Field(min_length=1, max_length=MOST_BINS - 1)]
    | Literal["each"]
)


class GroupColumn(BaseModel):
    """One attribute: its column, and the groups that the values form."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    column: str = Field(description="Column of the attribute.")
    names: dict[str, str] | None = Field(None, description="Value in the table: name shown.")
    bins: Bins | None = Field(
        None,
        description="Groups of a column of numbers: how many of about equal size, or the numbers "
        "that they begin at, such as [18, 40, 65]; `each`: every value is a group. Default: "
        "`each` up to 20 values, 4 above.",
    )
    period: Literal["year", "month"] | None = Field(
        None, description="Groups of a column of dates (YYYY-MM-DD): by year or by month."
    )
    rare_below: int = Field(
        0, ge=0, description="Values with fewer test examples form the group `(other)`."
    )

    @field_validator("bins")
    @classmethod
    def _bins_rise(cls, bins: Bins | None) -> Bins | None:
        if isinstance(bins, list) and any(a >= b for a, b in pairwise(bins)):
            raise ValueError(f"bins must rise, got {bins}; sort them and name each once")
        return bins

    @model_validator(mode="after")
    def _values_are_grouped_in_one_way(self) -> GroupColumn:
        chosen = {"names": self.names, "bins": self.bins, "period": self.period}
        ways = [name for name, value in chosen.items() if value is not None]
        if len(ways) > 1 and self.bins != "each":
            raise ValueError(
                f"column {self.column!r} is grouped by {' and by '.join(ways)}; keep one of them"
            )
        return self


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of a set of examples, made once and used by every question.

    Attributes:
        values: Attribute to the group of every example as text, `(missing)` where it has none,
            shape (N,).
        size: N.
        crossed: Sets of attributes whose combinations are groups too.
        notes: Sentences about how values were put together.
    """

    values: Mapping[str, pl.Series]
    size: int
    crossed: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        columns: Mapping[str, pl.Series],
        rules: Mapping[str, GroupColumn] | None = None,
        *,
        size: int,
        tested: pl.Series | None = None,
        crossed: Sequence[Sequence[str]] = (),
        missing: Sequence[str] = MISSING_TEXTS,
    ) -> Groups:
        """Form the groups of columns: values, bins of numbers, periods of dates.

        Args:
            columns: Attribute to its column, of any plain type, shape (N,).
            rules: How the values of an attribute form groups; by default each value is one, and of
                more than 20 numbers four bins.
            size: N.
            tested: Which examples decide quantiles and rare values; None for all.
            crossed: Sets of attributes whose combinations are groups too.
            missing: See `read_values`.

        Raises:
            DataError: A column of lists or of bytes that are no text, or one that its rule does
                not fit.

        >>> sex = pl.Series("sex", ["f", "m ", "?", "f"])
        >>> groups = Groups.of({"sex": sex}, size=4)
        >>> groups.mask("sex=f").tolist(), groups.keys
        ([True, False, False, True], ('all', 'sex=(missing)', 'sex=f', 'sex=m'))
        """
        tested = pl.repeat(True, size, dtype=pl.Boolean, eager=True) if tested is None else tested
        values: dict[str, pl.Series] = {}
        notes: list[str] = []
        for name, column in columns.items():
            rule = (rules or {}).get(name) or GroupColumn(column=name)
            read = read_values(column.alias(name), missing=missing)
            formed = group_values(read.values, rule, tested, quoted(name))
            values[name] = formed.values.fill_null(MISSING)
            notes += [*read.notes, *missing_note(name, read), *formed.notes]
            notes += look_alikes(name, formed.values)
        return cls(values, size, tuple(tuple(names) for names in crossed), tuple(notes))

    @cached_property
    def coded(self) -> dict[str, tuple[list[str], Codes]]:
        """Attribute to its groups in natural order, and the place of every example's group."""
        coded = {}
        for name, column in self.values.items():
            distinct = natural_order(column.unique())
            codes = column.cast(pl.Enum(distinct)).to_physical().to_numpy().astype(np.intp)
            coded[name] = (distinct, codes)
        return coded

    @cached_property
    def members(self) -> dict[tuple[tuple[str, str], ...], Flags]:
        """What makes each group, a pair of attribute and value for each attribute, to its members.

        The first is all examples, made of nothing; combinations come last. Shape (N,) each.
        """
        cells = {
            name: {(name, value): codes == place for place, value in enumerate(distinct)}
            for name, (distinct, codes) in self.coded.items()
        }
        masks: dict[tuple[tuple[str, str], ...], Flags] = {(): np.ones(self.size, np.bool_)}
        for names in [*((name,) for name in cells), *self.crossed]:
            for parts in product(*(cells[name].items() for name in names)):
                pairs, own = zip(*parts, strict=True)
                masks[pairs] = np.logical_and.reduce(own)
        return masks

    @cached_property
    def by_key(self) -> dict[str, Flags]:
        """Key of each group (see `group_key`) to its members, shape (N,); the first is `all`."""
        return {group_key(pairs): mask for pairs, mask in self.members.items()}

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the groups."""
        return tuple(self.by_key)

    @cached_property
    def masks(self) -> Flags:
        """Membership, shape (G, N), in the order of `keys`."""
        return np.stack(list(self.members.values()))

    def mask(self, key: str) -> Flags:
        """Membership in one group, shape (N,)."""
        return self.by_key[key]

    @property
    def attributes(self) -> tuple[tuple[str, ...], ...]:
        """The attributes that each group is made of; none for `all`."""
        return tuple(tuple(name for name, _ in pairs) for pairs in self.members)

    @property
    def names(self) -> tuple[str, ...]:
        """The groups for people: `all`, `male`, `male & old`.

        With the attribute where a value says little alone, as numbers do: `age 18 to 39 & male`.
        """
        distinct = {name: own for name, (own, _) in self.coded.items()}
        flat = [value for own in distinct.values() for value in own]
        unique = len({"all", *flat}) == 1 + len(flat)
        bare = {a for a in distinct if unique and not any(map(SAYS_LITTLE.match, distinct[a]))}
        return tuple(
            " & ".join(value if name in bare else f"{name} {value}" for name, value in pairs)
            or "all"
            for pairs in self.members
        )

    def apart(self) -> dict[tuple[str, ...], dict[str, Flags]]:
        """Sets of attributes to the groups that they form, by key: those with members and values.

        Groups of one set share no example; who has no value of an attribute is in none of them.
        """
        tables: dict[tuple[str, ...], dict[str, Flags]] = {}
        for pairs, mask in self.members.items():
            if pairs and mask.any() and all(value != MISSING for _, value in pairs):
                own = tables.setdefault(tuple(name for name, _ in pairs), {})
                own[group_key(pairs)] = mask
        return tables


class GroupValues(NamedTuple):
    """The group of every row.

    Attributes:
        values: Text, null where the value is missing, shape (N,).
        notes: Sentences about how values were put together, for a reader of the results.
    """

    values: pl.Series
    notes: tuple[str, ...]


def group_values(
    values: pl.Series, rule: GroupColumn, tested: pl.Series, where: str
) -> GroupValues:
    """Turn the values of an attribute into the groups that its rule asks for.

    Args:
        values: Text, null where it is missing, shape (N,).
        rule: Of the configuration.
        tested: Whether a row is a test example, bool, shape (N,): these decide quantiles, and
            which values are rare.
        where: The attribute, as messages call it.

    Returns:
        A bin [a, b) of whole numbers is called `18 to 39`, the first `under 18` and the last
        `65 or more`; of other numbers `0.5 to under 0.75`.

    Raises:
        DataError: A name for a value that no row has, or bins or periods of values that are not
            numbers or dates.

    >>> ages = pl.Series(["17", "18", "39", None, "70"])
    >>> rule = GroupColumn(column="age", bins=[18, 40])
    >>> group_values(ages, rule, ages.is_not_null(), "age").values.to_list()
    ['under 18', '18 to 39', '18 to 39', None, '40 or more']
    """
    grouped, notes = _renamed(values, rule, where), []
    automatic = rule.bins is None and rule.period is None and not rule.names
    many = automatic and values.drop_nulls().n_unique() > MOST_NUMBERS
    kind = kind_of_values(values) if many else "words"
    if rule.period or kind == "dates":
        grouped, period = _periods(values, rule.period, where)
        if many:
            notes.append(
                f"attribute {where} holds {values.drop_nulls().n_unique():,} dates, so its groups "
                f"are their {period}s; choose another period"
            )
    elif rule.bins not in (None, "each") or kind == "numbers":
        grouped = _binned(values, rule.bins, tested, where)
        if many:
            names = natural_order(grouped.drop_nulls())
            notes.append(
                f"attribute {where} holds {values.drop_nulls().n_unique():,} numbers, so its "
                f"groups are bins of about equal size ({', '.join(names)}); choose "
                "other bins, or each value"
            )
    if rule.rare_below:
        grouped, rare = _collapsed(grouped, tested, rule.rare_below)
        if rare:
            notes.append(
                f"attribute {where}: {_listed(rare)} {'has' if len(rare) == 1 else 'have'} fewer "
                f"than {rule.rare_below:,} test examples and {'is' if len(rare) == 1 else 'are'} "
                f"in the group {OTHER}"
            )
    return GroupValues(grouped, tuple(notes))


def kind_of_values(values: pl.Series) -> Literal["numbers", "dates", "words"]:
    """What the values of a column are.

    Args:
        values: Text, null where it is missing.

    >>> kind_of_values(pl.Series(["1", None, "2.5"])), kind_of_values(pl.Series(["a"]))
    ('numbers', 'words')
    """
    values = values.drop_nulls()
    if not len(values):
        return "words"
    if not as_numbers(values).has_nulls():
        return "numbers"
    return "words" if _dates(values).has_nulls() else "dates"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(printable(repr(name)) for name in names[:NAMED]) + more


def _renamed(values: pl.Series, rule: GroupColumn, where: str) -> pl.Series:
    if not rule.names:
        return values
    known = natural_order(values.drop_nulls())
    if absent := [name for name in rule.names if name not in known]:
        raise DataError(
            printable(
                f"names of attribute {where} has {absent[0]!r}, which no row holds; they hold "
                f"{', '.join(known[:NAMED])}{nearest(absent[0], known)}"
            )
        )
    return values.replace(rule.names)


def _dates(values: pl.Series) -> pl.Series:
    """The values as dates, null where they are none."""
    return values.str.strip_chars().str.extract(ISO_DATE).str.to_date("%Y-%m-%d", strict=False)


def _unread(values: pl.Series, read: pl.Series) -> pl.Series:
    """Values that were not understood."""
    return values.filter(values.is_not_null() & read.is_null())


def _periods(values: pl.Series, period: str | None, where: str) -> tuple[pl.Series, str]:
    """Each date's year or month as text; without a period that of which there are several."""
    dates = _dates(values)
    if len(wrong := _unread(values, dates)):
        raise DataError(
            printable(
                f"attribute {where} must hold dates as YYYY-MM-DD for period, got {wrong[0]!r}; "
                "write it so, or leave period out"
            )
        )
    period = period or ("year" if dates.dt.year().drop_nulls().n_unique() > 1 else "month")
    return dates.dt.strftime("%Y" if period == "year" else "%Y-%m"), period


def _binned(values: pl.Series, bins: Bins | None, tested: pl.Series, where: str) -> pl.Series:
    numbers = as_numbers(values)
    if len(wrong := _unread(values, numbers)):
        raise DataError(
            printable(
                f"attribute {where} must hold numbers for bins, got {wrong[0]!r}; correct or empty "
                "it, or leave bins out"
            )
        )
    whole = bool((numbers == numbers.floor()).all())
    if isinstance(bins, list):
        edges = sorted({float(math.ceil(edge)) if whole else edge for edge in bins})
    else:
        edges = _quantiles(numbers.filter(tested).drop_nulls(), int(bins or BINS))
    at = np.searchsorted(edges, numbers.fill_null(0.0).to_numpy(), side="right")
    return pl.Series(_names(edges, whole=whole))[at].set(numbers.is_null(), None)


def _quantiles(numbers: pl.Series, bins: int) -> list[float]:
    """The numbers at which bins of about equal size begin, at four digits where these suffice.

    >>> _quantiles(pl.Series([0.0, 0.0, 0.0, 3.0, 7.0]), 2)  # more zeros than a bin can hold
    [3.0]
    """
    ordered = numbers.unique().sort()
    if len(ordered) < 2:
        return []
    quantiles = (numbers.quantile(at / bins, "higher") for at in range(1, bins))
    cuts = {max(float(quantile or 0), ordered[1]) for quantile in quantiles}
    short = {float(f"{cut:.4g}") for cut in cuts}
    return sorted(short if len(short) == len(cuts) and min(short) > ordered[0] else cuts)


def _names(edges: Sequence[float], *, whole: bool) -> list[str]:
    """What the bins between edges are called.

    >>> _names([18, 40], whole=True), _names([0.5], whole=False)
    (['under 18', '18 to 39', '40 or more'], ['under 0.5', '0.5 or more'])
    """

    def between(low: float, high: float) -> str:
        if not whole:
            return f"{low:.10g} to under {high:.10g}"
        return f"{low:.0f} to {high - 1:.0f}" if high - low > 1 else f"{low:.0f}"

    def text(edge: float) -> str:
        return f"{edge:.0f}" if whole else f"{edge:.10g}"

    if not edges:
        return ["any number"]
    inner = [between(a, b) for a, b in pairwise(edges)]
    return [f"under {text(edges[0])}", *inner, f"{text(edges[-1])} or more"]


def _collapsed(values: pl.Series, tested: pl.Series, fewest: int) -> tuple[pl.Series, list[str]]:
    """Put values that fewer test examples have together; which these are, in natural order."""
    counted = values.filter(tested).drop_nulls().value_counts()
    often = set(counted.filter(pl.col("count") >= fewest).to_series(0))
    rare = natural_order(set(values.drop_nulls()) - often)
    return values.replace(dict.fromkeys(rare, OTHER)), rare


def parse_group(text: str, columns: Sequence[str]) -> GroupColumn:
    """Read a column and its groups as options name them.

    Args:
        text: `COLUMN`, `COLUMN:4`, `COLUMN:18,40,65`, `COLUMN:each`, `COLUMN:year` or
            `COLUMN:month`; a column whose own name has this form is taken whole.
        columns: Those of the table.

    Raises:
        ConfigError: What follows the colon is none of these.

    >>> parse_group("age:18,40,65", ["age"]).bins
    [18.0, 40.0, 65.0]
    >>> parse_group("doc:id", ["doc:id"]).column
    'doc:id'
    """
    column, colon, way = text.rpartition(":")
    if text in columns or not colon:
        return GroupColumn(column=text)
    try:
        if way in ("year", "month"):
            return GroupColumn.model_validate({"column": column, "period": way})
        numbers = [float(number) for number in way.split(",")] if way != "each" else []
        count = len(numbers) == 1 and numbers[0].is_integer() and 2 <= numbers[0] <= MOST_BINS
        bins = int(numbers[0]) if count else numbers or way
        return GroupColumn.model_validate({"column": column, "bins": bins})
    except ValueError as error:
        raise ConfigError(
            f"--group {printable(text)!r} must be COLUMN, or COLUMN: and then a number of groups "
            f"(4, up to {MOST_BINS}), the rising numbers they begin at (18,40,65), each, year or "
            "month"
        ) from error


def parse_groups(texts: Sequence[str], columns: Sequence[str]) -> list[GroupColumn]:
    """Read all `--group` of a command: each a column, or several separated by commas.

    Args:
        texts: As `parse_group` takes them; a column whose own name holds a comma is taken whole.
        columns: Those of the table.

    Returns:
        What they name, each text once.

    Raises:
        ConfigError: What follows a colon is no way to form groups.

    >>> [(rule.column, rule.bins) for rule in parse_groups(["age:18,40,sex", "race"], [])]
    [('age', [18.0, 40.0]), ('sex', None), ('race', None)]
    >>> [rule.column for rule in parse_groups(["city, country"], ["city, country"])]
    ['city, country']
    """
    parts: list[str] = []
    for text in texts:
        first = len(parts)
        for part in [text] if text in columns else text.split(","):
            begins = len(parts) > first and ":" in parts[-1]
            if begins and re.fullmatch(r"\s*[-+\d.eE]+\s*", part):
                parts[-1] += f",{part}"
            else:
                parts.append(part if part in columns else part.strip())
    return [parse_group(part, columns) for part in dict.fromkeys(parts) if part]
