"""How often a gate fails what is harmless, and finds what is not: whole audits, truth planted.

    python benchmarks/false_alarms.py                 # 200 audits of 10 and of 30 members
    python benchmarks/false_alarms.py --audits 20     # a glance

Each audit is drawn (`scotoma.power.planted_audit`), measured by the steps of the pipeline and
judged by three gates: the default one; the same with the rule about slices; and one without any
margin, under which a harmless variant lies at every limit, so that only the level of the tests
protects it. Nine groups: all, both sexes, both ages, the four intersections. In an audit of harm
the rate of one intersection is raised by what `scotoma.power` promises to find in 80% of audits.
"""

from __future__ import annotations

import argparse
import datetime
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from planted import HARMED, planted_run

from scotoma.audit import Audit, GateFile, read_audit
from scotoma.config.gate import GateRules, default_rules, parse_rules
from scotoma.power.forecast import forecast
from scotoma.power.model import Design
from scotoma.steps import slices as slicing
from scotoma.steps.verdict import verdict
from scotoma.verdict.gate import judge

CELLS = {  # sex & age: examples, error
    ("male", "old"): (600, 0.10),
    ("male", "young"): (170, 0.08),
    ("female", "old"): (1300, 0.06),
    ("female", "young"): (2400, 0.05),
}
SLICES = "rules: [{id: slices, metric: slices_hurt, margin: 0.01}]"
BARE = """\
rules:
  - {id: fpr, metric: fpr, over: groups, max_increase: {relative: 0}}
  - {id: fnr, metric: fnr, over: groups, max_increase: {relative: 0}}
  - {id: cie, metric: cie_share_excess, max: 0}
  - {id: classes, metric: classes_hurt, margin: 0}
  - {id: slices, metric: slices_hurt, margin: 0}
"""
TODAY = datetime.date(2027, 3, 1)
TESTS = 24  # of the default gate: FPR and FNR of nine groups, CIEs, two classes, some slices


def main() -> None:
    """Draw, measure, judge, count."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--audits", type=int, default=200, help="without harm; a fifth with")
    parser.add_argument("--members", type=int, nargs="*", default=[10, 30])
    parser.add_argument("--first", type=int, default=0, help="seed of the first audit")
    asked = parser.parse_args()
    for members in asked.members:
        began = time.process_time()
        seeds = range(asked.first, asked.first + asked.audits)
        report(f"no harm, {members} members", list(audits(seeds, members, 0.0)))
        design = Design(
            group_n=CELLS[HARMED][0] // 2, rate=CELLS[HARMED][1], members=members,
            level=1 - 0.05 / TESTS, limit=0.2, min_events=10,
        )  # fmt: skip
        least = forecast(design).value
        planted = list(audits(seeds[: max(1, asked.audits // 5)], members, least))
        report(f"{100 * least:+.0f}% planted, {members} members", planted)
        print(f"took {time.process_time() - began:.0f} s of CPU", flush=True)


def audits(seeds: range, members: int, relative: float) -> Iterator[dict[str, GateFile]]:
    """Verdicts of the gates on each of some audits, by the name of the gate."""
    default = default_rules(positive=True)
    slices = parse_rules(SLICES, "slices").rules
    gates: dict[str, GateRules] = {
        "default": default,
        "with slices": default.model_copy(update={"rules": [*default.rules, *slices]}),
        "without margins": parse_rules(BARE, "bare"),
    }
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            found = measured(Path(folder), members, relative, seed)
        yield {name: judge(found, rules, TODAY) for name, rules in gates.items()}


def measured(folder: Path, members: int, relative: float, seed: int) -> Audit:
    """One drawn audit."""
    run = planted_run(folder, CELLS, members, relative, seed)
    slicing.slices(run)
    content, *_ = verdict(run)
    return read_audit(content)


def report(kind: str, found: list[dict[str, GateFile]]) -> None:
    """Verdicts by gate; findings whose interval says something else than their verdict."""
    print(f"\n{kind}, {len(found)} audits")
    for name in found[0]:
        gates = [one[name] for one in found]
        verdicts = Counter(gate.verdict for gate in gates)
        rules = Counter(
            rule
            for gate in gates
            for rule in {f.rule for f in gate.variants[0].tests if f.verdict == "FAIL"}
        )
        hit = sum(
            any(f.verdict == "FAIL" and f.group == "sex=male,age=old"
                for f in gate.variants[0].tests)
            for gate in gates
        )  # fmt: skip
        apart = sum(disagreements(gate) for gate in gates)
        print(
            f"  {name:<16} FAIL {verdicts['FAIL']}, UNSURE {verdicts['UNSURE']}, PASS "
            f"{verdicts['PASS']}; found in the group {hit}; failed rules {dict(rules)}; "
            f"pictures that disagree {apart}",
            flush=True,
        )


def disagreements(gate: GateFile) -> int:
    """Tests whose drawn interval lies elsewhere than the verdict says."""
    wrong = 0
    for finding in gate.variants[0].tests:
        if finding.decided_by is None:
            continue
        low, high = finding.decided_by.interval.low, finding.decided_by.interval.high
        bound = finding.decided_by.margin
        place = "FAIL" if low >= bound else "PASS" if high <= bound else "UNSURE"
        wrong += place != finding.verdict
    return wrong


if __name__ == "__main__":
    main()
