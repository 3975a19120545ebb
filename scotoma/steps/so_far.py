"""From logs of an evaluation that goes on to a verdict, as soon as it is certain."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

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
from scotoma.numbers.inputs import Flags
from scotoma.verdict.so_far import ComparisonSoFar, so_far, so_far_sections

FEWEST_RUNS = 10  # that random order must be expected to have before sorting can be told
Judged = tuple[ComparisonSoFar, tuple[AdmissionNote, ...]]


def compare_so_far(options: CompareOptions) -> Answer:
    """Judge what is answered so far; with --watch again and again until it is decided.

    Raises:
        ScotomaError: Options or logs that do not fit together.
    """
    failed = ""
    while True:
        try:
            judged = _judge(options)
        except DataError as error:  # a line may be half written, but not twice in the same way
            if options.watch is None or failed == str(error):
                raise
            judged, failed = [], str(error)
        if options.watch is None or (judged and all(found.decided for found, _ in judged)):
            return _answer(options, judged)
        if not options.quiet:
            seen = [f"{one.models[1]} {one.verdict} after {one.seen:,}" for one, _ in judged]
            print_out(f"{'; '.join(seen) or failed}\n", sys.stderr)
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
    models = models_of(question.paths, reruns=question.reruns)
    rules = chosen_rules(None, options.margin) or GateRules()
    standard = default_rules(positive=False, shipped=True, one_label=True)
    rule = rules.on(standard).rules[0]
    assert isinstance(rule, ChangeRule)
    with compared(question, models) as logs:
        return [
            (_so_far(one, options.of, rule.max_increase), (*one.admission, *_order_notes(one)))
            for one in logs
        ]


def _so_far(one: ComparedLogs, total: int | None, limits: MaxIncrease) -> ComparisonSoFar:
    if missing := [note.sentence for note in one.admission if note.blocks_pass]:
        raise DataError(f"{missing[0]}; log it, or compare another score")
    table, scores = one.rows.table, ["score_before", "score_after"]
    if not table.select(pl.col(scores).is_in([0.0, 1.0]).all()).row(0) == (True, True):
        raise ConfigError(
            f"--so-far needs right and wrong answers, and score {one.metric} is a number; say from "
            "where on it is right with --right-from"
        )
    means = table.group_by("example", maintain_order=True).agg(pl.col(scores).mean())
    first, seen = table["example"].is_first_distinct().to_numpy(), means.height
    if total is None:
        total = sum(log.examples["example_id"].n_unique() for log in one.logs[0].values())
    if total < seen:
        raise ConfigError(
            f"--of must count the examples of the whole evaluation, got {total:,}, and {seen:,} "
            "are answered; name the whole number"
        )
    return so_far(
        means["score_before"].to_numpy(),
        means["score_after"].to_numpy(),
        {group: mask[first] for group, mask in _masks(one).items()},
        models=one.models, total=total, limits=limits,
    )  # fmt: skip


def _masks(one: ComparedLogs) -> Mapping[str, Flags]:
    """All rows, those of each task where there are several, and those of each group."""
    task = one.rows.table["task"]
    names = task.unique(maintain_order=True).to_list() if task.n_unique() > 1 else []
    tasks = {f"task={name}": (task == name).to_numpy() for name in names}
    return {"all": np.ones(task.len(), bool)} | tasks | one.groups.by_key


def _order_notes(one: ComparedLogs) -> Iterator[AdmissionNote]:
    """Tell which attributes a log is plainly sorted by: what comes first is then not the rest."""
    table, variant = one.rows.table, one.models[1]
    if (tasks := table["task"].n_unique()) > 1:
        yield reading_note(
            "task", f"each of the {tasks} tasks counts towards all examples by what is seen of it "
            "so far", variant,
        )  # fmt: skip
    columns = dict(one.groups.values) | {"score": table["score_before"].cast(pl.String)}
    for name, values in columns.items():
        runs, expected = 0, 0.0
        for _, own in pl.DataFrame({"task": table["task"], "value": values}).group_by("task"):
            shares = own["value"].value_counts()["count"].to_numpy() / own.height
            runs += own["value"].rle().len()
            expected += 1 + own.height * (1 - float(shares @ shares))
        if expected >= FEWEST_RUNS and runs < expected / 2:
            yield reading_note(
                name, f"examples are sorted by {name}: {runs:,} runs of equal values where random "
                f"order has about {expected:,.0f}; what is still to come may differ", variant,
            )  # fmt: skip
