"""Slices nobody named: how many examples each holds, how much its error rises, and the null."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scotoma.audit import Audit
from scotoma.audit.slices import Candidates, SliceSearch
from scotoma.report import numbers
from scotoma.report.figures.figure import Figure, FigureTable, cell_text, isolated
from scotoma.report.figures.grammar import (
    FAMILY,
    GROUND,
    HALO,
    PICKED,
    QUIET,
    data,
    fields,
    numeric,
    picker,
    single,
)

__all__ = ["draw_slices"]

MOST = 150  # candidates drawn of a variant: those reported, then by p
TABLE_ROWS = 20  # of a variant
TICKS = [0.1, 0.3, 1, 3, 10, 30, 100]  # per cent
CUT = 46  # columns of text at which a slice is cut in the drawing
NAMED = 4  # reported slices whose names stand in the drawing


@dataclass(frozen=True)
class Candidate:
    """One slice as a point: columns of `Candidates`, the effect known."""

    text: str
    size: int
    support: float
    effect: float
    p: float
    reported: bool


def draw_slices(audit: Audit) -> Figure | None:
    """Support against effect of the candidates, with what a search of shuffled outcomes finds."""
    order = [variant.name for variant in audit.compressed if variant.name in audit.slices]
    searched = {name: audit.slices[name] for name in order}
    drawn = {name: _candidates(search.lattice) for name, search in searched.items()}
    drawn = {name: rows for name, rows in drawn.items() if rows}
    if not drawn:
        return None
    chosen = max(drawn, key=lambda name: searched[name].slice_count)
    everyone = {
        name: numbers.points(searched[name].change).value or "not estimable" for name in drawn
    }
    rows = [
        (name, 100 * row.support, 100 * row.effect, row.reported, row.text)
        for name, candidates in drawn.items()
        for row in candidates
    ]
    overall = [(name, _percent(searched[name].change.value)) for name in drawn]
    rise = "rise of the error" if audit.labelled else "rise of the share of labels that change"
    confirmed = bool(searched[chosen].settings.get("confirm", True))
    return Figure(
        slug="slices",
        title=f"Slices by their size and by the {rise}",
        summary=(
            f"In {isolated(chosen)} the search {searched[chosen].summary}. Diamonds: reported"
            f"{' and confirmed on the other half' * confirmed}. Rings: tested, not reported."
            + (f" Dashed: all examples, {everyone[chosen]} points." if audit.labelled else "")
        ),
        spec=_spec(rows, overall, list(drawn), chosen, rise),
        table=FigureTable(
            f"Slices with the smallest p, at most {TABLE_ROWS} a variant; the effect of one "
            "not reported has no interval: it is that of all examples",
            (
                "Variant",
                "Slice",
                "Reported",
                "Examples",
                f"{rise.capitalize()}, points",
                "p",
            ),
            tuple(
                _row(name, row, searched[name])
                for name, candidates in drawn.items()
                for row in candidates[:TABLE_ROWS]
            ),
            labels=3,
        ),
    )


def _candidates(lattice: Candidates) -> list[Candidate]:
    """Return the candidates as rows: those reported, then by p."""
    columns = (
        lattice.text, lattice.size, lattice.support, lattice.effect, lattice.p, lattice.reported
    )  # fmt: skip
    rows = [
        Candidate(text, size, support, effect, 1.0 if p is None else p, reported)
        for text, size, support, effect, p, reported in zip(*columns, strict=True)
        if effect is not None
    ]
    return sorted(rows, key=lambda row: (not row.reported, row.p, row.text))[:MOST]


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _row(name: str, row: Candidate, search: SliceSearch) -> tuple[str, ...]:
    confirmed = {one.text: one.effect for one in search.slices}.get(row.text)
    effect = f"{100 * row.effect:+.2f}".replace("-", "−")
    return (
        name,
        row.text,
        "yes" if row.reported else "no",
        numbers.count(row.size),
        effect if confirmed is None else cell_text(numbers.points(confirmed)),
        numbers.p_value(row.p),
    )


def _spec(
    rows: list[tuple[Any, ...]],
    overall: list[tuple[Any, ...]],
    names: list[str],
    chosen: str,
    rise: str,
) -> dict[str, Any]:
    variant, support, effect, reported, text = fields(5)
    of_variant = {"filter": f"datum.{variant} === variant"}
    x = numeric(
        support,
        "share of the examples, per cent",
        scale={"type": "log"},
        axis={"format": "~g", "values": TICKS},
    )
    y = numeric(effect, f"{rise}, points")
    left_of = f"datum.{support} > 20"  # per cent: there a name has no room to the right
    named: dict[str, Any] = {
        "transform": [
            of_variant,
            {"filter": f"datum.{reported}"},
            {"window": [{"op": "row_number", "as": "rank"}]},
            {"filter": f"datum.rank <= {NAMED}"},
        ],
        "mark": {
            "type": "text",
            "align": {"expr": f"{left_of} ? 'right' : 'left'"},
            "dx": {"expr": f"{left_of} ? -9 : 9"},
        },
        "encoding": {"x": x, "y": y, "text": {"field": text}},
    }
    return single(
        title=PICKED,
        usermeta={"cut": CUT},
        params=[picker(names, chosen)],
        data=data(rows),
        height=280,
        layer=[
            {
                "transform": [of_variant, {"filter": f"!datum.{reported}"}],
                "mark": {"type": "point", "size": 35, "opacity": 0.8, "stroke": QUIET,
                         "tooltip": {"expr": f"datum.{text}"}},
                "encoding": {"x": x, "y": y},
            },
            {
                "data": {"values": [{}]},
                "mark": {"type": "rule", "color": QUIET},
                "encoding": {"y": {"datum": 0}},
            },
            {
                "data": data(overall),
                "transform": [of_variant],
                "mark": {"type": "rule", "strokeDash": [5, 3]},
                "encoding": {"y": {"field": support, "type": "quantitative"}},
            },
            {
                "transform": [of_variant, {"filter": f"datum.{reported}"}],
                "mark": {"type": "point", "shape": "diamond", "size": 130, "opacity": 1,
                         "filled": True, "color": FAMILY[1], "stroke": GROUND, "strokeWidth": 1,
                         "tooltip": {"expr": f"datum.{text}"}},
                "encoding": {"x": x, "y": y},
            },
            *(named | {"mark": named["mark"] | halo} for halo in (HALO, {})),
        ],
    )  # fmt: skip
