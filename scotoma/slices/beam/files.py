"""Which predicates, outcomes and ids do the files of a table hold?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.answers.values import infer_type
from scotoma.errors import DataError
from scotoma.extras import needs
from scotoma.slices.beam.columns import TableColumns
from scotoma.slices.beam.part import Query
from scotoma.slices.hashing import hash_ids
from scotoma.slices.judging.means import Centre, counts_nonevents, psi_of, several
from scotoma.slices.outcomes import Outcome, metric_named, none_at_risk
from scotoma.slices.search.coding import Coding
from scotoma.slices.search.predicates import codings
from scotoma.storage.credentials import masked

PURPOSE = "searching slices on Beam"
SAMPLE = 100_000  # examples whose outcomes are dealt out, and that are looked at for leakage


@dataclass(frozen=True, eq=False)
class Files:
    """The Parquet files of a table, on any file system that Beam can read.

    Attributes:
        paths: The files.
    """

    paths: tuple[str, ...]

    @classmethod
    def of(cls, pattern: str, options: Any) -> Files:
        """List the files that match a pattern."""
        systems = file_systems()
        systems.set_options(options)
        paths = tuple(file.path for file in systems.match([pattern])[0].metadata_list)
        if not paths:
            raise DataError(
                f"pattern must name Parquet files, got none at {masked(pattern)}: correct the path"
            )
        return cls(paths)

    def schema(self) -> pl.DataFrame:
        """Read the columns of the first file, without rows."""
        with self._open(self.paths[0]) as parquet:
            return cast(pl.DataFrame, pl.from_arrow(parquet.schema_arrow.empty_table()))

    def require(self, columns: Sequence[str]) -> None:
        """Refuse files without some columns."""
        for path in self.paths:
            with self._open(path) as parquet:
                names = set(parquet.schema_arrow.names)
            if missing := [name for name in columns if name not in names]:
                raise DataError(
                    f"every file must hold the column {missing[0]!r}, got {masked(path)} without: "
                    "leave the file out, or name another column"
                )

    def tables(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Read some columns of every file, one file after the other."""
        for path in self.paths:
            with self._open(path) as parquet:
                table = pl.from_arrow(parquet.read(list(dict.fromkeys(columns))))
            yield cast(pl.DataFrame, table)

    @contextmanager
    def _open(self, path: str) -> Iterator[Any]:
        parquet = needs("pyarrow.parquet", "beam", PURPOSE)
        with file_systems().open(path) as opened:
            try:
                file = parquet.ParquetFile(opened)
            except ValueError as error:  # what Arrow's own errors are
                raise DataError(
                    f"{masked(path)} cannot be read as Parquet ({error}): on Beam a table must be "
                    "Parquet files"
                ) from error
            with file:
                yield file


def codings_of(
    files: Files, features: Sequence[str], max_categories: int, bins: int
) -> tuple[list[Coding], tuple[str, ...]]:
    """Decide the predicates of every feature, reading one column at a time; add notes on them."""
    notes = list[str]()

    def column(name: str) -> pl.Series:
        values = pl.concat([table[name] for table in files.tables([name])])
        typed, note = infer_type(values)
        notes.extend([note] * bool(note))
        return typed

    every = codings(map(column, features), max_categories=max_categories, bins=bins)
    return every, (*notes, *(coding.note for coding in every if coding.note))


@dataclass(frozen=True)
class Overview:
    """Facts about all outcomes of a table.

    Attributes:
        examples: Rows of the table.
        at_risk: Rows that count for the metric.
        binary: Whether all outcomes are 0 or 1.
        mean: Mean outcome of the model at hand.
        centre: The values that means are centred on.
    """

    examples: int
    at_risk: int
    binary: bool
    mean: float
    centre: Centre


def overview_of(files: Files, columns: TableColumns) -> Overview:
    """Look through the outcomes of all files, one after the other."""
    examples = rows = 0
    binary, largest, model, total = True, 0.0, 0.0, 0.0
    members: npt.NDArray[np.float64] | float = 0.0
    for table in files.tables(columns.answers):
        examples += table.height
        outcome = columns.read_outcome(table) if table.height else None
        if outcome is None:
            continue
        psi = psi_of(outcome)
        binary = binary and outcome.binary
        rows += outcome.rows.size
        largest = max(largest, float(np.abs(psi).max()))
        model += float(outcome.model.above.mean(1).sum())
        total += float(psi.sum())
        members = members + np.array([own.mean(1).sum() for own in several(outcome)])
    if rows == 0:
        raise none_at_risk(metric_named(columns.metric), examples)
    inverted = counts_nonevents(total / rows, largest, bool(columns.baseline))
    centre = Centre(total / rows, inverted, tuple((np.asarray(members) / rows).tolist()))
    return Overview(examples, rows, binary, model / rows, centre)


def ids_are_integers(files: Files, identifier: str) -> bool:
    """Say whether the ids of all files are integers, also where they are text."""
    kinds = (infer_type(table[identifier])[0].dtype for table in files.tables([identifier]))
    return all(kind.is_integer() or kind == pl.Null for kind in kinds)


def sample_of(files: Files, query: Query, examples: int) -> tuple[pl.DataFrame, Outcome | None]:
    """At most `SAMPLE` rows, evenly spread over the files, and their outcome."""
    every = -(-examples // SAMPLE) or 1
    table = pl.concat([part.gather_every(every) for part in files.tables(query.reads)])
    return table, query.columns.read_outcome(table)


def middle_of(files: Files, columns: TableColumns, seed: int) -> int:
    """Find the largest hash of an id in the first half of the examples; -1 without any."""
    hashes: list[npt.NDArray[np.uint64]] = []
    for table in files.tables([*columns.answers, columns.identifier]):
        outcome = columns.read_outcome(table) if table.height else None
        if outcome is not None:
            hashes.append(hash_ids(columns.read_ids(table)[outcome.rows], seed))
    drawn = np.sort(np.concatenate(hashes)) if hashes else np.empty(0, np.uint64)
    repeated = int(np.count_nonzero(drawn[1:] == drawn[:-1]))
    if repeated:
        raise DataError(
            f"example ids must be unique over all files, got {repeated:,} that repeat: give every "
            "row an id of its own"
        )
    return int(drawn[-(-drawn.size // 2) - 1]) if drawn.size else -1


def file_systems() -> Any:
    """Beam's file systems, which know `s3://` and the like."""
    return needs("apache_beam.io.filesystems", "beam", PURPOSE).FileSystems
