"""How often is the gate right about what would settle an UNSURE variant?

    python benchmarks/verdict_forecasts.py               # 300 audits of each number of members
    python benchmarks/verdict_forecasts.py --audits 40 --worlds team5

Each audit is a part of a larger one: the first members, on a random tenth of the examples. Where
its verdict is UNSURE and the gate forecasts "8 to 15 models would settle it", leaning to PASS, the
audit is enlarged to 15 models (or to as many times the examples as the forecast says), the present
ones among them, and judged again. The forecast is right if the test that it names then ends as it
leaned. One line of JSON an audit goes to `--out`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from verdict import Cell, judged, wilson
from verdict_draws import Drawn, draw
from verdict_worlds import COMPRESSIONS, HARMS, WORLDS, World

from scotoma.audit import GateFile
from scotoma.verdict.words import hangs_on

MOST_MEMBERS = 60  # that are drawn
MOST_TIMES = 10  # examples that are drawn, in times those of an audit
DESIGNS = [
    (world, variant, harm)
    for world in ("team", "team5", "cifar10")
    for variant, harm in (
        ("int8-1%", "none"), ("int8-1%", "class-5"), ("int8-1%", "group-5"),
        ("retrained", "none"), ("retrained", "class-5"),
    )
]  # fmt: skip


def main() -> None:
    """Draw, judge, enlarge what is UNSURE, judge again, count."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    worlds = list(dict.fromkeys(world for world, _, _ in DESIGNS))
    parser.add_argument("--worlds", nargs="*", default=worlds, choices=WORLDS)
    parser.add_argument("--members", type=int, nargs="*", default=[1, 5, 10])
    parser.add_argument("--audits", type=int, default=300, help="of each number of members")
    parser.add_argument("--first", type=int, default=0, help="seed of the first audit of a design")
    parser.add_argument("--out", type=Path, help="file that gets a line of JSON an audit")
    asked = parser.parse_args()
    cells = [
        Cell(WORLDS[world], COMPRESSIONS[variant], members, HARMS[harm])
        for members in asked.members
        for world, variant, harm in DESIGNS
        if world in asked.worlds and (variant != "retrained" or members > 1)
    ]
    lines = []
    for cell in cells:
        alike = sum(other.members == cell.members for other in cells)
        seeds = range(asked.first, asked.first + math.ceil(asked.audits / alike))
        own = list(forecasts(cell, seeds))
        lines += own
        print(cell.names, dict(Counter(line["outcome"] for line in own)), flush=True)
        if asked.out:
            with asked.out.open("a", encoding="utf-8") as out:
                out.writelines(json.dumps(line) + "\n" for line in own)
    report(lines)


def forecasts(cell: Cell, seeds: Iterable[int]) -> Iterator[dict[str, Any]]:
    """What the gate forecasts of each audit, and what became of it."""
    large = _times(cell.world, MOST_TIMES)
    for seed in seeds:
        members = 1 if cell.members == 1 else MOST_MEMBERS
        drawn = draw(large, cell.compression, cell.harm, members, seed)
        rows = np.random.default_rng(seed).permutation(large.rows)
        gate = _part(cell, drawn, rows[: cell.world.rows], cell.members, seed)
        line = cell.names | {"seed": seed, "verdict": gate.verdict}
        if gate.verdict != "UNSURE":
            yield line | {"by": "", "outcome": "settled"}
            continue
        finding = hangs_on(gate.variants[0].tests)
        outlook = None if finding is None else finding.outlook
        if finding is None or outlook is None or outlook.by is None:
            yield line | {"by": "", "outcome": "none made"}
            continue
        line |= {"by": outlook.by, "leaning": outlook.leaning, "high": outlook.high}
        times = outlook.high / outlook.now if outlook.by == "examples" else 1.0
        models = int(outlook.high) if outlook.by == "models" else cell.members
        if times > MOST_TIMES or models > members:
            yield line | {"outcome": "beyond"}
            continue
        more = rows[: math.ceil(times * cell.world.rows)]
        later = _part(cell, drawn, more, models, seed).variants[0]
        asked = finding.rule, finding.where
        named = next((f.verdict for f in later.tests if (f.rule, f.where) == asked), "")
        outcome = "right" if named == outlook.leaning else "wrong"
        yield line | {"later": named, "variant": later.verdict, "outcome": outcome}


def _times(world: World, factor: int) -> World:
    """The same world with a larger test set."""
    return replace(
        world,
        class_rows=tuple(factor * rows for rows in world.class_rows),
        attributes=tuple(
            replace(own, rows=tuple(factor * rows for rows in own.rows)) for own in world.attributes
        ),
    )


def _part(cell: Cell, drawn: Drawn, rows: Any, members: int, seed: int) -> GateFile:
    """The verdict on some of the examples with the first members."""
    part = replace(
        drawn, labels=drawn.labels[rows], attributes=drawn.attributes[:, rows],
        dense=drawn.dense[rows, :members], compressed=drawn.compressed[rows, :members],
    )  # fmt: skip
    own = cell.world
    world: Any = SimpleNamespace(
        rows=len(rows), classes=own.classes, binary=own.binary, attributes=own.attributes
    )
    return judged(world, cell.compression, part, seed)


def report(lines: list[dict[str, Any]]) -> None:
    """Print how many forecasts came true, a row a number of members and kind."""
    table = Table("K", "forecast", "audits", "UNSURE", "made", "checked", "right")
    for members in sorted({line["members"] for line in lines}):
        own = [line for line in lines if line["members"] == members]
        unsure = [line for line in own if line["verdict"] == "UNSURE"]
        for by in ("models", "examples"):
            made = [line for line in own if line["by"] == by]
            checked = [line for line in made if line["outcome"] in ("right", "wrong")]
            right = sum(line["outcome"] == "right" for line in checked)
            share = wilson(right, len(checked)) if checked else ""
            counts = (len(own), len(unsure), len(made), len(checked))
            table.add_row(str(members), by, *map(str, counts), share)
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
