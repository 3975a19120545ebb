"""What every question about predictions asks of its input, one sentence a fault."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError

Array = npt.NDArray[Any]
Labels = npt.NDArray[np.integer[Any]]
Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
Ints = npt.NDArray[np.int64]
StatisticsProtocol = Literal["sound", "published"]  # ours, or as its paper has it


def populations(
    dense: npt.ArrayLike, compressed: npt.ArrayLike, n_classes: int | None, *, paired: bool = False
) -> tuple[Labels, Labels]:
    """Predicted class ids of two populations, checked against each other.

    Args:
        dense: Class ids, integers in [0, n_classes), shape (N, K).
        compressed: Class ids of the same examples in the same order, shape (N, K').
        n_classes: Number of classes, at least 2; None where any id will do.
        paired: Member m of `compressed` derives from member m of `dense`, so K = K'.

    Returns:
        Both as integer arrays; no copy where they already were.

    Raises:
        DataError: Not a table, not integers, out of range, no examples, different examples, or
            paired populations of different size.

    >>> populations([[0, 1]], [[1, 1]], 2)[0].shape
    (1, 2)
    """
    if n_classes is not None and n_classes < 2:
        raise DataError(f"n_classes must be at least 2, got {n_classes}: count the label's values")
    d = class_ids(dense, "dense", n_classes)
    c = class_ids(compressed, "compressed", n_classes)
    if d.shape[0] != c.shape[0]:
        raise DataError(
            f"dense and compressed must predict the same examples, got {d.shape[0]:,} and "
            f"{c.shape[0]:,} rows: score both on one test set"
        )
    if paired and d.shape[1] != c.shape[1]:
        raise DataError(
            f"paired populations must have as many compressed as dense members, got {c.shape[1]} "
            f"and {d.shape[1]}: drop the members without a partner, or pass paired=False"
        )
    return d, c


def class_ids(predicted: npt.ArrayLike, name: str, n_classes: int | None) -> Labels:
    """One population's class ids, shape (N, K), checked.

    Raises:
        DataError: Not a table, not integers, out of range, or empty.

    >>> class_ids([[0, 1], [2, 2]], "dense", 3).shape
    (2, 2)
    """
    ids = integers(predicted, name, "an examples by members table of class ids")
    if ids.ndim != 2 or 0 in ids.shape:
        raise DataError(
            f"{name} must be a table of at least one example by at least one member, got shape "
            f"{ids.shape}: pass one row per example and one column per member"
        )
    return in_range(ids, name, n_classes)


def true_labels(labels: npt.ArrayLike, rows: int, n_classes: int | None) -> Labels:
    """True class ids, one a row, shape (N,), checked.

    Raises:
        DataError: Not integers, out of range, or not one a row.

    >>> true_labels([0, 1], 2, 2).tolist()
    [0, 1]
    """
    ids = integers(labels, "labels", "one class id per row")
    if ids.shape != (rows,):
        raise DataError(
            f"labels must give one class id per row, got shape {ids.shape} for {rows:,} rows: "
            "pass one label per predicted example, in the same order"
        )
    return in_range(ids, "labels", n_classes)


def integers(values: npt.ArrayLike, name: str, what: str) -> Labels:
    """An integer array, or a sentence why it is none.

    >>> integers([1, 2], "labels", "one class id per row").dtype.kind
    'i'
    """
    ids = array(values, name, f"{what}, got rows of different lengths: give every example one "
                "prediction per member")  # fmt: skip
    if ids.size and ids.dtype.kind not in "iu":
        raise DataError(
            f"{name} must be {what}, got values of type {ids.dtype}: convert scores to integer "
            "class ids, for example with argmax"
        )
    return ids


def in_range(ids: Labels, name: str, n_classes: int | None) -> Labels:
    """The ids, if all lie in [0, n_classes), or are at least 0 where n_classes is None.

    >>> in_range(np.array([0, 1]), "labels", 2).tolist()
    [0, 1]
    """
    low, high = int(ids.min()), int(ids.max())
    if low < 0:
        raise DataError(
            f"{name} must hold class ids from 0 upwards, got {low}: number the classes from 0"
        )
    if n_classes is not None and high >= n_classes:
        raise DataError(
            f"{name} must hold class ids from 0 to {n_classes - 1}, got {high}: number the classes "
            "from 0, or correct n_classes"
        )
    return ids


def booleans(values: npt.ArrayLike, name: str, shape: tuple[int, ...] | None = None) -> Flags:
    """A boolean array of `shape`, or of one number per row where shape is None.

    Raises:
        DataError: Ragged, not bool, or of another shape.

    >>> booleans([True, False], "flags", (2,)).tolist()
    [True, False]
    """
    flags = array(values, name)
    if flags.dtype.kind != "b":
        raise DataError(
            f"{name} must be true or false, got values of type {flags.dtype}: compare with the "
            "value that you mean"
        )
    if flags.ndim != 1 if shape is None else flags.shape != shape:
        expected = "(rows,)" if shape is None else f"{shape}"
        raise DataError(
            f"{name} must have shape {expected}, got {flags.shape}: pass one row per prediction, "
            "in the same order"
        )
    return flags


def floats(values: npt.ArrayLike, name: str) -> Floats:
    """An array of floats; nan and infinities pass.

    Raises:
        DataError: Ragged, or no numbers.

    >>> floats([1, 2.5], "values").tolist()
    [1.0, 2.5]
    """
    numbers = array(values, name)
    if numbers.dtype.kind == "O":  # numbers beside None, perhaps, which is then nan
        with suppress(TypeError, ValueError):
            numbers = numbers.astype(np.float64)
    if numbers.dtype.kind not in "biuf":
        raise DataError(
            f"{name} must be numbers, got values of type {numbers.dtype}: convert them first"
        )
    return numbers.astype(np.float64, copy=False)


def array(values: npt.ArrayLike, name: str, must: str = "") -> npt.NDArray[Any]:
    """Any array, or a sentence why it is none.

    Raises:
        DataError: Rows of different lengths.

    >>> array([[1, 2], [3, 4]], "values").shape
    (2, 2)
    """
    try:
        return np.asarray(values)
    except ValueError as error:
        must = must or (
            "a column or a table, got rows of different lengths: give every row the same number "
            "of values"
        )
        raise DataError(f"{name} must be {must}") from error


def coded(values: npt.ArrayLike, name: str, rows: int) -> tuple[npt.NDArray[Any], Codes]:
    """The distinct values of a column in ascending order, and the number of each row's value.

    Args:
        values: One value a row, of one kind, shape (rows,).
        name: What the column is called.
        rows: Number of rows.

    Raises:
        DataError: Not one value per row, a value that is missing, or values that have no order.

    >>> [part.tolist() for part in coded(["b", "a", "b"], "strata", 3)]
    [['a', 'b'], [1, 0, 1]]
    """
    column = array(values, name)
    if column.shape != (rows,):
        raise DataError(
            f"{name} must hold one value per row, got shape {column.shape} for {rows:,} rows: pass "
            "them in the order of the examples"
        )
    if missing := _missing(column):
        raise DataError(
            f"{name} must have a value in every row, got {missing:,} of {rows:,} rows without one: "
            "leave these rows out, or give them a value of their own"
        )
    if column.dtype.kind in "iu" and rows and column.min() >= 0 and column.max() < 4 * rows:
        counts = np.bincount(column)  # sorting takes ten times as long
        return np.flatnonzero(counts), (np.cumsum(counts > 0) - 1)[column].astype(np.intp)
    try:
        distinct, codes = np.unique(column, return_inverse=True)
    except TypeError as error:
        kinds = " and ".join(sorted({type(one).__name__ for one in column.tolist()}))
        raise DataError(
            f"{name} must hold values of one kind, got {kinds}: write them all as text"
        ) from error
    return distinct, codes.astype(np.intp)


def first_difference(ids: Sequence[str], others: Sequence[str]) -> str:
    """Where two lists of example ids part; empty where they are the same.

    >>> first_difference(["a", "b"], ["a", "c"]), first_difference(["a"], ["a", "b"])
    ("'b' and 'c' in row 2", "nothing and 'b' in row 2")
    """
    if ids == others:
        return ""
    for row, pair in enumerate(zip_longest(ids, others), 1):
        if pair[0] != pair[1]:
            first, second = ("nothing" if one is None else repr(one) for one in pair)
            return f"{first} and {second} in row {row:,}"
    return ""  # a list and a tuple of the same ids


def _missing(column: npt.NDArray[Any]) -> int:
    """Values that are None, nan or no time, which numpy would sort as one value or not at all."""
    if column.dtype.kind in "fcmM":
        return int((column != column).sum())
    if column.dtype.kind != "O":
        return 0
    return sum(one is None or one != one for one in column.tolist())


def cluster_ids(clusters: npt.ArrayLike | None, rows: int) -> Codes | None:
    """Number the clusters of a column from 0 without gaps; None where every row is its own.

    Args:
        clusters: One id a row, text or numbers, shape (rows,), or None.
        rows: Number of rows.

    Raises:
        DataError: Not one id per row, or an id is missing.

    >>> cluster_ids([7, 3, 7], 3).tolist()
    [1, 0, 1]
    """
    if clusters is None:
        return None
    ids = array(clusters, "clusters")
    if ids.shape != (rows,):
        raise DataError(
            f"clusters must give one id per row, got shape {ids.shape} for {rows:,} rows: "
            "pass the ids in the order of the examples"
        )
    if missing := _missing(ids):
        raise DataError(
            f"clusters must hold an id in every row, got {missing:,} of {rows:,} rows without one: "
            "give a row that belongs to no cluster an id of its own"
        )
    return coded(ids, "clusters", rows)[1]
