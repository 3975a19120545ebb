"""How often the gate is right about the number of members that would settle an UNSURE variant.

    python benchmarks/verdict_forecasts.py               # 300 audits of 5 and of 10 members
    python benchmarks/verdict_forecasts.py --audits 40 --worlds team5

Each audit that is UNSURE is extended: the same test set, the same members and new ones. A forecast
"8 to 15 members" is right if the variant is settled with 15 and was not yet with 7; "no number of
members" is right if it is not settled with 60. Ranges beyond 60 members are counted, not checked.
One line of JSON an audit goes to `--out`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from verdict import Cell, judged, wilson
from verdict_worlds import COMPRESSIONS, HARMS, WORLDS, Drawn, draw

from scotoma.verdict import Gate

MOST = 60  # members that are drawn
DESIGNS = [
    (world, variant, harm)
    for world in ("team5", "cifar10", "celeba")
    for variant, harm in (
        ("int8-1%", "none"), ("int8-1%", "class-5"), ("int8-1%", "group-5"),
        ("retrained", "none"), ("retrained", "class-5"),
    )
]  # fmt: skip


def main() -> None:
    """Draw, judge, extend what is UNSURE, judge again, count."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    worlds = list(dict.fromkeys(world for world, _, _ in DESIGNS))
    parser.add_argument("--worlds", nargs="*", default=worlds, choices=WORLDS)
    parser.add_argument("--members", type=int, nargs="*", default=[5, 10])
    parser.add_argument("--audits", type=int, default=300, help="over all designs")
    parser.add_argument("--first", type=int, default=0, help="seed of the first audit of a design")
    parser.add_argument("--out", type=Path, help="file that gets a line of JSON an audit")
    asked = parser.parse_args()
    cells = [
        Cell(WORLDS[world], COMPRESSIONS[variant], members, HARMS[harm])
        for world, variant, harm in DESIGNS
        if world in asked.worlds
        for members in asked.members
    ]
    each = math.ceil(asked.audits / len(cells))
    lines = []
    for cell in cells:
        own = list(forecasts(cell, range(asked.first, asked.first + each)))
        lines += own
        print(cell.names, Counter(line["outcome"] for line in own), flush=True)
        if asked.out:
            with asked.out.open("a", encoding="utf-8") as out:
                out.writelines(json.dumps(line) + "\n" for line in own)
    report(lines)


def forecasts(cell: Cell, seeds: Iterable[int]) -> Iterator[dict[str, Any]]:
    """What the gate forecasts of each audit, and what became of it."""
    for seed in seeds:
        drawn = draw(cell.world, cell.compression, cell.harm, MOST, seed)
        gate = _at(cell, drawn, cell.members, seed)
        line = cell.names | {"seed": seed, "verdict": gate.verdict}
        if gate.verdict != "UNSURE":
            yield line | {"kind": "settled", "outcome": "settled"}
            continue
        low, high = forecast_range(gate)
        line |= {"low": _finite(low), "high": _finite(high)}
        if math.isnan(high):
            yield line | {"kind": "no forecast", "outcome": "no forecast"}
        elif math.isinf(high):
            later = _at(cell, drawn, MOST, seed).verdict
            right = later == "UNSURE"
            yield line | {"kind": "never", "later": later, "outcome": "right" if right else "wrong"}
        elif high > MOST:
            yield line | {"kind": "range", "outcome": "beyond"}
        else:
            later = _at(cell, drawn, int(high), seed).verdict
            before = int(low) - 1
            early = "UNSURE"
            if before > cell.members:
                early = _at(cell, drawn, before, seed).verdict
            outcome = "late" if later == "UNSURE" else "right" if early == "UNSURE" else "early"
            yield line | {"kind": "range", "early": early, "later": later, "outcome": outcome}


def forecast_range(gate: Gate) -> tuple[float, float]:
    """Members that would settle the only variant: fewest and most; nan where none are named."""
    outlook = gate.variants[0].outlook
    if outlook is None or outlook.needed is None:
        return math.nan, math.nan
    return outlook.needed.low, outlook.needed.high


def _at(cell: Cell, drawn: Drawn, members: int, seed: int) -> Gate:
    """The verdict with the first members."""
    fewer = replace(drawn, dense=drawn.dense[:, :members], compressed=drawn.compressed[:, :members])
    return judged(cell.world, cell.compression, fewer, seed)


def _finite(number: float) -> float | str | None:
    return None if math.isnan(number) else "inf" if math.isinf(number) else number


def report(lines: list[dict[str, Any]]) -> None:
    """Print how many forecasts came true, a row a kind."""
    table = Table("forecast", "audits", "right", "not settled by then", "settled before", "beyond")
    for kind in ("settled", "no forecast", "never", "range"):
        outcomes = Counter(line["outcome"] for line in lines if line["kind"] == kind)
        checked = sum(outcomes.values()) - outcomes["beyond"]
        shares = [""] * 3
        if checked and kind in ("never", "range"):
            names = ("right", "late", "early") if kind == "range" else ("right", "", "wrong")
            shares = [wilson(outcomes[name], checked) if name else "" for name in names]
        table.add_row(kind, str(sum(outcomes.values())), *shares, str(outcomes["beyond"] or ""))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
