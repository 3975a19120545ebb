"""What do several members decide together: the mean of their probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.special import softmax

from scotoma.errors import DataError
from scotoma.mitigation.decide.rule import Needs, Rule

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Ensemble", "fit_ensemble"]


class Ensemble(Rule):
    """Argmax of the mean softmax of k members of one population."""

    rule: Literal["ensemble"] = "ensemble"
    needs: ClassVar[Needs] = Needs("never")
    members: int = Field(ge=1)

    def decide(
        self, scores: NDArray[np.float64], attributes: NDArray[Any] | None
    ) -> NDArray[np.int64]:
        """See `Rule.decide`; scores have shape (k, N, C)."""
        if scores.ndim != 3 or len(scores) != self.members:
            raise DataError(
                f"an ensemble of {self.members} decides on scores of shape ({self.members}, "
                f"examples, classes), got {scores.shape}"
            )
        return np.asarray(np.asarray(softmax(scores, axis=2)).mean(axis=0).argmax(axis=1))


def fit_ensemble(
    scores: NDArray[Any], labels: NDArray[Any], attributes: NDArray[Any] | None = None
) -> Ensemble:
    """Count the members of scores of shape (k, N, C).

    >>> rule = fit_ensemble(np.zeros((2, 1, 2)), np.zeros(1))
    >>> rule(np.log([[[0.4, 0.6]], [[0.9, 0.1]]]))
    array([0])
    """
    return Ensemble(members=len(scores))
