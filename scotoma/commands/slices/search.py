"""How does `scotoma slices` search a table, here or on Beam, and print its slices?"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from scotoma.commands.slices.page import format_slices
from scotoma.commands.slices.table import Sliced, SlicesQuestion, choose_columns, read_sliced
from scotoma.document import Table
from scotoma.document.jsonable import jsonable
from scotoma.errors import ConfigError, DataError
from scotoma.printable import ONE_OF_THEM, nearest, quoted
from scotoma.readers.tables import read_table
from scotoma.run.copies import place_here
from scotoma.slices import SearchSettings, SliceReport, find_slices
from scotoma.slices.judging.choose import takes_draws
from scotoma.slices.null import ProgressCallback
from scotoma.slices.outcomes import SLICE_METRICS
from scotoma.slices.settings import CHOICES
from scotoma.storage.files import written

__all__ = ["measure_slices", "run_slices", "search_on_beam", "settings_of"]

EVERY = 2**31  # slices that --json and --csv hold at most
PATIENCE_S = 2.0
PERMUTATIONS: dict[str | None, int] = {"beam": 5}  # each is several pipelines there
OPTIONS = {  # what the library calls by names of Python
    r"max_candidates=(\d[\d,]*\d)": r"\1 candidates",
    r"\braise max_candidates": "raise --max-candidates",
    r"pass fewer features": "name fewer with --feature",
    r"pass labels=": "name labels with --label",
    r"with positive=": "with --positive",
    r"on Beam (metric|mode) must": r"with --runner beam --\1 must",
    r"without a runner": "without --runner",
    r"\b(mode|metric|reference)='(\w+)'": r"--\1 \2",
    r"(?<!['\w])(max_cross|min_size)(?!['\w])": r"--\1",
}


def run_slices(
    table: str,
    question: SlicesQuestion,
    *,
    csv: Path | None = None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Print the slices, beside what the same search reports on shuffled outcomes.

    Args:
        table: CSV or Parquet, one row per example; on Beam a pattern of Parquet files.
        question: The options of the search.
        csv: File for every slice, one row each.
        as_json: Print JSON, with every slice, instead of the page.
        quiet: No progress.

    Raises:
        ScotomaError: The options or the table do not fit together, or cannot be searched.
    """
    _check(question)
    if csv is not None and (csv.is_dir() or csv.resolve() == Path(table).resolve()):
        raise ConfigError(
            f"--csv must name a file of its own, got {quoted(str(csv))}: choose another name"
        )
    on_beam = question.runner is not None
    printed = question.settings.limit
    if as_json or csv is not None:
        question = replace(question, settings=replace(question.settings, limit=EVERY))
    sliced = None
    if not on_beam:
        frame, guessed = read_table(place_here(table))
        sliced = read_sliced(frame, question)
        sliced = replace(sliced, notes=(*guessed, *sliced.notes))
    with _bar(quiet=quiet) as progress:
        if sliced is None:
            report, noted = search_on_beam(table, question, progress)
        else:
            report, noted = measure_slices(sliced, question, progress), sliced.notes
        notes = [*noted, *map(_as_options, report.notes)]
        if as_json:
            content = report.as_dict(rows=question.identifier is not None and not on_beam)
            content |= {
                "change": report.change.as_dict(),
                "iterations": [vars(one) for one in report.iterations],
            }
            content = {"version": 1, **content, "notes": notes}
            text = json.dumps(jsonable(content), indent=1, allow_nan=False)
        else:
            text = "\n".join(format_slices(Path(table).name, report, notes, printed))
        if csv is not None:
            with written(csv) as temporary:
                temporary.write_text(Table.of_frame(report.table()).csv(), encoding="utf-8")
    sys.stdout.write(text + "\n")


def measure_slices(
    sliced: Sliced, question: SlicesQuestion, progress: ProgressCallback | None = None
) -> SliceReport:
    """Search with `scotoma.slices.find_slices`.

    Args:
        sliced: From `read_sliced`.
        question: The options of the search.
        progress: Called after each search with how many are done and how many there are.

    Raises:
        DataError: Anything that cannot be searched, in the words of the command.
    """
    with _words_of_the_command():
        return find_slices(
            sliced.features,
            sliced.outcome,
            question.settings,
            baseline=sliced.baseline,
            labels=sliced.labels,
            ids=sliced.ids,
            clusters=sliced.clusters,
            progress=progress,
        )


