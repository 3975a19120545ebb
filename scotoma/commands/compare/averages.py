"""`scotoma compare` on results that keep no samples: what they show, and no verdict but UNSURE."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from scotoma.commands.compare.logs import CompareQuestion, Model
from scotoma.comparison.averages import AverageChange, average_changes
from scotoma.document.lines import table_lines, wrapped
from scotoma.errors import ConfigError, DataError
from scotoma.printable import printable
from scotoma.readers.summaries import read_summaries

__all__ = ["compared_averages"]


def compared_averages(
    question: CompareQuestion, models: Sequence[Model], *, audit: bool
) -> tuple[list[str], dict[str, Any]] | None:
    """Compare averages where a model has no samples.

    Args:
        question: What is asked.
        models: The original first.
        audit: Whether the folder of an audit is asked for, which averages cannot fill.

    Returns:
        Lines to print, and the same as JSON; None where no place holds averages.

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
        "--group": question.groups, "--groups": question.group_table, "--out": audit,
        "--right-from": question.right_from is not None, "--reruns": question.reruns,
    }  # fmt: skip
    if needing := [name for name, value in options.items() if value]:
        raise ConfigError(
            f"{needing[0]} needs samples, and {printable(first.files[0])} holds averages; "
            f"{first.way_out}"
        )
    known = [one for one in summaries if one is not None]
    lines: list[str] = []
    comparisons = []
    for model, one in zip(models[1:], known[1:], strict=True):
        names = models[0].name, model.name
        changes = [
            change
            for change in average_changes(known[0], one, question.tasks)
            if question.score in (None, change.metric)
        ]
        if not changes:
            raise ConfigError(
                f"--score {printable(str(question.score))!r} is in no task of both; leave it out"
            )
        verdict = f"{model.name}: averages do not show which examples changed; {one.way_out}."
        lines += [*_lines(names, changes), *wrapped(f"UNSURE  {verdict}", later="  "), ""]
        comparisons.append(
            {
                "models": list(names),
                "averages": [asdict(change) | {"change": change.change} for change in changes],
                "verdict": "UNSURE",
                "reason": verdict,
            }
        )
    return lines[:-1], {"version": 1, "comparisons": comparisons, "gate": None}


def _lines(names: tuple[str, str], changes: Sequence[AverageChange]) -> list[str]:
    rows = [
        [
            printable(f"{one.task} {one.metric}"),
            "" if one.n is None else f"{one.n:,}",
            f"{one.before:,.3f}",
            f"{one.after:,.3f}",
            f"{one.change:+,.3f}" + _interval(one),
            "" if math.isnan(one.smallest) else f"{one.smallest:,.3f}",
            "",
        ]
        for one in changes
    ]
    head = ["score", "n", "before", "after", "change", "smallest"]
    lines = wrapped(
        f"{names[0]} to {names[1]}: {len(changes):,} averages without samples, 95% intervals",
        later="  ",
    )
    lines += ["", *table_lines(head, rows, right=1), ""]
    without = [one for one in changes if one.reason]
    if len(without) < len(changes):
        lines += wrapped(
            "smallest: the smallest change that these averages would show with 80% power. Samples "
            "of the same examples would show less."
        )
    for reason in dict.fromkeys(one.reason for one in without):
        those = [f"{one.task} {one.metric}" for one in without if one.reason == reason]
        more = f" and {len(those) - 3:,} more" if len(those) > 3 else ""
        lines += wrapped(f"No interval for {printable('; '.join(those[:3]))}{more}: {reason}.")
    return lines


def _interval(one: AverageChange) -> str:
    return "" if math.isnan(one.low) else f" [{one.low:+,.3f}, {one.high:+,.3f}]"
