"""Which columns do the values that a notebook holds form? Arrays, lists, frames of any library."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl

from scotoma.answers.note import AdmissionNote, reading_note
from scotoma.answers.pair import Pair
from scotoma.errors import DataError
from scotoma.printable import printable

GROUP = "group"  # what an attribute is called that comes without a name
NO_VALUES = ("NAType", "NaTType")  # of pandas, which is not imported
FEWEST_ROWS = 20  # that are no chance, if each of them has a single 1
PLAIN = (str, numbers.Real, date, time, timedelta)


def series_of(values: Any, name: str) -> pl.Series:
    """Read one column of values, whichever library holds them.

    Args:
        values: A list, tuple or other iterable; an array of NumPy, PyTorch or JAX; a Series, Index
            or Categorical of pandas; a Series of polars; an array of Arrow. Shape (N,), or (N, 1).
        name: What messages call it.

    Returns:
        Numbers, truth values, text, dates or times, shape (N,), with null where there is no value:
        None, nan, NaT, `pandas.NA` and masked entries.

    Raises:
        DataError: Values in more than one column, or none that a column can hold.

    >>> series_of([1.0, float("nan")], "age").to_list(), series_of(["b", None, 2], "x").to_list()
    ([1.0, None], ['b', None, '2'])
    >>> series_of(np.ma.array([3, 4], mask=[False, True]), "age").to_list()
    [3, None]
    """
    columns = _columns(values, name, None)
    if len(columns) != 1:
        raise DataError(
            f"{name} must be one column with a value for each example, got {len(columns)}: pass "
            "the one that is meant"
        )
    return next(iter(columns.values())).alias(name)


def columns_of(values: Any, name: str, rows: int | None = None) -> dict[str, pl.Series]:
    """Read the answers of one model, or of several.

    Args:
        values: What `series_of` takes, for one model. For several: an array of shape (N, K), a
            frame with a column a model, a list of columns, or a mapping from the model's name to
            its column, or to a list of columns.
        name: What messages call it.
        rows: N, by which a list of K columns is told from a list of N rows.

    Returns:
        Name of each model to its answers, shape (N,).

    Raises:
        DataError: Nothing, columns of different lengths, or values that no column can hold.

    >>> list(columns_of(np.zeros((3, 2), int), "int8"))
    ['int8 0', 'int8 1']
    >>> {model: answers.to_list() for model, answers in columns_of({"a": [0, 1]}, "int8").items()}
    {'a': [0, 1]}
    """
    columns = _columns(values, name, rows)
    lengths = {len(column) for column in columns.values()}
    if not columns or lengths == {0}:
        raise DataError(f"{name} must hold an answer for each example, got nothing: pass one model")
    if len(lengths) > 1:
        raise DataError(
            f"{name} must hold columns of one length, got {min(lengths):,} and {max(lengths):,} "
            "rows: pass the same examples for every model"
        )
    return columns


def group_columns(groups: Any, rows: int) -> dict[str, pl.Series]:
    """Read attributes that form groups.

    Args:
        groups: A mapping from an attribute to what `series_of` takes, a frame with a column an
            attribute, or one column, whose own name is the attribute's; None for none.
        rows: N.

    Raises:
        DataError: An attribute without a value for each example.

    >>> list(group_columns(pl.DataFrame({"sex": ["f", "m"], "age": [31, None]}), 2))
    ['sex', 'age']
    """
    if groups is None:
        return {}
    named = groups if isinstance(groups, Mapping) else _columns(groups, _own_name(groups), rows)
    columns: dict[str, pl.Series] = {}
    for key, values in named.items():
        name = str(key)
        column = series_of(values, f"groups[{name!r}]")
        if len(column) != rows:
            raise DataError(
                f"groups[{printable(name)!r}] must give a value for each of the {rows:,} examples, "
                f"got {len(column):,}; pass one for each"
            )
        columns[name] = column.alias(name)
    return columns


def pair(
    y: Any,
    dense: Any,
    compressed: Any,
    *,
    groups: Any = None,
    clusters: Any = None,
    paired: bool = False,
    features: Any = None,
) -> Pair:
    """Read answers that a notebook holds, and admit them.

    Args:
        y: True labels, text or numbers, shape (n,): a list, an array, or a column of pandas, polars
            or Arrow; None where there are none. Examples without a label are left out.
        dense: Predicted labels of the dense model, shape (n,). Of several models: shape (n, K), a
            frame, a list of columns, or a mapping from a model's name to its column. Where a model
            gives no answer it counts as wrong.
        compressed: Predicted labels of the compressed model on the same rows.
        groups: Attribute name to its value for every example, or a frame with a column an
            attribute. More than 20 numbers form four bins; missing values form `(missing)`.
        clusters: Id of each row's cluster, shape (n,), such as one person's; None where every row
            is its own.
        paired: Each compressed model was made from the dense model at the same place.
        features: What else may describe a slice, as `groups`, but with numbers as they are.

    Raises:
        DataError: Columns that do not fit together, or answers that are no labels, such as
            probabilities.

    >>> both = pair(["cat", "dog"], ["cat", "dog"], ["Cat", "Cat "], groups={"sex": ["f", "m"]})
    >>> both.classes, both.compressed.predicted.tolist()
    (('cat', 'dog'), [[0], [0]])
    """
    labels = None if y is None else series_of(y, "y")
    rows = len(next(iter(columns_of(dense, "dense").values())) if labels is None else labels)
    if not rows:
        raise DataError("y must hold a label for each example, got none; pass the true labels")
    sides: dict[str, dict[str, pl.Series]] = {}
    told: list[AdmissionNote] = []
    for name, values in (("dense", dense), ("compressed", compressed)):
        columns = columns_of(values, name, rows)
        length = len(next(iter(columns.values())))
        if length != rows:
            raise DataError(
                f"{name} must hold a label for each of the {rows:,} examples of y, got {length:,}; "
                "pass the same examples in the same order"
            )
        _refuse_probabilities(columns, name)
        told += _one_hot_note(columns, name)
        sides[name] = columns
    shared = sides["dense"].keys() & sides["compressed"].keys()
    before, after = (
        {f"{name} {model}" if model in shared else model: own for model, own in columns.items()}
        for name, columns in sides.items()
    )
    if paired and len(before) != len(after):
        raise DataError(
            f"paired models must be as many on both sides, got {len(before)} and {len(after)}; "
            "leave out those without a partner"
        )
    cluster = None if clusters is None else series_of(clusters, "clusters")
    if cluster is not None and len(cluster) != rows:
        raise DataError(
            f"clusters must name one cluster for each of the {rows:,} examples, got "
            f"{len(cluster):,}; pass the same examples in the same order"
        )
    described = pl.DataFrame(group_columns(features, rows)) if features is not None else None
    admitted = Pair.of(
        labels, after, before, groups=group_columns(groups, rows), cluster=cluster, paired=paired,
        features=described,
    )  # fmt: skip
    return replace(admitted, notes=(*admitted.notes, *told))


def _refuse_probabilities(columns: dict[str, pl.Series], name: str) -> None:
    """Refuse a column of probabilities for each class, which several models would look like."""
    if len(columns) < 2 or not all(own.dtype.is_float() for own in columns.values()):
        return
    table = np.stack([own.to_numpy() for own in columns.values()], axis=1)
    inside = bool(((table >= 0) & (table <= 1)).all())
    if inside and bool((table % 1 != 0).any()) and np.allclose(table.sum(1), 1, atol=1e-3):
        raise DataError(
            f"{name} must hold labels, got a probability for each of {len(columns)} classes; pass "
            "the class with the highest one, such as scores.argmax(axis=1)"
        )


def _one_hot_note(columns: dict[str, pl.Series], name: str) -> list[AdmissionNote]:
    """Tell where columns of models look like one column a class, with a 1 for the answer."""
    own = list(columns.values())
    plain = all(one.dtype.is_numeric() or one.dtype == pl.Boolean for one in own)
    if len(own) < 2 or not plain or len(own[0]) < FEWEST_ROWS:
        return []
    ones = np.zeros(len(own[0]))
    for column in own:
        values = column.cast(pl.Float64).to_numpy()
        if not np.isin(values, (0, 1)).all():
            return []
        ones += values
    if not (ones == 1).all():
        return []
    sentence = (
        f"{name} is read as {len(own)} models, but every row has a single 1, as one-hot classes do"
        ": pass the class instead, such as argmax(axis=1)"
    )
    return [reading_note(name, sentence)]


def _own_name(values: Any) -> str:
    name = getattr(values, "name", None)
    return GROUP if name is None or name == "" else str(name)


def _columns(values: Any, name: str, rows: int | None) -> dict[str, pl.Series]:
    """Read columns of anything; those without a name are numbered."""
    if isinstance(values, Mapping):
        parts = {str(key): _columns(column, str(key), rows) for key, column in values.items()}
        return {key: column for part in parts.values() for key, column in part.items()}
    if isinstance(values, pl.Series):
        return {name: _tidy(values, name)}
    if isinstance(values, pl.DataFrame):
        return {column: _tidy(values[column], name) for column in values.columns}
    if hasattr(values, "iloc") and hasattr(values, "columns"):  # a frame of pandas
        names = [str(column) for column in values.columns]
        own = [_values(values.iloc[:, place].to_numpy(), name) for place in range(len(names))]
        return dict(zip(_unique(names), own, strict=True))
    if hasattr(values, "__arrow_c_stream__") and not hasattr(values, "iloc"):
        table = pl.DataFrame(values) if hasattr(values, "columns") else pl.Series(values)
        return _columns(table, name, rows)
    if hasattr(values, "__arrow_c_array__"):
        return {name: _tidy(pl.Series(values), name)}
    if isinstance(values, str | bytes) or not (
        isinstance(values, Iterable) or hasattr(values, "__array__")
    ):
        raise DataError(
            f"{name} must hold a value for each example, got {_shown(values)}: pass an array, a "
            "list or a column of a frame"
        )
    if hasattr(values, "to_numpy") or hasattr(values, "__array__"):
        return _of_array(_array(values, name), name)
    items = list(values)
    if items and all(_is_column(item) for item in items):
        return _of_lists(items, name, rows)
    return {name: _values(items, name)}


def _array(values: Any, name: str) -> np.ndarray[Any, Any]:
    """The array of an object that offers one."""
    if isinstance(values, np.ndarray):
        return values
    try:
        return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    except (TypeError, ValueError, RuntimeError) as error:  # a tensor on a GPU, or with gradients
        raise DataError(
            f"{name} cannot be read as an array ({printable(str(error))}): pass an array of NumPy, "
            "such as tensor.detach().cpu().numpy()"
        ) from error


def _of_array(array: np.ndarray[Any, Any], name: str) -> dict[str, pl.Series]:
    if array.ndim == 2:
        if array.shape[1] == 1:
            return {name: _values(array[:, 0], name)}
        return {f"{name} {place}": _values(own, name) for place, own in enumerate(array.T)}
    if array.ndim != 1:
        raise DataError(
            f"{name} must have one row an example and at most one column a model, got shape "
            f"{array.shape}: pass classes, not scores or pictures"
        )
    if array.dtype == object and array.size and all(_is_column(item) for item in array):
        return _of_lists(list(array), name, None)
    return {name: _values(array, name)}


def _is_column(item: Any) -> bool:
    if isinstance(item, str | bytes | Mapping):
        return False
    if isinstance(item, np.ndarray) or hasattr(item, "__array__"):
        return bool(getattr(item, "ndim", 1))
    return isinstance(item, Sequence) or hasattr(item, "__arrow_c_stream__")


def _of_lists(items: list[Any], name: str, rows: int | None) -> dict[str, pl.Series]:
    """A list of columns, or of rows: a column has a value for each example."""
    lengths = {len(item) for item in items}
    if len(lengths) > 1:
        raise DataError(
            f"{name} must be a list of columns of one length, got {min(lengths):,} and "
            f"{max(lengths):,} values: pass the same examples for every model"
        )
    length = lengths.pop()
    written_out = all(isinstance(item, list | tuple) for item in items)
    by_row = length != rows if rows is not None else written_out
    if by_row or (len(items) == rows and written_out):
        items = [list(column) for column in zip(*items, strict=True)]
    columns = [series_of(item, name) for item in items]
    if len(columns) == 1:
        return {name: columns[0]}
    return {f"{name} {place}": column for place, column in enumerate(columns)}


def _values(values: Any, name: str) -> pl.Series:
    """A column of what an array of one dimension, or a list, holds."""
    if _is_plain_array(values):
        exact = values.astype(np.float32) if values.dtype == np.float16 else values
        return _tidy(pl.Series(np.ascontiguousarray(exact)), name)
    items = [_plain(item) for item in (values.tolist() if hasattr(values, "tolist") else values)]
    if odd := next((one for one in items if one is not None and not isinstance(one, PLAIN)), None):
        raise DataError(
            f"{name} must hold words, numbers or dates, got {_shown(odd)}: pass one value an "
            "example"
        )
    kinds = {isinstance(one, numbers.Real) or type(one) for one in items if one is not None}
    column = pl.Series(name, items if len(kinds) < 2 else [], strict=False)
    if not kinds:
        return column.cast(pl.Int64)
    # Of several kinds, and whole numbers too large for 64 bits: what Python writes.
    if len(kinds) > 1 or column.dtype == pl.Int128 or column.null_count() > items.count(None):
        texts = [None if item is None else str(item) for item in items]
        return pl.Series(name, texts, dtype=pl.String)
    return column


def _is_plain_array(values: Any) -> bool:
    """Whether polars takes the array as it is."""
    if not isinstance(values, np.ndarray) or isinstance(values, np.ma.MaskedArray):
        return False
    return values.dtype.kind in "biufMm" and values.dtype.itemsize <= 8


def _plain(item: Any) -> Any:
    """A value as Python has it; None where there is none."""
    if item is None or type(item).__name__ in NO_VALUES:
        return None
    if isinstance(item, np.generic) or (hasattr(item, "item") and getattr(item, "ndim", 1) == 0):
        item = item.item()
    if isinstance(item, bytes):
        return item.decode("utf-8", errors="replace")
    if isinstance(item, Decimal):
        item = float(item) if item % 1 else int(item)
    if isinstance(item, float) and item != item:
        return None
    # Text of NumPy; periods and intervals of pandas, whose bins are groups.
    written = isinstance(item, str) or type(item).__module__.startswith("pandas")
    return str(item) if written and not isinstance(item, date) else item


def _tidy(column: pl.Series, name: str) -> pl.Series:
    """A column of a plain type, null where it is nan."""
    kind = column.dtype
    if isinstance(kind, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    elif kind == pl.Object or kind.is_nested():
        return _values(column.to_list(), name)
    elif kind.is_float():
        column = column.fill_nan(None)
    return column.alias(name)


def _unique(names: Sequence[str]) -> list[str]:
    """Number names that repeat.

    >>> _unique(["a", "b", "a"])
    ['a', 'b', 'a (2)']
    """
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return unique


def _shown(value: Any) -> str:
    text = printable(repr(value))
    return text if len(text) <= 40 else f"{text[:39]}…"
