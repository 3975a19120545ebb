"""How far apart are the votes, and which groups lie beyond a threshold that the reader moves?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from typing import Any

from scotoma.audit import Audit
from scotoma.audit.divergence import DistanceGroup, Distances, Percentile
from scotoma.report import numbers
from scotoma.report.figures.figure import Figure, FigureTable, isolated
from scotoma.report.figures.grammar import (
    FAMILY,
    PICKED,
    SOFT,
    category,
    data,
    fields,
    numeric,
    panels,
    picker,
    point,
    upright,
)

__all__ = ["draw_taxicab"]

MOST_BARS = 60  # distances of a variant; more are put into this many bins
MOST_GROUPS = 10
PANEL, WIDTH, HEIGHT = 312, 200, 180  # pixels


def draw_taxicab(audit: Audit) -> Figure | None:
    """The histogram of taxicab distances, and the groups beyond a threshold."""
    binned = {
        name: _binned(divergence.taxicab)
        for name, divergence in audit.divergence.items()
        if max(divergence.taxicab.distance, default=0.0) > 0
    }
    order = [v.name for v in audit.variants if v.name in binned]
    if not order:
        return None
    chosen = max(order, key=lambda name: audit.divergence[name].cie.cie.count)
    largest = max(max(binned[name].distance) for name in order)
    step = _step([d for name in order for d in binned[name].distance], largest)
    start = _start(audit.divergence[chosen].thresholds, binned[chosen].distance)
    slider = {
        "name": "threshold",
        "value": start,
        "bind": {
            "input": "range",
            "min": 0,
            "max": largest,
            "step": step,
            "name": "Distance at least",
        },
    }
    members = {v.name: v.members for v in audit.variants}
    dense = audit.variants[0].members
    at_zero = sum(binned[chosen].examples) - _beyond(
        binned[chosen].distance, binned[chosen].examples
    )
    drawings = [_histogram(binned, order, members, dense, step)]
    if any(binned[name].groups for name in order):
        drawings.append(_groups(binned, order, audit))
    return Figure(
        slug="taxicab",
        title="How far apart the votes of dense and compressed models are",
        summary=(
            f"In {isolated(chosen)} {numbers.count(at_zero)} of "
            f"{numbers.count(binned[chosen].n)} "
            "examples lie at distance 0, where both populations vote alike, and have no bar. "
            "Numbers beyond the threshold describe these examples and have no interval."
        ),
        spec=panels(
            drawings, PANEL, columns=2, title=PICKED, params=[picker(order, chosen), slider]
        ),
        table=FigureTable(
            "Examples at or beyond each distance; no intervals: they describe these examples",
            ("Variant", "Distance", "Examples there", "There or beyond",
             *(("Dense right", "Compressed right") if audit.labelled else ())),
            tuple(
                row for name in order for row in _rows(name, binned[name], dense, members[name])
            ),
        ),
    )  # fmt: skip


def _beyond(distance: Sequence[float], examples: Sequence[int]) -> int:
    """Examples at a distance above 0.

    >>> _beyond([0.0, 2.0], [7, 3])
    3
    """
    return sum(n for at, n in zip(distance, examples, strict=True) if at > 0)


def _binned(rows: Distances) -> Distances:
    """The same counts at fewer distances where there are very many, each bin at its low end."""
    distance = rows.distance
    if len(distance) <= MOST_BARS:
        return rows
    width = max(distance) / (MOST_BARS - 1)
    # Distance 0 keeps a bin of its own.
    bins = [0 if d == 0 else 1 + int(d / width) for d in distance]
    used = sorted(set(bins))

    def added(counts: Sequence[int]) -> tuple[int, ...]:
        return tuple(sum(c for c, b in zip(counts, bins, strict=True) if b == one) for one in used)

    right = [
        None if counts is None else added(counts)
        for counts in (rows.dense_right, rows.compressed_right)
    ]

    return Distances(
        distance=tuple(0.0 if one == 0 else round((one - 1) * width, 3) for one in used),
        examples=added(rows.examples),
        dense_right=right[0],
        compressed_right=right[1],
        groups=tuple(
            DistanceGroup(group=one.group, examples=added(one.examples)) for one in rows.groups
        ),
        n=rows.n,
    )


def _step(distances: Sequence[float], largest: float) -> float:
    """How far one key press moves the threshold.

    >>> _step([0.0, 2.0, 4.0], 4.0), round(_step([0.0, 0.01, 4.0], 4.0), 3)
    (2.0, 0.068)
    """
    known = sorted(set(distances))
    least = min((b - a for a, b in pairwise(known)), default=largest)
    return least if largest / least <= MOST_BARS else largest / (MOST_BARS - 1)


def _start(thresholds: Sequence[Percentile], distances: Sequence[float]) -> float:
    """The distance that reaches the 90th percentile; without one the smallest above 0."""
    known = [row.value for row in thresholds if row.value is not None]
    return known[0] if known else min(d for d in distances if d > 0)


def _rows(name: str, rows: Distances, dense: int, members: int) -> Iterator[tuple[str, ...]]:
    for i, distance in enumerate(rows.distance):
        beyond = sum(rows.examples[i:])
        yield (
            name,
            numbers.count(distance),
            numbers.count(rows.examples[i]),
            numbers.count(beyond),
            *(
                numbers.share(sum(right[i:]) / (beyond * models))
                for right, models in ((rows.dense_right, dense), (rows.compressed_right, members))
                if right is not None
            ),
        )


def _histogram(
    binned: Mapping[str, Distances],
    order: Sequence[str],
    members: Mapping[str, int],
    dense: int,
    step: float,
) -> dict[str, Any]:
    variant, distance, examples, dense_right, compressed_right, of_dense, of_compressed = fields(7)
    rows = [
        (name, at, n, before, after, n * dense, n * members[name])
        for name in order
        for at, n, before, after in zip(
            binned[name].distance,
            binned[name].examples,
            binned[name].dense_right or repeat(0),
            binned[name].compressed_right or repeat(0),
            strict=False,
        )
    ]
    largest = max(row[1] for row in rows)
    inside = f"datum.{distance} >= threshold - 1e-9"
    summed = ("examples", "before", "after", "of_before", "of_after")
    columns = (examples, dense_right, compressed_right, of_dense, of_compressed)
    percent = "format({} / {}, '.1%')".format
    caption = (
        "datum.examples == 0 ? ['no example has so large a distance'] : "
        "[format(datum.examples, ',') + ' of ' + format(datum.everyone, ',') + ' examples, ' + "
        f"{percent('datum.examples', 'datum.everyone')}"
    )
    if all(binned[name].dense_right is not None for name in order):
        caption += (
            f", 'dense right ' + {percent('datum.before', 'datum.of_before')}"
            f", 'compressed right ' + {percent('datum.after', 'datum.of_after')}"
        )
    caption += "]"
    domain = [0, largest + step / 2]
    return {
        "title": "Examples at each distance",
        "data": data(rows),
        "transform": [{"filter": f"datum.{variant} === variant"}],
        "width": WIDTH,
        "height": HEIGHT,
        "layer": [
            {
                "transform": [{"filter": f"datum.{distance} > 0"}],
                "mark": {
                    "type": "bar",
                    "width": min(24.0, max(1.0, 0.75 * WIDTH * step / domain[1])),
                },
                "encoding": {
                    "x": numeric(
                        distance, "taxicab distance, votes", scale={"domain": domain, "nice": False}
                    ),
                    "y": numeric(examples, "examples"),
                    "color": {"condition": {"test": inside, "value": FAMILY[0]}, "value": SOFT},
                },
            },
            {
                "data": {"values": [{}]},
                "transform": [{"calculate": f"max(0, threshold - {step / 2:g})", "as": "at"}],
                "mark": {"type": "rule", "strokeDash": [5, 3]},
                "encoding": {"x": {"field": "at", "type": "quantitative"}},
            },
            {
                "transform": [
                    {
                        "calculate": f"{inside} ? datum.{column} : 0",
                        "as": name,
                    }
                    for name, column in zip(summed, columns, strict=True)
                ]
                + [
                    {
                        "aggregate": [
                            {"op": "sum", "field": examples, "as": "everyone"},
                            *({"op": "sum", "field": name, "as": name} for name in summed),
                        ]
                    },
                    {"calculate": caption, "as": "caption"},
                ],
                "mark": {"type": "text", "align": "left", "baseline": "top", "lineHeight": 16},
                "encoding": {
                    "x": {"value": 0},
                    "y": {"value": -54},
                    "text": {"field": "caption"},
                },
            },
        ],
    }


def _groups(binned: Mapping[str, Distances], order: Sequence[str], audit: Audit) -> dict[str, Any]:
    variant, group, distance, here, everyone, share = fields(6)
    kept = _most_uneven(binned, order)
    total = audit.examples.test
    rows = [
        (name, one.group, at, inside, n, sum(one.examples) / total)
        for name in order
        for one in binned[name].groups
        if one.group in kept
        for at, inside, n in zip(
            binned[name].distance, one.examples, binned[name].examples, strict=True
        )
    ]
    inside = f"datum.{distance} >= threshold - 1e-9"
    return {
        "title": "Over-index of groups there",
        "data": data(rows),
        "transform": [
            {"filter": f"datum.{variant} === variant"},
            {"calculate": f"{inside} ? datum.{here} : 0", "as": "here"},
            {"calculate": f"{inside} ? datum.{everyone} : 0", "as": "everyone"},
            {
                "aggregate": [
                    {"op": "sum", "field": "here", "as": "here"},
                    {"op": "sum", "field": "everyone", "as": "everyone"},
                ],
                "groupby": [group, share],
            },
            {
                "calculate": f"datum.everyone ? datum.here / datum.everyone / datum.{share} : null",
                "as": "ratio",
            },
            {"calculate": "datum.here + ' of ' + datum.everyone", "as": "caption"},
        ],
        "width": WIDTH - 40,
        "height": {"step": 22},
        "encoding": {"y": category(group, scale={"domain": kept})},
        "layer": [
            upright(1.0, strokeDash=[5, 3]),
            {
                "transform": [{"filter": "isValid(datum.ratio)"}],
                "mark": {"type": "rule", "strokeWidth": 1.5},
                "encoding": {
                    "x": numeric("ratio", "share there / share in the data", scale={"zero": True}),
                    "x2": {"datum": 1},
                },
            },
            point("ratio"),
        ],
    }


def _most_uneven(binned: Mapping[str, Distances], order: Sequence[str]) -> list[str]:
    """Groups, in the audit's order, that are most over- or underrepresented away from 0."""
    far: dict[str, float] = {}
    for name in order:
        rows = binned[name]
        beyond = _beyond(rows.distance, rows.examples)
        for one in rows.groups:
            size = sum(one.examples)
            if not size:
                continue
            there = _beyond(rows.distance, one.examples)
            ratio = there / beyond / (size / rows.n)
            uneven = abs(math.log(ratio)) if ratio else 1.0
            far[one.group] = max(far.get(one.group, 0.0), uneven)
    kept = set(sorted(far, key=lambda group: -far[group])[:MOST_GROUPS])
    return [group for group in far if group in kept]
