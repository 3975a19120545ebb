"""Which slices nobody named?

Finds the conjunctions of features on which a model, or the change from a dense to a compressed
population, is significantly worse, and prints beside them what the same search finds in noise.
"""

from __future__ import annotations

from scotoma.slices.find import find_slices
from scotoma.slices.null import Null
from scotoma.slices.report import Slice, SliceReport
from scotoma.slices.search.coding import Predicate
from scotoma.slices.search.findings import SliceTestResult
from scotoma.slices.search.lattice import feature_subsets
from scotoma.slices.search.predicates import Encoded, encode
from scotoma.slices.settings import SearchSettings
from scotoma.slices.weights import poisson_weights

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
