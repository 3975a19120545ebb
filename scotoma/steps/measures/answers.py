"""What do the answers of a variant show without labels: which are missing, which all alike?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.answers.digest import answers_digest
from scotoma.bias import selection_changes
from scotoma.bias.counting import RateMetric
from scotoma.datasets import AuditedExamples
from scotoma.predictions import Predictions
from scotoma.steps.measures.pairs import PopulationPair
from scotoma.steps.measures.rates import LEVEL, change_row

UNANSWERED = RateMetric("unanswered", None, "example without an answer", "examples")


def own_digest(predictions: Predictions, examples: AuditedExamples) -> str:
    """Compute the digest of the answers of one variant, with the labels of the examples."""
    return answers_digest(
        predictions.example_ids, predictions.predicted, examples.known_labels, predictions.classes
    )


def unanswered_rows(comparison: PopulationPair) -> list[dict[str, Any]]:
    """Measure the share without an answer of every group.

    Args:
        comparison: A compressed population beside the dense one.

    Returns:
        Rows as those of `subgroups`, all examples first; none where both sides answer everything.
    """
    examples = comparison.examples
    dense, compressed = map(examples.unanswered, (comparison.dense, comparison.compressed))
    if not (dense.any() or compressed.any()):
        return []
    changes = selection_changes(
        dense, compressed, examples.groups.masks, examples.groups.keys, kind=UNANSWERED,
        paired=comparison.paired, clusters=examples.cluster, level=LEVEL,
    )  # fmt: skip
    return [change_row(change, None) for change in changes]


def constant_members(
    predictions: Predictions, labels: NDArray[np.integer[Any]] | None
) -> Iterator[str]:
    """Name each member that predicts one class for every example, where labels are several.

    Without labels, those beside members that predict several.

    Such a member has diverged in training, or was compressed too far. It belongs to the
    population, for the next training run may end so too; but it alone can make an effect.

    Args:
        predictions: Of one variant.
        labels: Class ids, shape (N,); None where they are not known.

    Yields:
        Sentences without a full stop.

    >>> votes = np.array([[0, 0], [0, 1]], np.uint8)
    >>> dense = Predictions("dense", votes, ("a", "b"), (0, 1), ("cat", "dog"))
    >>> next(constant_members(dense, np.array([0, 1]))).partition(": ")[2]
    'mean top-1 is 75.0% with it, 100.0% without'
    """
    predicted = predictions.predicted
    if len(np.unique(predicted if labels is None else labels)) < 2:
        return
    constant = (predicted == predicted[:1]).all(axis=0)
    for place in np.flatnonzero(constant):
        sentence = (
            f"member {predictions.members[place]} of {predictions.variant} predicts "
            f"{predictions.classes[predicted[0, place]]!r} for every example and is kept"
        )
        if labels is None:
            yield sentence
            continue
        top1 = (predicted == labels[:, None]).mean(axis=0)
        others = np.arange(len(top1)) != place
        without = (
            f"{100 * top1[others].mean():.1f}% without" if others.any() else "and is the only one"
        )
        yield f"{sentence}: mean top-1 is {100 * top1.mean():.1f}% with it, {without}"
