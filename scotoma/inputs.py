"""What every question about predictions asks of its input, one sentence a fault."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError

Labels = npt.NDArray[np.integer[Any]]
Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]


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
            f"{ids.shape}: pass one row an example and one column a member"
        )
    return in_range(ids, name, n_classes)


def true_labels(labels: npt.ArrayLike, rows: int, n_classes: int | None) -> Labels:
    """True class ids, one a row, shape (N,), checked.

    Raises:
        DataError: Not integers, out of range, or not one a row.

    >>> true_labels([0, 1], 2, 2).tolist()
    [0, 1]
    """
    ids = integers(labels, "labels", "one class id a row")
    if ids.shape != (rows,):
        raise DataError(
            f"labels must give one class id a row, got shape {ids.shape} for {rows:,} rows: "
            "pass the labels of the predicted examples in their order"
        )
    return in_range(ids, "labels", n_classes)


def integers(values: npt.ArrayLike, name: str, what: str) -> Labels:
    """An integer array, or a sentence why it is none.

    >>> integers([1, 2], "labels", "one class id a row").dtype.kind
    'i'
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DataError(
            f"{name} must be {what}, got rows of different lengths: give every example one "
            "prediction a member"
        ) from error
    if array.size and array.dtype.kind not in "iu":
        raise DataError(
            f"{name} must be {what}, got values of type {array.dtype}: convert scores to integer "
            "class ids, for example with argmax"
        )
    return array


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
    """A boolean array of `shape`, or of one number a row where shape is None.

    Raises:
        DataError: Not bool, or of another shape.

    >>> booleans([True, False], "flags", (2,)).tolist()
    [True, False]
    """
    array = np.asarray(values)
    if array.dtype.kind != "b":
        raise DataError(
            f"{name} must be true or false, got values of type {array.dtype}: compare with the "
            "value that is meant"
        )
    if array.ndim != 1 if shape is None else array.shape != shape:
        wanted = "(rows,)" if shape is None else f"{shape}"
        raise DataError(
            f"{name} must have shape {wanted}, got {array.shape}: pass the rows of the predictions "
            "in their order"
        )
    return array


def _missing(ids: npt.NDArray[Any]) -> int:
    """Ids that are None or nan, which numpy would sort as one id or not at all."""
    if ids.dtype.kind == "f":
        return int(np.isnan(ids).sum())
    if ids.dtype.kind != "O":
        return 0
    return sum(one is None or (isinstance(one, float) and math.isnan(one)) for one in ids)


def units(clusters: npt.ArrayLike | None, rows: int) -> Codes | None:
    """Number of each row's unit, from 0 without gaps; None where every row is its own.

    Args:
        clusters: One id a row, shape (rows,), or None.
        rows: Number of rows.

    Raises:
        DataError: Not one id a row, or an id is missing.

    >>> units([7, 3, 7], 3).tolist()
    [1, 0, 1]
    """
    if clusters is None:
        return None
    ids = np.asarray(clusters)
    if ids.shape != (rows,):
        raise DataError(
            f"clusters must give one id a row, got shape {ids.shape} for {rows:,} rows: "
            "pass the ids in the order of the examples"
        )
    if missing := _missing(ids):
        raise DataError(
            f"clusters must name the source of every row, got {missing:,} of {rows:,} without one: "
            "give a row that shares its source with none an id of its own"
        )
    return np.unique(ids, return_inverse=True)[1]
