"""What a gate says of one bad model among good ones, by the rule about the next training runs.

    python benchmarks/levels.py                     # 200 populations a row
    python benchmarks/levels.py --populations 40

A population is models on the same examples, half of them women: men are accepted by half,
women by DI times that. DI varies between runs by a standard deviation of .02 around .90; in a
planted population one model has .60. The populations are measured by the functions that the step
`bias` calls, and judged by

    {metric: clarify.DI, min: 0.8}                  # of every member, next_runs: 16

Printed: verdicts, and how often all of 16 further runs keep to the bound that a PASS rests on,
which is to be 97.5% or more, also where runs are not normal.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from scotoma.audit import Audit, base
from scotoma.audit.document import AuditedVariant, GroupSize, TestData
from scotoma.bias.clarify import all_metrics
from scotoma.bias.clarify.estimates import member_metrics
from scotoma.config.gate import GateRules, parse_rules
from scotoma.document.jsonable import jsonable
from scotoma.verdict.deciding import decide
from scotoma.verdict.evidence import AuditRows
from scotoma.verdict.gate_test import GateTest
from scotoma.verdict.rules import gate_tests

NEXT = 16
SHARED = 0.8  # of the variance of a model's opinion of an example, common to all models
Draw = Callable[[np.random.Generator, int], npt.NDArray[np.float64]]
RUNS: dict[str, Draw] = {
    "normal": lambda rng, k: rng.normal(0.90, 0.02, k),
    "skewed": lambda rng, k: 0.92 - 0.02 * rng.exponential(1.0, k),
    "heavy tails": lambda rng, k: 0.90 + 0.02 * rng.standard_t(4, k) / 2**0.5,
    "two kinds": lambda rng, k: (
        np.where(rng.random(k) < 0.25, 0.87, 0.91) + rng.normal(0, 0.005, k)
    ),
}


@dataclass(frozen=True)
class Row:
    """Populations alike."""

    runs: str = "normal"
    members: int = 16
    examples: int = 10_000
    planted: bool = False


ROWS = (
    Row(planted=True),
    Row(),
    Row(examples=30_000, planted=True),
    Row(examples=30_000),
    Row(members=5),
    Row(members=8),
    Row(members=32),
    Row(examples=2_000),
    Row(examples=2_000, planted=True),
    Row(runs="skewed"),
    Row(runs="heavy tails"),
    Row(runs="two kinds"),
)


def main() -> None:
    """Draw, measure, judge, count."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--populations", type=int, default=200, help="of a row")
    populations = parser.parse_args().populations
    rules = parse_rules("rules: [{id: di, metric: clarify.DI, min: 0.8}]", "levels.py")
    head = ("runs", "models", "examples", "planted", "PASS", "UNSURE", "FAIL", "hold", "s")
    print(*head, sep="\t", flush=True)
    for row in ROWS:
        began, verdicts, held = time.process_time(), Counter[str](), []
        for seed in range(populations):
            rng = np.random.default_rng([ROWS.index(row), seed])
            values = RUNS[row.runs](rng, row.members)
            if row.planted:
                values[0] = 0.60
            asked = judged(values, row.examples, rng, rules)
            (test,) = decide([asked], rules)
            verdicts[test.verdict] += 1
            if asked.clears and not row.planted:
                further = RUNS[row.runs](rng, NEXT)
                held.append(further.min() >= asked.clears[0].at(rules.alpha / 2).low)
        took = (time.process_time() - began) / populations
        print(
            row.runs, row.members, row.examples, "yes" if row.planted else "",
            *(verdicts[verdict] for verdict in ("PASS", "UNSURE", "FAIL")),
            f"{np.mean(held):.3f}" if held else "", f"{took:.3f}", sep="\t", flush=True,
        )  # fmt: skip


def judged(
    disparities: npt.NDArray[np.float64], n: int, rng: np.random.Generator, rules: GateRules
) -> GateTest:
    """The question about a population whose models have these true disparate impacts."""
    women = np.arange(n) % 2 == 0
    shares = np.where(women[:, None], 0.5 * disparities, 0.5)
    opinion = np.sqrt(SHARED) * rng.normal(size=(n, 1))
    opinion = opinion + np.sqrt(1 - SHARED) * rng.normal(size=shares.shape)
    return question_of((opinion < norm.ppf(shares)).astype(np.uint8), women, rules)


def question_of(
    predicted: npt.NDArray[np.uint8], women: npt.NDArray[np.bool_], rules: GateRules
) -> GateTest:
    """Measure a population as the step `bias` does, and ask about it."""
    facets = {"attribute": "sex", "disadvantaged": "sex=female", "advantaged": "sex=male"}
    hits = predicted.astype(bool)
    mean = all_metrics(d=women, p=hits, only=["DI"])["DI"]
    values, se = member_metrics(d=women, p=hits, only=["DI"])["DI"]
    address = {"variant": "int8", "metric": "DI", "facts": facets}
    numbers = dict.fromkeys(("dense", "compressed", "change"), mean)  # dense is int8 here
    models = {"models": values, "models_se": se}
    rows = tuple(
        base.Row.model_validate(jsonable(row | (models if row["what"] == "compressed" else {})))
        for row in base.rows_at(address, numbers)
    )
    sizes = [
        GroupSize(key=key, name=name, n=n, train=0)
        for key, name, n in (
            ("all", "all", len(women)),
            ("sex=female", "female", int(women.sum())),
            ("sex=male", "male", int((~women).sum())),
        )
    ]
    examples = TestData.model_construct(clusters=len(women), unlabelled="")
    audit = Audit.model_construct(
        groups=tuple(sizes), rows={"clarify": rows}, examples=examples,
        variants=tuple(AuditedVariant.model_construct(name=name) for name in ("dense", "int8")),
    )  # fmt: skip
    (question,) = gate_tests(AuditRows(audit, "int8"), rules)
    return question


if __name__ == "__main__":
    main()
