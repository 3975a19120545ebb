"""How much of the spread between training runs do seeds add to that of the software alone?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scotoma.inputs import Floats
from scotoma.numbers import Estimate
from scotoma.tournament.technique_runs import TechniqueRuns
from scotoma.variance import RunComparison, compare_family

__all__ = ["OneSeedCell", "compare_one_seed"]


@dataclass(frozen=True)
class OneSeedCell:
    """One technique in one metric: runs of one seed beside runs of as many seeds.

    Attributes:
        technique: The technique.
        metric: The metric, or `accuracy`.
        runs: Runs of each kind.
        of_seeds: Standard deviation of runs of different seeds.
        of_one_seed: Standard deviation of runs of one seed.
        tests: Runs of one seed against the others; `spread_ratio` is of standard deviations.
    """

    technique: str
    metric: str
    runs: int
    of_seeds: float
    of_one_seed: float
    tests: RunComparison

    @property
    def variance_ratio(self) -> Estimate:
        """Variance of runs of one seed over that of runs of different seeds, with its interval."""
        ratio = self.tests.spread_ratio
        return Estimate(
            ratio.value**2, ratio.low**2, ratio.high**2, ratio.n, ratio.members, ratio.events,
            ratio.df, ratio.level, reason=ratio.reason, note=ratio.note,
        )  # fmt: skip


def compare_one_seed(
    seeds: Sequence[TechniqueRuns], one_seed: Sequence[TechniqueRuns], *, level: float = 0.95
) -> list[OneSeedCell]:
    """Compare runs of different seeds with runs of one seed, of the same techniques.

    Args:
        seeds: Runs of different seeds.
        one_seed: Runs of one seed.
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        Cells of every technique in every metric that all runs define, and in accuracy; p-values
        are adjusted over all of them.

    >>> rng = np.random.default_rng(0)
    >>> wide, narrow = (TechniqueRuns("a", {"DP": rng.normal(0.3, s, 16)}) for s in (0.04, 0.01))
    >>> [cell] = compare_one_seed([wide], [narrow])
    >>> cell.variance_ratio.high < 1
    True
    """
    by_name = {one.technique: _columns(one) for one in one_seed}
    pairs: dict[tuple[str, str], tuple[Floats, Floats]] = {}
    for one in seeds:
        for metric, values in _columns(one).items():
            other = by_name.get(one.technique, {}).get(metric)
            if other is not None and np.isfinite(np.concatenate([values, other])).all():
                pairs[one.technique, metric] = (values, other)
    tests = compare_family(pairs, level=level)
    return [
        OneSeedCell(
            *key, len(pairs[key][0]), float(pairs[key][0].std(ddof=1)),
            float(pairs[key][1].std(ddof=1)), tests[key],
        )
        for key in pairs
    ]  # fmt: skip


def _columns(one: TechniqueRuns) -> dict[str, Floats]:
    accuracy = {} if one.accuracy is None else {"accuracy": one.accuracy}
    return {**one.bias, **accuracy}
