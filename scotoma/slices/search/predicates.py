"""Features become predicates, once: every example meets exactly one predicate of each feature."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.answers.values import is_plain
from scotoma.errors import DataError
from scotoma.printable import printable

PredicateKind = Literal["value", "bin", "rest", "missing"]
ByteCodes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Predicate:
    """One condition on one feature.

    Attributes:
        feature: Name of the column.
        text: The condition as people write it: `age in [37, 41)`, `occupation = Sales`.
        kind: A single value, a range of numbers, all values but the frequent ones, or no value.
    """

    feature: str
    text: str
    kind: PredicateKind


@dataclass(frozen=True, eq=False)
class Coding:
    """The predicates of a column, and which of them a value meets.

    Attributes:
        column: Name of the column in its table.
        predicates: In the order of the codes; fewer than two define no slice.
        kind: Type of the values.
        cuts: Lower ends of the bins but the first; None where values stand for themselves.
        frequent: The values that stand for themselves.
        note: What a reader should know; else empty.
    """

    column: str
    predicates: tuple[Predicate, ...]
    kind: pl.DataType
    cuts: npt.NDArray[Any] | None = None
    frequent: tuple[str, ...] = ()
    note: str = ""

    def codes(self, column: pl.Series) -> ByteCodes:
        """Return the predicate that each value meets, shape (N,), uint8.

        >>> coding = encode_column(pl.Series("job", ["a", "b", "a"]), 100, 10)
        >>> coding.codes(pl.Series("job", ["b", "a"])).tolist()
        [1, 0]
        """
        column = without_nan(column.cast(self.kind))
        codes = np.full(len(column), len(self.predicates) - 1, np.uint8)  # the last: is missing
        present, known = column.is_not_null().to_numpy(), column.drop_nulls()
        if self.cuts is not None:
            codes[present] = np.searchsorted(self.cuts, numeric_values(known), side="right")
        else:
            places = known.cast(pl.String).cast(pl.Enum(self.frequent), strict=False).to_physical()
            codes[present] = places.fill_null(len(self.frequent)).to_numpy()
        return codes


def encode_column(column: pl.Series, max_categories: int, bins: int) -> Coding:
    """Decide the predicates of a column.

    >>> [one.text for one in encode_column(pl.Series("age", [20, 30, None]), 100, 10).predicates]
    ['age = 20', 'age = 30', 'age is missing']
    """
    name, kind = printable(column.name), column.dtype
    if not is_plain(kind):
        raise DataError(
            f"column {name!r} must hold numbers, text, truth values or dates, got {kind}: leave "
            "it out or turn it into columns of its own"
        )
    values = without_nan(column)
    if values.null_count() == len(values):
        note = f"column {name!r} holds no value: it defines no slice and was left out"
        return Coding(column.name, (), kind, note=note)
    cuts, frequent, note = None, list[str](), ""
    if kind.is_numeric() or kind.is_temporal():
        cuts, predicates = _bins(name, values, bins)
    else:
        frequent, predicates, note = _categories(name, values, max_categories)
    if values.null_count():
        predicates.append(Predicate(name, f"{name} is missing", "missing"))
    if len(predicates) == 1:
        note = (
            f"column {name!r} is constant ({predicates[0].text}): it defines no slice and was "
            "left out"
        )
    return Coding(column.name, tuple(predicates), kind, cuts, tuple(frequent), note)


def without_nan(column: pl.Series) -> pl.Series:
    """Turn nan into null: both are no value."""
    return column.fill_nan(None) if column.dtype.is_float() else column


def numeric_values(column: pl.Series) -> npt.NDArray[Any]:
    """Turn numbers and dates without gaps into an array that can be cut.

    >>> numeric_values(pl.Series([0.5, 2.0]))
    array([0.5, 2. ])
    """
    column = column.to_physical()
    return column.to_numpy() if column.dtype.is_integer() else column.cast(pl.Float64).to_numpy()


def _bins(name: str, column: pl.Series, bins: int) -> tuple[npt.NDArray[Any], list[Predicate]]:
    ordered = np.sort(numeric_values(column.drop_nulls()))
    cuts = cut_points(ordered, bins)
    if ordered.dtype.kind == "f":
        cuts = round_cuts(ordered, cuts.astype(np.float64))
    starts = np.append(0, np.searchsorted(ordered, cuts))
    ends = np.append(starts[1:], ordered.size) - 1
    low, high, cut = (_texts(column.dtype, own) for own in (ordered[starts], ordered[ends], cuts))
    each = list(zip(low, high, ["", *cut], [*cut, ""], strict=True))
    return cuts, [
        Predicate(name, bin_text(name, *one), "value" if one[0] == one[1] else "bin")
        for one in each
    ]


def _texts(kind: pl.DataType, values: npt.NDArray[Any]) -> list[str]:
    if kind.is_temporal():
        physical = pl.Series(values, dtype=pl.Int32 if kind == pl.Date else pl.Int64)
        return [str(value) for value in physical.cast(kind).to_list()]
    return [number_text(value) for value in values]


def _categories(name: str, column: pl.Series, most: int) -> tuple[list[str], list[Predicate], str]:
    counted = (
        pl.DataFrame({"value": column.drop_nulls().cast(pl.String)})
        .group_by("value")
        .len()
        .sort(["len", "value"], descending=[True, False])
    )
    frequent = counted["value"].head(most).to_list()
    rest = counted.height - len(frequent)
    predicates = [Predicate(name, f"{name} = {_quoted(value)}", "value") for value in frequent]
    if not rest:
        return frequent, predicates, ""
    predicates.append(Predicate(name, f"{name} is one of {rest:,} rarer values", "rest"))
    note = (
        f"column {name!r} has {counted.height:,} different values: the {most} most frequent "
        "were taken one by one, the rest together"
    )
    return frequent, predicates, note


def _quoted(value: str) -> str:
    shown = printable(value)
    plain = shown and shown == shown.strip() and " and " not in shown
    return shown if plain else json.dumps(shown, ensure_ascii=False)


def cut_points(values: npt.NDArray[np.generic], bins: int) -> npt.NDArray[np.generic]:
    """Choose the lower ends of all bins but the first: about equally many values in each.

    A value that fills a bin's share alone gets a bin of its own, so that the 91% of zeros of a
    capital gain do not swallow the rest. No more distinct values than bins: a bin for each.

    >>> cut_points(np.arange(20), 4)
    array([ 5, 10, 15])
    >>> cut_points(np.array([0] * 17 + [3, 5, 6, 7, 9]), 4)
    array([3])
    """
    ordered = np.sort(values)
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    if starts.size <= bins:
        return np.asarray(ordered[starts[1:]])
    counts = np.diff(np.append(starts, ordered.size))
    heavy = np.flatnonzero(counts * bins >= ordered.size)
    after = starts[np.minimum(heavy + 1, starts.size - 1)]
    quantiles = -(-np.arange(1, bins) * ordered.size // bins)
    cuts = np.unique(ordered[np.concatenate([quantiles, starts[heavy], after])])
    return np.asarray(cuts[1:] if cuts[0] == ordered[0] else cuts)


def round_cuts(
    values: npt.NDArray[np.float64], cuts: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Round cuts to as few digits as separate the same values.

    >>> round_cuts(np.array([0.1234, 0.31415, 0.7777]), np.array([0.31415]))
    array([0.3])
    """
    ordered = np.unique(values)
    below = ordered[np.searchsorted(ordered, cuts) - 1]
    return np.array([_shortest(float(a), float(b)) for a, b in zip(below, cuts, strict=True)])


