"""Does compression move fairness or its spread, and at what cost? Figures 1 to 3, Finding 4."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np

from scotoma.audit import Quantity
from scotoma.bias.fairness import NAMES
from scotoma.document import Section, show
from scotoma.numbers.inputs import StatisticsProtocol
from scotoma.papers.table import Cell, paper_table, printed, specification
from scotoma.papers.words import quantity_text
from scotoma.predictions.finished import FinishedAudit
from scotoma.printable import code_span
from scotoma.published import PublishedTable, fairness_values, load
from scotoma.runs import (
    ACCURACY,
    RunFinding,
    baselines,
    compare_runs,
    compare_techniques,
    count_totals,
)
from scotoma.runs.finding import SIGN_WORDS
from scotoma.runs.techniques import costs_of
from scotoma.verdict.evidence import read_estimate

STUDY = "techniques against their baselines, 16 runs each"
LEGEND = (
    "Lower or higher than dense; NS: not significant (one-sided U or Levene's test at 5%, not "
    "adjusted)"
)
PAIRED = (
    "Members that derive from dense ones are taken as independent of them, as the tests demand: "
    "their NS says little."
)
NO_TESTS = (
    "no variant can be compared with dense: tests of runs need two models a variant and groups; "
    "raise population.models, name groups, and audit again"
)
COUNTED = ("cells", "lower", "with_cost", "accuracy_down", "accuracy_spread_up", "bias_spread_up",
           "all_three")  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Techniques, or compressed variants, in the bias metrics, and their accuracy by name."""

    cells: Sequence[RunFinding]
    accuracy: Mapping[str, RunFinding]

    @property
    def counts(self) -> tuple[int, ...]:
        """One number for each of `COSTS`, as section 3.3 and Finding 4 count them."""
        totals = count_totals(self.cells, self.accuracy)
        return tuple(totals[key] for key in COUNTED)


def heatmaps(finished: FinishedAudit) -> list[Section]:
    """Make Figures 1 to 3 from a run, as tables of signs."""
    own, sound = _of_run(finished, "published"), _of_run(finished, "sound")
    study = _study()
    derived = [PAIRED] * any(variant.paired for variant in finished.audit.compressed)

    def figure(name: str, columns: Sequence[str], cell: Shown, told: str) -> Section:
        body = PublishedTable(tuple(columns), _rows(study, columns, cell))
        caption = f"Paper, {name}, from the study's published tests: {STUDY}"
        beside = [printed(caption, body, "technique")]
        if not own.cells:
            return paper_table("variance", name, missing=NO_TESTS, beside=beside)
        rows = tuple((of, *cells) for of, cells in _rows(own, columns, cell).items())
        return paper_table(
            "variance", name, rows, beside=beside, conclusion=told,
            notes=[f"{LEGEND}; X: bias does not fall.", *derived],
        )  # fmt: skip

    return [
        figure(
            "Figure 1", NAMES, _bias,
            f"adjusted for all metrics and attributes of a variant (Benjamini and Hochberg), bias "
            f"{_counted([one.moves('mean') for one in sound.cells])}"
            f"{_clearest(finished, 'U')}.",
        ),
        figure(
            "Figure 2", NAMES, _variance,
            "adjusted, the variance of bias "
            f"{_counted([one.spread_moves for one in sound.cells])}"
            f"{_clearest(finished, 'raw Levene')}.",
        ),
        figure(
            "Figure 3", ("accuracy", "variance"), _accuracy, _accuracies(finished),
        ),
    ]  # fmt: skip


def cost_tables(finished: FinishedAudit) -> list[Section]:
    """Make the three costs of Finding 4 from a run."""
    costs = load("fairness_variance").costs
    subset = replace(costs, rows=costs.rows | {"with published runs": _study().counts})
    titles = specification("variance")["Finding 4"]["columns"]
    beside = [printed("Paper, Finding 4 (section 3.3)", subset, titles[0], titles[1:])]
    own, sound = _of_run(finished, "published"), _of_run(finished, "sound")
    if not own.cells:
        return [paper_table("variance", "Finding 4", missing=NO_TESTS, beside=beside)]
    return [
        paper_table(
            "variance",
            "Finding 4",
            [("this run", *own.counts), ("this run, adjusted", *sound.counts)],
            beside=beside,
            conclusion=f"two-sided and adjusted, {sound.counts[1]} of {sound.counts[0]} pairs "
            f"lower bias, {sound.counts[2]} of them at a cost.",
            notes=["Costs are counted among the pairs that lower bias, not exclusively."],
        )
    ]


@cache
def _study() -> _Pairs:
    """The pairs of the study whose raw runs are published, tested as it tests them."""
    accuracy = load("fairness_variance_runs").accuracy
    sets = {(name, metric): fairness_values(name, metric)[:, -1]
            for name in accuracy for metric in NAMES}  # fmt: skip
    sets |= {(name, ACCURACY): np.array(own) for name, own in accuracy.items()}
    played = compare_techniques(sets, baselines(list(accuracy)), protocol="published")
    return _Pairs(played.cells, {one.technique: one for one in played.accuracy})


