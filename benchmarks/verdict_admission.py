"""Does admission block good baselines, and does a baseline that never errs fail without harm?

    python benchmarks/verdict_admission.py                  # 2,000 audits a row, two minutes
    python benchmarks/verdict_admission.py --audits 200

The first table draws labels and answers of a baseline of a known accuracy, with difficulties of
examples and of training runs, and counts how often `class_skill` does not show it to be better than
guessing. The second draws a group whose dense error is rare or 0 and a compressed error exactly at
the margin, and counts how often the gate calls that harm: nominal 2.5%.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from scipy.special import ndtr, ndtri

from scotoma.answers.admission import chance_note, class_skill
from scotoma.audit.gate import Margins
from scotoma.bias.counting import RateMetric
from scotoma.bias.subgroup import change_list
from scotoma.config.gate import GateRules, parse_rules
from scotoma.numbers import ChangeEvidence, Tally
from scotoma.verdict.deciding import decide
from scotoma.verdict.evidence import Rise
from scotoma.verdict.gate_test import rise_test

__all__ = ["HARMS", "SKILLS", "Harm", "Skill", "blocked", "failed"]

MARGINS = Margins(relative=0.2, absolute=0.005, clearing=None)
RULES = "rules: [{id: e, metric: error, max_increase: {relative: 0.2, absolute: 0.005}}]"
DIFFICULTY, RUN = 1.0, 0.1  # standard deviations on the probit scale


@dataclass(frozen=True)
class Skill:
    """A baseline whose skill is known.

    Attributes:
        classes: Number of classes, equally frequent.
        n: Examples.
        models: Models.
        above: By how much its accuracy exceeds that of guessing, in standard errors of guessing.
    """

    classes: int
    n: int
    models: int
    above: float

    @property
    def accuracy(self) -> float:
        """Its accuracy."""
        chance = 1 / self.classes
        return chance + self.above * math.sqrt(chance * (1 - chance) / self.n)


@dataclass(frozen=True)
class Harm:
    """A group at its margin.

    Attributes:
        n: Examples.
        models: Models a side.
        dense: Dense error.
        beyond: How far the compressed error lies beyond the margin; 0 for exactly at it.
    """

    n: int
    models: int
    dense: float
    beyond: float = 0.0

    @property
    def compressed(self) -> float:
        """Compressed error."""
        return self.dense + max(0.2 * self.dense, 0.005) + self.beyond


SKILLS = [
    Skill(classes, n, models, above)
    for classes, n in ((2, 200), (2, 2000), (10, 200), (10, 2000), (100, 2000))
    for models in (1, 5)
    for above in (0.0, 3.0, 5.0, 10.0)
    if above == 0 or Skill(classes, n, models, above).accuracy < 0.95
]
HARMS = [
    Harm(n, models, dense, beyond)
    for n in (100, 400, 2000, 10000)
    for models in (1, 5)
    for dense in (0.0, 0.001, 0.005, 0.02)
    for beyond in (0.0, 0.16 if n == 100 else 0.05)
]


def _events(
    rng: np.random.Generator, n: int, rate: float, models: int, difficulty: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Errors of a probit model whose mean rate is `rate`, shape (n, models)."""
    if rate == 0:
        return np.zeros((n, models), bool)
    runs = rng.normal(0, RUN, models) if models > 1 else np.zeros(1)
    spread = math.sqrt(1 + DIFFICULTY**2 + (RUN**2 if models > 1 else 0))
    at = float(ndtri(rate)) * spread + DIFFICULTY * difficulty[:, None] + runs
    return rng.random((n, models)) < ndtr(at)


def blocked(skill: Skill, audits: int, seed: int = 0) -> float:
    """Share of audits whose baseline is not shown to be better than guessing."""
    count = 0
    for audit in range(audits):
        rng = np.random.Generator(np.random.Philox(key=[seed, audit]))
        labels = rng.integers(0, skill.classes, skill.n)
        # Right beyond chance; whoever does not know guesses among all classes.
        chance = 1 / skill.classes
        known = (skill.accuracy - chance) / (1 - chance)
        unknown = _events(rng, skill.n, 1 - known, skill.models, rng.normal(size=skill.n))
        guesses = rng.integers(0, skill.classes, unknown.shape)
        answers = np.where(unknown, guesses, labels[:, None])
        count += chance_note(class_skill(answers, labels), "") is not None
    return count / audits


def failed(harm: Harm, audits: int, seed: int = 0) -> float:
    """Share of audits in which the gate calls one group's rise harm."""
    rules: GateRules = parse_rules(RULES, "rules")
    metric = RateMetric("error", None, "error", "examples")
    count = 0
    for audit in range(audits):
        rng = np.random.Generator(np.random.Philox(key=[seed, audit]))
        hard = rng.normal(size=harm.n)
        # Difficulties of dense and compressed correlate at .95.
        other = 0.95 * hard + math.sqrt(1 - 0.95**2) * rng.normal(size=harm.n)
        dense = _events(rng, harm.n, harm.dense, harm.models, hard)
        compressed = _events(rng, harm.n, harm.compressed, harm.models, other)
        moments = Tally.stack([Tally.of(dense, compressed)], (1, 1))
        (rise,) = change_list(ChangeEvidence.of_tally(moments), ["g"], [metric], 0.95)
        change = Rise(
            rise.absolute, rise.relative, rise.dense, rise.compressed, rise.absolute_variance,
            rise.relative_variance,
        )  # fmt: skip
        question = rise_test("e", "error", "error g", change, MARGINS)
        count += decide([question], rules)[0].verdict == "FAIL"
    return count / audits


def _rows(audits: int) -> Iterator[Table]:
    table = Table("classes", "n", "models", "accuracy", "not admitted", title="Baselines")
    for skill in SKILLS:
        share = blocked(skill, audits)
        table.add_row(
            *map(str, (skill.classes, skill.n, skill.models)),
            f"{skill.accuracy:.3f}{' (guessing)' if skill.above == 0 else ''}", f"{share:.3f}",
        )  # fmt: skip
    yield table
    table = Table("n", "models", "dense", "compressed", "FAIL", title="Groups at the margin")
    for harm in HARMS:
        share = failed(harm, audits)
        where = "" if harm.beyond else " (at the margin)"
        table.add_row(
            *map(str, (harm.n, harm.models)), f"{harm.dense:.3f}",
            f"{harm.compressed:.4f}{where}", f"{share:.3f}",
        )  # fmt: skip
    yield table


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--audits", type=int, default=2000)
    for table in _rows(parser.parse_args().audits):
        Console(width=100).print(table)


if __name__ == "__main__":
    main()
