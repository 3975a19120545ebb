"""What do scores, one head a group, a softmax over (group, class) pairs or several members decide?

Wang et al. (2020), "Towards Fairness in Visual Recognition: Effective Strategies for Bias
Mitigation": sections 4.3 (domain discriminative, S-DD1 to S-DD3) and 4.4 (domain independent, S-DI1
and S-DI2).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field
from scipy.special import softmax

from scotoma.errors import DataError
from scotoma.mitigation.decide.rule import (
    EqualRows,
    Needs,
    Rule,
    cell_counts,
    check_groups,
    check_scores,
)
from scotoma.numbers.inputs import Array, Floats, Ints

Count = Annotated[int, Field(ge=1)]


def groups_and_classes(scores: Array, labels: Array, classes: int | None, who: str) -> list[int]:
    """How many groups and classes a score table of G * C columns is of.

    Classes are as many as the labels name unless told.

    Raises:
        DataError: The width is no multiple of the classes.

    >>> groups_and_classes(np.zeros((2, 6)), np.array([0, 2]), None, "DI2")
    [2, 3]
    """
    count = int(np.max(labels, initial=0)) + 1 if classes is None else classes
    groups, rest = divmod(scores.shape[-1], count)
    if rest or groups < 1:
        raise DataError(
            f"{who} decides on one score per group and class, got {scores.shape[-1]} columns for "
            f"{count} classes; take scores of a model trained with {who}"
        )
    return [groups, count]


def pair_scores(scores: Floats, groups: int, classes: int, who: str) -> Floats:
    """Reshape a score table to (N, G, C)."""
    return check_scores(scores, groups * classes, who).reshape(-1, groups, classes)


class Ensemble(Rule):
    """Argmax of the mean softmax of k members of one population."""

    rule: Literal["ensemble"] = "ensemble"
    needs: ClassVar[Needs] = Needs("never")
    members: int = Field(ge=1)

    @classmethod
    def fit(cls, scores: Array, labels: Array, attributes: Array | None = None) -> Self:
        """Count the members of scores of shape (k, N, C).

        >>> rule = Ensemble.fit(np.zeros((2, 1, 2)), np.zeros(1))
        >>> rule(np.log([[[0.4, 0.6]], [[0.9, 0.1]]]))
        array([0])
        """
        return cls(members=len(scores))

    def decide(self, scores: Floats, attributes: Array | None) -> Ints:
        """See `Rule.decide`; scores have shape (k, N, C)."""
        if scores.ndim != 3 or len(scores) != self.members:
            raise DataError(
                f"an ensemble of {self.members} decides on scores of shape ({self.members}, "
                f"examples, classes), got {scores.shape}"
            )
        return np.asarray(np.asarray(softmax(scores, axis=2)).mean(axis=0).argmax(axis=1))


class _Heads(Rule):
    """A rule that knows nothing but the numbers of groups and classes."""

    rule: str = ""
    groups: Count
    classes: Count

    @classmethod
    def fit(
        cls,
        scores: Array,
        labels: Array,
        attributes: Array | None = None,
        *,
        classes: int | None = None,
    ) -> Self:
        """Read groups and classes off the width of the scores; `classes` where labels lack some.

        >>> rule = JointSum.fit(np.zeros((2, 4)), np.array([0, 1]))
        >>> rule(np.log([[0.4, 0.1, 0.1, 0.4], [0.1, 0.2, 0.3, 0.4]]))
        array([0, 1])
        >>> rule = OwnHead.fit(np.zeros((2, 4)), np.array([0, 1]))
        >>> rule(np.array([[3.0, 0.0, 0.0, 1.0]] * 2), np.array([0, 1]))
        array([0, 1])
        """
        who = cls.model_fields["rule"].default
        groups, count = groups_and_classes(scores, labels, classes, who)
        return cls(groups=groups, classes=count)

    def heads(self, scores: Floats) -> Floats:
        """Scores of each group's head, shape (N, G, C)."""
        return pair_scores(scores, self.groups, self.classes, self.rule)


