"""`scotoma slices`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from scotoma.commands.asking import Answer, Options, argument, option

Metric = Literal[
    "error", "accuracy", "flip", "loss", "taxicab", "mean", "fpr", "fnr", "recall", "precision",
    "f1", "auc",
]  # fmt: skip


class SlicesOptions(Options):
    """Which table is searched, and what its columns are."""

    # fmt: off
    table: str = argument(
        "CSV or Parquet file with one row per example; with runner: beam in --settings, a pattern "
        "of Parquet files ('s3://BUCKET/part-*.parquet').")
    outcome: tuple[str, ...] = option(
        ..., "Column of errors (0 or 1), of losses or, with --label, of predictions. A pattern "
        "such as 'int8_*' names several models.")
    baseline: tuple[str, ...] = option(
        (), "Column, or pattern, of the models to compare with. Can be repeated.")
    paired: bool = option(False, "Each model was made from its baseline model.")
    label: str | None = option(None, "Column of the true labels.")
    positive: str | None = option(
        None, "The favourable label, for metrics such as fpr, recall and auc.")
    feature: tuple[str, ...] = option(
        (), "Column, or pattern, that may define slices. Default: all other columns.")
    categorical: tuple[str, ...] = option(
        (), "Column of numbers that are names, such as postal codes. Can be repeated.")
    identifier: str | None = option(
        None, "Column of example ids, which --json lists for each slice.", name="--id")
    cluster: str | None = option(
        None, "Column of clusters: rows that belong together, such as the frames of one video.")
    metric: Metric | None = option(
        None, "error, accuracy, flip, loss, taxicab, mean, fpr, fnr, recall, precision, f1 or auc. "
        "Default: error.")
    settings: Path | None = option(
        None, "How to search (YAML): keys of scotoma.slices.SearchSettings, such as mode, alpha, "
        "reference, max_cross, min_size, correction, protocol, limit; runner and beam_options.")
    # fmt: on


def slices(options: SlicesOptions) -> Answer:
    """Find slices on which a model is worse, or on which compression harms it more."""
    from scotoma.document import Document, Section, Table
    from scotoma.processes.progress import bars
    from scotoma.slices.found_section import search_document
    from scotoma.slices.settings import load_settings
    from scotoma.slices.table import SlicesQuestion, asked_settings, slices_of_table

    file, name = load_settings(options.settings), Path(options.table).name
    question = SlicesQuestion(
        outcome=options.outcome, baseline=options.baseline, label=options.label,
        positive=options.positive, features=options.feature, categorical=options.categorical,
        identifier=options.identifier, cluster=options.cluster, runner=file.runner,
        beam_options=file.beam_options,
        settings=asked_settings(
            file, metric=options.metric, paired=options.paired, compared=bool(options.baseline),
            every=options.form in ("json", "csv"),
        ),
    )  # fmt: skip
    with bars(quiet=options.quiet, after_s=2.0) as begin:
        progress = begin("searching, then searching shuffled outcomes")
        report, notes = slices_of_table(options.table, question, progress)
        if options.form == "csv":
            table = Table.of_frame(report.table())
            return Answer(Document(name, sections=[Section("slices", "", parts=[table])]))
        content = None
        if options.form == "json":
            listed = options.identifier is not None and file.runner is None
            content = {
                "version": 1, **report.as_dict(rows=listed), "change": report.change.as_dict(),
                "iterations": [vars(one) for one in report.iterations], "notes": notes,
            }  # fmt: skip
        return Answer(search_document(name, report, notes), content)
