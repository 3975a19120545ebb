"""What does a softmax over (group, class) pairs decide: domain discriminative, S-DD1 to S-DD3.

Wang et al. (2020), "Towards Fairness in Visual Recognition: Effective Strategies for Bias
Mitigation", section 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.special import softmax

from scotoma.errors import DataError
from scotoma.mitigation.decide.rule import EqualRows, Needs, Rule, cell_counts, check_scores

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "JointSum",
    "PriorMaximum",
    "PriorSum",
    "fit_joint_sum",
    "fit_prior_maximum",
    "fit_prior_sum",
    "groups_and_classes",
    "pair_scores",
]

Count = Annotated[int, Field(ge=1)]


def groups_and_classes(
    scores: NDArray[Any],
    labels: NDArray[Any],
    attributes: NDArray[Any] | None,
    classes: int | None,
    who: str,
) -> tuple[int, int]:
    """How many groups and classes a score table of G * C columns is of.

    Classes are as many as the labels name unless told.

    Raises:
        DataError: The width is no multiple of the classes.

    >>> groups_and_classes(np.zeros((2, 6)), np.array([0, 2]), None, None, "DI2")
    (2, 3)
    """
    count = int(np.max(labels, initial=0)) + 1 if classes is None else classes
    groups, rest = divmod(scores.shape[-1], count)
    if rest or groups < 1:
        raise DataError(
            f"{who} decides on one score per group and class, got {scores.shape[-1]} columns for "
            f"{count} classes; take scores of a model trained with {who}"
        )
    return groups, count


def pair_scores(
    scores: NDArray[np.float64], groups: int, classes: int, who: str
) -> NDArray[np.float64]:
    """Reshape a score table to (N, G, C)."""
    return check_scores(scores, groups * classes, who).reshape(-1, groups, classes)


def _probabilities(
    scores: NDArray[np.float64], groups: int, classes: int, who: str
) -> NDArray[np.float64]:
    """One softmax over all pairs, shape (N, G, C)."""
    return np.asarray(softmax(check_scores(scores, groups * classes, who), axis=1)).reshape(
        -1, groups, classes
    )


class JointSum(Rule):
    """S-DD1: argmax over y of sum_g p(y, g)."""

    rule: Literal["DD1"] = "DD1"
    needs: ClassVar[Needs] = Needs("never")
    groups: Count
    classes: Count

    def decide(
        self, scores: NDArray[np.float64], attributes: NDArray[Any] | None
    ) -> NDArray[np.int64]:
        """See `Rule.decide`."""
        p = _probabilities(scores, self.groups, self.classes, self.rule)
        return np.asarray(p.sum(axis=1).argmax(axis=1))


class _Prior(Rule):
    """Probabilities over the training counts of their pairs."""

    needs: ClassVar[Needs] = Needs("fit")
    training_counts: Annotated[tuple[tuple[Count, ...], ...], EqualRows]

    def weights(self, scores: NDArray[np.float64], who: str) -> NDArray[np.float64]:
        """w(y, g) = p(y, g) / n_train(y, g), shape (N, G, C)."""
        counts = np.asarray(self.training_counts)
        groups, classes = counts.shape
        return np.asarray(_probabilities(scores, groups, classes, who) / counts)


class PriorMaximum(_Prior):
    """S-DD2: argmax over y of max_g w(y, g)."""

    rule: Literal["DD2"] = "DD2"

    def decide(
        self, scores: NDArray[np.float64], attributes: NDArray[Any] | None
    ) -> NDArray[np.int64]:
        """See `Rule.decide`."""
        return np.asarray(self.weights(scores, self.rule).max(axis=1).argmax(axis=1))


class PriorSum(_Prior):
    """S-DD3: argmax over y of sum_g w(y, g)."""

    rule: Literal["DD3"] = "DD3"

    def decide(
        self, scores: NDArray[np.float64], attributes: NDArray[Any] | None
    ) -> NDArray[np.int64]:
        """See `Rule.decide`."""
        return np.asarray(self.weights(scores, self.rule).sum(axis=1).argmax(axis=1))


def fit_joint_sum(
    scores: NDArray[Any],
    labels: NDArray[Any],
    attributes: NDArray[Any] | None = None,
    *,
    classes: int | None = None,
) -> JointSum:
    """Fit S-DD1: nothing but the numbers of groups and classes.

    >>> rule = fit_joint_sum(np.zeros((2, 4)), np.array([0, 1]))
    >>> rule(np.log([[0.4, 0.1, 0.1, 0.4], [0.1, 0.2, 0.3, 0.4]]))
    array([0, 1])
    """
    groups, count = groups_and_classes(scores, labels, attributes, classes, "DD1")
    return JointSum(groups=groups, classes=count)


def fit_prior_maximum(
    scores: NDArray[Any],
    labels: NDArray[Any],
    attributes: NDArray[Any] | None = None,
    *,
    classes: int | None = None,
) -> PriorMaximum:
    """Fit S-DD2: count the training examples of every pair.

    Args:
        scores: Shape (N, G * C); only its width is read.
        labels: Class ids of the training examples, shape (n,); n need not be N.
        attributes: Their groups.
        classes: C, where the labels do not name all.

    >>> labels, groups = np.array([0, 1, 0, 1, 1]), np.array([0, 0, 1, 1, 1])
    >>> fit_prior_maximum(np.zeros((3, 4)), labels, groups).training_counts
    ((1, 1), (1, 2))
    """
    return PriorMaximum(training_counts=_training(scores, labels, attributes, classes, "DD2"))


def fit_prior_sum(
    scores: NDArray[Any],
    labels: NDArray[Any],
    attributes: NDArray[Any] | None = None,
    *,
    classes: int | None = None,
) -> PriorSum:
    """Fit S-DD3: see `fit_prior_maximum`.

    >>> rule = fit_prior_sum(np.zeros((1, 4)), np.array([0, 1, 0, 1, 1]), np.array([0, 0, 1, 1, 1]))
    >>> rule(np.log([[0.3, 0.3, 0.1, 0.3]]))  # 0.3 + 0.1 against 0.3 + 0.3 / 2
    array([1])
    """
    return PriorSum(training_counts=_training(scores, labels, attributes, classes, "DD3"))


def _training(
    scores: NDArray[Any],
    labels: NDArray[Any],
    attributes: NDArray[Any] | None,
    classes: int | None,
    who: str,
) -> tuple[tuple[int, ...], ...]:
    groups, count = groups_and_classes(scores, labels, attributes, classes, who)
    counts = cell_counts(labels, attributes, count, groups, who)
    return tuple(tuple(int(n) for n in row) for row in counts)
