"""Read predictions in long format: one row per example and member."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from scotoma.columns import is_plain
from scotoma.errors import DataError
from scotoma.natural import natural_order
from scotoma.predictions.matrix import Predictions, smallest_type
from scotoma.printable import nearest
from scotoma.unreadable import UNREADABLE, reason

__all__ = ["read_long"]

COLUMNS = ("example_id", "member", "predicted")


def read_long(
    table: Path | pl.DataFrame,
    *,
    variant: str,
    classes: Sequence[str] | None = None,
    paired_with: str = "",
) -> Predictions:
    """Read predictions from a table with one row per example and member, in any order.

    Args:
        table: CSV or Parquet, or a frame, with columns `example_id`, `member` (a whole number)
            and `predicted` (a class name).
        variant: Its name.
        classes: Class names by id; None takes those that are met, numbers by their size.
        paired_with: Variant that each member derives from, or "".

    Returns:
        The matrix; examples in the order in which they are first met.

    Raises:
        DataError: A column is absent or empty somewhere, a member's prediction is missing or
            stands twice, or a class is unknown.

    >>> rows = {"example_id": list("aabb"), "member": [1, 0, 0, 1], "predicted": list("yynn")}
    >>> predictions = read_long(pl.DataFrame(rows), variant="dense")
    >>> predictions.members, predictions.classes, predictions.predicted.tolist()
    ((0, 1), ('n', 'y'), [[1, 1], [0, 0]])
    """
    origin = str(table) if isinstance(table, Path) else f"the table of {variant}"
    frame = _read(table) if isinstance(table, Path) else table
    for name in COLUMNS:
        if name not in frame.columns:
            raise DataError(
                f"{origin} must have the columns {', '.join(COLUMNS)}, got "
                f"{', '.join(frame.columns)}{nearest(name, frame.columns)}"
            )
        if not is_plain(frame[name].dtype):
            raise DataError(
                f"{origin} must hold one {name} a row, got values of type {frame[name].dtype}; "
                "give every prediction a row of its own"
            )
        if empty := frame[name].null_count():
            raise DataError(f"{origin} has {empty:,} rows without {name}; fill or remove them")
    if not frame.height:
        raise DataError(f"{origin} holds no predictions; predict at least one example")
    try:
        member = frame["member"].cast(pl.Int64)
    except pl.exceptions.PolarsError as error:
        raise DataError(
            f"{origin} must number its members, got {frame['member'][0]!r}; write 0, 1, 2 and so on"
        ) from error
    names = tuple(classes) if classes is not None else _classes(frame["predicted"])
    predicted_names = frame["predicted"].cast(pl.String)
    code = predicted_names.replace_strict(list(names), list(range(len(names))), default=None)
    if code.null_count():
        raise DataError(
            f"{origin} predicts {predicted_names.filter(code.is_null())[0]!r}, which is no class; "
            f"classes are {', '.join(names[:10])}"
        )
    examples = frame["example_id"].cast(pl.String)
    ids = examples.unique(maintain_order=True)
    members = np.unique(member.to_numpy())
    # Sorted, because a join or a dictionary would take a row's memory many times.
    place = pl.DataFrame({"id": ids, "row": np.arange(len(ids))})
    rows = pl.DataFrame({"id": examples}).join(place, on="id", how="left", maintain_order="left")
    cell = rows["row"].to_numpy() * len(members) + np.searchsorted(members, member.to_numpy())
    times = np.bincount(cell, minlength=len(ids) * len(members))
    if (times != 1).any():
        wrong = int((times != 1).argmax())
        what = "no prediction" if times[wrong] == 0 else f"{times[wrong]} predictions"
        raise DataError(
            f"{origin} must hold one prediction for every example and member, got {what} of "
            f"member {members[wrong % len(members)]} for {ids[wrong // len(members)]!r}"
        )
    predicted = np.empty(len(cell), smallest_type(len(names)))
    predicted[cell] = code.to_numpy()
    return Predictions(
        variant=variant,
        example_ids=tuple(ids),
        members=tuple(members.tolist()),
        classes=names,
        predicted=predicted.reshape(len(ids), len(members)),
        paired_with=paired_with,
    )


def _read(path: Path) -> pl.DataFrame:
    try:
        if path.suffix == ".csv":
            return pl.read_csv(path, infer_schema=False, glob=False)
        return pl.read_parquet(path, glob=False)
    except UNREADABLE as error:
        raise DataError(
            f"{path} cannot be read ({reason(error)}); write it as CSV or Parquet"
        ) from error


def _classes(predicted: pl.Series) -> tuple[str, ...]:
    names = predicted.unique().cast(pl.String).to_list()
    return tuple(natural_order(names))
