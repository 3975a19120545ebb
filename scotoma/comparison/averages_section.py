"""What do results show that keep no samples? Averages, and no verdict but UNSURE."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import Any

from scotoma.comparison.logs import CompareQuestion, Model
from scotoma.comparison.section import compared_document
from scotoma.document import Column, Document, Interval, Section, Table
from scotoma.errors import ConfigError, DataError
from scotoma.printable import printable
from scotoma.readers.logs import matching
from scotoma.readers.summaries import Average, Summary, read_summaries


def compared_averages(
    question: CompareQuestion, models: Sequence[Model], *, audit: bool
) -> tuple[Document, dict[str, Any]] | None:
    """Compare averages where a model has no samples.

    Args:
        question: What is asked.
        models: The original first.
        audit: Whether the folder of an audit is asked for, which averages cannot fill.

    Returns:
        What is shown, and the same as JSON; None where no place holds averages.

    Raises:
        ConfigError: An option that needs samples.
        DataError: Averages of one model only, or none that both share.
    """
    summaries = [read_summaries(model.places) for model in models]
    first = next((one for one in summaries if one is not None), None)
    if first is None:
        return None
    for model, one in zip(models, summaries, strict=True):
        if one is None:
            raise DataError(
                f"{model.name} holds no averages, and {first.files[0]} has no samples; "
                f"{first.way_out}"
            )
    options = {
        "--group": question.group, "--examples": question.examples, "--out": audit,
        "--right-from": question.right_from is not None, "--reruns": question.reruns,
    }  # fmt: skip
    if needing := [name for name, value in options.items() if value]:
        raise ConfigError(
            f"{needing[0]} needs samples, and {printable(first.files[0])} holds averages; "
            f"{first.way_out}"
        )
    known = [one for one in summaries if one is not None]
    parts: list[list[Section]] = []
    comparisons = []
    for model, one in zip(models[1:], known[1:], strict=True):
        names = models[0].name, model.name
        changes = [
            change
            for change in average_changes(known[0], one, question.tasks)
            if question.score in ("", change["metric"])
        ]
        if not changes:
            raise ConfigError(
                f"--score {printable(question.score)!r} is in no task of both; leave it out"
            )
        verdict = f"{model.name}: averages do not show which examples changed; {one.way_out}."
        parts.append([*_sections(names, changes), Section("verdict", "", [f"UNSURE  {verdict}"])])
        comparisons.append(
            {
                "models": list(names),
                "averages": changes,
                "verdict": "UNSURE",
                "reason": verdict,
            }
        )
    document = compared_document([(models[0].name, one.name) for one in models[1:]], parts)
    return document, {"version": 1, "comparisons": comparisons, "gate": None}


def _sections(names: tuple[str, str], changes: Sequence[Change]) -> Iterator[Section]:
    columns = (
        Column("score", "score"),
        Column("n", "n", "count"),
        Column("before", "before", "number"),
        Column("after", "after", "number"),
        Column("change", "change", "change"),
        Column("smallest", "smallest", "number"),
    )
    rows = [
        one
        | {
            "score": _named(one),
            "change": Interval(one["change"], one["low"], one["high"], one["n"] or 0),
            "smallest": None if math.isnan(one["smallest"]) else one["smallest"],
        }
        for one in changes
    ]
    yield Section(
        "models",
        f"{names[0]} to {names[1]}: {len(changes):,} averages without samples, 95% intervals",
    )
    yield Section("averages", "", parts=[Table("averages", "", columns, rows, known=("",))])
    without = [one for one in changes if one["reason"]]
    said = []
    if len(without) < len(changes):
        said.append(
            "smallest: the smallest change that these averages would show with 80% power. Samples "
            "of the same examples would show less."
        )
    for reason in dict.fromkeys(one["reason"] for one in without):
        those = [_named(one) for one in without if one["reason"] == reason]
        more = f" and {len(those) - 3:,} more" if len(those) > 3 else ""
        said.append(f"No interval for {'; '.join(those[:3])}{more}: {reason}.")
    yield Section("reading", "", said)


SHARES = ("acc", "accuracy", "exact_match", "quasi_exact_match", "correct", "match", "em")
WIDE = NormalDist().inv_cdf(0.975)  # of an interval at 95%
POWER = NormalDist().inv_cdf(0.8)


Change = dict[str, Any]  # a score of a task in both, as --json has it


def _named(change: Change) -> str:
    return f"{change['task']} {change['metric']}"


def average_changes(before: Summary, after: Summary, tasks: Sequence[str]) -> list[Change]:
    """Compare the scores that two models share.

    Both averages are taken as independent, which they are not where both models answered the same
    examples: the interval is then too wide, never too narrow, as answers agree more than by chance.

    Args:
        before: Averages of the original model.
        after: Those of the compressed one.
        tasks: The tasks to take; empty for all.

    Returns:
        Of each score `task`, `metric`, `before`, `after`, `n` (the fewer examples of both; None
        where a file does not say), `low` and `high` of the 95% interval, `smallest` change that
        would have been shown with 80% power, the `reason` why there is none, and `change`.

    Raises:
        DataError: They share no score.
    """
    known = {(one.task, one.metric): one for one in after.averages}
    tasks = matching(tasks, dict.fromkeys(one.task for one in before.averages))
    pairs = [
        (one, known[one.task, one.metric])
        for one in before.averages
        if (one.task, one.metric) in known and (not tasks or one.task in tasks)
    ]
    if not pairs:
        names = [
            printable(", ".join(dict.fromkeys(one.task for one in side.averages)))[:200]
            for side in (before, after)
        ]
        raise DataError(
            f"averages must share a score of a task, got those of {names[0]} and of {names[1]}; "
            "name results of the same evaluation"
        )
    return [_change(*pair) for pair in pairs]


def _change(before: Average, after: Average) -> Change:
    errors = _error(before), _error(after)
    counts = [one.n for one in (before, after) if one.n is not None]
    change, reason, error = after.value - before.value, "", math.nan
    if None in errors:
        reason = "the files hold no standard error, and no number of examples that gives one"
    else:
        error = math.hypot(*(one for one in errors if one is not None))
    return {
        "task": before.task, "metric": before.metric, "before": before.value,
        "after": after.value, "n": min(counts) if len(counts) == 2 else None,
        "low": change - WIDE * error, "high": change + WIDE * error,
        "smallest": (WIDE + POWER) * error, "reason": reason, "change": change,
    }  # fmt: skip


def _error(one: Average) -> float | None:
    """The standard error: that of the file, else that of a share; none is 0.

    Where all are right or wrong, it is that of Agresti and Coull (1998), The American Statistician
    52:119-126: two more of each.

    >>> [round(_error(Average("t", "acc", *one)), 4) for one in ((0.75, 101), (1, 96))]
    [0.0433, 0.014]
    """
    if one.stderr is not None and one.stderr > 0:
        return one.stderr
    share = one.metric.partition(",")[0].rpartition(".")[2] in SHARES and 0 <= one.value <= 1
    if one.n is None or one.n < 2 or not share:
        return None
    if one.value in (0, 1):
        # At 0 or 1 the usual error is 0: take two successes and two failures more (Agresti, Coull).
        p = (one.n * one.value + 2) / (one.n + 4)
        return math.sqrt(p * (1 - p) / (one.n + 4))
    return math.sqrt(one.value * (1 - one.value) / (one.n - 1))
