"""How many examples does each variant leave without an answer, among all and in each group?"""

from __future__ import annotations

from typing import Any

import numpy as np

from scotoma.bias import tally
from scotoma.bias.counting import RateMetric
from scotoma.bias.subgroup import change_at
from scotoma.numbers import ChangeEvidence
from scotoma.stages.measures.pairs import PopulationPair
from scotoma.stages.measures.rates import LEVEL, change_row

__all__ = ["unanswered_rows"]

KIND = RateMetric("unanswered", None, "example without an answer", "examples")


def unanswered_rows(comparison: PopulationPair) -> list[dict[str, Any]]:
    """Measure the share without an answer of every group.

    Args:
        comparison: A compressed population beside the dense one.

    Returns:
        Rows as those of `subgroups`, all examples first; none where both sides answer everything.
    """
    dense, compressed = map(
        comparison.examples.unanswered, (comparison.dense, comparison.compressed)
    )
    if not (dense.any() or compressed.any()):
        return []
    partition = comparison.examples.groups
    # A missing answer is the event, and every example is at risk of it: a false positive of none.
    moments = tally(
        np.zeros(comparison.examples.size, np.int64),
        dense.astype(np.uint8),
        compressed.astype(np.uint8),
        partition.masks,
        positive=1,
        n_classes=2,
        paired=comparison.paired,
        clusters=comparison.examples.cluster,
    )
    known = ChangeEvidence.of_tally(moments)
    return [
        change_row(change_at(known, (g, 1), key, KIND, LEVEL), None)
        for g, key in enumerate(partition.keys)
    ]
