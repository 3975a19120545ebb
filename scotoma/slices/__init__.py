"""Which slices nobody named?

Finds the conjunctions of features on which a model, or the change from a dense to a compressed
population, is significantly worse, and prints beside them what the same search finds in noise.
"""

from __future__ import annotations

from scotoma.slices.find import find_slices
from scotoma.slices.hashing import poisson_weights
from scotoma.slices.report import Null, Slice, SliceReport
from scotoma.slices.search.lattice import feature_subsets
from scotoma.slices.search.predicates import Encoded, Predicate, encode
from scotoma.slices.search.sweep import SliceTestResult
from scotoma.slices.settings import SearchSettings

__all__ = [
    "Encoded",
    "Null",
    "Predicate",
    "SearchSettings",
    "Slice",
    "SliceReport",
    "SliceTestResult",
    "encode",
    "feature_subsets",
    "find_slices",
    "poisson_weights",
]
