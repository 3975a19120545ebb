"""How are the parts of a table added up on a runner of Apache Beam?

Each part is counted where it is, by the code that serves one machine. The combine is keyed by
feature set; its values hold the cells, which with it name the slices. A bootstrap weight
depends on (seed, example id, draw) alone, so any runner counts the same to the last digit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast
from uuid import uuid4

import numpy as np
import polars as pl

from scotoma.answers.values import infer_type
from scotoma.errors import DataError, ScotomaError
from scotoma.extras import needs
from scotoma.numbers.inputs import Flags, Floats
from scotoma.printable import printable
from scotoma.slices.beam.part import (
    PartRows,
    Query,
    Sums,
    add_up,
    ids_of_part,
    merge,
    read_outcome,
)
from scotoma.slices.hashing import hash_ids
from scotoma.slices.judging.evidence import Lane
from scotoma.slices.judging.means import Centre, counts_nonevents, psi_of, several
from scotoma.slices.judging.tally import Cells
from scotoma.slices.outcomes import Outcome, none_at_risk
from scotoma.slices.search.predicates import Coding, Encoded, codings
from scotoma.slices.search.strategies import (
    HalfTests,
    Proposals,
    PValues,
    SearchedTable,
    half_size,
    p_of_slice,
)
from scotoma.slices.search.sweep import Hits, Key, flag_rows, join_hits
from scotoma.slices.settings import SearchSettings
from scotoma.slices.table import SlicesQuestion
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
    files: Files, features: Sequence[str], asked: SearchSettings
) -> tuple[list[Coding], tuple[str, ...]]:
    """Decide the predicates of every feature, reading one column at a time; add notes on them."""
    notes = list[str]()

    def column(name: str) -> pl.Series:
        values = pl.concat([table[name] for table in files.tables([name])])
        typed, note = infer_type(values)
        notes.extend([note] * bool(note))
        return typed

    every = codings(map(column, features), max_categories=asked.max_categories, bins=asked.bins)
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
        middle: The largest hash of an id in the first half of the examples; -1 without halves.
    """

    examples: int
    at_risk: int
    binary: bool
    mean: float
    centre: Centre
    middle: int


