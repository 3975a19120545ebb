"""Groups among the CIEs against their share of the training set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scotoma.audit import Audit
from scotoma.audit.divergence import Representation
from scotoma.report import numbers
from scotoma.report.figures.figure import Figure, FigureTable, cell_text, isolated
from scotoma.report.figures.grammar import (
    GROUND,
    HALO,
    INK,
    MISSING,
    PICKED,
    QUIET,
    SOLID,
    category,
    data,
    fields,
    numeric,
    picker,
    single,
)

__all__ = ["draw_over_index"]

APART = (0.25, 0.3)  # of the training set, of a doubling: nearer labels cover each other
LEAST, MOST = 0.125, 8.0  # of the axis: an eighth of the share in the data, eight times it


def draw_over_index(audit: Audit) -> Figure | None:
    """Relative representation of each group among the CIEs, as in the CIE paper's Figure 2."""
    by_variant = {v.name: audit.divergence[v.name].over_index for v in audit.variants[1:]}
    by_variant = {name: rows for name, rows in by_variant.items() if rows}
    train = audit.examples.train
    if not by_variant or not train:
        return None
    shares = {group.name: group.train / train for group in audit.groups}
    shares |= {
        row.attribute: row.share_in_training
        for rows in by_variant.values()
        for row in rows
        if row.share_in_training is not None
    }
    chosen = max(by_variant, key=lambda name: audit.divergence[name].cie.cie.count)
    rows = [
        (name, label, round(100 * shares[row.attribute], 4), *_ratio(row.change))
        for name, entries in by_variant.items()
        for row, label in zip(entries, _labels(entries, shares), strict=True)
    ]
    return Figure(
        slug="over_index",
        title="Groups that are over-represented among the CIEs",
        summary=(
            "1: as frequent among the CIEs as in the test data; 2: twice as frequent. Each "
            "number counts CIEs. Filled: the 95% interval excludes 1. Cross: "
            f"{MISSING}. {_most(by_variant)}"
        ),
        spec=_spec(rows, list(by_variant), chosen),
        table=FigureTable(
            "Share among the CIEs against share in the data; 95% intervals are for these "
            "populations on another test set",
            ("Variant", "Group", "Share in training", "Share in the data", "CIEs",
             "Share among the CIEs", "Change, relative"),
            tuple(
                (
                    name,
                    row.attribute,
                    numbers.share(shares[row.attribute]),
                    numbers.share(row.share_in_data, "no examples"),
                    numbers.count(row.n_flagged),
                    numbers.share(row.share_in_flagged, "no CIE"),
                    cell_text(numbers.percent(row.change)),
                )
                for name, entries in by_variant.items()
                for row in entries
            ),
            labels=2,
        ),
    )  # fmt: skip


def _labels(entries: Sequence[Representation], shares: Mapping[str, float]) -> list[str]:
    """What stands beside each point: of labels that would cover each other the most uneven's."""
    places = []
    for row in entries:
        ratio = _ratio(row.change)[0]
        places.append((shares[row.attribute], math.log2(LEAST if ratio is None else ratio)))
    labels, taken = [""] * len(entries), list[tuple[float, float]]()
    for i in sorted(range(len(entries)), key=lambda i: -abs(places[i][1])):
        x, y = places[i]
        if all(abs(x - u) >= APART[0] or abs(y - v) >= APART[1] for u, v in taken):
            taken.append(places[i])
            labels[i] = f"{numbers.count(entries[i].n_flagged)} · {entries[i].attribute}"
    return labels


def _most(by_variant: Mapping[str, Sequence[Representation]]) -> str:
    known = [
        (row.change.low, name, row)
        for name, rows in by_variant.items()
        for row in rows
        if row.change.low is not None
    ]
    if not known:
        return "No change can be estimated."
    _, name, row = max(known, key=lambda entry: entry[0])
    shown = cell_text(numbers.percent(row.change))
    return f"Highest: {isolated(row.attribute)} in {isolated(name)}, {shown}."


def _ratio(change: numbers.Ranged) -> tuple[float | None, float | None, float | None, bool]:
    """Relative representation with its interval, held inside the axis, and whether 1 is out.

    >>> _ratio(numbers.Interval(100.0, 50.0, math.inf))
    (2.0, 1.5, 8.0, True)
    """
    if change.value is None:
        return None, None, None, False

    def held(per_cent: float | None) -> float | None:
        if per_cent is None:
            return None
        return round(min(max(1 + per_cent / 100, LEAST), MOST), 4)

    value, low, high = map(held, (change.value, change.low, change.high))
    beyond = low is not None and high is not None and (low > 1 or high < 1)
    return value, low, high, beyond


def _spec(rows: list[tuple[Any, ...]], names: list[str], chosen: str) -> dict[str, Any]:
    variant, group, share, ratio, low, high, beyond = fields(7)
    ratios = [end for row in rows for end in row[3:6] if end is not None] or [1.0]
    domain = [min(0.5, *ratios), max(2.0, *ratios)]
    scale = {"type": "log", "base": 2, "domain": domain, "nice": True}
    within = {"test": f"!datum.{beyond}", "value": GROUND}
    y = {"field": ratio, "type": "quantitative"}
    known = {"filter": f"isValid(datum.{ratio})"}
    left_of = f"datum.{share} > 55"  # per cent: there a name has no room to the right
    at = f"isValid(datum.{ratio}) ? datum.{ratio} : {domain[0]}"
    named: dict[str, Any] = {
        "transform": [{"calculate": at, "as": "at"}],
        "mark": {
            "type": "text",
            "align": {"expr": f"{left_of} ? 'right' : 'left'"},
            "dx": {"expr": f"{left_of} ? -9 : 9"},
        },
        "encoding": {"y": {"field": "at", "type": "quantitative"}, "text": {"field": group}},
    }
    return single(
        title=PICKED,
        params=[picker(names, chosen)],
        data=data(rows),
        transform=[{"filter": f"datum.{variant} === variant"}],
        height=260,
        encoding={
            "x": numeric(
                share,
                "share of the training set, per cent",
                scale={"domain": [0, 100]},
                axis={"tickCount": 5},
            )
        },
        layer=[
            {
                "data": {"values": [{}]},
                "mark": {"type": "rule", "strokeDash": [5, 3], "color": QUIET},
                "encoding": {"y": {"datum": 1}, "x": None},
            },
            {
                "transform": [{"filter": f"isValid(datum.{low})"}],
                "mark": {"type": "rule", "strokeWidth": 1.5, "color": QUIET},
                "encoding": {
                    "y": numeric(
                        low,
                        "relative representation",
                        scale=scale,
                        axis={"tickCount": 5, "format": "~g"},
                    ),
                    "y2": {"field": high},
                },
            },
            {
                "transform": [known],
                "mark": {
                    "type": "point",
                    "opacity": 1,
                    "size": 70,
                    "strokeWidth": 2,
                    "stroke": INK,
                },
                "encoding": {
                    "y": y,
                    "fill": {"condition": within, "value": INK},
                    "shape": category(
                        beyond,
                        scale={"domain": [True, False], "range": ["diamond", "circle"]},
                        legend=None,
                    ),
                },
            },
            {
                "transform": [{"filter": f"!isValid(datum.{ratio})"}],
                "mark": {"type": "point", "shape": "cross", "angle": 45, **SOLID, "color": QUIET},
                "encoding": {"y": {"datum": domain[0]}},
            },
            *(named | {"mark": named["mark"] | halo} for halo in (HALO, {})),
        ],
    )
