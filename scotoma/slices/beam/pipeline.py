"""How are the parts of a table added up on a runner of Apache Beam?

Each part is counted where it is, by the code that serves one machine. The combine is keyed by
feature set; its values hold the cells, which with it name the slices. A bootstrap weight
depends on (seed, example id, draw) alone, so any runner counts the same to the last digit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast
from uuid import uuid4

import numpy as np
import polars as pl

from scotoma.errors import ScotomaError
from scotoma.extras import needs
from scotoma.numbers.inputs import Flags, Floats
from scotoma.printable import printable
from scotoma.slices.beam.files import PURPOSE, file_systems
from scotoma.slices.beam.part import PartRows, Query, Sums, add_up, merge
from scotoma.slices.judging.evidence import Lane
from scotoma.slices.judging.tally import Cells
from scotoma.slices.search.cover import HalfTests, Proposals, half_size, p_of_slice
from scotoma.slices.search.findings import Key, flag_rows
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.search.sweep import Hits, join_hits
from scotoma.slices.settings import SearchSettings

AddUp = Callable[[pl.DataFrame], Iterator[tuple[int, Sums]]]


@dataclass(frozen=True, eq=False)
class TableOnBeam:
    """A table that a runner of Beam reads.

    Attributes:
        pattern: Its Parquet files.
        options: Beam's `PipelineOptions`.
        folder: Where results lie until they are read: a place that runner and caller share.
        query: What is counted in every part of it.
        asked: The settings of the search.
    """

    pattern: str
    options: Any
    folder: str
    query: Query
    asked: SearchSettings

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


def _conditional(first: Sums, count: int, lane: Lane) -> list[tuple[float, int]]:
    """Give p-value and size of each of some slices among the rows in none before it."""
    remaining: Floats = first.lanes.sum(0)
    results: list[tuple[float, int]] = []
    for place in range(count):
        inside = first.lanes[first.cell == place].sum(0)
        both = Sums(np.arange(2), np.stack([remaining - inside, inside]))
        whole = Sums(np.zeros(1, np.int64), remaining[None])
        judged = lane.judge(both.split(lane), whole.split(lane), 1, 1.0)
        results.append((p_of_slice(judged), int(inside[0])))
        remaining = remaining - inside
    return results
