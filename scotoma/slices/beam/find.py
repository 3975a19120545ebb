"""Find slices in a table of many Parquet files, on any runner of Apache Beam."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scotoma.errors import DataError
from scotoma.extras import needs
from scotoma.slices.beam.description import SumsView
from scotoma.slices.beam.part import Query, add_up_description
from scotoma.slices.beam.pipeline import (
    PURPOSE,
    Files,
    Overview,
    TableOnBeam,
    codings_of,
    overview_of,
    sample_of,
)
from scotoma.slices.judging.choose import choose_lane
from scotoma.slices.judging.means import Centre, MeanLane
from scotoma.slices.outcomes import SLICE_METRICS
from scotoma.slices.report import ProgressCallback, SliceReport, report_of
from scotoma.slices.search.lattice import candidates
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.search.sweep import Hits, SliceFinding
from scotoma.slices.table import SlicesQuestion
from scotoma.slices.view import leaks

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
    possible = candidates(encoded, asked.max_cross)
    asked.check_space(possible)
    members = tuple(len(own) for own in (question.outcome, question.baseline) if own)
    lane = choose_lane(
        asked, asked.measured, members, binary=overview.binary, clustered=False,
        centre=lambda: overview.centres[-1],
    )  # fmt: skip
    query = Query(question, codings, lane, integer_ids, overview.middle)
    sample, pool = sample_of(files, query, overview.examples)
    if pool is not None:
        labels = None if question.label is None else sample[question.label].to_numpy()
        notes = (*notes, *leaks(query.encode(sample).take(pool.rows), pool, labels))
    if told["reference"] == "baseline":
        pool = None
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
            return replace(table, query=replace(query, shuffle=number, pool=pool))

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
