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
STUDY = "Qian et al. 2021, as published, 154 cells"
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


def _ratio(what: str) -> Column:
    return _as(numbers.unitless, what)


def _p(test: str = "") -> Column:
    return lambda one: numbers.p_value(one.p(test))


def _plain(what: str, form: str = "{:.2f}", factor: float = 100) -> Column:
    return lambda one: form.format(factor * one.value(what))


def _runs(what: str) -> Column:
    return lambda one: str(one[what].n)


def shown_variant(one: RunFinding) -> str:
    """A compressed variant, marked where its baseline has collapsed."""
    return f"{one.variant}{' †' * collapsed(one)}"


def _effect(one: RunFinding) -> str:
    d = one["Cohen's d"]
    if d.reason:
        return d.reason
    return f"{d.value:+.1f} [{d.low:+.1f}, {d.high:+.1f}]".replace("-", numbers.MINUS)


def _verdict(one: RunFinding) -> str:
    return f"{one.verdict}{': ' if one.costs else ''}{', '.join(one.costs)}"


def _loss(one: RunFinding) -> str:
    lost = one.value("baseline loss")
    return "not known" if math.isnan(lost) else f"{100 * lost:.2f}{' †' * collapsed(one)}"


def _equal(result: TournamentResult) -> Sequence[RunFinding]:
    """Those of the headline metric."""
    found = result.beside.get("equal accuracy", ())
    headline = headline_metric([one.metric for one in found] or [""])
    return [one for one in found if one.metric == headline]


def _gain(one: RunFinding) -> str:
    return _points("gain")(one) if comparable(one) else "none so accurate"


def _beside(what: str) -> Callable[[TournamentResult], Sequence[RunFinding]]:
    return lambda result: result.beside.get(what, ())


NAMES: dict[str, Column] = {
    "Technique": lambda one: one.technique, "Metric": lambda one: one.metric,
}  # fmt: skip
COMPRESSED: dict[str, Column] = {"Technique": NAMES["Technique"], "Variant": shown_variant}
MOVED: dict[str, Column] = {
    "Difference, points": _points("difference"), "Cohen’s d": _effect, "U test, p": _p("U"),
}  # fmt: skip
SPREADS: dict[str, Column] = {
    "Raw ratio": _ratio("raw spread"), "Raw, p": _p("raw Levene"),
    "Relative ratio": _ratio("relative spread"), "Relative, p": _p("relative Levene"),
}  # fmt: skip
# Slug: caption, how many columns are names, of which findings, and the columns.
TABLES: dict[
    str,
    tuple[str, int, Callable[[TournamentResult], Sequence[RunFinding]], Mapping[str, Column]],
] = {
    "bias": (
        "Each technique against its baseline; {level:g}% intervals over training runs on this test "
        "set, not adjusted",
        3, lambda result: result.tournament.cells,
        NAMES | {"Verdict": _verdict, "Runs of both": _runs("difference")} | MOVED
        | {"Single-run risk": _as(numbers.rate, "single-run risk")},
    ),
    "spread": (
        "Ratio of standard deviations, technique over baseline, with intervals over training runs",
        2, lambda result: result.tournament.cells, NAMES | SPREADS,
    ),
    "accuracy": (
        "Accuracy against the baseline, with intervals over training runs on this test set",
        1, lambda result: result.tournament.accuracy,
        {"Technique": NAMES["Technique"]} | MOVED | SPREADS,
    ),
    "runs": (
        "Mean and spread over runs, in points; intervals are about training runs and take them as "
        "normal",
        2, lambda result: result.tournament.spreads,
        NAMES | {
            "Runs": _runs("mean"), "Mean": _as(numbers.rate, "mean"),
            "Standard deviation": _as(numbers.rate, "sigma"), "MaxDiff": _plain("MaxDiff"),
        },
    ),
    "survival": (
        "Harm H and interaction I in points, survival S a share of the dense gain; intervals over "
        "seeds, paired",
        3, _beside("survival"),
        COMPRESSED | {
            "Metric": NAMES["Metric"], "Seeds": _runs("p"), "H": _points("harm"),
            "I": _points("interaction"), "I, p": _p(), "Null floor of I": _plain("null floor"),
            "S": _ratio("survival"), "Accuracy that the baseline loses": _loss,
        },
    ),
    "equal": (
        "Points, paired by seed; a gain above 0: the technique is fairer",
        3, _equal,
        COMPRESSED | {
            "Beside": lambda one: one.base, "Metric": NAMES["Metric"],
            "Accuracy gap": _points("accuracy gap"), "Gain": _gain,
        },
    ),
    "minority": (
        "CIEs in minority cells; intervals over test examples",
        2, _beside("minority"),
        COMPRESSED | {
            "CIEs": _plain("CIEs", "{:.0f}", 1),
            "In minority cells": _plain("in minority cells", "{:.0f}", 1),
            "Per cent": _plain("share of CIEs", "{:.1f}"),
            "Per cent of test set": _plain("share of test set", "{:.1f}"),
            "More than in the test set": _as(numbers.percent, "change"),
        },
    ),
    "seeds": (
        "Standard deviations in points; Levene’s p adjusted over this table",
        2, _beside("one seed"),
        NAMES | {
            "Runs": _runs("SD of seeds"), "Seeds": _plain("SD of seeds", "{:.3f}"),
            "One seed": _plain("SD of one seed", "{:.3f}"),
            "Ratio of variances": _ratio("variance ratio"), "p": _p("raw Levene"),
        },
    ),
    "shared": (
        "Paired differences in points with intervals over runs; p of a sign-flip test, adjusted "
        "over this table",
        3, _beside("shared runs"),
        {"Technique": NAMES["Technique"], "Against": lambda one: one.base,
         "Metric": NAMES["Metric"], "Runs": _runs("p"), "Difference": _points("difference"),
         "p": _p()},
    ),
}  # fmt: skip


def tournament_tables(result: TournamentResult) -> dict[str, FigureTable]:
    """Make the tables of a tournament by slug, without those that have no rows."""
    tables = {}
    for slug, (caption, labels, find, columns) in TABLES.items():
        if found := find(result):
            rows = tuple(tuple(column(one) for column in columns.values()) for one in found)
            told = caption.format(level=100 * result.tournament.level)
            tables[slug] = FigureTable(told, tuple(columns), rows, labels)
    return tables | {"totals": _totals(result)}


def _totals(result: TournamentResult) -> FigureTable:
    totals, there = result.tournament.totals, result.published
    columns = ("Cells", "Here", *([] if there is None else [STUDY]))
    rows = tuple(
        (words, str(totals[key]), *([] if there is None else [str(there.get(key, ""))]))
        for key, words in TOTAL_NAMES.items()
    )
    return FigureTable("Cells, one technique in one metric each; costs overlap", columns, rows)