def bin_text(name: str, low: str, high: str, start: str, stop: str) -> str:
    """Write a bin in words.

    Args:
        name: The column.
        low: Its smallest value.
        high: Its largest value.
        start: Where it starts; empty for the first.
        stop: Where the next one starts; empty for the last.

    >>> bin_text("age", "17", "21", "", "22"), bin_text("age", "22", "30", "22", "40")
    ('age < 22', 'age in [22, 40)')
    >>> bin_text("age", "40", "40", "40", "41"), bin_text("age", "41", "90", "41", "")
    ('age = 40', 'age >= 41')
    """
    if low == high:
        return f"{name} = {low}"
    if not start:
        return f"{name} < {stop}" if stop else f"{name} in [{low}, {high}]"
    return f"{name} in [{start}, {stop})" if stop else f"{name} >= {start}"


def _shortest(below: float, cut: float) -> float:
    """Find the number of fewest digits in (below, cut], the nearest to `cut` among those."""
    if not np.isfinite([below, cut]).all():
        return cut
    for digits in range(1, 17):
        rounded = float(f"{cut:.{digits - 1}e}")
        if rounded > cut and cut != 0:
            unit = 10.0 ** (np.floor(np.log10(abs(cut))) - digits + 1)
            rounded = float(f"{rounded - unit:.{digits}g}")
        if below < rounded <= cut:
            return rounded
    return cut


def number_text(value: float | int) -> str:
    """Write a number as short as possible without loss.

    >>> number_text(37.0), number_text(0.25), number_text(1e-05)
    ('37', '0.25', '1e-05')
    """
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    return repr(float(value)).removesuffix(".0")


MOST_CATEGORIES = 250  # with "the rest" and "missing" the codes of a feature still fit a byte


