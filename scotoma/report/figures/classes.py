"""Which classes are affected: recall against the model's accuracy, and recall itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scotoma.audit import Audit
from scotoma.audit.groups import ClassRow
from scotoma.report import numbers
from scotoma.report.figures.figure import Figure, FigureTable, cell_text, isolated
from scotoma.report.figures.grammar import (
    FAMILY,
    GROUND,
    INK,
    PICKED,
    SOFT,
    category,
    cross,
    data,
    ends,
    fields,
    numeric,
    picker,
    single,
    upright,
    words,
)

__all__ = ["draw_classes"]

MOST = 30  # classes drawn of a variant: half of those that lose most, half that gain most
BLUE, ORANGE = FAMILY[:2]


def draw_classes(audit: Audit) -> Figure | None:
    """Normalised bars and absolute dots by class, as in the PIE paper's Figure 4."""
    kept = {v.name: _ends(audit.classes.get(v.name, ())) for v in audit.compressed}
    kept = {name: rows for name, rows in kept.items() if rows}
    if not kept:
        return None
    significant = {name: sum(row.significant for row in audit.classes[name]) for name in kept}
    chosen = max(kept, key=lambda name: (significant[name], _largest(kept[name])))
    of = len(audit.examples.classes)
    rows = [_drawn(name, row) for name, shown in kept.items() for row in shown]
    left_out = f" Drawn: the {MOST} that change most, of {of}." if of > MOST else ""
    return Figure(
        slug="classes",
        title="Classes that lose more recall than the model loses accuracy",
        summary=(
            "Bars: change of a class’s recall beyond that of accuracy, dark with a star "
            "where significant (Benjamini-Hochberg over classes). Rings: change of recall itself. "
            f"Significant in {isolated(chosen)}: {significant[chosen]} of {of}.{left_out}"
        ),
        spec=_spec(rows, list(kept), chosen),
        table=FigureTable(
            "Change of recall, points",
            ("Variant", "Class", "n", "Normalised, 95% interval", "Absolute", "Adjusted p",
             "Significant"),
            tuple(_row(name, row) for name, shown in kept.items() for row in shown),
            labels=2,
        ),
    )  # fmt: skip


def _ends(rows: Sequence[ClassRow]) -> list[ClassRow]:
    """Classes sorted from the largest loss; of very many the first and the last."""
    ranked = sorted(rows, key=lambda row: (row.normalised is None, row.normalised or 0.0))
    half = MOST // 2
    return ranked if len(ranked) <= MOST else [*ranked[:half], *ranked[-half:]]


def _largest(rows: Sequence[ClassRow]) -> float:
    return max((abs(row.normalised) for row in rows if row.normalised is not None), default=0)


def _drawn(name: str, row: ClassRow) -> tuple[Any, ...]:
    return (
        name,
        row.class_name,
        *ends(numbers.normalised(row)),
        ends(numbers.absolute(row))[0],
        row.significant,
        "★" if row.significant else "",
    )


def _row(name: str, row: ClassRow) -> tuple[str, ...]:
    missing = row.reason or "undefined"
    return (
        name,
        row.class_name,
        numbers.count(row.n),
        cell_text(numbers.class_change(numbers.normalised(row))),
        numbers.class_change(numbers.absolute(row)).value or missing,
        missing if row.p_adjusted is None else numbers.p_value(row.p_adjusted),
        "yes" if row.significant else "no",
    )


def _spec(rows: list[tuple[Any, ...]], names: list[str], chosen: str) -> dict[str, Any]:
    variant, label, normalised, low, high, absolute, significant, star = fields(8)
    known = {"filter": f"isValid(datum.{normalised})"}
    return single(
        title=PICKED,
        params=[picker(names, chosen)],
        data=data(rows),
        transform=[{"filter": f"datum.{variant} === variant"}],
        height={"step": 18},
        encoding={"y": category(label)},
        layer=[
            words(star, {"value": "width"}, dx=6, color=INK),
            {
                "transform": [known],
                "mark": {"type": "bar", "height": 11, "strokeWidth": 1.5, "stroke": BLUE},
                "encoding": {
                    "x": numeric(
                        normalised, "points of recall, 95% interval",
                        axis={"tickCount": 6}, scale={"padding": 8},
                    ),
                    "color": {
                        "condition": {"test": f"datum.{significant}", "value": BLUE},
                        "value": SOFT,
                    },
                },
            },
            {
                "transform": [{"filter": f"isValid(datum.{low})"}],
                "mark": {"type": "rule", "strokeWidth": 1},
                "encoding": {"x": {"field": low, "type": "quantitative"}, "x2": {"field": high}},
            },
            {
                "transform": [{"filter": f"isValid(datum.{absolute})"}],
                "mark": {
                    "type": "point", "size": 45, "opacity": 1, "strokeWidth": 2,
                    "stroke": ORANGE, "fill": GROUND,
                },
                "encoding": {"x": {"field": absolute, "type": "quantitative"}},
            },
            upright(0.0),
            cross(normalised, 0.0),
        ],
    )  # fmt: skip
