"""Find slices in a table of many Parquet files, on any runner of Apache Beam."""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
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
    OVERLAPS,
    NamedSums,
    Query,
    Sums,
    SumsView,
    add_up,
    add_up_description,
    add_up_proposals,
    ids_of_part,
    merge,
    read_outcome,
    split_sums,
)
from scotoma.slices.hashing import hash_ids
from scotoma.slices.judging.choose import choose_lane
from scotoma.slices.judging.evidence import Lane
from scotoma.slices.judging.means import Centre, MeanLane, counts_nonevents, faces, psi_of
from scotoma.slices.outcomes import SLICE_METRICS, Outcome, none_at_risk
from scotoma.slices.report import ProgressCallback, SliceReport, leaks, report_of
from scotoma.slices.search.lattice import Subset, candidate_count
from scotoma.slices.search.predicates import Coding, Encoded, codings
from scotoma.slices.search.strategies import (
    HalfTests,
    Proposals,
    PValues,
    SearchedTable,
    half_size,
    middle_of,
    p_of_slice,
)
from scotoma.slices.search.sweep import Hits, Key, SliceFinding, join_hits
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

    def tables(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Read some columns of every file, one file after the other; refuse a file without one."""
        for path in self.paths:
            with self._open(path) as parquet:
                names = set(parquet.schema_arrow.names)
                if missing := [name for name in columns if name not in names]:
                    raise DataError(
                        f"every file must hold the column {missing[0]!r}, got {masked(path)} "
                        "without: leave the file out, or name another column"
                    )
                table = pl.from_arrow(parquet.read(list(dict.fromkeys(columns))))
            yield cast(pl.DataFrame, table)

    def column(self, name: str) -> tuple[pl.Series, str]:
        """Read a column of all files in the type of its values; add a note on it, else empty."""
        return infer_type(pl.concat([table[name] for table in self.tables([name])]))

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
        typed, note = files.column(name)
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
        centres: The values that means are centred on, of each of `faces`.
        middle: The largest hash of an id in the first half of the examples.
    """

    examples: int
    at_risk: int
    binary: bool
    centres: tuple[Centre, ...]
    middle: int


def overview_of(files: Files, question: SlicesQuestion, *, integer_ids: bool) -> Overview:
    """Look through the outcomes of all files, one after the other."""
    asked, name = question.settings, str(question.identifier)
    examples, rows, binary, largest = 0, 0, True, 0.0
    totals: list[Floats | float] = [0.0] * (3 if question.baseline else 1)
    hashes = [np.empty(0, np.uint64)]
    for table in files.tables(question.asked_of_rows):
        examples += table.height
        outcome = read_outcome(table, question)
        binary, n = binary and outcome.binary, outcome.rows.size
        if n == 0:
            continue
        rows += n
        largest = max(largest, float(np.abs(psi_of(outcome)).max()))
        for place, face in enumerate(faces(outcome)):
            centre = Centre.of(face)
            totals[place] = totals[place] + n * np.array([centre.mean, *centre.members])
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
    means = [(np.asarray(total) / rows).tolist() for total in totals]
    inverted = counts_nonevents(means[-1][0], largest, bool(question.baseline))
    centres = tuple(Centre(mean, inverted, tuple(members)) for mean, *members in means)
    return Overview(examples, rows, binary, centres, middle_of(drawn))


def sample_of(files: Files, query: Query, examples: int) -> tuple[pl.DataFrame, Outcome]:
    """At most `SAMPLE` rows, evenly spread over the files, and their outcome."""
    every = -(-examples // SAMPLE) or 1
    table = pl.concat([part.gather_every(every) for part in files.tables(query.reads)])
    return table, read_outcome(table, query.question)


def file_systems() -> Any:
    """Beam's file systems, which know `s3://` and the like."""
    return needs("apache_beam.io.filesystems", "beam", PURPOSE).FileSystems


AddUp = Callable[[pl.DataFrame], Iterator[NamedSums]]


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

        judged = self.gather(partial(add_up, query=query, without=without), judge)
        return join_hits(
            [_hits(subset, judged[subset]) for subset in sorted(judged, key=lambda s: (len(s), s))]
        )

    def test_halves(self, proposals: Proposals) -> HalfTests:
        """Test the proposals of each half on the other one."""
        sums: dict[Subset, Sums] = {}
        if any(proposals):
            sums = self.gather(partial(add_up_proposals, query=self.query, proposals=proposals))
        first, second = (
            _conditional(sums[half,].lanes, self.query.lane) if (half,) in sums else []
            for half in (0, 1)
        )
        keys = [*proposals[0], *proposals[1]]
        overlaps = sums.get(OVERLAPS, Sums(np.empty(0, np.int64), np.empty((0, 1))))

        def inside(key: Key) -> Flags:
            return (overlaps.cell >> keys.index(key) & 1).astype(np.bool_)

        return HalfTests((first, second), inside, overlaps.lanes[:, 0])

    def gather(
        self, add: AddUp, finish: Callable[[Any], Any] = lambda sums: sums
    ) -> dict[Subset, Sums]:
        """Add up what all parts of the table yield, and do the rest there; picklable functions."""
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
                lines = finish(sums) | "as text" >> beam.Map(_line)
                _ = lines | "write" >> beam.io.WriteToText(out, file_name_suffix=".jsonl")
        except ScotomaError:
            raise
        except (OSError, RuntimeError, ValueError) as error:  # what runners raise
            first = printable(str(error).strip().partition("\n")[0])
            raise ScotomaError(
                f"the runner of Beam failed ({first}): check its options and repeat"
            ) from error
        return dict(_read(out))


def _from_arrow(table: Any, add: AddUp) -> Iterator[NamedSums]:
    return add(cast(pl.DataFrame, pl.from_arrow(table)))


def _is_whole(numbered: NamedSums) -> bool:
    return numbered[0] == ()


def _judge(
    numbered: NamedSums, whole: Iterable[Sums], lane: Lane, least: int, keep: float
) -> Iterator[NamedSums]:
    """Give cell, size, effect and p of the significant slices of a feature set.

    Cell -1 has the number of cells that hold rows, and of those tested.
    """
    subset, sums = numbered
    if not subset:
        return
    own, every = (split_sums(one.lanes, lane)[0] for one in (sums, next(iter(whole))))
    judged = lane.judge(own, every, least, keep)
    kept = judged.p <= keep
    place = judged.cell[kept]
    found = np.stack([judged.size[place], judged.effect[kept], judged.p[kept]], axis=1)
    counts = [[sums.cell.size, judged.p.size, 0.0]]
    yield subset, Sums(np.append(-1, sums.cell[place]), np.concatenate([counts, found]))


def _hits(subset: Subset, judged: Sums) -> Hits:
    (nonempty, tested, _), (size, effect, p) = judged.lanes[0], judged.lanes[1:].T
    place, cell = np.zeros(size.size, np.int64), judged.cell[1:]
    return Hits(
        (subset,), place, cell, size.astype(np.int64), effect, p, int(nonempty), int(tested)
    )


def _line(numbered: NamedSums) -> str:
    name, sums = numbered
    return json.dumps([name, sums.cell.tolist(), sums.lanes.tolist()])


def _read(out: str) -> Iterator[NamedSums]:
    """Read the lines of all files below a prefix, and remove the files."""
    systems = file_systems()
    paths = [file.path for file in systems.match([f"{out}-*.jsonl"])[0].metadata_list]
    for path in paths:
        with systems.open(path) as opened:
            for line in opened.read().splitlines():
                name, cell, lanes = json.loads(line)
                yield tuple(name), Sums(np.array(cell, np.int64), np.array(lanes, np.float64))
    systems.delete(paths)


def _conditional(first: Floats, lane: Lane) -> PValues:
    """Give p-value and size of slices among the rows in none before each.

    Args:
        first: Sums of the rows of which each slice is the first; in the end, of those in none.
        lane: Their test.
    """
    results: PValues = []
    for place, inside in enumerate(first[:-1]):
        whole = first[place:].sum(0)
        both, every = np.stack([whole - inside, inside]), whole[None]
        judged = lane.judge(split_sums(both, lane)[0], split_sums(every, lane)[0], 1, 1.0)
        results.append((p_of_slice(judged), int(inside[0])))
    return results


METRICS_ON_BEAM = [
    name for name, metric in SLICE_METRICS.items() if metric.kind in ("rate", "mean")
]
MODES_ON_BEAM = ("cover", "batch")


def search_parquet(
    pattern: str, question: SlicesQuestion, *, progress: ProgressCallback | None = None
) -> SliceReport:
    """Find slices in a table of many Parquet files, on any runner of Apache Beam.

    The slices, their p-values and effects are those of `find_slices` on the same table. Bins and
    frequent values are decided here, from one column at a time, and the outcome columns are looked
    through once; everything else happens on the runner. Cover mode takes one pipeline a slice and
    a few more. Each search of shuffled outcomes is several pipelines: model and baseline exchanged
    on a random half of the examples; against the rest every row draws the outcome of one of 100,000
    rows.

    Args:
        pattern: The files, such as `data/*.parquet` or `s3://bucket/data/*.parquet`: any file
            system that Beam can read. A worker holds one row group at a time.
        question: The columns by their full names, `identifier` and `features` among them; settings
            of mode `cover` or `batch` and a metric that is a rate or a mean; and `beam_options`,
            such as `--runner=FlinkRunner`, none for this machine. Runners on other machines need
            `--temp_location`, a folder that they share with the caller.
        progress: Called after each search with how many are done and how many there are.

    Raises:
        DataError: No file, a column that is not there, or what cannot be searched on Beam.
        MissingExtra: Beam is not installed.
    """
    asked = question.settings
    compared = bool(question.baseline)
    told = asked.as_dict(baseline=compared)
    refuse(asked.metric, asked.mode)
    pattern, runner = _absolute(pattern), read_options(question.beam_options)
    files = Files.of(pattern, runner)
    integer_ids = files.column(str(question.identifier))[0].dtype.is_integer()
    overview = overview_of(files, question, integer_ids=integer_ids)
    every, notes = codings_of(files, question.features, asked)
    codings = tuple(coding for coding in every if len(coding.predicates) > 1)
    encoded = Encoded(
        np.broadcast_to(np.uint8(0), (len(codings), overview.at_risk)),
        tuple(coding.predicates for coding in codings),
    )
    possible = candidate_count(encoded, asked.max_cross)
    asked.check_space(possible)
    members = tuple(len(own) for own in (question.outcome, question.baseline) if own)
    lane = choose_lane(
        asked, asked.measured, members, binary=overview.binary, clustered=False,
        centre=lambda: overview.centres[-1],
    )  # fmt: skip
    query = Query(question, codings, lane, integer_ids, overview.middle)
    sample, pool = sample_of(files, query, overview.examples)
    labels = None if question.label is None else sample[question.label].to_numpy()
    notes = (*notes, *leaks(query.encode(sample).take(pool.rows), pool, labels))
    facts = {
        "examples": overview.examples, "at_risk": overview.at_risk,
        "members": len(question.outcome), "baseline_members": len(question.baseline),
        "clusters": None,
    }  # fmt: skip
    with _folder(runner) as folder:
        table = TableOnBeam(
            encoded=encoded, asked=asked, pattern=pattern, options=runner, folder=folder,
            query=query,
        )  # fmt: skip

        def shuffled(number: int) -> TableOnBeam:
            own = None if told["reference"] == "baseline" else pool
            return replace(table, query=replace(query, shuffle=number, pool=own))

        def view(findings: list[SliceFinding]) -> SumsView:
            slices, scores = tuple(findings), _scores(question, overview)
            sums = table.gather(
                partial(add_up_description, query=query, slices=slices, scores=scores)
            )
            places = {one.key: place for place, one in enumerate(slices)}
            return SumsView(encoded, query, overview.binary, scores, places, sums)

        return report_of(table, view, shuffled, possible, told | facts, notes, _lattice, progress)


def open_table(pattern: str, question: SlicesQuestion) -> pl.DataFrame:
    """Read the columns of a table, without its rows, for the arguments of `search_parquet`.

    Raises:
        DataError: No file, or a metric or mode that cannot be searched on Beam.
        MissingExtra: Beam is not installed.
    """
    refuse(question.settings.metric, question.settings.mode)
    return Files.of(_absolute(pattern), read_options(question.beam_options)).schema()


def refuse(metric: str, mode: str) -> None:
    """Refuse what cannot be searched on Beam, in a sentence that names what can.

    Raises:
        DataError: The metric is no sum over rows, or the mode visits only some candidates.

    >>> refuse("loss", "cover")
    """
    if metric not in METRICS_ON_BEAM:
        raise DataError(
            f"on Beam metric must be one of {', '.join(METRICS_ON_BEAM)}, got {metric!r}: search "
            "for others without a runner"
        )
    if mode not in MODES_ON_BEAM:
        raise DataError(
            f"on Beam mode must be one of {', '.join(MODES_ON_BEAM)}, got {mode!r}: use the other "
            "modes without a runner"
        )


def read_options(options: Sequence[str]) -> Any:
    """Parse options of Beam into its `PipelineOptions`.

    Raises:
        MissingExtra: Beam is not installed.
    """
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)  # which modules for Google's cloud are missing
    try:
        module = needs("apache_beam.options.pipeline_options", "beam", PURPOSE)
    finally:
        logging.disable(level)
    return module.PipelineOptions(list(options))


def _absolute(pattern: str) -> str:
    """Make a pattern absolute, so that workers in other folders understand it."""
    return pattern if "://" in pattern else str(Path(pattern).absolute())


def _scores(question: SlicesQuestion, overview: Overview) -> tuple[MeanLane, ...]:
    """Choose what slices are described by; rates are not centred, so that sums are exact."""
    asked, k, other = question.settings, len(question.outcome), len(question.baseline)
    widths = [(k,), (other,), (k,) if asked.paired else (k, other)]
    scores = []
    for own, centre in zip(widths, overview.centres, strict=False):
        if overview.binary or asked.measured.kind == "rate":
            centre = Centre(0.0, False, (0.0,) * len(centre.members))
        scores.append(MeanLane(asked.side, "rest", tuple(k for k in own if k > 1), centre))
    return tuple(scores)


@contextmanager
def _folder(options: Any) -> Iterator[str]:
    """Choose a folder of intermediate results: Beam's temporary location, or a new one here."""
    google = needs("apache_beam.options.pipeline_options", "beam", PURPOSE).GoogleCloudOptions
    shared = options.view_as(google).temp_location
    if shared:
        yield f"{shared.rstrip('/')}/scotoma"
        return
    runner = options.get_all_options()["runner"]
    if runner not in (None, "DirectRunner", "BundleBasedDirectRunner", "PrismRunner"):
        raise DataError(
            f"runner {runner} must share a folder with this machine, got none: add "
            "--temp_location to the options of Beam"
        )
    folder = tempfile.mkdtemp(prefix="scotoma-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _lattice(hits: Hits, texts: set[str]) -> pl.DataFrame:
    raise DataError("no points are gathered on Beam: search without a runner to draw them")
