"""Features become predicates, once: every example meets exactly one predicate of each feature."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.errors import DataError
from scotoma.slices.search.coding import ByteCodes, Coding, Predicate, encode_column

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
    for name, value in (("max_categories", max_categories), ("bins", bins)):
        least = 1 if name == "max_categories" else 2
        if not least <= value <= MOST_CATEGORIES:
            raise DataError(
                f"{name} must lie between {least} and {MOST_CATEGORIES}, got {value}: the default "
                f"is {100 if name == 'max_categories' else 10}"
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
