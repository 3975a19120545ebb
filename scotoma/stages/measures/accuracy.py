"""How well does each population predict, and how far can a single model be trusted?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.answers.digest import answers_digest
from scotoma.datasets import AuditedExamples
from scotoma.numbers import Units, Words
from scotoma.predictions import Predictions
from scotoma.verdict.one_model import Contradiction, one_model_trap

__all__ = [
    "RISK_LIMITS",
    "PopulationAccuracy",
    "constant_members",
    "group_errors",
    "own_digest",
]

RISK_LIMITS = {"relative": 0.2, "absolute": 0.005}  # of the default gate


@dataclass(frozen=True, eq=False)
class PopulationAccuracy:
    """How well one population predicts the test examples.

    Attributes:
        top1: Its mean top-1 accuracy with interval, `top1`, and that of each member, `members`.
        errors: Error of every member on every group, shape (G, K).
    """

    top1: dict[str, Any]
    errors: NDArray[np.float64]

    @classmethod
    def of(
        cls, predictions: Predictions, examples: AuditedExamples, positive: int | None
    ) -> PopulationAccuracy:
        """Measure one population.

        Args:
            predictions: Of its members, for the test examples in their order.
            examples: The test examples.
            positive: Id of the favourable class; None where the configuration names none.
        """
        labels = examples.labels
        correct = predictions.predicted == labels[:, None]
        top1 = Units.of(len(correct), examples.clusters).mean(correct)
        masks = examples.partition().masks
        return cls(
            top1={
                "top1": top1.rate(Words("hit", "examples", "the test split")),
                "members": correct.mean(axis=0),
            },
            errors=group_errors(predictions.predicted, labels, masks, positive),
        )

    def one_model_risk(
        self, dense: PopulationAccuracy, *, paired: bool, seed: int
    ) -> list[Contradiction]:
        """How often few models a side would contradict all of them about the groups' errors.

        Args:
            dense: The dense population.
            paired: Member m of this one derives from dense member m.
            seed: Draws the models.

        Returns:
            Rows of `one_model_trap`.
        """
        return one_model_trap(dense.errors, self.errors, paired=paired, seed=seed, **RISK_LIMITS)


def own_digest(predictions: Predictions, examples: AuditedExamples) -> str:
    """Compute the digest of the answers of one variant, with the labels of the examples."""
    return answers_digest(
        predictions.example_ids, predictions.predicted, examples.known_labels, predictions.classes
    )


def group_errors(
    predicted: NDArray[np.unsignedinteger[Any]],
    labels: NDArray[np.integer[Any]],
    masks: NDArray[np.bool_],
    positive: int | None,
) -> NDArray[np.float64]:
    """Error of every member on every group.

    Args:
        predicted: Class ids, shape (N, K).
        labels: True class ids, shape (N,).
        masks: Which examples belong to each group, shape (G, N).
        positive: Class whose confusion with the others is the error; None where any is one.

    Returns:
        Fractions, shape (G, K); nan where a group is empty.

    >>> masks = np.array([[True, True, True], [False, True, True]])
    >>> group_errors(np.array([[1], [1], [2]], np.uint8), np.array([1, 2, 0]), masks, 1).round(2)
    array([[0.33],
           [0.5 ]])
    """
    truth = labels[:, None]
    wrong = (
        predicted != truth if positive is None else (predicted == positive) != (truth == positive)
    )
    with np.errstate(invalid="ignore"):
        errors: NDArray[np.float64] = masks.astype(np.float64) @ wrong / masks.sum(axis=1)[:, None]
    return errors


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
