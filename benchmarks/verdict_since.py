"""How often does a later audit with more models read as worse, where nothing changed?

    python benchmarks/verdict_since.py                     # 100 pairs of audits, 5 then 20 models
    python benchmarks/verdict_since.py --pairs 20 --members 5 30

Both audits of a pair are drawn from one world (`verdict_worlds.py`) with models and examples of
their own; the second is judged by `since_previous` beside the first. Version 0.1.0 called the
excess worse in 41 of 60 such pairs, for its excess grew with the number of models.
"""

from __future__ import annotations

import argparse
from collections import Counter

from rich.console import Console
from verdict import TODAY, measured, wilson
from verdict_draws import draw
from verdict_worlds import COMPRESSIONS, HARMS, WORLDS

from scotoma.audit.previous import Comparable, PreviousAudit
from scotoma.config.gate import GateRules, parse_rules
from scotoma.verdict.gate import judge

RULE = "rules: [{id: since_previous, metric: since_previous, margin: 0}]"  # any rise is worse


def main() -> None:
    """Draw pairs, judge, count."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--worlds", nargs="*", default=["team5"], choices=WORLDS)
    parser.add_argument("--members", type=int, nargs=2, default=[5, 20])
    parser.add_argument("--pairs", type=int, default=100)
    asked = parser.parse_args()
    for name in asked.worlds:
        seen: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        for seed in range(asked.pairs):
            verdict, names = later(name, tuple(asked.members), seed)
            seen[verdict] += 1
            failed.update(names)
        Console().print(
            f"{name}, retrained, {asked.members[0]} then {asked.members[1]} models: worse "
            f"{wilson(seen['FAIL'], asked.pairs)} of {asked.pairs}; {dict(seen)}; {dict(failed)}"
        )


def later(world_name: str, members: tuple[int, ...], seed: int) -> tuple[str, list[str]]:
    """The verdict on the second audit of a pair, and the tests that fail."""
    world, retrained = WORLDS[world_name], COMPRESSIONS["retrained"]
    rules: GateRules = parse_rules(RULE, "since")
    audits = [
        measured(world, retrained, draw(world, retrained, HARMS["none"], k, 2 * seed + place), seed)
        for place, k in enumerate(members)
    ]
    before = PreviousAudit(audit=Comparable.of(audits[0]), of="the first")
    variant = judge(audits[1], rules, TODAY, before).variants[0]
    return variant.verdict, [f.where for f in variant.tests if f.verdict == "FAIL"]


if __name__ == "__main__":
    main()
