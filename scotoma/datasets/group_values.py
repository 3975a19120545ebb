"""Which groups do the values of an attribute form?

Numbers fall into bins and dates into years or months; values that few examples have go together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from scotoma.config.groups import Bins, GroupColumn
from scotoma.errors import DataError
from scotoma.natural import natural_order
from scotoma.printable import nearest, printable

__all__ = ["OTHER", "GroupValues", "group_values", "kind_of_values", "without_marks"]

OTHER = "(other)"
MOST_NUMBERS = 20  # values of a column of numbers or dates that are groups each, unless asked
BINS = 4  # of a column with more
NAMED = 10  # groups in a note
MARKS = ("-", "?", "na", "n/a", "#n/a", "none")  # for a missing number or date
ISO_DATE = r"^(\d{4}-\d{2}-\d{2})(?:[T ].*)?$"


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
        grouped, period = _periods(without_marks(values), rule.period, where)
        if many:
            notes.append(
                f"attribute {where} holds {values.drop_nulls().n_unique():,} dates, so its groups "
                f"are their {period}s; choose another period"
            )
    elif rule.bins not in (None, "each") or kind == "numbers":
        grouped = _binned(without_marks(values), rule.bins, tested, where)
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
    """What the values of a column are, apart from marks for a missing one.

    Args:
        values: Text, null where it is missing.

    >>> kind_of_values(pl.Series(["1", "n/a", "2.5"])), kind_of_values(pl.Series(["n/a"]))
    ('numbers', 'words')
    """
    values = without_marks(values).drop_nulls()
    if not len(values):
        return "words"
    if not _numbers(values).has_nulls():
        return "numbers"
    return "words" if _dates(values).has_nulls() else "dates"


def without_marks(values: pl.Series) -> pl.Series:
    """Null where there is a mark for a missing number or date, such as `n/a`."""
    return values.set(values.str.strip_chars().str.to_lowercase().is_in(MARKS), None)


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


def _numbers(values: pl.Series) -> pl.Series:
    """The values as finite numbers, null where they are none."""
    numbers = values.str.strip_chars().cast(pl.Float64, strict=False)
    return numbers.set(~numbers.is_finite(), None)


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
    numbers = _numbers(values)
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