def _of_run(finished: FinishedAudit, protocol: StatisticsProtocol) -> _Pairs:
    """Read the tests of each variant, attribute and metric from a run."""
    audit = finished.audit
    attributes = {row.fact("attribute") for row in audit.numbers("fairness")}
    cells: list[RunFinding] = []
    accuracy = {}
    for variant in finished.compressed:
        for at in audit.at("fairness", variant):
            if "difference" not in at:
                continue
            row = at["difference"]
            of = variant if len(attributes) == 1 else f"{variant}, {row.fact('attribute')}"
            if of not in accuracy:
                before, after = (
                    finished.audit.accuracies(name) for name in (audit.dense.name, variant)
                )
                accuracy[of] = _compared(before, after, protocol)
            numbers = {what: read_estimate(one.number) for what, one in at.items()}
            cell = RunFinding(of, str(row.metric), numbers, protocol=protocol)
            cells.append(replace(cell, costs=costs_of(cell, accuracy[of])))
    return _Pairs(cells, accuracy)


def _compared(
    before: Sequence[float], after: Sequence[float], protocol: StatisticsProtocol
) -> RunFinding:
    return RunFinding("", ACCURACY, compare_runs({"": (before, after)})[""], protocol=protocol)


Shown = Callable[[_Pairs, str, str], Cell]


def _rows(pairs: _Pairs, columns: Sequence[str], cell: Shown) -> dict[str, tuple[Cell, ...]]:
    return {
        of: tuple(cell(pairs, of, column) for column in columns)
        for of in dict.fromkeys(one.technique for one in pairs.cells)
    }


def _bias(pairs: _Pairs, of: str, metric: str) -> Cell:
    one = _cell(pairs, of, metric)
    if one is None or one.moves("mean") == "NS":
        return None if one is None else "NS"
    return f"{SIGN_WORDS[one.moves('mean')]}, {one.effect}"


def _variance(pairs: _Pairs, of: str, metric: str) -> Cell:
    one = _cell(pairs, of, metric)
    if one is None:
        return None
    return f"{SIGN_WORDS[one.spread_moves]}{' X' * (one.moves('mean') != '-')}"


def _cell(pairs: _Pairs, of: str, metric: str) -> RunFinding | None:
    own = (one for one in pairs.cells if (one.technique, one.metric) == (of, metric))
    return next(own, None)


def _accuracy(pairs: _Pairs, of: str, column: str) -> Cell:
    moved = pairs.accuracy[of]
    sign = moved.moves("mean") if column == "accuracy" else moved.spread_moves
    lower = any(one.technique == of and one.moves("mean") == "-" for one in pairs.cells)
    return f"{SIGN_WORDS[sign]}{'' if lower else ' X'}"


def _counted(signs: Sequence[str]) -> str:
    """How many of all signs move, and which way."""
    up, down = signs.count("+"), signs.count("-")
    return f"moves in {up + down} of {len(signs)} pairs: {up} up, {down} down"


def _clearest(finished: FinishedAudit, test: Literal["U", "raw Levene"]) -> str:
    """Put the effect of the smallest adjusted p, with its interval over training runs."""
    tested = [
        (p, f"{one.metric} of {code_span(one.fact('attribute'))} under {variant}", at)
        for variant in finished.compressed
        for at in finished.audit.at("fairness", variant)
        if (one := at.get(f"{test} p, adjusted")) and (p := one.number.value) is not None
    ]
    if not tested:
        return ""
    p, where, at = min(tested, key=lambda one: one[0])
    if test == "U":
        effect = "Cohen's d " + quantity_text(at["Cohen's d"].number, "effect")
    else:
        effect = f"ratio of standard deviations {quantity_text(at['raw spread'].number, 'ratio')}"
    return f"; smallest p {show(p, 'p').value}: {where}, {effect}"


def _accuracies(finished: FinishedAudit) -> str:
    """Put the change of accuracy over training runs, two-sided, and say where it varies more."""
    before = finished.audit.accuracies(finished.audit.dense.name)
    members = {name: finished.audit.accuracies(name) for name in finished.compressed}
    moves = {
        name: _compared(before, own, "sound")
        for name, own in members.items()
        if min(len(own), len(before)) > 1
    }
    changes = (
        f"{name} {quantity_text(Quantity.of(one['difference']), 'points')}"
        for name, one in moves.items()
    )
    wider = [name for name, one in moves.items() if one.spread_moves == "+"]
    return (
        f"change of accuracy over training runs: {'; '.join(changes)}; it varies more "
        f"under {', '.join(wider) or 'no variant'}."
    )
