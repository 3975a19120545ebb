"""The slices command: the slices nobody named on which a model, or its compression, is worse."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import polars as pl
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from scotoma.commands.slices_page import page
from scotoma.commands.slices_table import Sliced, SlicesQuestion, read_sliced
from scotoma.commands.tables import quoted, read_table
from scotoma.errors import ConfigError, DataError
from scotoma.files import written
from scotoma.jsonable import jsonable
from scotoma.printable import nearest
from scotoma.slices import SliceReport, find_slices
from scotoma.slices.arguments import CHOICES
from scotoma.slices.evidence.outcomes import METRICS
from scotoma.slices.find import Progress

__all__ = ["SlicesQuestion", "harmless", "measure_slices", "run_slices"]

PATIENCE_S = 2.0
STARTS_A_FORMULA = r"^[=+\-@\t\r]"
OPTIONS = {  # what the library calls by names of Python
    r"max_candidates=(\d[\d,]*\d)": r"\1 candidates",
    r", or raise max_candidates": "",
    r"pass fewer features": "name fewer with --feature",
    r"\b(mode|metric|reference)='(\w+)'": r"--\1 \2",
    r"(?<!['\w])(max_cross|min_size)(?!['\w])": r"--\1",
}


def run_slices(
    path: Path,
    question: SlicesQuestion,
    *,
    csv: Path | None = None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Print the slices found, beside what the same search finds in shuffled outcomes.

    Args:
        path: CSV or Parquet, one row an example.
        question: What is asked.
        csv: File for one row a slice.
        as_json: Print JSON instead of the page.
        quiet: No progress.

    Raises:
        ScotomaError: The options or the table do not fit together, or cannot be searched.
    """
    _check(question)
    if csv is not None and (csv.is_dir() or csv.resolve() == path.resolve()):
        raise ConfigError(
            f"--csv must name a file of its own, got {quoted(str(csv))}: choose another name"
        )
    sliced = read_sliced(read_table(path), question)
    with _bar(quiet=quiet) as told:
        report = measure_slices(sliced, question, told)
        notes = [*sliced.notes, *map(_as_options, report.notes)]
        if as_json:
            found = report.as_dict(rows=question.identifier is not None)
            found = {"version": 1, **found, "notes": notes}
            text = json.dumps(jsonable(found), indent=1, allow_nan=False)
        else:
            text = "\n".join(page(path.name, report, notes))
        if csv is not None:
            with written(csv) as temporary:
                harmless(report.table()).write_csv(temporary)
    sys.stdout.write(text + "\n")


def measure_slices(
    sliced: Sliced, question: SlicesQuestion, told: Progress | None = None
) -> SliceReport:
    """The search of `scotoma.slices.find_slices` that is asked for.

    Args:
        sliced: From `read_sliced`.
        question: What is asked.
        told: Called after each search with how many are done and how many there are.

    Raises:
        DataError: Anything that cannot be searched, in the words of the command.
    """
    asked = cast(Any, question)  # its choices are checked, their types are wider
    usual: Any = "batch" if question.protocol == "published" else "cover"
    try:
        return find_slices(
            sliced.features,
            sliced.outcome,
            baseline=sliced.baseline,
            labels=sliced.labels,
            mode=asked.mode or usual,
            metric=asked.metric,
            direction=asked.direction,
            reference=asked.reference,
            paired=asked.paired,
            max_cross=asked.max_cross,
            min_size=asked.min_size,
            alpha=asked.alpha,
            correction=asked.correction,
            protocol=asked.protocol,
            permutations=asked.permutations,
            ids=sliced.ids,
            clusters=sliced.clusters,
            limit=asked.limit,
            progress=told,
            seed=asked.seed,
        )
    except DataError as error:
        raise DataError(_as_options(str(error))) from error


def harmless(table: pl.DataFrame) -> pl.DataFrame:
    """Text that a spreadsheet would take for a formula, with an apostrophe before it.

    >>> harmless(pl.DataFrame({"slice": ["=1+1 = a", "age < 30"], "low": [-0.5, 0.0]})).rows()
    [("'=1+1 = a", -0.5), ('age < 30', 0.0)]
    """
    text = pl.col(pl.String)
    armed = text.str.contains(STARTS_A_FORMULA)
    return table.with_columns(pl.when(armed).then(pl.lit("'") + text).otherwise(text).name.keep())


def _check(question: SlicesQuestion) -> None:
    for name, known in {**CHOICES, "metric": tuple(METRICS)}.items():
        value = getattr(question, name)
        if value is not None and value not in known:
            raise ConfigError(
                f"--{name} must be one of {', '.join(known)}, got {quoted(value)}"
                f"{nearest(value, known)}"
            )
    if question.alpha is not None and not 0 < question.alpha < 1:
        raise ConfigError(
            f"--alpha must be a fraction in (0, 1), got {question.alpha:g}: write 0.05 for 5%"
        )
    if question.reference == "baseline" and not question.baseline:
        raise ConfigError(
            "--reference baseline needs a baseline, got none: name it with --baseline"
        )


def _as_options(text: str) -> str:
    """The words of the library in those of the command.

    >>> _as_options("use mode='priority', lower max_cross")
    'use --mode priority, lower --max-cross'
    """
    for pattern, said in OPTIONS.items():
        text = re.sub(pattern, said, text)
    return text.replace("--max_cross", "--max-cross").replace("--min_size", "--min-size")


@contextmanager
def _bar(*, quiet: bool) -> Iterator[Progress]:
    """A bar on stderr once the searches have taken two seconds; it does not stay."""
    console = Console(stderr=True, quiet=quiet)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    bar = Bar(
        *columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal,
        transient=True,
    )  # fmt: skip
    task = bar.add_task("searching, then the same in shuffled outcomes", total=None)
    start = threading.Timer(PATIENCE_S, bar.start)
    start.daemon = True
    start.start()
    try:
        yield lambda done, total: bar.update(task, completed=done, total=total)
    finally:
        start.cancel()
        start.join()
        bar.stop()
