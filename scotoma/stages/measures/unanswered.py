"""How many examples does each variant leave without an answer, among all and in each group?"""

from __future__ import annotations

from typing import Any

from scotoma.bias import selection_changes
from scotoma.bias.counting import RateMetric
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
    partition, paired = comparison.examples.groups, comparison.paired
    changes = selection_changes(
        dense, compressed, partition.masks, partition.keys, kind=KIND, paired=paired,
        clusters=comparison.examples.cluster, level=LEVEL,
    )  # fmt: skip
    return [change_row(change, None) for change in changes]
