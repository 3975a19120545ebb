"""How is a table searched for slices, here or on Beam, in the words of the command?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from scotoma.errors import ConfigError, DataError
from scotoma.readers.tables import read_table
from scotoma.run.copies import place_here
from scotoma.slices.find import find_slices
from scotoma.slices.judging.choose import takes_draws
from scotoma.slices.null import ProgressCallback
from scotoma.slices.report import SliceReport
from scotoma.slices.settings import SearchFile, SearchSettings
from scotoma.slices.table import SlicesQuestion, choose_columns, read_sliced

EVERY = 2**31  # slices that a report holds at most
PRINTED = 20
OPTIONS = {  # what the library calls by names of Python: keys of --settings are its own
    r"max_candidates=(\d[\d,]*\d)": r"\1 candidates",
    r"without a runner": "without runner: beam",
    r"pass fewer features": "name fewer with --feature",
    r"pass labels=": "name labels with --label",
    r"pass baseline=": "name it with --baseline",
    r"with positive=": "with --positive",
    r"on Beam (metric|mode) must": r"on Beam \1 must",
    r"\bmetric='(\w+)'": r"--metric \1",
    r"\b(mode|reference)='(\w+)'": r"\1: \2",
}


def asked_settings(
    file: SearchFile, *, metric: str | None, paired: bool, compared: bool, every: bool
) -> SearchSettings:
    """The settings of a search: those of the file, with what the command line adds.

    Args:
        file: From `load_settings`.
        metric: Replaces the file's.
        paired: Whether members of the two populations belong together.
        compared: Whether there is a baseline.
        every: Whether the report describes every slice.

    Raises:
        ConfigError: What contradicts the rest.
    """
    known = file.model_dump(exclude_unset=True, exclude={"runner", "beam_options"})
    known |= {"metric": metric} if metric else {}
    known |= {"paired": True} if paired else {}
    if file.protocol == "published":
        known.setdefault("mode", "batch")
    if file.runner is not None:
        known.setdefault("permutations", 5)  # each is several pipelines there
    known["limit"] = EVERY if every else known.get("limit", PRINTED)
    asked = SearchSettings.of(**known)
    reference = asked.reference or ("baseline" if compared else "rest")
    if "bootstrap" in known and not takes_draws(asked.measured, asked.protocol, reference):
        raise ConfigError(
            f"bootstrap is for p-values from a bootstrap, got --metric {asked.metric} with "
            f"protocol: {asked.protocol}, which has none: leave it out"
        )
    if asked.reference == "baseline" and not compared:
        raise ConfigError("reference: baseline needs a baseline, got none: name it with --baseline")
    return asked


def slices_of_table(
    place: str, question: SlicesQuestion, progress: ProgressCallback | None = None
) -> tuple[SliceReport, Sequence[str]]:
    """Find the slices of a table, and say what a reader should know.

    Args:
        place: CSV or Parquet, one row per example; on Beam a pattern of Parquet files.
        question: What is asked of it.
        progress: Called after each search with how many are done and how many there are.

    Raises:
        ConfigError: An option that contradicts another, or names a column that is not there.
        DataError: Anything that cannot be searched, in the words of the command.
        MissingExtra: Beam is not installed.
    """
    if question.runner is None:
        frame, guessed = read_table(place_here(place))
        sliced = read_sliced(frame, question)
        sliced = replace(sliced, notes=(*guessed, *sliced.notes))
        with _words_of_the_command():
            report = find_slices(
                sliced.features, sliced.outcome, question.settings, baseline=sliced.baseline,
                labels=sliced.labels, ids=sliced.ids, clusters=sliced.clusters, progress=progress,
            )  # fmt: skip
        return report, [*sliced.notes, *map(_as_options, report.notes)]
    if question.identifier is None:
        raise ConfigError("runner: beam needs ids, got none: name their column with --id")
    if question.cluster is not None:
        raise ConfigError(
            "--cluster works on one machine only, got runner: beam too: leave one of them out"
        )
    from scotoma.slices.beam import TableColumns, open_table, search_parquet

    asked, options = question.settings, question.beam_options
    with _words_of_the_command():
        schema = open_table(place, options, metric=asked.metric, mode=asked.mode)
        chosen = choose_columns(schema, question)
        columns = TableColumns(
            identifier=str(chosen.identifier), outcome=tuple(chosen.outcome),
            baseline=tuple(chosen.baseline), label=chosen.label, positive=question.positive,
        )  # fmt: skip
        report = search_parquet(
            place, chosen.features, columns, asked, options=options, progress=progress
        )
    return report, [*chosen.notes, *map(_as_options, report.notes)]


@contextmanager
def _words_of_the_command() -> Iterator[None]:
    try:
        yield
    except DataError as error:
        raise DataError(_as_options(str(error))) from error


def _as_options(text: str) -> str:
    """Replace the library's names of arguments by the command's options.

    >>> _as_options("use mode='priority', lower max_cross, pass fewer features")
    'use mode: priority, lower max_cross, name fewer with --feature'
    """
    for pattern, option in OPTIONS.items():
        text = re.sub(pattern, option, text)
    return text
