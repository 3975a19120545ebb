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

from scotoma.answers.note import AdmissionNote, notes_metadata, read_notes
from scotoma.errors import DataError
from scotoma.predictions.matrix import (
    TOP,
    Predictions,
    refuse_ids,
    refuse_unless,
    smallest_type,
)
from scotoma.processes.unreadable import readable, reason

if TYPE_CHECKING:
    from numpy.typing import NDArray

    # Ids, class ids (n, K), scores (n, K) or None, top-5 class ids (n, K, 5) or None, of the next
    # rows.
    Part: TypeAlias = tuple[
        Sequence[str] | pl.Series,
        NDArray[np.integer],
        NDArray[np.floating[Any]] | None,
        NDArray[np.integer] | None,
    ]


NUMBERS = "scotoma.numbers"  # in the metadata of a file of numbers
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
    keep_top5: bool = False,
    runtimes: Sequence[str] = (),
    admission: Sequence[AdmissionNote] = (),
) -> None:
    """Write the predictions of one variant as they come, a row group at a time.

    Memory is that of a few parts: about n x K x 3 bytes each, and the ids.

    Args:
        path: The Parquet file: `example_id`, `predicted`, a fixed-size list of K class ids (uint8
            up to 256 classes, else uint16), and where they are kept `score`, one of K float16, and
            `predicted_top5`, one of 5 K class ids, the five of each member in turn.
        parts: Ids, class ids (n, K), scores (n, K) or None, and top-5 class ids (n, K, 5) or None,
            of the next n examples; ids are not compared across parts.
        variant: Its name.
        members: Indices of the K members, ascending.
        classes: Class names by id.
        paired_with: Variant that each member derives from, or "".
        keep_scores: Whether parts bring scores.
        keep_top5: Whether parts bring top-5 class ids.
        runtimes: What ran the members, in words.
        admission: How the answers were read.

    Raises:
        DataError: A part has another shape, or a class id out of range.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "dense.parquet")
    ...     parts = [([name], np.array([[0, 1]]), None, None) for name in ("a", "b")]
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
    if keep_top5:
        columns["predicted_top5"] = pl.Array(ids_type, TOP * wide)
    schema = pl.Schema(columns)
    faults: list[DataError] = []

    def source(
        names: list[str] | None, where: pl.Expr | None, limit: int | None, batch: int | None
    ) -> Iterator[pl.DataFrame]:
        try:
            for ids, predicted, scores, top5 in parts:
                shape = (len(ids), wide)
                refuse_ids(variant, shape, len(classes), predicted)
                refuse_unless("scores", variant, shape if keep_scores else None, scores)
                refuse_unless("top-5", variant, (*shape, TOP) if keep_top5 else None, top5)
                values: dict[str, Any] = {
                    "example_id": pl.Series(ids, dtype=pl.String),
                    "predicted": pl.Series(predicted.astype(small), dtype=columns["predicted"]),
                }
                if scores is not None:
                    values["score"] = pl.Series(scores.astype(np.float16), dtype=columns["score"])
                if top5 is not None:
                    refuse_ids(variant, top5.shape, len(classes), top5)
                    flat = top5.astype(small).reshape(len(ids), TOP * wide)
                    values["predicted_top5"] = pl.Series(flat, dtype=columns["predicted_top5"])
                yield pl.DataFrame(values, schema=schema)
        except DataError as fault:  # the engine that runs this would wrap it in its own words
            faults.append(fault)

    metadata = {
        "scotoma.variant": variant,
        "scotoma.members": ",".join(map(str, members)),
        "scotoma.classes": json.dumps(list(classes)),
        "scotoma.paired_with": paired_with,
        "scotoma.runtimes": json.dumps(list(runtimes)),
        **notes_metadata(admission),
    }
    register_io_source(source, schema=schema).sink_parquet(
        path, row_group_size=ROWS, maintain_order=True, metadata=metadata
    )
    if faults:
        raise faults[0]


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
        has_top5: Whether it keeps top-5 class ids.
        runtimes: What ran the members, in words.
        admission: How the answers were read.
    """

    path: Path
    rows: int
    variant: str
    members: tuple[int, ...]
    classes: tuple[str, ...]
    paired_with: str
    has_scores: bool
    has_top5: bool
    runtimes: tuple[str, ...]
    admission: tuple[AdmissionNote, ...] = ()

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
        if NUMBERS in metadata:
            raise DataError(
                f"{path} holds a number for each example and no class; this command needs classes: "
                "see audit.json and report.html of the run"
            )
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
            top5 = columns.get("predicted_top5")
            if top5 not in (None, pl.Array(kind.inner, TOP * kind.size)):
                raise ValueError(f"{len(members)} members and a column of {top5}")
            return cls(
                path=path,
                rows=rows,
                variant=metadata["scotoma.variant"],
                members=tuple(map(int, members)),
                classes=tuple(map(str, json.loads(metadata["scotoma.classes"]))),
                paired_with=metadata["scotoma.paired_with"],
                has_scores="score" in columns,
                has_top5=top5 is not None,
                runtimes=tuple(map(str, json.loads(metadata.get("scotoma.runtimes", "[]")))),
                admission=read_notes(metadata),
            )
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataError(
                f"{path} must say whose predictions it holds ({reason(error)}); {WRITE}"
            ) from error

    def slices(
        self, rows: int = ROWS, *, top5: bool = False
    ) -> Iterator[tuple[pl.Series, NDArray[Any]]]:
        """Ids and class ids (n, K), `rows` examples at a time; only one slice is in memory.

        With `top5`, which the file must have, the top-5 class ids (n, K, 5).
        """
        column = "predicted_top5" if top5 else "predicted"
        scan = pl.scan_parquet(self.path, glob=False).select("example_id", column)
        for start in range(0, self.rows, rows):
            with readable(self.path, WRITE):
                part = scan.slice(start, rows).collect()
            shape = (len(self.members), *([TOP] if top5 else []))
            yield part["example_id"], _matrix(part[column], *shape)

    def read(self, *, top5: bool = False) -> Predictions:
        """The whole file in memory, but for the top-5 class ids unless they are asked for."""
        top5 = top5 and self.has_top5
        with readable(self.path, WRITE):
            scan = pl.scan_parquet(self.path, glob=False)
            table = (scan if top5 else scan.drop("predicted_top5", strict=False)).collect()
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
            top5=_matrix(table["predicted_top5"], wide, TOP) if top5 else None,
            admission=self.admission,
        )


def _matrix(column: pl.Series, *shape: int) -> NDArray[Any]:
    return np.ascontiguousarray(column.to_numpy()).reshape(len(column), *shape)
