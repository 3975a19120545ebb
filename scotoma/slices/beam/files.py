"""What is read of all shards before they are searched: predicates, a pool of outcomes, halves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.errors import DataError
from scotoma.extras import needs
from scotoma.files import redact
from scotoma.hashing import hash_ids
from scotoma.slices.beam.part import Question, ids_of, outcome_of
from scotoma.slices.evidence.outcomes import Outcome
from scotoma.slices.search.coding import Coding
from scotoma.slices.search.predicates import codings

POOL = 100_000  # examples whose outcomes are dealt out


def codings_of(
    pattern: str,
    features: Sequence[str],
    others: Sequence[str],
    runner: Any,
    max_categories: int,
    bins: int,
) -> tuple[list[Coding], int]:
    """The predicates of every feature, each column read by itself, and the number of rows."""
    systems = file_systems()
    systems.set_options(runner)
    parquet = needs("pyarrow.parquet", "beam", "searching in shards")
    paths = [file.path for file in systems.match([pattern])[0].metadata_list]
    if not paths:
        raise DataError(f"pattern must name Parquet files, got none at {redact(pattern)}")
    for path in paths:
        with systems.open(path) as opened:
            held = set(parquet.ParquetFile(opened).schema_arrow.names)
        if missing := [name for name in (*features, *others) if name not in held]:
            raise DataError(
                f"every file must hold the column {missing[0]!r}, got {redact(path)} without: "
                "leave the file out, or name another column"
            )
    rows = 0

    def column(name: str) -> pl.Series:
        parts: list[pl.Series] = []
        for path in paths:
            with systems.open(path) as opened:
                read = parquet.ParquetFile(opened).read([name])[name]
                parts.append(cast(pl.Series, pl.from_arrow(read)))
        nonlocal rows
        rows = sum(map(len, parts))
        return pl.concat(parts).alias(name)

    made = codings(map(column, features), max_categories=max_categories, bins=bins)
    return made, rows


def pool_of(pattern: str, question: Question, rows: int) -> Outcome | None:
    """Outcomes of at most `POOL` rows, evenly spread over the files; None where none counts."""
    every = -(-rows // POOL) or 1
    parts = [part.gather_every(every) for part in _tables(pattern, question.answers)]
    return outcome_of(pl.concat(parts), question)


def middle_of(pattern: str, question: Question) -> int:
    """The largest hash of an id in the first half of the examples that count; -1 without any."""
    hashes: list[npt.NDArray[np.uint64]] = []
    for part in _tables(pattern, [*question.answers, question.identifier]):
        outcome = outcome_of(part, question)
        if outcome is not None and outcome.rows.size:
            names = ids_of(part[question.identifier])[outcome.rows]
            hashes.append(hash_ids(names, question.seed))
    drawn = np.unique(np.concatenate(hashes)) if hashes else np.empty(0, np.uint64)
    return int(drawn[-(-drawn.size // 2) - 1]) if drawn.size else -1


def _tables(pattern: str, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Some columns of every file, one file after the other."""
    systems, parquet = file_systems(), needs("pyarrow.parquet", "beam", "searching in shards")
    for file in systems.match([pattern])[0].metadata_list:
        with systems.open(file.path) as opened:
            held = pl.from_arrow(parquet.ParquetFile(opened).read(list(columns)))
        yield cast(pl.DataFrame, held)


def file_systems() -> Any:
    """Beam's file systems, which know `s3://` and the like."""
    return needs("apache_beam.io.filesystems", "beam", "searching in shards").FileSystems
