"""Which tables does a tournament have? The same on the page, on a terminal and in Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from scotoma.audit import Quantity
from scotoma.numbers import Estimate
from scotoma.report import numbers
from scotoma.report.figures.figure import FigureTable, cell_text
from scotoma.runs import THIS_TEST_SET, RunFinding, Tournament
from scotoma.runs.survival import collapsed, comparable

__all__ = ["TournamentResult", "estimate_text", "headline_metric", "tournament_tables"]

TOTAL_NAMES = {
    "cells": "cells",
    "lower": "bias lower",
    "higher": "bias higher",
    "undecided": "undecided",
    "huge": "lower, a huge effect",
    "with_cost": "lower, at a cost",
    "bias_spread_up": "lower, bias spread up",
    "accuracy_down": "lower, accuracy down",
    "accuracy_spread_up": "lower, its spread up",
    "all_three": "lower, all three costs",
}
Column = Callable[[RunFinding], str]


@dataclass(frozen=True, eq=False)
class TournamentResult:
    """Everything that a tournament shows.

    Attributes:
        title: What was compared.
        tournament: Techniques against their baselines.
        beside: What else was found: `survival`, `equal accuracy` and `minority` of compressed
            variants, `one seed`, `shared runs`; without what was not asked.
        published: Totals of the study, to stand beside; None shows none.
        aims: `TASK|METRIC`, TASK as baselines begin, to the mark of a metric that is aimed at.
        remarks: Sentences for the reader.
        failed: Technique to why it is not compared.
    """

    title: str
    tournament: Tournament
    beside: Mapping[str, Sequence[RunFinding]]
    published: Mapping[str, int] | None
    aims: Mapping[str, str]
    remarks: Sequence[str]
    failed: Mapping[str, str]


def headline_metric(metrics: Iterable[str]) -> str:
    """Choose the metric of short tables: bias amplification, the study's aim on CIFAR-10S.

    >>> headline_metric(["DP", "BA"]), headline_metric(["DP", "EOTP"])
    ('BA', 'DP')
    """
    known = list(metrics)
    return "BA" if "BA" in known else known[0]


def estimate_text(estimate: Estimate, shown: Callable[[numbers.Ranged], numbers.Shown]) -> str:
    """An estimate with its interval; what all are about stands in the caption."""
    cell = cell_text(shown(Quantity.of(estimate)))
    for beside in (f" ({THIS_TEST_SET})", f"; {THIS_TEST_SET}", f"{THIS_TEST_SET}; "):
        cell = cell.replace(beside, "")
    return cell.replace(" (takes the runs as normal)", "")


def _as(shown: Callable[[numbers.Ranged], numbers.Shown], what: str) -> Column:
    return lambda one: estimate_text(one[what], shown)


def _points(what: str) -> Column:
    return _as(numbers.points, what)


def _p(what: str) -> Column:
    """The p-value of a test by the protocol of the tournament."""
    return lambda one: numbers.p_value(one.p(what))


def _plain(what: str, form: str = "{:.2f}", factor: float = 100) -> Column:
    return lambda one: form.format(factor * one.value(what))


def _runs(what: str) -> Column:
    return lambda one: str(one[what].members)


def _technique(one: RunFinding) -> str:
    return one.technique


def _metric(one: RunFinding) -> str:
    return one.metric


def shown_variant(one: RunFinding) -> str:
    """A compressed variant, marked where its baseline has collapsed."""
    return f"{one.variant}{' †' * collapsed(one)}"


def _base(one: RunFinding) -> str:
    return one.base


def _effect(one: RunFinding) -> str:
    d = one["Cohen's d"]
    if d.reason:
        return d.reason
    return f"{d.value:+.1f} [{d.low:+.1f}, {d.high:+.1f}]".replace("-", numbers.MINUS)


def _costs(one: RunFinding) -> str:
    return f"{one.verdict}{': ' if one.costs else ''}{', '.join(one.costs)}"


def _table(
    caption: str, labels: int, found: Iterable[RunFinding], columns: Mapping[str, Column]
) -> FigureTable:
    rows = tuple(tuple(column(one) for column in columns.values()) for one in found)
    return FigureTable(caption, tuple(columns), rows, labels)


NAMES: dict[str, Column] = {"Technique": _technique, "Metric": _metric}
COMPRESSED: dict[str, Column] = {"Technique": _technique, "Variant": shown_variant}
MOVED: dict[str, Column] = {
    "Difference, points": _points("difference"),
    "Cohen’s d": _effect,
    "U test, p": _p("U"),
}
SPREADS: dict[str, Column] = {
    "Raw ratio": _as(numbers.unitless, "raw spread"), "Raw, p": _p("raw Levene"),
    "Relative ratio": _as(numbers.unitless, "relative spread"),
    "Relative, p": _p("relative Levene"),
}  # fmt: skip


def _bias(result: TournamentResult) -> FigureTable:
    tournament = result.tournament
    level = f"{100 * tournament.level:g}% intervals"

    def runs(one: RunFinding) -> str:
        sides = (one.technique, one.metric), (one.base, one.metric)
        return ", ".join(str(len(tournament.sets[side])) for side in sides)

    return _table(
        f"Each technique against its baseline; {level} over training runs on this test set, not "
        "adjusted",
        3, result.tournament.cells,
        NAMES | {"Verdict": _costs, "Runs": runs} | MOVED
        | {"Single-run risk": _as(numbers.rate, "single-run risk")},
    )  # fmt: skip


def _spread(result: TournamentResult) -> FigureTable:
    return _table(
        "Ratio of standard deviations, technique over baseline, with intervals over training runs",
        2, result.tournament.cells, NAMES | SPREADS,
    )  # fmt: skip


def _accuracy(result: TournamentResult) -> FigureTable:
    return _table(
        "Accuracy against the baseline, with intervals over training runs on this test set",
        1, result.tournament.accuracy, {"Technique": _technique} | MOVED | SPREADS,
    )  # fmt: skip


def _every_run(result: TournamentResult) -> FigureTable:
    return _table(
        "Mean and spread over runs, in points; intervals are about training runs and take them as "
        "normal",
        2, result.tournament.spreads,
        NAMES | {
            "Runs": _runs("mean"), "Mean": _as(numbers.rate, "mean"),
            "Standard deviation": _as(numbers.rate, "sigma"), "MaxDiff": _plain("MaxDiff"),
        },
    )  # fmt: skip


def _survival(result: TournamentResult) -> FigureTable:
    def loss(one: RunFinding) -> str:
        lost = one.value("baseline loss")
        return "not known" if math.isnan(lost) else f"{100 * lost:.2f}{' †' * collapsed(one)}"

    return _table(
        "Harm H and interaction I in points, survival S a share of the dense gain; intervals over "
        "seeds, paired",
        3, result.beside["survival"],
        COMPRESSED | {
            "Metric": _metric, "Seeds": _runs("p"), "H": _points("harm"),
            "I": _points("interaction"), "I, p": _p(""), "Null floor of I": _plain("null floor"),
            "S": _as(numbers.unitless, "survival"), "Accuracy that the baseline loses": loss,
        },
    )  # fmt: skip


def _equal(result: TournamentResult) -> FigureTable:
    found = result.beside["equal accuracy"]
    headline = headline_metric(one.metric for one in found)
    gain = _points("gain")
    return _table(
        f"Points, paired by seed; a gain above 0: the technique is fairer; {headline}",
        3, [one for one in found if one.metric == headline],
        COMPRESSED | {
            "Beside": _base, "Accuracy gap": _points("accuracy gap"),
            "Gain": lambda one: gain(one) if comparable(one) else "none so accurate",
        },
    )  # fmt: skip


def _minority(result: TournamentResult) -> FigureTable:
    found = result.beside["minority"]
    share = found[0].value("share of test set")
    return _table(
        f"CIEs in minority cells, {100 * share:.1f}% of the test set; intervals over test examples",
        2, found,
        COMPRESSED | {
            "CIEs": _plain("CIEs", "{:.0f}", 1),
            "In minority cells": _plain("in minority cells", "{:.0f}", 1),
            "Per cent": _plain("share of CIEs", "{:.1f}"),
            "More than in the data": _as(numbers.percent, "change"),
        },
    )  # fmt: skip


def _one_seed(result: TournamentResult) -> FigureTable:
    return _table(
        "Standard deviations in points; Levene’s p adjusted over this table",
        2, result.beside["one seed"],
        NAMES | {
            "Runs": _runs("SD of seeds"), "Seeds": _plain("SD of seeds", "{:.3f}"),
            "One seed": _plain("SD of one seed", "{:.3f}"),
            "Ratio of variances": _as(numbers.unitless, "variance ratio"), "p": _p("raw Levene"),
        },
    )  # fmt: skip


def _shared(result: TournamentResult) -> FigureTable:
    return _table(
        "Paired differences in points with intervals over runs; p of a sign-flip test, adjusted "
        "over this table",
        3, result.beside["shared runs"],
        {"Technique": _technique, "Against": _base, "Metric": _metric, "Runs": _runs("p"),
         "Difference": _points("difference"), "p": _p("")},
    )  # fmt: skip


def _totals(result: TournamentResult) -> FigureTable:
    totals, columns = result.tournament.totals, ["Cells", "Here"]
    rows: list[tuple[str, ...]]
    rows = [(words, str(totals[key])) for key, words in TOTAL_NAMES.items()]
    if result.published is not None:
        columns.append("Qian et al. 2021, as published, 154 cells")
        there = (str(result.published.get(key, "")) for key in TOTAL_NAMES)
        rows = [(*row, own) for row, own in zip(rows, there, strict=True)]
    caption = "Cells, one technique in one metric each; costs overlap"
    return FigureTable(caption, tuple(columns), tuple(rows))


# Slug: the table, and what it needs beside the cells.
TABLES: dict[str, tuple[Callable[[TournamentResult], FigureTable], str]] = {
    "bias": (_bias, ""), "spread": (_spread, ""), "accuracy": (_accuracy, "accuracy"),
    "runs": (_every_run, ""), "totals": (_totals, ""), "survival": (_survival, "survival"),
    "equal": (_equal, "equal accuracy"), "minority": (_minority, "minority"),
    "seeds": (_one_seed, "one seed"), "shared": (_shared, "shared runs"),
}  # fmt: skip


def tournament_tables(result: TournamentResult) -> dict[str, FigureTable]:
    """Make the tables of a tournament by slug, without those that have no rows."""
    known = {"", *result.beside, *(["accuracy"] if result.tournament.accuracy else [])}
    return {slug: make(result) for slug, (make, need) in TABLES.items() if need in known}
