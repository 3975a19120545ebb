"""How much do models of different seeds differ, and how often do a few of them contradict all?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scotoma.audit import Audit
from scotoma.audit.document import FewModelsRow
from scotoma.report import numbers
from scotoma.report.figures.figure import Figure, FigureTable, isolated
from scotoma.report.figures.grammar import (
    FAMILY,
    category,
    data,
    fields,
    numeric,
    panels,
    strip,
)

__all__ = ["draw_variance"]

PANEL, WIDTH = 312, 200  # pixels
OWN_LEGEND = {"scale": {"color": "independent", "shape": "independent"}}
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
MOST_LINES = len(SHAPES)  # variants drawn in the right panel, those most often wrong

Drawn = Mapping[str, Sequence[FewModelsRow]]


def draw_variance(audit: Audit) -> Figure | None:
    """Accuracy of every member, and the one-model trap by number of models."""
    if not audit.labelled:
        return None
    members = {v.name: audit.accuracy[v.name].members for v in audit.variants}
    trap = {v.name: audit.one_model.variants.get(v.name, ()) for v in audit.compressed}
    trap = {name: rows for name, rows in trap.items() if rows}
    if max(map(len, members.values())) < 2:
        return None
    drawings = [_members(members)]
    if trap:
        drawings.append(_trap(_most_often(trap)))
    return Figure(
        slug="variance",
        title="Models that differ only in their seed",
        summary=_summary(members, trap),
        spec=panels(drawings, PANEL, columns=2, resolve=OWN_LEGEND),
        table=FigureTable(
            "Chance that a few models a side contradict all of them; no interval: the same "
            "models appear in many draws",
            ("Variant", "Models a side", "Comparisons drawn", "Wrong about any group",
             "Wrong about the most affected group"),
            tuple(
                (
                    name,
                    numbers.count(row.members),
                    numbers.count(row.draws),
                    numbers.share(row.wrong, "no draw"),
                    numbers.share(row.wrong_worst, "no draw"),
                )
                for name, rows in trap.items()
                for row in rows
            ),
        )
        if trap
        else FigureTable(
            "Top-1 accuracy of the members, lowest and highest",
            ("Variant", "Members", "Lowest", "Highest"),
            tuple(
                (name, str(len(tops)), numbers.share(min(tops)), numbers.share(max(tops)))
                for name, tops in members.items()
            ),
        ),
    )  # fmt: skip


def _summary(members: Mapping[str, Sequence[float]], trap: Drawn) -> str:
    spread = {name: 100 * (max(tops) - min(tops)) for name, tops in members.items()}
    widest = max(spread, key=lambda name: spread[name])
    scatter = (
        f"Members of {isolated(widest)} differ by up to {spread[widest]:.2f} points of accuracy "
        f"({len(members[widest])} members)."
    )
    if not trap:
        return f"{scatter} There are too few members to draw the one-model trap."
    worst = max(trap, key=lambda name: trap[name][0].wrong or 0.0)
    first = trap[worst][0]
    return (
        f"{scatter} For {isolated(worst)}, one dense and one compressed model contradict "
        f"all models in {numbers.share(first.wrong, 'no draw')} of "
        f"{numbers.count(first.draws)} comparisons."
    )


def _most_often(trap: Drawn) -> Drawn:
    """The variants of which few models are most often wrong, in their order."""
    ranked = sorted(trap, key=lambda name: -max(row.wrong or 0.0 for row in trap[name]))
    kept = set(ranked[:MOST_LINES])
    return {name: rows for name, rows in trap.items() if name in kept}


def _members(members: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    variant, top1 = fields(2)
    rows = [(name, round(100 * top, 4)) for name, tops in members.items() for top in tops]
    return {
        "title": "Top-1 of every member, and the mean",
        "data": data(rows),
        "width": WIDTH - 10,
        "height": {"step": 22},
        "encoding": {"y": category(variant, scale={"domain": list(members)})},
        "layer": [
            *strip(top1, "per cent", zero=False),
        ],
    }  # fmt: skip


def _trap(trap: Drawn) -> dict[str, Any]:
    variant, members, wrong = fields(3)
    rows = [
        (name, row.members, round(100 * row.wrong, 3))
        for name, comparisons in trap.items()
        for row in comparisons
        if row.wrong is not None
    ]
    names = list(trap)
    colours = {"domain": names, "range": FAMILY[: len(names)]}
    shapes = {"domain": names, "range": SHAPES[: len(names)]}
    below = {"orient": "bottom", "columns": 2}
    return {
        "title": "Chance of contradicting all models",
        "data": data(rows),
        "width": WIDTH + 40,
        "height": 130,
        "encoding": {
            "x": numeric(
                members, "models a side", axis={"values": sorted({row[1] for row in rows}),
                                           "format": "d"},
                scale={"zero": True},
            ),
            "y": numeric(wrong, "per cent of comparisons"),
            "color": category(variant, scale=colours, legend=below),
        },
        "layer": [
            {"mark": {"type": "line", "strokeWidth": 1.5}},
            {
                "mark": {"type": "point", "filled": True, "opacity": 1, "size": 55},
                "encoding": {"shape": category(variant, scale=shapes, legend=below)},
            },
        ],
    }  # fmt: skip
