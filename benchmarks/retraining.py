"""Twelve monthly audits of one project, in one of which a group is hurt: found, and nothing else?

    python benchmarks/retraining.py                # 40 years of 12 audits, in one process
    python benchmarks/retraining.py --years 4      # a glance

Each month has models and examples of its own (`scotoma.power.planted_audit`), is measured by the
steps of the pipeline and judged by the default gate with the rule that nothing is worse than in the
audit before. In one month of each year, which moves from year to year, the rates of one
intersection are raised by what `scotoma.power` promises to find in 80% of audits.
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
from scipy import stats

from scotoma.audit import Audit, GateFile
from scotoma.audit.previous import Comparable, PreviousAudit
from scotoma.config.gate import default_rules
from scotoma.config.gate_changes import SincePreviousRule
from scotoma.datasets import AuditedExamples
from scotoma.power.forecast import forecast
from scotoma.power.model import Design
from scotoma.steps.judging.assemble import assemble
from scotoma.verdict.gate import judge

CELLS = {  # sex & age: examples, error
    ("male", "old"): (600, 0.10),
    ("male", "young"): (300, 0.08),
    ("female", "old"): (900, 0.06),
    ("female", "young"): (1200, 0.05),
}
TESTS = (
    40  # FPR and FNR of nine groups against dense and against the previous audit, CIEs, two classes
)
MONTHS, TODAY = 12, datetime.date(2027, 3, 1)


def main() -> None:
    """Draw, measure, judge, count."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--years", type=int, default=40)
    parser.add_argument("--members", type=int, default=10)
    asked = parser.parse_args()
    began = time.process_time()
    least = promised(asked.members)
    verdicts: dict[str, Counter[str]] = {"harmed": Counter(), "calm": Counter(), "after": Counter()}
    since: Counter[str] = Counter()
    false_alarms = 0
    for year in range(asked.years):
        drift = 1 + year % (MONTHS - 1)  # the first month has none before it
        gates = list(months(asked.members, drift, least, year))
        for month, gate in enumerate(gates):
            kind = "harmed" if month == drift else "after" if month == drift + 1 else "calm"
            verdicts[kind][gate.verdict] += 1
            since[kind] += any(
                finding.verdict == "FAIL" and finding.metric == "since_previous"
                for finding in gate.variants[0].tests
            )
        false_alarms += any(
            gate.verdict == "FAIL" for month, gate in enumerate(gates) if month != drift
        )
    print(f"{asked.years} years of {MONTHS} audits, {asked.members} members, "
          f"{100 * least:+.0f}% planted in {' & '.join(HARMED)} in one month")  # fmt: skip
    for kind, counted in verdicts.items():
        total = counted.total()
        print(f"{kind}: {dict(counted)}; FAIL {share(counted['FAIL'], total)}; "
              f"since the previous audit {share(since[kind], total)}")  # fmt: skip
    print(f"years with a false FAIL: {share(false_alarms, asked.years)}")
    print(f"took {time.process_time() - began:.0f} s of CPU", flush=True)


def promised(members: int) -> float:
    """The rise of a rate, as a fraction of it, that is found in 80% of audits."""
    n, rate = CELLS[HARMED]
    design = Design(
        group_n=n // 2, rate=rate, members=members, level=1 - 0.05 / TESTS, limit=0.2, min_events=10
    )
    return forecast(design).value


def months(
    members: int, drift: int, relative: float, seed: int, count: int = MONTHS
) -> Iterator[GateFile]:
    """The verdicts of a year of audits, each beside the one before it."""
    chosen = default_rules(positive=True)
    rules = chosen.model_copy(
        update={
            "rules": [
                *chosen.rules,
                SincePreviousRule(id="since_previous", metric="since_previous", margin=0.01),
            ]
        }
    )
    previous = PreviousAudit(audit=None, reason="the first audit")
    for month in range(count):
        with tempfile.TemporaryDirectory() as folder:
            audit = measured(
                Path(folder), members, relative * (month == drift), MONTHS * seed + month
            )
        yield judge(audit, rules, TODAY, previous)
        previous = PreviousAudit(audit=Comparable.of(audit), of=f"month {month}")


def measured(folder: Path, members: int, relative: float, seed: int) -> Audit:
    """One drawn audit; slices are not searched."""
    run = planted_run(folder, CELLS, members, relative, seed)
    run.section("slices").write_text("{}", encoding="utf-8")
    return assemble(run, AuditedExamples.read(run.examples))


def share(count: int, total: int) -> str:
    """A share with its exact interval (Clopper and Pearson)."""
    if not total:
        return "none"
    interval = stats.binomtest(count, total).proportion_ci(0.95)
    return f"{count} of {total} = {count / total:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


if __name__ == "__main__":
    main()
