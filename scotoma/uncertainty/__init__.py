"""How certain: variance over examples and training runs, intervals, multiplicity.

Every member of a population sees the same examples, and dense and compressed members are scored on
the same examples: examples and members are crossed random factors, and every interval here counts
both. No draws, no seed: the same predictions give the same bytes.
"""

from __future__ import annotations

from scotoma.uncertainty.crossed import (
    Variance,
    cluster_sums,
    crossed_variance,
    mean_difference,
    n_effective,
    single_mean,
)
from scotoma.uncertainty.estimate import Estimate, none_seen, undefined
from scotoma.uncertainty.multiplicity import benjamini_hochberg, holm

__all__ = [
    "Estimate",
    "Variance",
    "benjamini_hochberg",
    "cluster_sums",
    "crossed_variance",
    "holm",
    "mean_difference",
    "n_effective",
    "none_seen",
    "single_mean",
    "undefined",
]
