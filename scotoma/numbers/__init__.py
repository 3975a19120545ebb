"""How certain is a number? Variance over examples and runs, intervals, multiplicity.

Every member of a population sees the same examples, and dense and compressed members are scored on
the same examples: examples and members are crossed random factors, and every interval here counts
both. No draws, no seed: the same predictions give the same bytes.
"""

from __future__ import annotations

from scotoma.numbers.clusters import cluster_sums
from scotoma.numbers.crossed import (
    Variance,
    combine,
    flip_floor,
    n_effective,
    of_variance,
    satterthwaite,
)
from scotoma.numbers.enough import FEW_EVENTS, FEWEST_RUNS
from scotoma.numbers.estimate import (
    FEW_RUNS,
    Estimate,
    check_level,
    few_runs,
    none_seen,
    undefined,
)
from scotoma.numbers.heterogeneity import Heterogeneity, heterogeneity
from scotoma.numbers.multiplicity import benjamini_hochberg, holm, multipliers
from scotoma.numbers.number import COMPRESSED, DENSE, Number, Units
from scotoma.numbers.rates import ChangeEvidence, RateEvidence, Words
from scotoma.numbers.tally import Tally

__all__ = [
    "COMPRESSED",
    "DENSE",
    "FEWEST_RUNS",
    "FEW_EVENTS",
    "FEW_RUNS",
    "ChangeEvidence",
    "Estimate",
    "Heterogeneity",
    "Number",
    "RateEvidence",
    "Tally",
    "Units",
    "Variance",
    "Words",
    "benjamini_hochberg",
    "check_level",
    "cluster_sums",
    "combine",
    "few_runs",
    "flip_floor",
    "heterogeneity",
    "holm",
    "multipliers",
    "n_effective",
    "none_seen",
    "of_variance",
    "satterthwaite",
    "undefined",
]
