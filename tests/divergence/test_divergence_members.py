"""Does the excess of CIEs stay the same however many members an audit has?

Worlds that share no code with the package or its power model: Beta difficulties, dense and
compressed ones joined by a Gaussian copula, training runs that shift all thresholds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import beta

from scotoma.divergence import CieExcess, excess
from scotoma.verdict.since_previous import judged, rise_since
from tests.helpers.worlds import AUDITS, worlds

pytestmark = pytest.mark.slow

GRID = np.linspace(-6, 6, 2_001)
Thresholds = NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """How errors come about: Beta(a, b) difficulties, and what compression does to them."""

    a: float = 0.12
    b: float = 2.2
    copula: float = 0.9  # correlation of dense and compressed difficulty
    runs: float = 0.1  # standard deviation of a run's shift, in probits
    shift: float = 0.0  # what compression adds to every threshold, in probits
    classes: int = 2
    examples: int = 2_000

    def draw(self, rng: np.random.Generator, members: int) -> tuple[NDArray[np.int64], ...]:
        """Labels of a dense and a compressed population; the true label is 0."""
        dense, compressed = self.thresholds(*rng.standard_normal((2, self.examples)))
        favourite = rng.integers(1, self.classes, (self.examples, 1))
        sides = []
        for at in (dense, compressed):
            luck = self.runs * rng.standard_normal(members)
            wrong = luck + rng.standard_normal((self.examples, members)) < at[:, None]
            other = rng.integers(1, self.classes, wrong.shape)
            error = np.where(rng.random(wrong.shape) < 0.5, favourite, other)
            sides.append(np.where(wrong, error, 0))
        return tuple(sides)

    def thresholds(self, u: Thresholds, v: Thresholds) -> tuple[Thresholds, Thresholds]:
        """Probits of failing for two standard normal numbers an example."""
        table = ndtri(np.clip(beta.ppf(ndtr(GRID), self.a, self.b), 1e-12, 1 - 1e-12))
        both = self.copula * u + np.sqrt(1 - self.copula**2) * v
        return np.interp(u, GRID, table), np.interp(both, GRID, table) + self.shift

    @cache  # noqa: B019 (worlds live as long as the module)
    def truth(self) -> float:
        """Excess of two classes: runs differ between members, so that they only add chance."""
        u, weight = np.polynomial.hermite_e.hermegauss(200)
        at = self.thresholds(u[:, None], u)
        p, q = (ndtr(one / np.sqrt(1 + self.runs**2)) for one in at)
        weights = np.outer(weight, weight) / weight.sum() ** 2
        return float((weights * (q - p) * (1 - 2 * p)).sum())

    def audits(self, members: int, number: int, seed: int = 0) -> list[CieExcess]:
        """Measure several audits, each of models and examples of its own."""
        rng = np.random.default_rng([seed, members])
        return [excess(*self.draw(rng, members), self.classes) for _ in range(number)]


WORLDS = {
    "compressed otherwise": World(copula=0.9),
    "more errors, runs that differ": World(a=0.3, b=3.0, copula=0.95, runs=0.25, shift=0.15),
    "nothing differs": World(copula=1.0, runs=0.25),
}
SIZES = (5, 10, 20)


@pytest.mark.parametrize("name", worlds(WORLDS))
def test_audits_of_any_size_estimate_the_same_excess(name: str) -> None:
    """Means of audits lie within 4 standard errors of the truth; that of 5 members was half."""
    world = WORLDS[name]
    for members in (2, 5, 7, 10, 30, 60):
        values = [found.excess.value for found in world.audits(members, 40)]
        error = np.std(values, ddof=1) / np.sqrt(len(values))
        assert abs(np.mean(values) - world.truth()) <= 4 * error


def test_ten_classes_have_the_same_excess_at_any_size() -> None:
    world = World(a=0.3, b=2.0, copula=0.8, classes=10)
    few, many = ([one.excess.value for one in world.audits(k, 80)] for k in (5, 40))
    error = np.sqrt(np.var(few, ddof=1) / 80 + np.var(many, ddof=1) / 80)
    assert abs(np.mean(few) - np.mean(many)) <= 4 * error
    assert np.mean(many) > 10 * error  # there is something to agree on


@pytest.mark.parametrize("case", worlds(f"{k} members, {name}" for name in WORLDS for k in SIZES))
def test_intervals_hold_the_truth(case: str) -> None:
    size, _, name = case.partition(" members, ")
    world, members = WORLDS[name], int(size)
    found = world.audits(members, AUDITS, seed=1)
    held = np.mean([one.excess.low <= world.truth() <= one.excess.high for one in found])
    assert 0.91 <= held <= 0.995  # .93 and more of 1,000 audits; 300 are 2 standard errors less
    width = np.sqrt(np.mean([one.excess.se**2 for one in found]))
    assert 0.85 <= width / np.std([one.excess.value for one in found]) <= 1.2


@pytest.mark.thorough
@pytest.mark.parametrize("name", WORLDS)
def test_more_members_alone_are_not_worse_than_before(name: str) -> None:
    """5 members, then 20, and nothing changed: 2.5% are called worse; at most 5%."""
    world = WORLDS[name]
    pairs = zip(world.audits(5, AUDITS, seed=2), world.audits(20, AUDITS, seed=3), strict=True)
    words = [judged([rise_since(one.excess, two.excess)], 0.05)[0][2] for one, two in pairs]
    assert words.count("worse") <= 0.05 * AUDITS
    assert words.count("better") <= 0.05 * AUDITS
