"""How many examples does each variant leave without an answer, among all and in each group?"""

from __future__ import annotations

from typing import Any

import numpy as np

from scotoma.answers.admission import NO_ANSWER
from scotoma.bias import tally
from scotoma.bias.counting import RateMetric
from scotoma.bias.subgroup import change_at
from scotoma.datasets import AuditedExamples
from scotoma.stages.measures.pairs import PopulationPair
from scotoma.stages.measures.rates import LEVEL, change_row
from scotoma.uncertainty import ChangeEvidence

__all__ = ["unanswered_rows"]

KIND = RateMetric("unanswered", None, "example without an answer", "examples")


def unanswered_rows(comparison: PopulationPair, examples: AuditedExamples) -> list[dict[str, Any]]:
    """Measure the share without an answer of every group.

    Args:
        comparison: A compressed population beside the dense one.
        examples: The test examples, from `read_test_examples`.

    Returns:
        Rows as those of `subgroups`, all examples first; none where both sides answer everything.
    """
    if examples.classes[-1:] != (NO_ANSWER,):
        return []
    last = len(examples.classes) - 1
    dense, compressed = comparison.dense == last, comparison.compressed == last
    if not (dense.any() or compressed.any()):
        return []
    partition = examples.partition()
    # A missing answer is the event, and every example is at risk of it: a false positive of none.
    moments = tally(
        np.zeros(len(examples.ids), np.int64),
        dense.astype(np.uint8),
        compressed.astype(np.uint8),
        partition.masks,
        positive=1,
        n_classes=2,
        paired=comparison.variant.paired,
        clusters=examples.clusters,
    )
    known = ChangeEvidence.of_tally(moments)
    return [
        change_row(change_at(known, (g, 1), key, KIND, LEVEL), None)
        for g, key in enumerate(partition.keys)
    ]
