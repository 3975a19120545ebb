"""Which technique is fairer than its baseline, and does that survive compression? As heat maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scotoma.audit import Quantity
from scotoma.numbers import Estimate
from scotoma.report import numbers
from scotoma.report.figures.figure import Figure, FigureTable, cell_text, isolated
from scotoma.report.figures.grammar import (
    FAMILY,
    GROUND,
    INK,
    QUIET,
    SOFT,
    category,
    data,
    fields,
    panels,
    picker,
    single,
    strip,
)
from scotoma.tournament import AccuracyCell, Cell, SurvivalCell, Tournament
from scotoma.variance import THIS_TEST_SET

__all__ = ["LETTERS", "estimate_text", "tournament_figures"]

BETTER, WORSE, NEITHER = "better", "worse", "neither"
FILLS = {BETTER: FAMILY[0], WORSE: FAMILY[1], NEITHER: SOFT}  # blue, orange: safe for all eyes
INKS = {"on full colour": GROUND, "on pale colour": INK, "on grey": QUIET}
LETTERS = {
    "huge": "H", "very large": "V", "large": "L", "medium": "M", "small": "S", "very small": "T",
    "negligible": "T", "undefined": "?",
}  # fmt: skip
STRENGTH = {
    "huge": 1.0, "very large": 0.55, "large": 0.42, "medium": 0.3, "small": 0.2, "very small": 0.1,
    "negligible": 0.1, "undefined": 0.1,
}  # fmt: skip
STEP, ROW, NAMES = 38, 26, 90  # pixels: a column, a row, room for the names of rows
MINUS = numbers.MINUS
Aims = Mapping[str, str]
Mark = tuple[str, float, str]  # of `FILLS`, its strength, what stands in the cell


def tournament_figures(
    tournament: Tournament, aims: Aims, survival: Sequence[SurvivalCell] = ()
) -> dict[str, Figure]:
    """Draw Figures 1 to 3 of the fixed-seed study, every run, and what survives compression.

    Args:
        tournament: The cells.
        aims: `TASK|METRIC`, TASK as baselines begin, to the mark of a metric that is aimed at.
        survival: Cells of compressed variants; none draws no figure of them.

    Returns:
        Figures by slug: bias, spread, accuracy, runs, survival; without what cannot be drawn.
    """
    figures = [_bias(tournament, aims), _spread(tournament), _every_run(tournament)]
    if tournament.accuracy:
        figures.insert(2, _accuracy(tournament))
    if survival:
        figures.append(_survival(survival))
    return {figure.slug: figure for figure in figures}


def _bias(tournament: Tournament, aims: Aims) -> Figure:
    cells = tournament.cells
    better = [cell for cell in cells if cell.mean_moves == "-"]
    costly = sum(bool(cell.costs) for cell in better)

    def row(cell: Cell) -> str:
        mark = aims.get(f"{_task(cell.base)}|{cell.metric}", "")
        return f"{cell.metric} {mark}".strip()

    return Figure(
        slug="bias",
        title="Bias against the baseline",
        summary=(
            f"Blue, {MINUS}: bias is lower; orange, +: higher; grey, a dot: not significant. "
            "Letters give the size of Cohen’s d: H huge, V very large, L large, M medium, S small, "
            f"T tiny. {len(better)} of {len(cells)} cells are better, {costly} of them at a cost."
        ),
        spec=_heat_maps(tournament.bases, lambda base: [
            (cell.technique, row(cell), *_effect(cell)) for cell in tournament.of_base(base)
        ]),
        table=FigureTable(
            "Each technique against its baseline; 95% intervals over training runs on this test "
            "set, not adjusted" if tournament.level == 0.95 else
            "Each technique against its baseline; intervals over training runs on this test set",
            ("Technique", "Metric", "Verdict", "Runs", "Difference, points", "Cohen’s d",
             "U test, p", "Single-run risk"),
            tuple(
                (
                    cell.technique,
                    cell.metric,
                    f"{cell.verdict}{': ' if cell.costs else ''}{', '.join(cell.costs)}",
                    f"{len(cell.values)}, {len(cell.base_values)}",
                    estimate_text(cell.tests.difference, numbers.points),
                    estimate_text(cell.tests.cohens_d, numbers.unitless_change),
                    numbers.p_value(cell.tests.u_p_adjusted),
                    estimate_text(cell.risk, numbers.rate),
                )
                for cell in cells
            ),
            labels=3,
        ),
    )  # fmt: skip


def _spread(tournament: Tournament) -> Figure:
    cells = tournament.cells
    wider = sum(cell.spread_moves == "+" for cell in cells)
    return Figure(
        slug="spread",
        title="Spread of bias from run to run against the baseline",
        summary=(
            f"Levene’s test. Blue, {MINUS}: bias varies less; orange, +: more; X: bias itself did "
            f"not improve. Relative spread is divided by the mean. {wider} of {len(cells)} cells "
            "vary more."
        ),
        spec=_panels(
            [
                _heat_map(f"{_of(base, tournament.bases)}{kind} spread", [
                    (cell.technique, cell.metric,
                     *_moved(moved(cell), "" if cell.mean_moves == "-" else "X"))
                    for cell in tournament.of_base(base)
                ])
                for base in tournament.bases
                for kind, moved in (("raw", _raw), ("relative", _relative))
            ],
            max(len({cell.technique for cell in tournament.of_base(base)})
                for base in tournament.bases),
        ),
        table=FigureTable(
            "Ratio of standard deviations, technique over baseline, with intervals over training "
            "runs",
            ("Technique", "Metric", "Raw ratio", "Raw, p", "Relative ratio", "Relative, p"),
            tuple(
                (
                    cell.technique,
                    cell.metric,
                    estimate_text(cell.raw.spread_ratio, numbers.unitless),
                    numbers.p_value(cell.raw.levene_p_adjusted),
                    estimate_text(cell.relative.spread_ratio, numbers.unitless),
                    numbers.p_value(cell.relative.levene_p_adjusted),
                )
                for cell in cells
            ),
            labels=2,
        ),
    )  # fmt: skip


def _accuracy(tournament: Tournament) -> Figure:
    cells = tournament.accuracy
    lower = sum(cell.mean_moves == "-" for cell in cells)
    none_better = {
        cell.technique
        for cell in cells
        if all(one.mean_moves != "-" for one in tournament.cells if one.technique == cell.technique)
    }

    def rows(base: str) -> list[tuple[Any, ...]]:
        return [
            (cell.technique, name, *_moved(moved, "X" if cell.technique in none_better else "", up))
            for cell in cells
            if cell.base == base
            for name, moved, up in (
                ("accuracy", cell.mean_moves, True),
                ("raw spread", _raw(cell), False),
                ("relative spread", _relative(cell), False),
            )
        ]

    return Figure(
        slug="accuracy",
        title="Accuracy and its spread against the baseline",
        summary=(
            f"Blue: better; orange: worse; + higher, {MINUS} lower; X: no bias metric improved. "
            f"{lower} of {len(cells)} techniques lose accuracy."
        ),
        spec=_heat_maps([base for base in tournament.bases if rows(base)], rows),
        table=FigureTable(
            "Accuracy against the baseline, with intervals over training runs on this test set",
            ("Technique", "Difference, points", "Cohen’s d", "U test, p", "Raw ratio of spread",
             "Raw, p", "Relative, p"),
            tuple(
                (
                    cell.technique,
                    estimate_text(cell.tests.difference, numbers.points),
                    estimate_text(cell.tests.cohens_d, numbers.unitless_change),
                    numbers.p_value(cell.tests.u_p_adjusted),
                    estimate_text(cell.raw.spread_ratio, numbers.unitless),
                    numbers.p_value(cell.raw.levene_p_adjusted),
                    numbers.p_value(cell.relative.levene_p_adjusted),
                )
                for cell in cells
            ),
        ),
    )  # fmt: skip


def _every_run(tournament: Tournament) -> Figure:
    metric, technique, value = fields(3)
    runs: dict[tuple[str, str], tuple[float, ...]] = {}
    for cell in tournament.cells:
        runs[cell.metric, cell.base] = cell.base_values
        runs[cell.metric, cell.technique] = cell.values
    metrics = list(dict.fromkeys(name for name, _ in runs))
    drawn = [
        (name, of, round(100 * one, 5)) for (name, of), values in runs.items() for one in values
    ]
    widest = max(tournament.spreads, key=lambda one: one.spread.max_diff)
    return Figure(
        slug="runs",
        title="Every run",
        summary=(
            "Each tick is a training run, the diamond their mean; 0 is fair. The widest: "
            f"{widest.metric} of {isolated(widest.technique)}, {100 * widest.spread.max_diff:.1f} "
            f"points between its {widest.spread.runs} runs."
        ),
        spec=single(
            title={"expr": "metric + ' of every run, in points'"},
            params=[picker(metrics, metrics[0], "metric")],
            data=data(drawn),
            transform=[{"filter": f"datum.{metric} === metric"}],
            height={"step": 20},
            encoding={"y": category(technique)},
            layer=strip(value, "points; 0 is fair", zero=True),
        ),
        table=FigureTable(
            "Mean and spread over runs, in points; intervals are about training runs and take "
            "them as normal",
            ("Technique", "Metric", "Runs", "Mean", "Standard deviation", "MaxDiff"),
            tuple(
                (
                    one.technique,
                    one.metric,
                    str(one.spread.runs),
                    estimate_text(one.mean, numbers.rate),
                    estimate_text(one.spread.sigma, numbers.rate),
                    f"{100 * one.spread.max_diff:.2f}",
                )
                for one in tournament.spreads
            ),
            labels=2,
        ),
    )


def _survival(cells: Sequence[SurvivalCell]) -> Figure:
    metric, technique, variant, colour, strength, ink, letters = fields(7)
    metrics = list(dict.fromkeys(cell.metric for cell in cells))
    rows = [
        (cell.metric, cell.technique, f"{cell.variant}{' †' * cell.collapsed}",
         *_inked(_eaten(cell)))
        for cell in cells
    ]  # fmt: skip
    eaten = [cell for cell in cells if cell.p_adjusted <= 0.05 and cell.interaction.value > 0]
    read = [cell for cell in eaten if not cell.collapsed]
    return Figure(
        slug="survival",
        title="What compression does to the mitigation",
        summary=(
            "Interaction I in standard deviations of the dense baseline. Orange: compression "
            "raises bias more than the baseline’s; blue: less; grey: not significant. "
            f"† the baseline loses more than 2 points of accuracy. {len(eaten)} of {len(cells)} "
            f"cells are orange, {len(read)} of them without a dagger."
        ),
        spec=panels(
            [
                {
                    "title": {"expr": "metric + ': interaction, in standard deviations'"},
                    "data": data(rows),
                    "transform": [{"filter": f"datum.{metric} === metric"}],
                    "width": {"step": STEP + 10},
                    "height": {"step": ROW},
                    **_layers(technique, variant, colour, strength, ink, letters),
                }
            ],
            NAMES + (STEP + 10) * len({cell.technique for cell in cells}),
            columns=1,
            params=[picker(metrics, metrics[0], "metric")],
        ),
        table=FigureTable(
            "Harm H and interaction I in points, survival S a share of the dense gain; intervals "
            "over seeds, paired",
            ("Technique", "Variant", "Metric", "Seeds", "H", "I", "I, p", "Null floor of I", "S",
             "Accuracy that the baseline loses"),
            tuple(
                (
                    cell.technique,
                    cell.variant,
                    cell.metric,
                    str(cell.seeds),
                    estimate_text(cell.harm, numbers.points),
                    estimate_text(cell.interaction, numbers.points),
                    numbers.p_value(cell.p_adjusted),
                    f"{100 * cell.floor:.2f}",
                    estimate_text(cell.survival, numbers.unitless),
                    "not known" if math.isnan(cell.baseline_loss)
                    else f"{100 * cell.baseline_loss:.2f}{' †' * cell.collapsed}",
                )
                for cell in cells
            ),
            labels=3,
        ),
    )  # fmt: skip


def _effect(cell: Cell) -> Mark:
    if cell.mean_moves == "NS":
        return NEITHER, 0.4, "·"
    lower = cell.mean_moves == "-"
    letter = LETTERS[cell.tests.effect]
    return (
        BETTER if lower else WORSE,
        STRENGTH[cell.tests.effect],
        f"{MINUS if lower else '+'}{letter}",
    )


def _moved(moved: str, beside: str = "", up_is_better: bool = False) -> Mark:
    if moved == "NS":
        return NEITHER, 0.4, beside or "·"
    better = (moved == "+") == up_is_better
    return BETTER if better else WORSE, 0.55, f"{'+' if moved == '+' else MINUS}{beside}"


def _eaten(cell: SurvivalCell) -> Mark:
    size = cell.interaction_sd
    if not cell.p_adjusted <= 0.05 or math.isnan(size):
        return NEITHER, 0.4, "·"
    strength = next(
        (STRENGTH[name] for name, least in (("huge", 2.0), ("large", 0.8), ("medium", 0.5))
         if abs(size) >= least),
        0.2,
    )  # fmt: skip
    return WORSE if size > 0 else BETTER, strength, f"{size:+.1f}".replace("-", MINUS)


def _raw(cell: AccuracyCell) -> str:
    return cell.raw.variance_moves(cell.alpha)


def _relative(cell: AccuracyCell) -> str:
    return cell.relative.variance_moves(cell.alpha)


def _heat_maps(
    bases: Sequence[str], rows: Callable[[str], list[tuple[Any, ...]]]
) -> dict[str, Any]:
    """One heat map a task."""
    by_base = {base: rows(base) for base in bases}
    return _panels(
        [_heat_map(f"against {base}", own) for base, own in by_base.items()],
        max(len({row[0] for row in own}) for own in by_base.values()),
    )


def _panels(each: Sequence[dict[str, Any]], columns: int) -> dict[str, Any]:
    return panels(each, NAMES + STEP * columns, columns=1 if columns > 6 else 2)


def _heat_map(title: str, rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """Rows of technique, row of the map, colour, its strength and letters."""
    technique, name, colour, strength, ink, letters = fields(6)
    drawn = [(*row[:2], *_inked(row[2:])) for row in rows]
    return {
        "title": title,
        "data": data(drawn),
        "width": {"step": STEP},
        "height": {"step": ROW},
        **_layers(technique, name, colour, strength, ink, letters),
    }


def _layers(x: str, y: str, colour: str, strength: str, ink: str, letters: str) -> dict[str, Any]:
    """Coloured cells with letters, which print where colours do not."""
    angled = {"labelAngle": -40, "labelLimit": 110, "domain": False, "ticks": False}
    return {
        "encoding": {
            "x": category(x, axis={**angled, "orient": "bottom", "title": None}),
            "y": category(y),
        },
        "layer": [
            {
                "mark": {"type": "rect", "stroke": GROUND, "strokeWidth": 2},
                "encoding": {
                    "fill": _coloured(colour, FILLS),
                    "fillOpacity": {
                        "field": strength, "type": "quantitative", "scale": None, "legend": None,
                    },
                },
            },
            {
                "mark": {"type": "text", "fontWeight": 600},
                "encoding": {
                    "text": {"field": letters},
                    "color": _coloured(ink, INKS),
                },
            },
        ],
    }  # fmt: skip


def _inked(mark: Mark) -> tuple[str, float, str, str]:
    """Colour, strength, the colour of letters that can be read on it, and the letters."""
    colour, strength, letters = mark
    full, pale, grey = INKS
    return colour, strength, full if strength > 0.6 else grey if letters == "·" else pale, letters


def _coloured(field: str, colours: Mapping[str, str]) -> dict[str, Any]:
    """A channel whose words stand for colours, which the data cannot hold."""
    scale = {"domain": list(colours), "range": list(colours.values())}
    return {"field": field, "type": "nominal", "scale": scale, "legend": None}


def estimate_text(estimate: Estimate, shown: Callable[[numbers.Ranged], numbers.Shown]) -> str:
    """An estimate with its interval; what all are about stands in the caption."""
    cell = cell_text(shown(Quantity.of(estimate)))
    for beside in (f" ({THIS_TEST_SET})", f"; {THIS_TEST_SET}", f"{THIS_TEST_SET}; "):
        cell = cell.replace(beside, "")
    return cell.replace(" (takes the runs as normal)", "")


def _task(base: str) -> str:
    """What stands before the last hyphen of a baseline's name.

    >>> _task("S-Base")
    'S'
    """
    return base.rpartition("-")[0]


def _of(base: str, bases: Sequence[str]) -> str:
    return f"{_task(base) or base}, " if len(bases) > 1 else ""
