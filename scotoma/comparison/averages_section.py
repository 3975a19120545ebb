"""What do results show that keep no samples? Averages, and no verdict but UNSURE."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from scotoma.comparison.averages import AverageChange, average_changes
from scotoma.comparison.logs import CompareQuestion, Model
from scotoma.comparison.section import compared_document
from scotoma.document import Column, Document, Interval, Section, Table
from scotoma.errors import ConfigError, DataError
from scotoma.printable import printable
from scotoma.readers.summaries import read_summaries


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
            for change in average_changes(known[0], one, question.task)
            if question.score in ("", change.metric)
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
                "averages": [asdict(change) | {"change": change.change} for change in changes],
                "verdict": "UNSURE",
                "reason": verdict,
            }
        )
    document = compared_document([(models[0].name, one.name) for one in models[1:]], parts)
    return document, {"version": 1, "comparisons": comparisons, "gate": None}


def _sections(names: tuple[str, str], changes: Sequence[AverageChange]) -> Iterator[Section]:
    columns = (
        Column("score", "score"),
        Column("n", "n", "count"),
        Column("before", "before", "number"),
        Column("after", "after", "number"),
        Column("change", "change", "change"),
        Column("smallest", "smallest", "number"),
    )
    rows: list[dict[str, Any]] = [
        vars(one)
        | {
            "score": f"{one.task} {one.metric}",
            "change": Interval(one.change, one.low, one.high, one.n or 0),
            "smallest": None if math.isnan(one.smallest) else one.smallest,
        }
        for one in changes
    ]
    yield Section(
        "models",
        f"{names[0]} to {names[1]}: {len(changes):,} averages without samples, 95% intervals",
    )
    yield Section("averages", "", parts=[Table("averages", "", columns, rows, known=("",))])
    without = [one for one in changes if one.reason]
    said = []
    if len(without) < len(changes):
        said.append(
            "smallest: the smallest change that these averages would show with 80% power. Samples "
            "of the same examples would show less."
        )
    for reason in dict.fromkeys(one.reason for one in without):
        those = [f"{one.task} {one.metric}" for one in without if one.reason == reason]
        more = f" and {len(those) - 3:,} more" if len(those) > 3 else ""
        said.append(f"No interval for {'; '.join(those[:3])}{more}: {reason}.")
    yield Section("reading", "", said)
