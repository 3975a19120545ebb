"""Features become predicates, once: every example meets exactly one predicate of each feature."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.slices.bins import bin_texts, cut_points, number_text, round_cuts

Kind = Literal["value", "bin", "rest", "missing"]
Codes = npt.NDArray[np.uint8]
MOST_CATEGORIES = 250  # with "the rest" and "missing" the codes of a feature still fit a byte


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
    kind: Kind


@dataclass(frozen=True)
class Encoded:
    """A table of features as codes.

    Attributes:
        codes: Which predicate of a feature an example meets, shape (F, N), uint8.
        predicates: The predicates of each feature, in the order of the codes.
        notes: What a reader should know: columns left out, values taken together.
    """

    codes: Codes
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

    def take(self, rows: npt.NDArray[np.intp]) -> Encoded:
        """The same predicates on some of the examples."""
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
    for name, value in (("max_categories", max_categories), ("bins", bins)):
        least = 1 if name == "max_categories" else 2
        if not least <= value <= MOST_CATEGORIES:
            raise DataError(
                f"{name} must lie between {least} and {MOST_CATEGORIES}, got {value}: the default "
                f"is {100 if name == 'max_categories' else 10}"
            )
    table = as_frame(features)
    if table.height == 0:
        raise DataError("features must have at least one row, got 0: pass the scored examples")
    kept: list[tuple[Codes, tuple[Predicate, ...]]] = []
    notes: list[str] = []
    for column in table.get_columns():
        codes, predicates, note = _column(column, max_categories, bins)
        if len(predicates) > 1:
            kept.append((codes, predicates))
        notes += [note] * bool(note)
    if not kept:
        raise DataError(
            f"features must have a column with at least two values, got {table.width} without: "
            f"{'; '.join(notes) or 'pass at least one column'}"
        )
    codes = np.stack([codes for codes, _ in kept])
    return Encoded(codes, tuple(predicates for _, predicates in kept), tuple(notes))


def as_frame(features: Any) -> pl.DataFrame:
    """Any table as a polars frame; pandas and Arrow are known by what they can do, not imported.

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


def _column(
    column: pl.Series, max_categories: int, bins: int
) -> tuple[Codes, tuple[Predicate, ...], str]:
    name, dtype = printable(column.name), column.dtype
    column = column.alias(name)
    if dtype.is_nested() or dtype in (pl.Object, pl.Binary):
        raise DataError(
            f"column {name!r} must hold numbers, text, truth values or dates, got {dtype}: leave "
            "it out or turn it into columns of its own"
        )
    if dtype.is_float():
        column = column.fill_nan(None)
    if column.null_count() == len(column):
        note = f"column {name!r} holds no value: it defines no slice and was left out"
        return np.empty(0, np.uint8), (), note
    if dtype.is_numeric() or dtype.is_temporal():
        codes, predicates = _numbers(column, bins)
        note = ""
    else:
        codes, predicates, note = _categories(column, max_categories)
    if len(predicates) == 1:
        note = (
            f"column {name!r} is constant ({predicates[0].text}): it defines no slice and was "
            "left out"
        )
    return codes, tuple(predicates), note


def _numbers(column: pl.Series, bins: int) -> tuple[Codes, list[Predicate]]:
    name, present = column.name, column.is_not_null().to_numpy()
    known = column.drop_nulls()
    if column.dtype.is_temporal():
        values = known.to_physical().to_numpy()
        cuts = cut_points(values, bins)
    elif column.dtype.is_integer():
        values = known.to_numpy()
        cuts = cut_points(values, bins)
    else:
        values = known.cast(pl.Float64).to_numpy()
        cuts = round_cuts(values, cut_points(values, bins).astype(np.float64))
    codes = np.full(len(column), len(cuts) + 1, np.uint8)
    codes[present] = np.searchsorted(cuts, values, side="right")
    own = codes[present]
    ends = [(values[own == b].min(), values[own == b].max()) for b in range(len(cuts) + 1)]
    flat = _texts(column.dtype, [*cuts, *(end for pair in ends for end in pair)])
    cut_texts, end_texts = flat[: len(cuts)], flat[len(cuts) :]
    pairs = list(zip(end_texts[::2], end_texts[1::2], strict=True))
    predicates = [
        Predicate(name, text, "value" if low == high else "bin")
        for text, (low, high) in zip(bin_texts(name, pairs, cut_texts), pairs, strict=True)
    ]
    if not present.all():
        predicates.append(Predicate(name, f"{name} is missing", "missing"))
    return codes, predicates


def _texts(dtype: pl.DataType, values: list[Any]) -> list[str]:
    if dtype.is_temporal():
        physical = pl.Series([int(value) for value in values], dtype=pl.Int64)
        if dtype in (pl.Date, pl.Time):
            physical = physical.cast(pl.Int32) if dtype == pl.Date else physical
        return [str(value) for value in physical.cast(dtype).to_list()]
    return [number_text(value) for value in values]


def _categories(column: pl.Series, most: int) -> tuple[Codes, list[Predicate], str]:
    name = column.name
    text = column.cast(pl.String)
    counted = (
        pl.DataFrame({"value": text.drop_nulls()})
        .group_by("value")
        .len()
        .sort(["len", "value"], descending=[True, False])
    )
    frequent = counted["value"].head(most)
    rest = counted.height - len(frequent)
    found = pl.DataFrame({"value": text}).join(
        pl.DataFrame({"value": frequent, "code": np.arange(len(frequent), dtype=np.uint8)}),
        on="value",
        how="left",
        maintain_order="left",
    )
    missing = text.is_null().to_numpy()
    codes = found["code"].fill_null(len(frequent)).to_numpy().astype(np.uint8)
    codes[missing] = len(frequent) + (rest > 0)
    predicates = [
        Predicate(name, f"{name} = {_quoted(value)}", "value") for value in frequent.to_list()
    ]
    note = ""
    if rest:
        predicates.append(Predicate(name, f"{name} is one of {rest:,} rarer values", "rest"))
        note = (
            f"column {name!r} has {counted.height:,} different values: the {most} most frequent "
            "were taken one by one, the rest together"
        )
    if missing.any():
        predicates.append(Predicate(name, f"{name} is missing", "missing"))
    return codes, predicates, note


def _quoted(value: str) -> str:
    shown = printable(value)
    plain = shown and shown == shown.strip() and " and " not in shown
    return shown if plain else json.dumps(shown, ensure_ascii=False)