class OwnHead(_Heads):
    """S-DI1: argmax of the head of the example's own group."""

    rule: Literal["DI1"] = "DI1"
    needs: ClassVar[Needs] = Needs("each example")

    def decide(self, scores: Floats, attributes: Array | None) -> Ints:
        """See `Rule.decide`."""
        heads = self.heads(scores)
        own = check_groups(attributes, len(heads), self.groups)
        return np.asarray(heads[np.arange(len(heads)), own].argmax(axis=1))


class SumOfHeads(_Heads):
    """S-DI2: argmax over y of sum_g s_g(y), raw scores and not probabilities.

    It adds heads that never saw the other group's rare classes, and fails where groups share no
    features.
    """

    rule: Literal["DI2"] = "DI2"
    needs: ClassVar[Needs] = Needs("never")

    def decide(self, scores: Floats, attributes: Array | None) -> Ints:
        """See `Rule.decide`."""
        return np.asarray(self.heads(scores).sum(axis=1).argmax(axis=1))


class JointSum(_Heads):
    """S-DD1: argmax over y of sum_g p(y, g)."""

    rule: Literal["DD1"] = "DD1"
    needs: ClassVar[Needs] = Needs("never")

    def decide(self, scores: Floats, attributes: Array | None) -> Ints:
        """See `Rule.decide`."""
        p = np.asarray(softmax(self.heads(scores), axis=(1, 2)))
        return np.asarray(p.sum(axis=1).argmax(axis=1))


class _Prior(Rule):
    """Probabilities over the training counts of their pairs."""

    rule: str = ""
    needs: ClassVar[Needs] = Needs("fit")
    training_counts: Annotated[tuple[tuple[Count, ...], ...], EqualRows]

    @classmethod
    def fit(
        cls,
        scores: Array,
        labels: Array,
        attributes: Array | None = None,
        *,
        classes: int | None = None,
    ) -> Self:
        """Count the training examples of every pair.

        Args:
            scores: Shape (N, G * C); only its width is read.
            labels: Class ids of the training examples, shape (n,); n need not be N.
            attributes: Their groups.
            classes: C, where the labels do not name all.

        >>> labels, groups = np.array([0, 1, 0, 1, 1]), np.array([0, 0, 1, 1, 1])
        >>> PriorMaximum.fit(np.zeros((3, 4)), labels, groups).training_counts
        ((1, 1), (1, 2))
        >>> rule = PriorSum.fit(np.zeros((1, 4)), labels, groups)
        >>> rule(np.log([[0.3, 0.3, 0.1, 0.3]]))  # 0.3 + 0.1 against 0.3 + 0.3 / 2
        array([1])
        """
        who = cls.model_fields["rule"].default
        groups, count = groups_and_classes(scores, labels, classes, who)
        return cls(training_counts=cell_counts(labels, attributes, count, groups, who).tolist())

    def weights(self, scores: Floats) -> Floats:
        """w(y, g) = p(y, g) / n_train(y, g), shape (N, G, C)."""
        counts = np.asarray(self.training_counts)
        groups, classes = counts.shape
        p = softmax(pair_scores(scores, groups, classes, self.rule), axis=(1, 2))
        return np.asarray(p / counts)


class PriorMaximum(_Prior):
    """S-DD2: argmax over y of max_g w(y, g)."""

    rule: Literal["DD2"] = "DD2"

    def decide(self, scores: Floats, attributes: Array | None) -> Ints:
        """See `Rule.decide`."""
        return np.asarray(self.weights(scores).max(axis=1).argmax(axis=1))


class PriorSum(_Prior):
    """S-DD3: argmax over y of sum_g w(y, g)."""

    rule: Literal["DD3"] = "DD3"

    def decide(self, scores: Floats, attributes: Array | None) -> Ints:
        """See `Rule.decide`."""
        return np.asarray(self.weights(scores).sum(axis=1).argmax(axis=1))