@dataclass(frozen=True)
class Encoded:
    """A table of features as codes.

    Attributes:
        codes: Which predicate of a feature an example meets, shape (F, N), uint8.
        predicates: The predicates of each feature, in the order of the codes.
        notes: What a reader should know: columns left out, values taken together.
    """

    codes: ByteCodes
    predicates: tuple[tuple[Predicate, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features that can define slices."""
        return tuple(own[0].feature for own in self.predicates)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Number of predicates of each feature, shape (F,)."""
        return np.array([len(own) for own in self.predicates], np.int64)

    def predicates_of(self, key: tuple[tuple[int, ...], tuple[int, ...]]) -> tuple[Predicate, ...]:
        """Look up the predicates of a slice, from the places of its features and their codes."""
        return tuple(self.predicates[feature][own] for feature, own in zip(*key, strict=True))

    def take(self, rows: npt.NDArray[np.intp]) -> Encoded:
        """Keep some of the examples."""
        return Encoded(np.ascontiguousarray(self.codes[:, rows]), self.predicates, self.notes)


def encode(features: Any, *, max_categories: int = 100, bins: int = 10) -> Encoded:
    """Turn a table into predicates.

    Numbers and dates are cut into bins of about equally many examples, other columns give a
    predicate for each of their most frequent values and one for all the rest; what is missing
    (null, nan) is a value of its own. A column with a single value defines no slice: it is left
    out, with a note.

    Args:
        features: A polars, pandas or Arrow table, or a mapping of column names to values.
        max_categories: Values of a column that get a predicate of their own, the most frequent
            first, ties in the order of their text; 1 to 250.
        bins: Bins of a numeric column, 2 to 250.

    Raises:
        DataError: No examples, no usable column, or a column of lists or structures.

    References:
        Liu et al. 2022, section 2: the J most frequent values, the rest together; A.2.1: J = 100,
        bins of a tenth of the examples each.

    >>> table = {"age": [20, 30, 40, None], "job": ["a", "b", "a", "a"]}
    >>> [own.text for own in encode(table, bins=2).predicates[0]]
    ['age < 40', 'age = 40', 'age is missing']
    """
    table = as_frame(features)
    if table.height == 0:
        raise DataError("features must have at least one row, got 0: pass the scored examples")
    every = codings(table.get_columns(), max_categories=max_categories, bins=bins)
    kept = [coding for coding in every if len(coding.predicates) > 1]
    return Encoded(
        np.stack([coding.codes(table[coding.column]) for coding in kept]),
        tuple(coding.predicates for coding in kept),
        tuple(coding.note for coding in every if coding.note),
    )


def codings(
    columns: Iterable[pl.Series], *, max_categories: int = 100, bins: int = 10
) -> list[Coding]:
    """Decide the predicates of every column.

    Args:
        columns: All values of each; one column at a time is looked at.
        max_categories: Values of a column that get a predicate of their own.
        bins: Bins of a numeric column.

    Returns:
        One a column; those with fewer than two predicates define no slice.

    Raises:
        DataError: No usable column, or one of lists or structures.

    >>> [len(coding.predicates) for coding in codings([pl.Series("a", [1, 2, 2])])]
    [2]
    """
    asked = (("max_categories", max_categories, 1, 100), ("bins", bins, 2, 10))
    for name, value, least, default in asked:
        if not least <= value <= MOST_CATEGORIES:
            raise DataError(
                f"{name} must lie between {least} and {MOST_CATEGORIES}, got {value}: the default "
                f"is {default}"
            )
    every = [encode_column(column, max_categories, bins) for column in columns]
    if all(len(coding.predicates) < 2 for coding in every):
        notes = "; ".join(coding.note for coding in every)
        raise DataError(
            f"features must have a column with at least two values, got {len(every)} without: "
            f"{notes or 'pass at least one column'}"
        )
    return every


def as_frame(features: Any) -> pl.DataFrame:
    """Turn any table into a polars frame; pandas and Arrow are recognised without an import.

    >>> as_frame({"age": [20, 30]}).shape
    (2, 1)
    """
    if isinstance(features, pl.DataFrame):
        return features
    if isinstance(features, pl.LazyFrame):
        return features.collect()
    if hasattr(features, "columns") and hasattr(features, "iloc"):  # pandas, with or without Arrow
        names = [str(name) for name in features.columns]
        columns = [features.iloc[:, place].to_numpy() for place in range(len(names))]
        return pl.DataFrame([_series(n, c) for n, c in zip(names, columns, strict=True)])
    try:
        return pl.DataFrame(features)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise DataError(
            f"features must be a table, got {type(features).__name__}: pass a polars, pandas or "
            "Arrow table, or a mapping of column names to values"
        ) from error


def _series(name: str, values: npt.NDArray[Any]) -> pl.Series:
    if values.dtype.kind != "O":
        return pl.Series(name, values)
    plain = [None if value is None or value != value else value for value in values.tolist()]
    return pl.Series(name, plain, strict=False)
