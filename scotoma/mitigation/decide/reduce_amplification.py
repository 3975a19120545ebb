"""Can a class be predicted in each of two groups about equally often: S-DD4, RBA.

Zhao et al. (2017), "Men Also Like Shopping: Reducing Gender Bias Amplification using
Corpus-level Constraints", as Wang et al. (2020) use it on scores of (group, class) pairs.
"""

from __future__ import annotations

import warnings
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field
from scipy.special import softmax

from scotoma.errors import DataError
from scotoma.mitigation.decide.heads import Count, groups_and_classes, pair_scores
from scotoma.mitigation.decide.rule import Needs, Rule, check_groups
from scotoma.numbers.inputs import Array, Floats, Ints

SWEEPS = 100
STEP, PUBLISHED_STEP = 0.003, 3.0
ROUNDING = 1e-9


class NotBalancedWarning(UserWarning):
    """RBA left a class outside its margin."""


class Balanced(NamedTuple):
    """What the sweeps came to.

    Attributes:
        predicted: Class ids, shape (N,).
        converged: Whether every class's share of group 1 is within the margin.
        sweeps: How many were made.
        outside: Classes outside the margin, ascending.
    """

    predicted: Ints
    converged: bool
    sweeps: int
    outside: tuple[int, ...]


class ReduceAmplification(Rule):
    """S-DD4: among predictions of each class, group 1's share lies in [0.5 - m, 0.5 + m].

    By default every class's potential carries the price of its own violations, on softmax
    probabilities, and of all sweeps the one with the smallest violation counts. With
    `protocol="published"` only the class that an example was predicted as in the sweep before
    carries it, on exp(s): examples flip back, the margin is missed, and the last sweep counts.
    """

    rule: Literal["DD4"] = "DD4"
    needs: ClassVar[Needs] = Needs("each example", transductive=True)
    classes: Count
    margin: float = Field(0.05, gt=0, lt=0.5)
    protocol: Literal["sound", "published"] = "sound"

    @classmethod
    def fit(
        cls,
        scores: Array,
        labels: Array,
        attributes: Array | None = None,
        *,
        classes: int | None = None,
        margin: float = 0.05,
        protocol: Literal["sound", "published"] = "sound",
    ) -> Self:
        """Fit S-DD4: nothing but the number of classes.

        Raises:
            DataError: There are not two groups.

        >>> rule = ReduceAmplification.fit(np.zeros((2, 4)), np.array([0, 1]), margin=0.1)
        >>> rule.needs.transductive, rule.margin
        (True, 0.1)
        """
        groups, count = groups_and_classes(scores, labels, classes, "DD4")
        if groups != 2:
            raise DataError(f"DD4 balances two groups, got {groups}; take DD3 for more")
        return cls(classes=count, margin=margin, protocol=protocol)

    def decide(self, scores: Floats, attributes: Array | None) -> Ints:
        """See `Rule.decide`; warns (`NotBalancedWarning`) where `balance` does not converge."""
        result = self.balance(scores, attributes)
        if not result.converged:
            listed = ", ".join(str(y) for y in result.outside[:5])
            more = len(result.outside) - 5
            warnings.warn(
                f"DD4 did not converge in {result.sweeps} sweeps: class {listed}"
                f"{f' and {more} more' if more > 0 else ''} outside the margin of {self.margin:g}",
                NotBalancedWarning,
                stacklevel=3,
            )
        return result.predicted

    def balance(self, scores: Floats, attributes: Array | None) -> Balanced:
        """Sweep over all examples at once.

        Args:
            scores: Shape (N, 2 * C).
            attributes: 0 or 1 for each example, shape (N,).
        """
        table = pair_scores(scores, 2, self.classes, self.rule)
        group = check_groups(attributes, len(table), 2)
        published = self.protocol == "published"
        p = np.exp(table) if published else np.asarray(softmax(table, axis=(1, 2)))
        potential, rows, m = p.sum(axis=1), np.arange(len(table)), self.margin
        # What one prediction of a class adds to its two violations, by the example's group.
        effect = np.array([[0.5 - m, -0.5 - m], [-0.5 - m, 0.5 - m]])[:, group]
        price, predicted, least = np.zeros((2, self.classes)), potential.argmax(axis=1), np.inf
        for sweep in range(SWEEPS + 1):
            violation = self._violations(predicted, group)
            worst = float(violation.max(initial=0.0))
            if published or worst < least:  # as published, the last sweep counts
                least, best = worst, predicted
            if worst <= ROUNDING or sweep == SWEEPS:
                break
            price = np.maximum(0, price + (PUBLISHED_STEP if published else STEP) * violation)
            if published:
                swept = potential.copy()
                swept[rows, predicted] -= (price[:, predicted] * effect).sum(axis=0)
            else:
                swept = potential - effect.T @ price
            predicted = swept.argmax(axis=1)
        outside = np.flatnonzero(self._violations(best, group).max(axis=0) > ROUNDING)
        return Balanced(best, not outside.size, sweep, tuple(int(y) for y in outside))

    def _violations(self, predicted: Ints, group: Ints) -> Floats:
        """Too few and too many of group 1 among each class's predictions, shape (2, C)."""
        n = np.bincount(predicted, minlength=self.classes)
        ones = np.bincount(predicted[group == 1], minlength=self.classes)
        return np.stack([(0.5 - self.margin) * n - ones, ones - (0.5 + self.margin) * n])