def search_on_beam(
    pattern: str, question: SlicesQuestion, progress: ProgressCallback | None = None
) -> tuple[SliceReport, tuple[str, ...]]:
    """Search with `scotoma.slices.beam.search_parquet`.

    Args:
        pattern: The Parquet files.
        question: The options of the search.
        progress: Called after each search with how many are done and how many there are.

    Returns:
        The report, and what a reader should know about columns that were left out.

    Raises:
        ConfigError: An option that contradicts another, or names a column that is not there.
        DataError: Anything that cannot be searched, in the words of the command.
        MissingExtra: Beam is not installed.
    """
    from scotoma.slices.beam import TableColumns, open_table, search_parquet

    asked = question.settings
    with _words_of_the_command():
        schema = open_table(pattern, question.beam_options, metric=asked.metric, mode=asked.mode)
        chosen = choose_columns(schema, question)
        columns = TableColumns(
            identifier=str(chosen.identifier), outcome=tuple(chosen.outcome),
            baseline=tuple(chosen.baseline), label=chosen.label, positive=question.positive,
        )  # fmt: skip
        report = search_parquet(
            pattern, chosen.features, columns, asked, options=question.beam_options,
            progress=progress,
        )  # fmt: skip
    return report, chosen.notes


def settings_of(*, runner: str | None, compared: bool, **options: Any) -> SearchSettings:
    """Turn options of the command into the settings of a search; None is the default.

    Args:
        runner: Where it runs; None for this machine.
        compared: Whether there is a baseline.
        **options: Settings by name; `max_candidates` of mode `priority` are those of an iteration.

    Raises:
        ConfigError: A choice that there is not, or options that contradict each other.
    """
    for name, known in {**CHOICES, "metric": tuple(SLICE_METRICS)}.items():
        value = options[name]
        if value is not None and value not in known:
            raise ConfigError(
                f"--{name} must be one of {', '.join(known)}, got {quoted(value)}"
                f"{nearest(value, known, ONE_OF_THEM)}"
            )
    alpha, mode = options["alpha"], options["mode"]
    if alpha is not None and not 0 < alpha < 1:
        raise ConfigError(f"--alpha must be a fraction in (0, 1), got {alpha:g}: write 0.05 for 5%")
    mode = mode or ("batch" if options["protocol"] == "published" else "cover")
    if mode == "priority":
        options["budget"] = options.pop("max_candidates")
    for name in ("iterations", "order"):
        if options[name] is not None and mode != "priority":
            raise ConfigError(f"--{name} is for --mode priority, got --mode {mode}: leave it out")
    reference = options["reference"] or ("baseline" if compared else "rest")
    protocol, metric = options["protocol"], SLICE_METRICS[options["metric"]]
    if options["bootstrap"] is not None and not takes_draws(metric, protocol, reference):
        raise ConfigError(
            f"--bootstrap is for p-values from a bootstrap, got --metric {metric.name} with "
            f"--protocol {protocol}, which has none: leave it out"
        )
    if options["reference"] == "baseline" and not compared:
        raise ConfigError(
            "--reference baseline needs a baseline, got none: name it with --baseline"
        )
    if options["permutations"] is None:
        options["permutations"] = PERMUTATIONS.get(runner, 20)
    with _words_of_the_command():
        return SearchSettings.of(**options | {"mode": mode})


@contextmanager
def _words_of_the_command() -> Iterator[None]:
    try:
        yield
    except DataError as error:
        raise DataError(_as_options(str(error))) from error


def _check(question: SlicesQuestion) -> None:
    if question.runner not in (None, "beam"):
        raise ConfigError(
            f"--runner must be beam, got {quoted(question.runner)}: leave it out to search here"
        )
    if question.beam_options and question.runner is None:
        raise ConfigError("--beam-options needs --runner beam, got none: add it")
    if question.runner is not None and question.identifier is None:
        raise ConfigError("--runner beam needs ids, got none: name their column with --id")
    if question.runner is not None and question.cluster is not None:
        raise ConfigError(
            "--cluster works on one machine only, got --runner beam too: leave one of them out"
        )


def _as_options(text: str) -> str:
    """Replace the library's names of arguments by the command's options.

    >>> _as_options("use mode='priority', lower max_cross")
    'use --mode priority, lower --max-cross'
    """
    for pattern, option in OPTIONS.items():
        text = re.sub(pattern, option, text)
    return text.replace("--max_cross", "--max-cross").replace("--min_size", "--min-size")


@contextmanager
def _bar(*, quiet: bool) -> Iterator[ProgressCallback]:
    """Show a bar on stderr once the searches have taken two seconds; remove it at the end."""
    console = Console(stderr=True, quiet=quiet)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    bar = Bar(
        *columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal,
        transient=True,
    )  # fmt: skip
    task = bar.add_task("searching, then searching shuffled outcomes", total=None)
    start = threading.Timer(PATIENCE_S, bar.start)
    start.daemon = True
    start.start()
    try:
        yield lambda done, total: bar.update(task, completed=done, total=total)
    finally:
        start.cancel()
        start.join()
        bar.stop()
