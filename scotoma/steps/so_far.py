"""From logs of an evaluation that goes on to a verdict, as soon as it is certain."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from scotoma.answers.note import AdmissionNote, reading_note
from scotoma.commands.asking import Answer, print_out
from scotoma.commands.compare import CompareOptions
from scotoma.comparison.logs import ComparedLogs, CompareQuestion, compared, models_of
from scotoma.comparison.section import compared_document
from scotoma.config.gate import GateRules, chosen_rules, default_rules
from scotoma.config.gate_changes import ChangeRule, MaxIncrease
from scotoma.document.jsonable import jsonable
from scotoma.errors import ConfigError, DataError
from scotoma.printable import printable
from scotoma.readers.logs import NoAnswerError
from scotoma.readers.tables import BYTE_ORDER_MARKS
from scotoma.storage import is_remote
from scotoma.storage.files import open_regular
from scotoma.verdict.so_far import ComparisonSoFar, so_far, so_far_sections

SCORES = ["score_before", "score_after"]
KEY = ["task", "row_before"]  # of an example in the original's log
TABLES = (".csv", ".tsv", ".txt")
CHUNK = 2**20  # bytes
LINES = (*TABLES, ".jsonl")  # in which a last line may be half written
FEWEST_RUNS = 10  # that random order must be expected to have before sorting can be told
Judged = tuple[ComparisonSoFar, tuple[AdmissionNote, ...]]


def compare_so_far(options: CompareOptions) -> Answer:
    """Judge what is answered so far; with --watch again and again until it is decided.

    Raises:
        ScotomaError: Options or logs that do not fit together.
    """
    failed = ""
    while True:
        judged, awaited = [], [] if options.watch is None else _awaited(options.paths)
        try:
            if not awaited:
                judged = _judge(options)
        except DataError as error:  # a file may be half written, but not twice in the same way
            again = failed == str(error) and not isinstance(error, NoAnswerError)
            if options.watch is None or again:
                raise
            failed = str(error)
        if options.watch is None or (judged and all(found.decided for found, _ in judged)):
            return _answer(options, judged)
        if not options.quiet:
            seen = [f"{one.models[1]} {one.verdict} after {one.seen:,}" for one, _ in judged]
            waiting = f"waiting for {', '.join(awaited)}: no answers there yet" if awaited else ""
            print_out(f"{'; '.join(seen) or waiting or failed}\n", sys.stderr)
        time.sleep(options.watch)


def _answer(options: CompareOptions, judged: list[Judged]) -> Answer:
    found, notes = [own for own, _ in judged], [note for _, own in judged for note in own]
    content = {
        "version": 1,
        "comparisons": [jsonable(one) for one in found],
        "admission": [note.as_dict() for note in dict.fromkeys(notes)],
    }
    document = compared_document([one.models for one in found], map(so_far_sections, found))
    told = [f"note    {note}" for note in dict.fromkeys(one.sentence for one in notes)]
    failed = options.gate and any(one.verdict == "FAIL" for one in found)
    return Answer(document, content, told, exit_code=int(failed))


def _judge(options: CompareOptions) -> list[Judged]:
    question = replace(options.asked(CompareQuestion), allow_missing=True)
    rules = chosen_rules(None, options.margin) or GateRules()
    standard = default_rules(positive=False, shipped=True, one_label=True)
    rule = rules.on(standard).rules[0]
    assert isinstance(rule, ChangeRule)
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        places, notes = _without_cut_lines(question.paths, Path(folder))
        models = models_of(places, reruns=question.reruns)
        with compared(replace(question, paths=tuple(places)), models, going_on=True) as logs:
            judged = [_so_far(one, options.of, rule.max_increase) for one in logs]
    return [(found, (*notes, *own)) for found, own in judged]


def _awaited(paths: Iterable[str]) -> list[str]:
    """Name the places that hold no answer yet: nothing, or at most the header of a table."""
    return [
        printable(path)
        for path in paths
        if not is_remote(path)
        and all(
            _whole_lines(file)[1] <= _whole_lines(file)[0] * (file.suffix in TABLES)
            if file.suffix in LINES else not file.stat().st_size
            for file in _files(Path(path))
        )
    ]  # fmt: skip


def _without_cut_lines(
    paths: Iterable[str], folder: Path
) -> tuple[list[str], tuple[AdmissionNote, ...]]:
    """Stand copies without their last line for files in which that line has no end yet.

    A row that is cut off may read as another answer. Whole JSON needs no line end.
    """
    places, notes = [], []
    for path in paths:
        files = [] if is_remote(path) else _files(Path(path))
        known = {file: _whole_lines(file) for file in files if file.suffix in LINES}
        cut = {file: end for file, (_, end, size) in known.items() if end < size}
        if not cut:
            places.append(path)
            continue
        root = folder / Path(os.path.abspath(path)).relative_to("/")
        for file in files if Path(path).is_dir() else _files(Path(path).parent, "*"):
            copy = folder / Path(os.path.abspath(file)).relative_to("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            if file in cut:
                copy.unlink(missing_ok=True)
                shutil.copyfile(file, copy)
                os.truncate(copy, cut[file])
            elif not copy.exists():
                copy.symlink_to(file.absolute())
        places.append(str(root))
        notes += [
            reading_note(
                file.name, f"left out: the last line of {printable(file.name)}, which has no line "
                "end and may be half written",
            )
            for file in cut
        ]  # fmt: skip
    return places, tuple(notes)


def _files(place: Path, pattern: str = "**/*") -> list[Path]:
    files = sorted(place.glob(pattern)) if place.is_dir() else [place]
    return [file for file in files if file.is_file()]


def _whole_lines(file: Path) -> tuple[int, int, int]:
    """Bytes of the first line, of all lines but a last one that is half written, and of all."""
    with open_regular(file) as opened:
        first, size = opened.readline(CHUNK), opened.seek(0, os.SEEK_END)
        place, tail = size, b""
        while place and b"\n" not in tail:
            place -= (step := min(CHUNK, place))
            opened.seek(place)
            tail = opened.read(step) + tail
    last = tail.rpartition(b"\n")[2]
    whole = not last.strip(b" \r\t") or first.startswith((b"[", *BYTE_ORDER_MARKS))
    if not whole and file.suffix not in TABLES:
        with suppress(ValueError):
            json.loads(last)
            whole = True
    return len(first), size if whole else size - len(last), size


def _so_far(one: ComparedLogs, total: int | None, limits: MaxIncrease) -> Judged:
    if missing := [note.sentence for note in one.admission if note.blocks_pass]:
        why = missing[0].partition("; they are left out")[0]
        raise DataError(
            f"{why}; --so-far needs it of every answer: log it, or compare another score"
        )
    assert one.original is not None
    whole = one.original.rows.table
    if not whole.select(pl.col(SCORES).is_in([0.0, 1.0]).all()).row(0) == (True, True):
        raise ConfigError(
            f"--so-far needs right and wrong answers, and score {one.metric} is a number; say from "
            "where on it is right with --right-from"
        )
    examples = _by_example(whole).join(
        _by_example(one.rows.table), on=KEY, how="left", maintain_order="left", suffix="_seen"
    )
    first, seen = whole["example"].is_first_distinct(), examples["score_after_seen"].count()
    total = examples.height if total is None else total
    if total < seen:
        raise ConfigError(
            f"--of must count the examples of the whole evaluation, got {total:,}, and {seen:,} "
            "are answered; name the whole number"
        )
    tasks = whole["task"].filter(first)
    names = tasks.unique(maintain_order=True).to_list() if tasks.n_unique() > 1 else []
    groups = {name: own.filter(first) for name, own in one.original.groups.values.items()}
    masks = {"all": np.ones(examples.height, bool)}
    masks |= {f"task={name}": (tasks == name).to_numpy() for name in names}
    masks |= {key: mask[first.to_numpy()] for key, mask in one.original.groups.by_key.items()}
    judged = so_far(
        examples["score_before_seen"].fill_null(examples["score_before"]).to_numpy(),
        examples["score_after_seen"].cast(pl.Float64).fill_null(np.nan).to_numpy(),
        masks, models=one.models, total=total, limits=limits, score=one.metric,
        awaited=one.awaited,
    )  # fmt: skip
    before, after = one.models
    coming = [task for task in one.original.logs[0] if task not in one.logs[0]]
    told = [*one.admission]
    for name, begins in ((after, coming), (before, one.awaited)):
        told += [reading_note(task, f"task {task} has not begun: {name} has no answers of it yet")
                 for task in begins]  # fmt: skip
    return judged, (*told, *_order_notes(examples.with_columns(**groups), groups, one.models[1]))


def _by_example(table: pl.DataFrame) -> pl.DataFrame:
    """One row an example, with the mean score over its reruns."""
    own = [pl.col(*KEY, "row_after").first(), pl.col(SCORES).mean()]
    return table.group_by("example", maintain_order=True).agg(own)


def _order_notes(
    examples: pl.DataFrame, groups: Iterable[str], variant: str
) -> Iterator[AdmissionNote]:
    """Tell which attributes a log is plainly sorted by: what comes first is then not the rest."""
    table = examples.filter(pl.col("score_after_seen").is_not_null()).sort("row_after_seen")
    if (tasks := table["task"].n_unique()) > 1:
        yield reading_note(
            "task", f"each of the {tasks} tasks counts towards all examples by what is seen of it "
            "so far", variant,
        )  # fmt: skip
    for name, column in {**{name: name for name in groups}, "score": "score_before"}.items():
        runs, expected = 0, 0.0
        for _, own in table.select("task", value=pl.col(column).cast(pl.String)).group_by(
            "task", maintain_order=True
        ):
            shares = own["value"].value_counts()["count"].to_numpy() / own.height
            runs += own["value"].rle().len()
            expected += 1 + own.height * (1 - float(shares @ shares))
        if expected >= FEWEST_RUNS and runs < expected / 2:
            yield reading_note(
                name, f"examples are sorted by {name}: {runs:,} runs of equal values where random "
                f"order has about {expected:,.0f}; what is still to come may differ", variant,
            )  # fmt: skip
