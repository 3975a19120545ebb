"""Predictions on disk: Parquet, one row per example, written and read a row group at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from scotoma.errors import DataError
from scotoma.predictions.matrix import Predictions, smallest_type
from scotoma.unreadable import readable, reason

if TYPE_CHECKING:
    from numpy.typing import NDArray

    # Ids, class ids (n, K), and scores (n, K) or None, of the next rows.
    Part: TypeAlias = tuple[
        Sequence[str] | pl.Series, NDArray[np.integer], NDArray[np.floating[Any]] | None
    ]

__all__ = ["ROWS", "PredictionFile", "write_predictions"]

ROWS = 2**18  # examples in a row group
WRITE = "write predictions with Predictions.write"


def write_predictions(
    path: Path,
    parts: Iterable[Part],
    *,
    variant: str,
    members: Sequence[int],
    classes: Sequence[str],
    paired_with: str = "",
    keep_scores: bool = False,
    runtimes: Sequence[str] = (),
) -> None:
    """Write the predictions of one variant as they come, a row group at a time.

    Memory is that of a few parts: about n x K x 3 bytes each, and the ids.

    Args:
        path: The Parquet file: `example_id`, `predicted`, a fixed-size list of K class ids (uint8
            up to 256 classes, else uint16), and `score`, one of K float16, where scores are kept.
        parts: Ids, class ids (n, K) and scores (n, K) or None, of the next n examples; ids are
            not compared across parts.
        variant: Its name.
        members: Indices of the K members, ascending.
        classes: Class names by id.
        paired_with: Variant that each member derives from, or "".
        keep_scores: Whether parts bring scores.
        runtimes: What ran the members, in words.

    Raises:
        DataError: A part has another shape, or a class id out of range.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "dense.parquet")
    ...     parts = [(["a"], np.array([[0, 1]]), None), (["b"], np.array([[1, 1]]), None)]
    ...     write_predictions(path, parts, variant="dense", members=[0, 1], classes=["no", "yes"])
    ...     print(PredictionFile.open(path).rows)
    2
    """
    wide = len(members)
    small = smallest_type(len(classes))
    ids_type = pl.UInt8 if small is np.uint8 else pl.UInt16
    columns: dict[str, pl.DataType] = {
        "example_id": pl.String(),
        "predicted": pl.Array(ids_type, wide),
    }
    if keep_scores:
        columns["score"] = pl.Array(pl.Float16, wide)
    schema = pl.Schema(columns)
    faults: list[DataError] = []

    def source(
        names: list[str] | None, where: pl.Expr | None, limit: int | None, batch: int | None
    ) -> Iterator[pl.DataFrame]:
        try:
            for ids, predicted, scores in parts:
                _refuse(variant, len(ids), wide, len(classes), predicted, scores, keep_scores)
                values: dict[str, Any] = {
                    "example_id": pl.Series(ids, dtype=pl.String),
                    "predicted": pl.Series(predicted.astype(small), dtype=columns["predicted"]),
                }
                if scores is not None:
                    values["score"] = pl.Series(scores.astype(np.float16), dtype=columns["score"])
                yield pl.DataFrame(values, schema=schema)
        except DataError as fault:  # the engine that runs this would wrap it in its own words
            faults.append(fault)

    metadata = {
        "scotoma.variant": variant,
        "scotoma.members": ",".join(map(str, members)),
        "scotoma.classes": json.dumps(list(classes)),
        "scotoma.paired_with": paired_with,
        "scotoma.runtimes": json.dumps(list(runtimes)),
    }
    register_io_source(source, schema=schema).sink_parquet(
        path, row_group_size=ROWS, maintain_order=True, metadata=metadata
    )
    if faults:
        raise faults[0]


def _refuse(
    variant: str,
    examples: int,
    members: int,
    classes: int,
    predicted: NDArray[np.integer],
    scores: NDArray[np.floating[Any]] | None,
    keep_scores: bool,
) -> None:
    if predicted.shape != (examples, members):
        raise DataError(
            f"predictions of {variant} have shape {predicted.shape} for {examples} examples and "
            f"{members} members"
        )
    if predicted.size and not 0 <= predicted.min() <= predicted.max() < classes:
        wrong = predicted.min() if predicted.min() < 0 else predicted.max()
        raise DataError(
            f"predictions of {variant} hold class id {int(wrong)}; ids go from 0 to {classes - 1}"
        )
    if keep_scores != (scores is not None) or (
        scores is not None and scores.shape != predicted.shape
    ):
        held = "none" if scores is None else f"shape {scores.shape}"
        wanted = f"shape {predicted.shape}" if keep_scores else "none"
        raise DataError(f"scores of {variant} must have {wanted}, got {held}")


@dataclass(frozen=True)
class PredictionFile:
    """A file of predictions, read only as far as needed.

    Attributes:
        path: Where it is.
        rows: Number of examples.
        variant: Name of the variant.
        members: Indices of the members.
        classes: Class names by id.
        paired_with: Variant that each member derives from, or "".
        has_scores: Whether it keeps scores.
        runtimes: What ran the members, in words.
    """

    path: Path
    rows: int
    variant: str
    members: tuple[int, ...]
    classes: tuple[str, ...]
    paired_with: str
    has_scores: bool
    runtimes: tuple[str, ...]

    @classmethod
    def open(cls, path: Path) -> PredictionFile:
        """Read the metadata at the end of the file.

        Raises:
            DataError: It is no Parquet file that `write_predictions` wrote.
        """
        with readable(path, WRITE):
            metadata = pl.read_parquet_metadata(path)
            scan = pl.scan_parquet(path, glob=False)
            columns = scan.collect_schema()
            rows = int(scan.select(pl.len()).collect().item())
        if "scotoma.variant" not in metadata or not {"example_id", "predicted"} <= set(columns):
            raise DataError(
                f"{path} must hold predictions as Predictions.write leaves them, got columns "
                f"{', '.join(columns)}; audit other tables with source.kind: predictions"
            )
        members = metadata.get("scotoma.members", "").split(",")
        kind = columns["predicted"]
        try:
            if not isinstance(kind, pl.Array) or kind.size != len(members):
                raise ValueError(f"{len(members)} members and a column of {kind}")
            return cls(
                path=path,
                rows=rows,
                variant=metadata["scotoma.variant"],
                members=tuple(map(int, members)),
                classes=tuple(map(str, json.loads(metadata["scotoma.classes"]))),
                paired_with=metadata["scotoma.paired_with"],
                has_scores="score" in columns,
                runtimes=tuple(map(str, json.loads(metadata.get("scotoma.runtimes", "[]")))),
            )
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataError(
                f"{path} must say whose predictions it holds ({reason(error)}); {WRITE}"
            ) from error

    def slices(self, rows: int = ROWS) -> Iterator[tuple[pl.Series, NDArray[Any]]]:
        """Ids and class ids (n, K), `rows` examples at a time; only one slice is in memory."""
        scan = pl.scan_parquet(self.path, glob=False).select("example_id", "predicted")
        for start in range(0, self.rows, rows):
            with readable(self.path, WRITE):
                part = scan.slice(start, rows).collect()
            yield part["example_id"], _matrix(part["predicted"], len(self.members))

    def read(self) -> Predictions:
        """The whole file in memory."""
        with readable(self.path, WRITE):
            table = pl.read_parquet(self.path, glob=False)
        wide = len(self.members)
        return Predictions(
            variant=self.variant,
            example_ids=tuple(table["example_id"]),
            members=self.members,
            classes=self.classes,
            predicted=_matrix(table["predicted"], wide),
            paired_with=self.paired_with,
            scores=_matrix(table["score"], wide) if self.has_scores else None,
            runtimes=self.runtimes,
        )


def _matrix(column: pl.Series, wide: int) -> NDArray[Any]:
    return np.ascontiguousarray(column.to_numpy()).reshape(len(column), wide)
