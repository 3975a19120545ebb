"""What does a tournament print of compressed models, and of runs of one seed?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scotoma.commands.shared.tables import number, shown
from scotoma.numbers import Estimate
from scotoma.papers.table import Grid, PaperTable
from scotoma.report.numbers import p_value
from scotoma.report.tournament import headline_metric
from scotoma.tournament import OneSeedCell, SurvivalCell

__all__ = [
    "equal_accuracy_table",
    "minority_table",
    "noted_table",
    "one_seed_table",
    "points_text",
    "survival_table",
]  # fmt: skip


def survival_table(cells: Sequence[SurvivalCell]) -> PaperTable:
    """Show what compression leaves of every gain."""
    rows = tuple(
        (
            cell.technique, f"{cell.variant}{' †' * cell.collapsed}", cell.metric, cell.seeds,
            points_text(cell.harm, sign="+"), points_text(cell.interaction, sign="+"),
            p_value(cell.p_adjusted), number(100 * cell.floor, 2), shown(cell.survival, digits=2),
        )
        for cell in cells
    )  # fmt: skip
    columns = (
        "technique", "variant", "metric", "seeds", "harm H", "interaction I", "I p",
        "null floor of I", "survival S",
    )  # fmt: skip
    return noted_table(
        "Survival", "What is left of the mitigation after compression; H and I in points",
        Grid("Paired by seed; p of a sign-flip test, adjusted over this table", columns, rows,
             names=3, digits=None),
        "I above 0: compression eats the mitigation. S: gain under the variant over the dense "
        "gain, undefined where the interval of the dense gain does not lie above 0.",
        "†: the baseline loses more than 2 points of accuracy there, and bias means little."
        if any(cell.collapsed for cell in cells) else "",
    )  # fmt: skip


def equal_accuracy_table(rows: Sequence[Mapping[str, Any]]) -> PaperTable:
    """Show every technique beside the baseline's variant of nearest accuracy."""
    metric = headline_metric(row["metric"] for row in rows)
    cells = tuple(
        (
            row["technique"], row["variant"], row["beside"],
            points_text(row["accuracy_gap"], sign="+"),
            points_text(row["gain"], sign="+") if row["comparable"] else "none so accurate",
        )
        for row in rows
        if row["metric"] == metric
    )  # fmt: skip
    columns = ("technique", "variant", "baseline's variant", "accuracy gap", f"gain in {metric}")
    return noted_table(
        "Equal accuracy", "Beside the baseline's variant of nearest accuracy, points",
        Grid("Paired by seed", columns, cells, names=2, digits=None),
        f"Gain: {metric} of the baseline's variant minus the technique's; shown where accuracies "
        "differ by at most 1 point. Other metrics stand in --json.",
    )  # fmt: skip


def minority_table(rows: Sequence[Mapping[str, Any]]) -> PaperTable:
    """Show how many CIEs lie in the cells that training showed rarely."""
    cells = tuple(
        (
            row["technique"], row["variant"], row["flagged"], row["share"].n_flagged,
            number(100 * row["share"].share_in_flagged, 1),
            shown(row["share"].change, digits=0, sign="+"),
        )
        for row in rows
    )  # fmt: skip
    columns = (
        "technique", "variant", "CIEs", "in minority cells", "per cent", "more than in the data, %",
    )  # fmt: skip
    share = 100 * rows[0]["share"].share_in_data
    return noted_table(
        "CIEs", "Do changed examples fall on the cells that training showed rarely?",
        Grid("CIEs", columns, cells, names=2, digits=None),
        f"Minority cells, classes in a group that has them more rarely, are {share:.1f}% of the "
        "test set. Intervals are over test examples.",
    )  # fmt: skip


def one_seed_table(cells: Sequence[OneSeedCell]) -> PaperTable:
    """Show the spread of runs of one seed beside that of runs of different seeds."""
    rows = tuple(
        (
            cell.technique, cell.metric, cell.runs, number(100 * cell.of_seeds, 3),
            number(100 * cell.of_one_seed, 3), shown(cell.variance_ratio, digits=2),
            p_value(cell.tests.levene_p_adjusted),
        )
        for cell in cells
    )  # fmt: skip
    columns = (
        "technique", "metric", "runs", "SD of seeds", "SD of one seed", "ratio of variances",
        "Levene p",
    )  # fmt: skip
    return noted_table(
        "One seed", "Runs of one seed beside runs of different seeds, points",
        Grid("Ratio: variance of one seed over that of seeds; p adjusted over this table", columns,
             rows, names=2, digits=None),
        "Runs of one seed differ by the order of sums in parallel hardware alone; where nothing "
        "differs the ratio is 0.",
    )  # fmt: skip


def noted_table(name: str, title: str, grid: Grid, *notes: str) -> PaperTable:
    """Make a table of its rows and notes; empty notes are left out."""
    return PaperTable(name=name, title=title, run=grid, notes=[note for note in notes if note])


def points_text(estimate: Estimate, sign: str = "") -> str:
    """Write a fraction in points with its interval."""
    return shown(estimate, factor=100, digits=2, sign=sign)
