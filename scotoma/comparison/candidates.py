"""Which of several compressed models is the one to take? Harm of the worst group, and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from scotoma.answers.values import as_numbers
from scotoma.comparison.measure import LogComparison
from scotoma.comparison.section import units
from scotoma.document import Column, Section, Table, show
from scotoma.errors import ConfigError, DataError
from scotoma.numbers import Estimate
from scotoma.printable import printable
from scotoma.readers.tables import read_table
from scotoma.run.mirror import place_here

MODEL = "model"  # column of a table of costs
LEVEL = 0.95


@dataclass(frozen=True)
class Candidate:
    """One of several models made from the same original.

    Attributes:
        model: Its name.
        verdict: Of the gate; empty where the score is a number.
        loss: What the score loses over all examples; positive is harm. This interval and that of
            `worst_loss` hold for all candidates and their groups together.
        worst: Key of the group that may lose most: of the highest upper end; `all` without groups.
        worst_loss: What it loses. No group loses more than its upper end, but for `unbounded`.
        unbounded: Keys of groups too small for an interval.
        costs: Of the table of costs, by column; lower is better.
        frontier: Whether it does not fail, and no other that does not fail is as good in every
            number and better in one.
    """

    model: str
    verdict: str
    loss: Estimate
    worst: str
    worst_loss: Estimate
    unbounded: tuple[str, ...]
    costs: Mapping[str, float]
    frontier: bool


def read_costs(place: str, models: Sequence[str]) -> dict[str, dict[str, float]]:
    """Read what each candidate costs: a row a model, numbers of which lower is better.

    Raises:
        ConfigError: No column of models, or none of numbers.
        DataError: A candidate without a row, with several, or without a number.
    """
    path = place_here(place)
    frame, name = read_table(path).frame, printable(path.name)
    others = {one: as_numbers(frame[one].cast(pl.String)) for one in frame.columns if one != MODEL}
    kinds = {one: values for one, values in others.items() if values.null_count() < frame.height}
    if MODEL not in frame.columns or not kinds:
        raise ConfigError(
            f"--costs {name} must have the column {MODEL}, and numbers such as size, got columns "
            f"{printable(', '.join(frame.columns))[:200]}; rename or add them"
        )
    names, costs = frame[MODEL].cast(pl.String).to_list(), {}
    for model in models:
        if (times := names.count(model)) != 1:
            raise DataError(
                f"--costs {name} must have one row of each candidate, got {times} of "
                f"{printable(model)}; it has {printable(', '.join(names))[:200]}"
            )
        costs[model] = {kind: values[names.index(model)] for kind, values in kinds.items()}
        if lacking := [kind for kind, value in costs[model].items() if value is None]:
            raise DataError(
                f"--costs {name} must hold {printable(lacking[0])} of {printable(model)}, got no "
                "number; fill it in"
            )
    return costs


def candidates(
    found: Sequence[LogComparison],
    verdicts: Mapping[str, str],
    costs: Mapping[str, Mapping[str, float]],
) -> tuple[Candidate, ...]:
    """Put candidates in the order of what their worst group may lose, the least first.

    Args:
        found: The original and each candidate.
        verdicts: Of each that was judged.
        costs: From `read_costs`, or none.
    """
    rows = []
    for one in found:
        changes = {"all": one.score.change}
        changes |= {own.group: own.score.change for own in one.groups or one.tasks}
        level = 1 - (1 - LEVEL) / (len(found) * len(changes))  # Bonferroni: any may be chosen
        losses = {
            key: (change if one.lower_is_better else change.negated())
            .at(level)
            .within(1.0 if one.binary else np.inf)
            for key, change in changes.items()
        }
        named = [key for key in losses if key != "all"] or ["all"]
        small = tuple(key for key in named if np.isnan(losses[key].high))
        bounded = {key: losses[key].high for key in named if key not in small}
        worst = max(bounded or named, key=lambda key: bounded.get(key, losses[key].value))
        model = one.models[1]
        own = costs.get(model, {})
        rows.append(
            Candidate(
                model, verdicts.get(model, ""), losses["all"], worst, losses[worst], small, own,
                frontier=False,
            )
        )  # fmt: skip
    places = np.array([[one.loss.value, one.worst_loss.value, *one.costs.values()] for one in rows])
    ships = np.array([one.verdict != "FAIL" for one in rows])
    beats = [(places <= own).all(1) & (places < own).any(1) & ships for own in places]
    listed = [
        replace(one, frontier=one.verdict != "FAIL" and not beaten.any())
        for one, beaten in zip(rows, beats, strict=True)
    ]
    return tuple(sorted(listed, key=lambda one: (_most(one.worst_loss), one.worst_loss.value)))


def _most(loss: Estimate) -> float:
    return float(np.nan_to_num(loss.high, nan=np.inf))


def candidates_section(listed: Sequence[Candidate], *, binary: bool) -> Section:
    """Tabulate candidates, and say what the first may still lose."""
    unit, of = units(binary=binary)[1], ", points" if binary else ""
    columns = (
        Column("model", "candidate"),
        Column("verdict", "verdict", "verdict"),
        Column("loss", f"loss{of}", unit),
        Column("worst", "worst group"),
        Column("worst_loss", f"its loss{of}", unit),
        *(Column(f"cost {name}", name, "number") for name in listed[0].costs),
        Column("frontier", "frontier"),
    )
    cells = [
        {
            **vars(one), **{f"cost {name}": value for name, value in one.costs.items()},
            "frontier": "*" if one.frontier else "",
        }
        for one in listed
    ]  # fmt: skip
    first, text = listed[0], "No group is large enough to say which candidate is first. "
    if not np.isnan(first.worst_loss.high):
        text = (
            f"{first.model} is first: its worst group, {first.worst}, loses at most "
            f"{show(first.worst_loss.high, unit).value}{of.replace(',', '')}. "
        )
        if small := first.unbounded:
            more = f" and {len(small) - 3} more" if len(small) > 3 else ""
            text += f"Too small for an interval, and in no order: {', '.join(small[:3])}{more}. "
    text += (
        f"Intervals hold for all {len(listed)} candidates and their groups together. "
        "A star marks the frontier of those that do not fail: no other is as good in every number "
        "and better in one."
    )
    return Section(
        "candidates", "", [text], parts=[Table("candidates", "", columns, cells, known=("",))]
    )
