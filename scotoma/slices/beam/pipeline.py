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
from scotoma.printable import printable
from scotoma.slices.beam.confirm import add_up_proposals, tests_of_sums
from scotoma.slices.beam.files import PURPOSE, file_systems
from scotoma.slices.beam.part import Query, Sums, add_up, merge
from scotoma.slices.judging.evidence import Lane
from scotoma.slices.search.cover import HalfTests, Proposals, half_size
from scotoma.slices.search.findings import Key
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
