"""Which technique is fairer than its baseline, and does that survive compression? As heat maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scotoma.report import numbers
from scotoma.report.figures.figure import Figure, FigureTable, isolated
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
from scotoma.report.tournament_tables import TournamentResult, shown_variant, tournament_tables
from scotoma.runs import RunFinding
from scotoma.runs.finding import ALPHA, Moves
from scotoma.runs.survival import collapsed

__all__ = ["tournament_figures"]

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
SPREADS: tuple[Moves, ...] = ("raw spread", "relative spread")
MOVED: tuple[tuple[str, Moves, bool], ...] = (
    ("accuracy", "mean", True), *((one, one, False) for one in SPREADS),
)  # fmt: skip
Mark = tuple[str, float, str]  # of `FILLS`, its strength, what stands in the cell


def tournament_figures(result: TournamentResult) -> dict[str, Figure]:
    """Draw Figures 1 to 3 of the fixed-seed study, every run, and what survives compression.

    Returns:
        Figures by slug: bias, spread, accuracy, runs, survival; without what cannot be drawn.
    """
    draw = {
        "bias": _bias, "spread": _spread, "accuracy": _accuracy, "runs": _every_run,
        "survival": _survival,
    }  # fmt: skip
    tables = tournament_tables(result)
    return {slug: of(result, tables[slug]) for slug, of in draw.items() if slug in tables}


def _bias(result: TournamentResult, table: FigureTable) -> Figure:
    tournament = result.tournament
    cells = tournament.cells
    better = [cell for cell in cells if cell.moves("mean") == "-"]
    costly = sum(bool(cell.costs) for cell in better)

    def row(cell: RunFinding) -> str:
        mark = result.aims.get(f"{_task(cell.base)}|{cell.metric}", "")
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
        table=table,
    )  # fmt: skip


def _spread(result: TournamentResult, table: FigureTable) -> Figure:
    tournament = result.tournament
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
                _heat_map(f"{_of(base, tournament.bases)}{kind}", [
                    (cell.technique, cell.metric,
                     *_moved(cell.moves(kind), "" if cell.moves("mean") == "-" else "X"))
                    for cell in tournament.of_base(base)
                ])
                for base in tournament.bases
                for kind in SPREADS
            ],
            max(len({cell.technique for cell in tournament.of_base(base)})
                for base in tournament.bases),
        ),
        table=table,
    )  # fmt: skip


def _accuracy(result: TournamentResult, table: FigureTable) -> Figure:
    tournament = result.tournament
    cells = tournament.accuracy
    lower = sum(cell.moves("mean") == "-" for cell in cells)
    better = {one.technique for one in tournament.cells if one.moves("mean") == "-"}

    def rows(base: str) -> list[tuple[Any, ...]]:
        return [
            (cell.technique, name, *_moved(cell.moves(what),
                                           "" if cell.technique in better else "X", up))
            for cell in cells
            if cell.base == base
            for name, what, up in MOVED
        ]  # fmt: skip

    return Figure(
        slug="accuracy",
        title="Accuracy and its spread against the baseline",
        summary=(
            f"Blue: better; orange: worse; + higher, {MINUS} lower; X: no bias metric improved. "
            f"{lower} of {len(cells)} techniques lose accuracy."
        ),
        spec=_heat_maps([base for base in tournament.bases if rows(base)], rows),
        table=table,
    )  # fmt: skip


def _every_run(result: TournamentResult, table: FigureTable) -> Figure:
    metric, technique, value = fields(3)
    tournament = result.tournament
    shown = dict.fromkeys(
        (cell.metric, name) for cell in tournament.cells for name in (cell.base, cell.technique)
    )
    metrics = list(dict.fromkeys(name for name, _ in shown))
    drawn = [
        (name, of, round(100 * one, 5)) for name, of in shown for one in tournament.sets[of, name]
    ]
    widest = max(tournament.spreads, key=lambda one: one.value("MaxDiff"))
    return Figure(
        slug="runs",
        title="Every run",
        summary=(
            "Each tick is a training run, the diamond their mean; 0 is fair. The widest: "
            f"{widest.metric} of {isolated(widest.technique)}, {100 * widest.value('MaxDiff'):.1f} "
            f"points between its {widest['MaxDiff'].n} runs."
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
        table=table,
    )


def _survival(result: TournamentResult, table: FigureTable) -> Figure:
    metric, technique, compressed, colour, strength, ink, letters = fields(7)
    cells = result.beside["survival"]
    metrics = list(dict.fromkeys(cell.metric for cell in cells))
    rows = [
        (cell.metric, cell.technique, shown_variant(cell), *_inked(_eaten(cell))) for cell in cells
    ]
    eaten = [c for c in cells if c.p("") <= ALPHA and c.value("interaction") > 0]
    read = [cell for cell in eaten if not collapsed(cell)]
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
                    **_layers(technique, compressed, colour, strength, ink, letters),
                }
            ],
            NAMES + (STEP + 10) * len({cell.technique for cell in cells}),
            columns=1,
            params=[picker(metrics, metrics[0], "metric")],
        ),
        table=table,
    )  # fmt: skip


def _effect(cell: RunFinding) -> Mark:
    if cell.moves("mean") == "NS":
        return NEITHER, 0.4, "·"
    lower = cell.moves("mean") == "-"
    letter = LETTERS[cell.effect]
    return (
        BETTER if lower else WORSE,
        STRENGTH[cell.effect],
        f"{MINUS if lower else '+'}{letter}",
    )


def _moved(moved: str, beside: str = "", up_is_better: bool = False) -> Mark:
    if moved == "NS":
        return NEITHER, 0.4, beside or "·"
    better = (moved == "+") == up_is_better
    return BETTER if better else WORSE, 0.55, f"{'+' if moved == '+' else MINUS}{beside}"


def _eaten(cell: RunFinding) -> Mark:
    size = cell.value("interaction in SD")
    if not cell.p("") <= ALPHA or math.isnan(size):
        return NEITHER, 0.4, "·"
    strength = next(
        (STRENGTH[name] for name, least in (("huge", 2.0), ("large", 0.8), ("medium", 0.5))
         if abs(size) >= least),
        0.2,
    )  # fmt: skip
    return WORSE if size > 0 else BETTER, strength, f"{size:+.1f}".replace("-", MINUS)


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


def _task(base: str) -> str:
    """What stands before the last hyphen of a baseline's name.

    >>> _task("S-Base")
    'S'
    """
    return base.rpartition("-")[0]


def _of(base: str, bases: Sequence[str]) -> str:
    return f"{_task(base) or base}, " if len(bases) > 1 else ""
