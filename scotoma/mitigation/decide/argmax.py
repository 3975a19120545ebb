"""The plain decision: the class of the highest score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from scotoma.mitigation.decide.rule import Needs, Rule

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Argmax", "fit_argmax"]


class Argmax(Rule):
    """The class of the highest score; the first of equals."""

    rule: Literal["argmax"] = "argmax"
    needs: ClassVar[Needs] = Needs("never")

    def decide(
        self, scores: NDArray[np.float64], attributes: NDArray[Any] | None
    ) -> NDArray[np.int64]:
        """See `Rule.decide`."""
        return np.asarray(scores.argmax(axis=1))


def fit_argmax(
    scores: NDArray[Any], labels: NDArray[Any], attributes: NDArray[Any] | None = None
) -> Argmax:
    """Return the rule, whatever the data.

    >>> fit_argmax(np.zeros((1, 2)), np.zeros(1))(np.array([[0.1, 0.9]]))
    array([1])
    """
    return Argmax()