def overview_of(files: Files, question: SlicesQuestion, *, integer_ids: bool) -> Overview:
    """Look through the outcomes of all files, one after the other."""
    asked, name = question.settings, str(question.identifier)
    examples = rows = 0
    binary, largest, model, total = True, 0.0, 0.0, 0.0
    members: Floats | float = 0.0
    hashes = [np.empty(0, np.uint64)]
    for table in files.tables(question.asked_of_rows):
        examples += table.height
        outcome = read_outcome(table, question) if table.height else None
        if outcome is None:
            continue
        psi = psi_of(outcome)
        binary = binary and outcome.binary
        rows += outcome.rows.size
        largest = max(largest, float(np.abs(psi).max()))
        model += float(outcome.model.above.mean(1).sum())
        total += float(psi.sum())
        members = members + np.array([own.mean(1).sum() for own in several(outcome)])
        if asked.confirms:
            ids = ids_of_part(table[name], integer_ids)
            hashes.append(hash_ids(ids[outcome.rows], asked.seed))
    if rows == 0:
        raise none_at_risk(asked.measured, examples)
    drawn = np.sort(np.concatenate(hashes))
    repeated = int(np.count_nonzero(drawn[1:] == drawn[:-1]))
    if repeated:
        raise DataError(
            f"example ids must be unique over all files, got {repeated:,} that repeat: give every "
            "row an id of its own"
        )
    inverted = counts_nonevents(total / rows, largest, bool(question.baseline))
    centre = Centre(total / rows, inverted, tuple((np.asarray(members) / rows).tolist()))
    middle = int(drawn[-(-drawn.size // 2) - 1]) if drawn.size else -1
    return Overview(examples, rows, binary, model / rows, centre, middle)


def ids_are_integers(files: Files, identifier: str) -> bool:
    """Say whether the ids of all files are integers, also where they are text."""
    kinds = (infer_type(table[identifier])[0].dtype for table in files.tables([identifier]))
    return all(kind.is_integer() or kind == pl.Null for kind in kinds)


def sample_of(files: Files, query: Query, examples: int) -> tuple[pl.DataFrame, Outcome | None]:
    """At most `SAMPLE` rows, evenly spread over the files, and their outcome."""
    every = -(-examples // SAMPLE) or 1
    table = pl.concat([part.gather_every(every) for part in files.tables(query.reads)])
    return table, read_outcome(table, query.question)


def file_systems() -> Any:
    """Beam's file systems, which know `s3://` and the like."""
    return needs("apache_beam.io.filesystems", "beam", PURPOSE).FileSystems


AddUp = Callable[[pl.DataFrame], Iterator[tuple[int, Sums]]]


@dataclass(frozen=True, eq=False, kw_only=True)
class TableOnBeam(SearchedTable):
    """A table that a runner of Beam reads.

    Attributes:
        pattern: Its Parquet files.
        options: Beam's `PipelineOptions`.
        folder: Where results lie until they are read: a place that runner and caller share.
        query: What is counted in every part of it.
    """

    pattern: str
    options: Any
    folder: str
    query: Query

    def look(self, half: int | None, without: tuple[Key, ...]) -> Hits:
        """Test all candidates, as `SearchedTable` says."""
        least = self.asked.min_size if half is None else half_size(self.asked.min_size)
        query = replace(self.query, half=half)

        def judge(sums: Any) -> Any:
            beam = needs("apache_beam", "beam", PURPOSE)
            whole = sums | "all rows" >> beam.Filter(_is_whole) | beam.Values()
            return sums | "judge" >> beam.FlatMap(
                _judge, beam.pvalue.AsIter(whole), query.lane, least, self.asked.alpha
            )

        lines = self._run(partial(add_up, query=query, without=without), judge)
        lines.sort(key=lambda line: int(line["number"]))
        return join_hits([_hits(line, query) for line in lines])

    def test_halves(self, proposals: Proposals) -> HalfTests:
        """Test the proposals of each half on the other one."""
        sums: dict[int, Sums] = {}
        if any(proposals):
            sums = self.gather(partial(add_up_proposals, query=self.query, proposals=proposals))
        return tests_of_sums(sums, proposals, self.query.lane)

    def gather(self, add: AddUp) -> dict[int, Sums]:
        """Add up what all parts of the table yield; a picklable function."""

        def write(sums: Any) -> Any:
            return sums | "as text" >> needs("apache_beam", "beam", PURPOSE).Map(_line)

        return {
            line["number"]: Sums(np.array(line["cell"], np.int64), np.array(line["lanes"]))
            for line in self._run(add, write)
        }

    def _run(self, add: AddUp, finish: Callable[[Any], Any]) -> list[dict[str, Any]]:
        """Run one pipeline and read the lines that it writes, in any order."""
        beam = needs("apache_beam", "beam", PURPOSE)
        read = beam.io.ReadFromParquetBatched(self.pattern, columns=self.query.reads)
        out = f"{self.folder}/{uuid4().hex}"
        try:
            with beam.Pipeline(options=self.options) as pipeline:
                sums = (
                    pipeline
                    | "read row groups" >> read
                    | "count each" >> beam.FlatMap(_from_arrow, add)
                    | "add up" >> beam.CombinePerKey(merge)
                )
                _ = finish(sums) | "write" >> beam.io.WriteToText(out, file_name_suffix=".jsonl")
        except ScotomaError:
            raise
        except (OSError, RuntimeError, ValueError) as error:  # what runners raise
            first = printable(str(error).strip().partition("\n")[0])
            raise ScotomaError(
                f"the runner of Beam failed ({first}): check its options and repeat"
            ) from error
        return _read(out)


def _from_arrow(table: Any, add: AddUp) -> Iterator[tuple[int, Sums]]:
    return add(cast(pl.DataFrame, pl.from_arrow(table)))


def _is_whole(numbered: tuple[int, Sums]) -> bool:
    return numbered[0] == 0


def _judge(
    numbered: tuple[int, Sums], whole: Iterable[Sums], lane: Lane, least: int, keep: float
) -> Iterator[str]:
    """Write the significant slices of a feature set as a line of JSON."""
    number, sums = numbered
    if number == 0:
        return
    judged = lane.judge(sums.split(lane), next(iter(whole)).split(lane), least, keep)
    kept = judged.p <= keep
    place = judged.cell[kept]
    yield json.dumps(
        {
            "number": number,
            "cell": sums.cell[place].tolist(),
            "size": judged.size[place].tolist(),
            "effect": judged.effect[kept].tolist(),
            "p": judged.p[kept].tolist(),
            "nonempty": sums.cell.size,
            "tested": judged.p.size,
        }
    )


def _line(numbered: tuple[int, Sums]) -> str:
    number, sums = numbered
    return json.dumps({"number": number, "cell": sums.cell.tolist(), "lanes": sums.lanes.tolist()})


def _hits(line: dict[str, Any], query: Query) -> Hits:
    return Hits(
        (query.subsets[line["number"]],),
        np.zeros(len(line["p"]), np.int64),
        np.array(line["cell"], np.int64),
        np.array(line["size"], np.int64),
        np.array(line["effect"], np.float64),
        np.array(line["p"], np.float64),
        line["nonempty"],
        line["tested"],
    )


def _read(out: str) -> list[dict[str, Any]]:
    """Read the lines of all files below a prefix, and remove the files."""
    systems, lines = file_systems(), list[dict[str, Any]]()
    paths = [file.path for file in systems.match([f"{out}-*.jsonl"])[0].metadata_list]
    for path in paths:
        with systems.open(path) as opened:
            lines += [json.loads(line) for line in opened.read().splitlines()]
    systems.delete(paths)
    return lines


OVERLAPS = 2  # number of the sums that say which slices share rows


def add_up_proposals(
    table: pl.DataFrame, query: Query, proposals: Proposals
) -> Iterator[tuple[int, Sums]]:
    """Add up over one part of a table what tests the proposals of both halves."""
    for half, keys in enumerate(proposals):
        part = PartRows.of(table, replace(query, half=1 - half))
        if part is None:
            continue
        inside = _inside(part.encoded, keys)
        none = np.ones((1, part.ids.size), np.bool_)
        first = np.concatenate([inside, none]).argmax(0)[None]
        lanes = part.sums(Cells(first, len(keys) + 1))
        occupied = np.flatnonzero(lanes[:, 0])
        yield half, Sums(occupied, lanes[occupied])
    everyone = PartRows.of(table, query)
    if everyone is not None:
        inside = _inside(everyone.encoded, (*proposals[0], *proposals[1]))
        masks = (inside * (1 << np.arange(len(inside)))[:, None]).sum(0)
        mask, rows = np.unique(masks, return_counts=True)
        yield OVERLAPS, Sums(mask, rows[:, None].astype(np.float64))


def tests_of_sums(sums: dict[int, Sums], proposals: Proposals, lane: Lane) -> HalfTests:
    """Test the proposals of each half on the other one."""
    first, second = (
        _conditional(sums[half], len(keys), lane) if keys and half in sums else []
        for half, keys in enumerate(proposals)
    )
    keys = [*proposals[0], *proposals[1]]
    overlaps = sums.get(OVERLAPS, Sums(np.empty(0, np.int64), np.empty((0, 1))))

    def inside(key: Key) -> Flags:
        return (overlaps.cell >> keys.index(key) & 1).astype(np.bool_)

    return HalfTests((first, second), inside, overlaps.lanes[:, 0])


def _inside(encoded: Encoded, keys: tuple[Key, ...]) -> Flags:
    """Flag the rows that lie in each slice, shape (M, N)."""
    rows = encoded.codes.shape[1]
    return np.array([flag_rows(encoded, key) for key in keys], np.bool_).reshape(len(keys), rows)


def _conditional(first: Sums, count: int, lane: Lane) -> PValues:
    """Give p-value and size of each of some slices among the rows in none before it."""
    remaining: Floats = first.lanes.sum(0)
    results: PValues = []
    for place in range(count):
        inside = first.lanes[first.cell == place].sum(0)
        both = Sums(np.arange(2), np.stack([remaining - inside, inside]))
        whole = Sums(np.zeros(1, np.int64), remaining[None])
        judged = lane.judge(both.split(lane), whole.split(lane), 1, 1.0)
        results.append((p_of_slice(judged), int(inside[0])))
        remaining = remaining - inside
    return results
