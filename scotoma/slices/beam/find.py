"""Find slices in a table of many Parquet files, on any runner of Apache Beam."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scotoma.errors import DataError
from scotoma.extras import needs
from scotoma.inputs import StatisticsProtocol
from scotoma.slices.arguments import Settings, check_numbers, check_space, resolve_settings
from scotoma.slices.beam.columns import Columns
from scotoma.slices.beam.description import Describe, SumsView
from scotoma.slices.beam.files import (
    PURPOSE,
    Files,
    Overview,
    codings_of,
    ids_are_integers,
    middle_of,
    overview_of,
    sample_of,
)
from scotoma.slices.beam.judge import SumsTest
from scotoma.slices.beam.null import Shuffle
from scotoma.slices.beam.part import Query
from scotoma.slices.beam.pipeline import Pipelines, TableOnBeam
from scotoma.slices.evidence.interface import Direction
from scotoma.slices.evidence.outcomes import SLICE_METRICS, metric_named
from scotoma.slices.judging.correction import Correction
from scotoma.slices.judging.protocols import Reference, choose_test
from scotoma.slices.notes import harm_everywhere, leaks
from scotoma.slices.null import Null, ProgressCallback
from scotoma.slices.report import Lattice, SliceReport
from scotoma.slices.search.findings import SliceFinding
from scotoma.slices.search.lattice import candidates
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.search.strategies import Mode, search_table
from scotoma.slices.search.sweep import Hits

METRICS_ON_BEAM = [
    name for name, metric in SLICE_METRICS.items() if metric.kind in ("rate", "mean")
]
MODES_ON_BEAM = ("cover", "batch")


def search_parquet(
    pattern: str,
    *,
    outcome: Sequence[str],
    features: Sequence[str],
    identifier: str,
    baseline: Sequence[str] = (),
    label: str | None = None,
    positive: str | None = None,
    mode: Mode = "cover",
    metric: str = "error",
    direction: Direction | None = None,
    reference: Reference | None = None,
    paired: bool = False,
    max_cross: int = 3,
    min_size: int | None = None,
    alpha: float | None = None,
    correction: Correction | None = None,
    bootstrap: int | None = None,
    protocol: StatisticsProtocol = "sound",
    confirm: bool = True,
    permutations: int = 5,
    max_categories: int = 100,
    bins: int = 10,
    level: float = 0.95,
    limit: int = 1000,
    max_candidates: int = 10**8,
    progress: ProgressCallback | None = None,
    seed: int = 0,
    options: Sequence[str] = (),
) -> SliceReport:
    """Find slices in a table of many Parquet files, on any runner of Apache Beam.

    The slices, their p-values and effects are those of `find_slices` on the same table. Bins and
    frequent values are decided here, from one column at a time, and the outcome columns are looked
    through once; everything else happens on the runner. Cover mode takes one pipeline a slice and
    a few more.

    Args:
        pattern: The files, such as `data/*.parquet` or `s3://bucket/data/*.parquet`: any file
            system that Beam can read. A worker holds one row group at a time.
        outcome: Columns of the model, or of the members of a population, as in `find_slices`.
        features: Columns that may define slices.
        identifier: Column of the example ids, integers or strings, unique over all files.
        baseline: Columns of what is compared with.
        label: Column of the true labels.
        positive: The label that is 1 for metrics of one label; None for `1`.
        mode: `cover` or `batch`.
        metric: `error`, `accuracy`, `flip`, `loss`, `taxicab`, `mean`, `fpr`, `fnr` or `recall`.
        direction: As in `find_slices`, like all below that are not described.
        reference: What a slice is compared with.
        paired: Member m of the outcome derives from member m of the baseline.
        max_cross: Largest number of predicates in a slice.
        min_size: Smallest slice.
        alpha: Level of the corrected p-values.
        correction: Over all candidates tested.
        bootstrap: Draws, under the published protocol.
        protocol: `sound` or `published`.
        confirm: In cover mode: each half of the examples proposes slices, the other half decides.
        permutations: Searches of shuffled outcomes, each of which is several pipelines: model and
            baseline exchanged on a random half of the examples; against the rest every row draws
            the outcome of one of 100,000 rows.
        max_categories: Values of a column with a predicate of their own.
        bins: Bins of a numeric column.
        level: Coverage of the intervals.
        limit: Slices that the report describes.
        max_candidates: Refuse searches with more candidates than this.
        progress: Called after each search with how many are done and how many there are.
        seed: Seed of halves, draws and shuffles.
        options: Options of Beam, such as `--runner=FlinkRunner`; none for this machine. Runners on
            other machines need `--temp_location`, a folder that they share with the caller.

    Raises:
        DataError: No file, a column that is not there, or what cannot be searched on Beam.
        MissingExtra: Beam is not installed.
    """
    settings = resolve_settings(
        mode=mode, metric=metric, direction=direction, reference=reference, paired=paired,
        protocol=protocol, max_cross=max_cross, min_size=min_size, alpha=alpha,
        correction=correction, bootstrap=bootstrap, level=level, confirm=confirm,
        permutations=permutations, seed=seed, max_categories=max_categories, bins=bins,
        compared=bool(baseline),
    )  # fmt: skip
    check_numbers(limit=limit)
    refuse(settings.metric, settings.mode)
    pattern, runner = _absolute(pattern), read_options(options)
    files = Files.of(pattern, runner)
    columns = Columns(
        identifier=identifier, outcome=tuple(outcome), baseline=tuple(baseline), label=label,
        positive=positive, metric=metric, paired=paired,
    )  # fmt: skip
    files.require([*features, identifier, *columns.answers])
    columns = replace(columns, integer_ids=ids_are_integers(files, identifier))
    overview = overview_of(files, columns)
    every, notes = codings_of(files, features, max_categories, bins)
    codings = tuple(coding for coding in every if len(coding.predicates) > 1)
    encoded = Encoded(
        np.broadcast_to(np.uint8(0), (len(codings), overview.at_risk)),
        tuple(coding.predicates for coding in codings),
    )
    possible = candidates(encoded, max_cross)
    check_space(mode, possible, max_candidates)
    test = _test(settings, columns, overview)
    query = Query(
        codings, columns, test.test, max_cross, settings.bootstrap, seed,
        centre=overview.centre if test.test == "mean" else None,
        middle=middle_of(files, columns, seed) if settings.confirm else -1,
    )  # fmt: skip
    sample, pool = sample_of(files, query, overview.examples)
    if pool is not None:
        labels = None if label is None else sample[label].to_numpy()
        notes = (*notes, *leaks(query.encode(sample).take(pool.rows), pool, labels))
    with _folder(runner) as folder:
        pipelines = Pipelines(pattern, runner, folder)

        def search(query: Query) -> tuple[list[SliceFinding], Hits]:
            return search_table(
                TableOnBeam(pipelines, query, test), encoded, settings.mode, settings.alpha,
                settings.correction, confirm=settings.confirm,
            )  # fmt: skip

        def count(number: int) -> int:
            shuffle = Shuffle(seed, number, None if settings.reference == "baseline" else pool)
            return len(search(replace(query, shuffle=shuffle))[0])

        findings, hits = search(query)
        null = Null.of(count, permutations, progress)
        slices = tuple(findings[:limit])
        mean = 0.0 if metric_named(metric).kind == "rate" else overview.mean
        sums = pipelines.gather(query.reads, Describe(query, slices, mean))
    populations = bool(baseline), len(outcome)
    view = SumsView(encoded, metric_named(metric), test, *populations, level, mean, slices, sums)
    facts = {
        "examples": overview.examples, "at_risk": overview.at_risk, "members": len(outcome),
        "baseline_members": len(baseline), "budget": None, "iterations": None, "order": None,
        "clusters": None,
    }  # fmt: skip
    return SliceReport.of(
        findings, hits, view, limit=limit, null=null, candidates=possible,
        settings=vars(settings) | facts, notes=(*notes, *harm_everywhere(view, settings)),
        lattice_of=_lattice,
    )  # fmt: skip


def open_table(
    pattern: str, options: Sequence[str] = (), *, metric: str = "error", mode: str = "cover"
) -> pl.DataFrame:
    """Read the columns of a table, without its rows.

    Args:
        pattern: As in `search_parquet`, like all others.
        options: Options of Beam.
        metric: The metric of the search.
        mode: Its mode.

    Raises:
        DataError: No file, or a metric or mode that cannot be searched on Beam.
        MissingExtra: Beam is not installed.
    """
    refuse(metric, mode)
    return Files.of(_absolute(pattern), read_options(options)).schema()


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


def _test(settings: Settings, columns: Columns, overview: Overview) -> SumsTest:
    sizes = [len(own) for own in (columns.outcome, columns.baseline) if own]
    test = choose_test(
        metric_named(settings.metric), settings.protocol, settings.reference, sizes,
        binary=overview.binary, clustered=False,
    )  # fmt: skip
    several = sizes[:1] if settings.paired else sizes
    return SumsTest(
        test=test,
        reference="baseline" if settings.reference == "baseline" else "rest",
        direction=settings.direction,
        min_size=settings.min_size,
        keep=float(settings.alpha),
        members=min(sizes),
        widths=tuple(size for size in several if size > 1),
        mean=overview.centre.mean,
        flips=overview.binary and settings.reference == "baseline",
    )


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


def _lattice(texts: set[str]) -> Lattice:
    raise DataError("no points are gathered on Beam: search without a runner to draw them")
