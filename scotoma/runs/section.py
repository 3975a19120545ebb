"""What does a tournament show? Techniques against their baselines, and what compression leaves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scotoma.document import (
    Cell,
    Chart,
    Column,
    Document,
    Facts,
    Interval,
    Section,
    Shown,
    Table,
    show,
)
from scotoma.document.cells import MINUS
from scotoma.runs.effects import THIS_TEST_SET
from scotoma.runs.finding import ALPHA, MOVES, Moves, RunFinding
from scotoma.runs.survival import collapsed, comparable
from scotoma.runs.techniques import Tournament

TOTALS = {
    "cells": "cells", "lower": "bias lower", "higher": "bias higher", "undecided": "undecided",
    "huge": "lower, a huge effect", "with_cost": "lower, at a cost",
    "bias_spread_up": "lower, bias spread up", "accuracy_down": "lower, accuracy down",
    "accuracy_spread_up": "lower, its spread up", "all_three": "lower, all three costs",
}  # fmt: skip
STUDY = "Qian et al. 2021, as published, 154 cells"
LETTERS = {
    "huge": "H", "very large": "V", "large": "L", "medium": "M", "small": "S", "very small": "T",
    "negligible": "T", "undefined": "?",
}  # fmt: skip
STRENGTH = {
    "huge": 1.0, "very large": 0.55, "large": 0.42, "medium": 0.3, "small": 0.2,
}  # fmt: skip
NOTHING: dict[str, Cell] = {"tone": "neither", "strength": 0.4, "letters": "·"}
MOST_RUNS = 40  # rows of every run that a page holds
KNOWN = (THIS_TEST_SET, "takes the runs as normal")
TECHNIQUE, METRIC = Column("technique", "Technique"), Column("metric", "Metric")
VARIANT, RUNS = Column("variant", "Variant"), Column("runs", "Runs", "count")
DIFFERENCE = Column("difference", "Difference, points", "points")
EFFECT, P = Column("effect", "Cohen’s d", "effect"), Column("p", "p", "p")
Rows = list[dict[str, Cell]]


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


def tournament_document(result: TournamentResult) -> Document:
    """Make the document of a tournament."""
    sections = [
        _totals(result), _bias(result), _spread(result.tournament), _accuracy(result.tournament),
        _survival(result), _seeds(result.beside.get("one seed", ())),
        _shared(result.beside.get("shared runs", ())), _metrics(result.tournament),
        _every_run(result.tournament),
    ]  # fmt: skip
    return Document(
        result.title, "Techniques against their baselines.",
        [section for section in sections if section is not None], kind="Scotoma tournament",
    )  # fmt: skip


def headline_metric(metrics: Iterable[str]) -> str:
    """Choose the metric of short tables: bias amplification, the study's aim on CIFAR-10S.

    >>> headline_metric(["DP", "BA"]), headline_metric(["DP", "EOTP"])
    ('BA', 'DP')
    """
    known = list(metrics)
    return "BA" if "BA" in known else known[0]


def _totals(result: TournamentResult) -> Section:
    totals, there = result.tournament.totals, result.published
    columns = [Column("what", "Cells"), Column("here", "Here", "count")]
    if there is not None:
        columns.append(Column("there", STUDY, "count"))
    rows: Rows = [
        {"what": words, "here": totals[key], "there": None if there is None else there.get(key)}
        for key, words in TOTALS.items()
    ]
    warnings = [*result.remarks]
    if unknown := totals["without_accuracy"]:
        warnings.append(f"{unknown} cells have no accuracy, which costs them nothing here.")
    for (name, metric), why in result.tournament.undefined.items():
        warnings.append(f"{metric} of {name}: {why}.")
    failed = [Facts([(f"Not compared: {name}", why) for name, why in result.failed.items()])]
    return Section(
        "totals", "Which techniques are fairer?",
        [
            f"Bias is lower in {totals['lower']} of {totals['cells']} cells, {totals['with_cost']} "
            f"of them at a cost, higher in {totals['higher']}; {totals['undecided']} are "
            "undecided.",
            *(_correlated(result.tournament, base) for base in result.tournament.bases),
        ],
        [Table("totals", "Cells, one technique in one metric each; costs overlap", columns, rows),
         *(failed if result.failed else [])],
        link="Totals", warnings=warnings,
    )  # fmt: skip


def _bias(result: TournamentResult) -> Section:
    tournament = result.tournament
    cells = tournament.cells
    rows: Rows = [
        cell.cells(difference="difference", effect="Cohen's d", risk="single-run risk") | {
            "runs": cell["difference"].n, "p": cell.p("U"),
            "verdict": f"{cell.verdict}{': ' if cell.costs else ''}{', '.join(cell.costs)}",
            "choice": f"against {cell.base}", "x": _aimed(cell, result.aims), **_size_mark(cell),
        }
        for cell in cells
    ]  # fmt: skip
    table = Table(
        "bias",
        "Bias of each technique against its baseline",
        [TECHNIQUE, METRIC, RUNS, DIFFERENCE, EFFECT, P,
         Column("risk", "Single-run risk", "rate"), Column("verdict", "Verdict")],
        rows,
        f"{100 * tournament.level:g}% intervals over training runs, not adjusted. Single-run risk: "
        "the share of pairs of runs, one of each, that point the wrong way.",
        stub=2, known=KNOWN,
    )  # fmt: skip
    chart = Chart(
        "bias", "Bias against the baseline",
        f"Blue, {MINUS}: bias is lower; orange, +: higher; grey, a dot: not significant. Letters "
        "give the size of Cohen’s d: H huge, V very large, L large, M medium, S small, T tiny.",
        table, "heatmap", by="choice",
    )  # fmt: skip
    return Section("bias", "Bias", [_tested(tournament), _widest(cells)], [chart])


def _tested(tournament: Tournament) -> str:
    about = "All numbers are about other training runs on this test set, not another test set. "
    if tournament.protocol == "published":
        return (
            f"{about}Tests are those of the study: one-sided in the direction that the data show, "
            "at 5%, corrected for nothing."
        )
    return (
        f"{about}Tests are two-sided and adjusted over all techniques and metrics of a task "
        "(Benjamini and Hochberg)."
    )


def _widest(cells: Sequence[RunFinding]) -> str:
    """Say which decided cell a single run a side would contradict most often."""
    decided = [cell for cell in cells if cell.moves("mean") != "NS"]
    if not decided:
        return "No cell is decided."
    worst = max(decided, key=lambda cell: cell.value("single-run risk"))
    risk = worst["single-run risk"]
    return (
        f"Of the cells whose means differ, single-run risk is highest for {worst.metric} of "
        f"{worst.technique}: {_shown(risk).number}, n = {show(risk.n, 'count')} pairs."
    )


def _shown(rate: Cell) -> Shown:
    return show(rate, "rate")


def _spread(tournament: Tournament) -> Section:
    kinds: dict[str, Moves] = {"raw": "raw spread", "relative": "relative spread"}
    rows: Rows = [
        cell.cells(ratio=what) | {
            "kind": kind, "p": cell.p(MOVES[what][0]), "x": cell.metric,
            "choice": f"{what}, against {base}",
            **_move_mark(cell, what, "" if cell.moves("mean") == "-" else "X"),
        }
        for base in tournament.bases for kind, what in kinds.items()
        for cell in tournament.of_base(base)
    ]  # fmt: skip
    wider = sum(cell.spread_moves == "+" for cell in tournament.cells)
    table = Table(
        "spread",
        "Spread of bias from run to run: ratio of standard deviations, technique over baseline",
        [TECHNIQUE, METRIC, Column("kind", "Spread"), Column("ratio", "Ratio", "ratio"), P],
        rows, "Intervals over training runs.", stub=3, known=KNOWN,
    )  # fmt: skip
    chart = Chart(
        "spread", "Spread of bias from run to run against the baseline",
        f"Levene’s test. Blue, {MINUS}: bias varies less; orange, +: more; X: bias itself did not "
        "improve. Relative spread is divided by the mean.",
        table, "heatmap", by="choice",
    )  # fmt: skip
    taken = "relative" if tournament.protocol == "published" else "raw"
    return Section(
        "spread", "Spread",
        [f"Bias varies more from run to run in {wider} of {len(tournament.cells)} cells. A "
         "technique near zero bias has a small spread and a large relative one: read both. "
         f"Verdicts take the {taken} spread."],
        [chart],
    )  # fmt: skip


def _accuracy(tournament: Tournament) -> Section | None:
    cells = tournament.accuracy
    if not cells:
        return None
    better = {one.technique for one in tournament.cells if one.moves("mean") == "-"}
    kinds: dict[str, Moves] = {
        "accuracy": "mean", "its raw spread": "raw spread", "its relative spread": "relative spread"
    }  # fmt: skip
    rows: Rows = [
        (cell.cells(difference="difference", effect="Cohen's d") if what == "mean"
         else cell.cells(ratio=what)) | {
            "x": name, "p": cell.p(MOVES[what][0]), "choice": f"against {cell.base}",
            **_move_mark(cell, what, "" if cell.technique in better else "X", up=what == "mean"),
        }
        for cell in cells for name, what in kinds.items()
    ]  # fmt: skip
    table = Table(
        "accuracy", "Accuracy against the baseline",
        [TECHNIQUE, Column("x", "What"), DIFFERENCE, EFFECT, Column("ratio", "Ratio", "ratio"), P],
        rows, "Spread is a ratio of standard deviations. Intervals are over training runs on this "
        "test set.", stub=2, known=KNOWN,
    )  # fmt: skip
    lower = sum(cell.moves("mean") == "-" for cell in cells)
    chart = Chart(
        "accuracy", "Accuracy and its spread against the baseline",
        f"Blue: better; orange: worse; + higher, {MINUS} lower; X: no bias metric improved.",
        table, "heatmap", by="choice",
    )  # fmt: skip
    said = f"{lower} of {len(cells)} techniques lose accuracy."
    return Section("accuracy", "Accuracy", [said], [chart])


def _survival(result: TournamentResult) -> Section | None:
    cells = result.beside.get("survival", ())
    if not cells:
        return None
    rows: Rows = [
        one.cells(
            harm="harm", interaction="interaction", floor="null floor", survival="survival"
        ) | {
            "variant": _variant(one), "runs": one["p"].n, "p": one.p(""),
            "lost": _loss(one), "x": _variant(one), **_eaten_mark(one),
        }
        for one in cells
    ]  # fmt: skip
    table = Table(
        "survival", "What compression leaves of the mitigation",
        [TECHNIQUE, VARIANT, METRIC, Column("runs", "Seeds", "count"),
         Column("harm", "H, points", "points"), Column("interaction", "I, points", "points"),
         Column("p", "I, p", "p"), Column("survival", "S", "ratio"),
         Column("floor", "Null floor of I", "rate"),
         Column("lost", "Accuracy that the baseline loses", "rate")],
        rows,
        "I above 0: compression raises bias more than the baseline’s, and eats the mitigation "
        "where there was one. S: gain under the variant over the dense gain. †: the baseline loses "
        "more than 2 points of accuracy there, and bias means little. Intervals over seeds, "
        "paired.", stub=3, known=KNOWN,
    )  # fmt: skip
    eaten = [one for one in cells if one.p("") <= ALPHA and one.value("interaction") > 0]
    read = [one for one in eaten if not collapsed(one)]
    chart = Chart(
        "survival", "What compression does to the mitigation",
        "Interaction I in standard deviations of the dense baseline. Orange: compression raises "
        "bias more than the baseline’s; blue: less; grey: not significant.",
        table, "heatmap", by="metric",
    )  # fmt: skip
    return Section(
        "survival", "Survival under compression",
        [
            f"Compression eats the mitigation in {len(eaten)} of {len(cells)} cells, "
            f"{len(read)} of them under variants that keep the baseline’s accuracy.",
            "The test flips the signs of I over seeds; p is adjusted over all cells. The null "
            "floor is what halves of the dense members differ by.",
        ],
        [chart, *_equal(result.beside.get("equal accuracy", ())),
         *_minority(result.beside.get("minority", ()))],
    )  # fmt: skip


def _variant(one: RunFinding) -> str:
    """A compressed variant, marked where its baseline has collapsed."""
    return f"{one.variant}{' †' * collapsed(one)}"


def _loss(one: RunFinding) -> Cell:
    lost = one.value("baseline loss")
    return Interval(None, reason="not known") if math.isnan(lost) else lost


def _equal(found: Sequence[RunFinding]) -> list[Table]:
    if not found:
        return []
    headline = headline_metric(one.metric for one in found)
    rows: Rows = [
        one.cells(gap="accuracy gap") | {
            "variant": _variant(one),
            "gain": one["gain"] if comparable(one) else Interval(None, reason="none so accurate"),
        }
        for one in found if one.metric == headline
    ]  # fmt: skip
    return [
        Table(
            "equal", "Beside the baseline’s variant of nearest accuracy",
            [TECHNIQUE, VARIANT, Column("against", "Beside"), METRIC,
             Column("gap", "Accuracy gap, points", "points"),
             Column("gain", "Gain, points", "points")],
            rows,
            "Models that err more often may look fairer for that alone. Gain: bias of the "
            "baseline’s variant minus the technique’s; shown where accuracies differ by at most 1 "
            "point. Other metrics stand in --json.", stub=4, known=KNOWN,
        )
    ]  # fmt: skip


def _minority(found: Sequence[RunFinding]) -> list[Table]:
    rows: Rows = [
        one.cells(
            cies="CIEs", inside="in minority cells", share="share of CIEs",
            there="share of test set", change="change",
        ) | {"variant": _variant(one)}
        for one in found
    ]  # fmt: skip
    return [
        Table(
            "minority", "Do changed examples fall on the cells that training showed rarely?",
            [TECHNIQUE, VARIANT, Column("cies", "CIEs", "count"),
             Column("inside", "In minority cells", "count"),
             Column("share", "Share of CIEs", "rate"),
             Column("there", "Share of test set", "rate"),
             Column("change", "More than in the test set", "percent")],
            rows,
            "Minority cells are classes in a group that training has more rarely than another. "
            "Above 0%: CIEs fall on them more often than their share of the test set. Intervals "
            "over test examples.", stub=2,
        )
    ] if rows else []  # fmt: skip


def _seeds(found: Sequence[RunFinding]) -> Section | None:
    rows: Rows = [
        one.cells(seeds="SD of seeds", one="SD of one seed", ratio="variance ratio")
        | {"runs": one["SD of seeds"].n, "p": one.p("raw Levene")}
        for one in found
    ]  # fmt: skip
    table = Table(
        "seeds", "Runs of one seed beside runs of different seeds",
        [TECHNIQUE, METRIC, RUNS, Column("seeds", "SD of seeds", "rate"),
         Column("one", "SD of one seed", "rate"), Column("ratio", "Ratio of variances", "ratio"),
         P],
        rows, "Levene’s p is adjusted over this table. Where nothing differs the ratio is 0.",
        stub=2, known=KNOWN,
    )  # fmt: skip
    why = "Runs of one seed differ by the order of sums in parallel hardware alone."
    return Section("seeds", "One seed, many seeds", [why], [table]) if rows else None


def _shared(found: Sequence[RunFinding]) -> Section | None:
    rows: Rows = [
        one.cells(difference="difference") | {"runs": one["p"].n, "p": one.p("")}
        for one in found
    ]  # fmt: skip
    table = Table(
        "shared", "Paired differences",
        [TECHNIQUE, Column("against", "Against"), METRIC, RUNS, DIFFERENCE, P], rows,
        "Intervals over runs; p of a sign-flip test, adjusted over this table.",
        stub=3, known=KNOWN,
    )  # fmt: skip
    why = "These techniques decide differently on the same trained models."
    return Section("shared", "Techniques that share their runs", [why], [table]) if rows else None


def _metrics(tournament: Tournament) -> Section:
    tables: list[Table] = []
    for base, one in tournament.correlations.items():
        columns = [
            Column("metric", "Metric"), Column("over", "Over"),
            *(Column(f"m{at}", metric, "number") for at, metric in enumerate(one.metrics)),
        ]  # fmt: skip
        kinds = {"all runs": one.across, "each technique’s own mean": one.within}
        rows: Rows = [
            {"metric": metric, "over": kind,
             **{f"m{at}": float(value) for at, value in enumerate(matrix[row])}}
            for row, metric in enumerate(one.metrics) for kind, matrix in kinds.items()
        ]  # fmt: skip
        caption = f"Correlations of metrics, {base}"
        tables.append(Table(f"metrics-{len(tables) + 1}", caption, columns, rows, stub=2))
    return Section(
        "metrics", "How many findings are the metrics?", parts=tables, folded=True,
        about="correlations of metrics over runs", link="Metrics",
    )  # fmt: skip


def _correlated(tournament: Tournament, base: str) -> str:
    """Say how many findings the metrics of a task amount to."""
    one = tournament.correlations[base]
    count = len(one.metrics)
    over = f"{one.runs} runs of {one.techniques} techniques"
    if count < 2 or not one.effective_across >= 1:
        return f"{base}: The correlation of metrics cannot be estimated over {over}."
    lowest = show(one.lowest_across, "number").value
    across, within = (
        show(number, "ratio").value for number in (one.effective_across, one.effective_within)
    )
    return (
        f"{base}: Over {over} the lowest correlation of two metrics is {lowest}. The {count} "
        f"metrics count as {across} independent ones across techniques, {within} within: {count} "
        f"wins are not {count} findings."
    )


def _every_run(tournament: Tournament) -> Section:
    runs = dict.fromkeys(
        (cell.metric, name) for cell in tournament.cells for name in (cell.base, cell.technique)
    )
    table = Table(
        "values", "Every run",
        [TECHNIQUE, METRIC, Column("run", "Run", "count"), Column("value", "Bias", "rate")],
        [
            {"technique": name, "metric": metric, "run": at, "value": float(value)}
            for metric, name in runs
            for at, value in enumerate(tournament.sets[name, metric], 1)
        ],
        "All stand in --json, unrounded.", stub=2, most=MOST_RUNS,
    )  # fmt: skip
    chart = Chart(
        "runs", "Every run", "Each tick is a training run, the diamond their mean; 0 is fair.",
        table, "runs", by="metric",
    )  # fmt: skip
    spreads = Table(
        "means", "Mean and spread over runs",
        [TECHNIQUE, METRIC, RUNS, Column("mean", "Mean", "rate"),
         Column("sigma", "Standard deviation", "rate"), Column("reach", "MaxDiff", "rate")],
        [
            one.cells(mean="mean", sigma="sigma", reach="MaxDiff") | {"runs": one["mean"].n}
            for one in tournament.spreads
        ],
        "Intervals are about training runs and take them as normal.", stub=2, known=KNOWN,
    )  # fmt: skip
    widest = max(tournament.spreads, key=lambda one: one.value("MaxDiff"))
    return Section(
        "runs", "Every run",
        [f"{widest.metric} of {widest.technique} is the widest: "
         f"{_shown(widest.value('MaxDiff')).value} between its {widest['MaxDiff'].n} runs."],
        [chart, spreads], folded=True, about="values, means and spreads",
    )  # fmt: skip


def _aimed(cell: RunFinding, aims: Mapping[str, str]) -> str:
    """A metric with the mark of what the task of its baseline aims at: `S` of `S-Base`."""
    task = cell.base.rpartition("-")[0]
    return f"{cell.metric} {aims.get(f'{task}|{cell.metric}', '')}".strip()


def _size_mark(cell: RunFinding) -> dict[str, Cell]:
    moved = cell.moves("mean")
    if moved == "NS":
        return {**NOTHING}
    return {
        "tone": "better" if moved == "-" else "worse",
        "strength": STRENGTH.get(cell.effect, 0.1),
        "letters": f"{MINUS if moved == '-' else '+'}{LETTERS[cell.effect]}",
    }


def _move_mark(
    cell: RunFinding, what: Moves, beside: str = "", *, up: bool = False
) -> dict[str, Cell]:
    """The mark of what moved; `up`: higher is better."""
    moved = cell.moves(what)
    if moved == "NS":
        return NOTHING | ({"letters": beside} if beside else {})
    tone = "better" if (moved == "+") == up else "worse"
    return {"tone": tone, "strength": 0.55, "letters": f"{'+' if moved == '+' else MINUS}{beside}"}


def _eaten_mark(one: RunFinding) -> dict[str, Cell]:
    size = one.value("interaction in SD")
    if not one.p("") <= ALPHA or math.isnan(size):
        return {**NOTHING}
    steps = ((2.0, 1.0), (0.8, 0.42), (0.5, 0.3))
    strength = next((s for least, s in steps if abs(size) >= least), 0.2)
    tone = "worse" if size > 0 else "better"
    return {"tone": tone, "strength": strength, "letters": show(size, "effect").value}
