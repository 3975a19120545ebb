"""What do one head per group decide together: domain independent, S-DI1 and S-DI2.

Wang et al. (2020), "Towards Fairness in Visual Recognition: Effective Strategies for Bias
Mitigation", section 4.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from scotoma.mitigation.decide.joint_softmax import Count, groups_and_classes, pair_scores
from scotoma.mitigation.decide.rule import Needs, Rule, check_groups

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OwnHead", "SumOfHeads", "fit_own_head", "fit_sum_of_heads"]


class OwnHead(Rule):
    """S-DI1: argmax of the head of the example's own group."""

    rule: Literal["DI1"] = "DI1"
    needs: ClassVar[Needs] = Needs("each example")
    groups: Count
    classes: Count

    def decide(
        self, scores: NDArray[np.float64], attributes: NDArray[Any] | None
    ) -> NDArray[np.int64]:
        """See `Rule.decide`."""
        heads = pair_scores(scores, self.groups, self.classes, self.rule)
        own = check_groups(attributes, len(heads), self.groups)
        return np.asarray(heads[np.arange(len(heads)), own].argmax(axis=1))


class SumOfHeads(Rule):
    """S-DI2: argmax over y of sum_g s_g(y), raw scores and not probabilities.

    It adds heads that never saw the other group's rare classes, and fails where groups share no
    features.
    """

    rule: Literal["DI2"] = "DI2"
    needs: ClassVar[Needs] = Needs("never")
    groups: Count
    classes: Count

    def decide(
        self, scores: NDArray[np.float64], attributes: NDArray[Any] | None
    ) -> NDArray[np.int64]:
        """See `Rule.decide`."""
        heads = pair_scores(scores, self.groups, self.classes, self.rule)
        return np.asarray(heads.sum(axis=1).argmax(axis=1))


def fit_own_head(
    scores: NDArray[Any],
    labels: NDArray[Any],
    attributes: NDArray[Any] | None = None,
    *,
    classes: int | None = None,
) -> OwnHead:
    """Fit S-DI1: nothing but the numbers of groups and classes.

    >>> rule = fit_own_head(np.zeros((2, 4)), np.array([0, 1]))
    >>> rule(np.array([[3.0, 0.0, 0.0, 1.0]] * 2), np.array([0, 1]))
    array([0, 1])
    """
    groups, count = groups_and_classes(scores, labels, attributes, classes, "DI1")
    return OwnHead(groups=groups, classes=count)


def fit_sum_of_heads(
    scores: NDArray[Any],
    labels: NDArray[Any],
    attributes: NDArray[Any] | None = None,
    *,
    classes: int | None = None,
) -> SumOfHeads:
    """Fit S-DI2: nothing but the numbers of groups and classes.

    >>> fit_sum_of_heads(np.zeros((2, 4)), np.array([0, 1]))(np.array([[3.0, 0.0, 0.0, 1.0]]))
    array([0])
    """
    groups, count = groups_and_classes(scores, labels, attributes, classes, "DI2")
    return SumOfHeads(groups=groups, classes=count)
