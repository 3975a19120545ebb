"""What every rule of deciding is: a frozen value that says what it needs and writes itself."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict

from scotoma.errors import DataError
from scotoma.numbers.inputs import Array, Floats, Ints


def _equal_rows(table: tuple[tuple[Any, ...], ...]) -> tuple[tuple[Any, ...], ...]:
    if len(widths := {len(row) for row in table}) != 1 or not widths.pop():
        raise ValueError("rows must be there, of one length and not empty")
    return table


EqualRows = AfterValidator(_equal_rows)  # of a table of numbers, as an annotation


@dataclass(frozen=True)
class Needs:
    """What a rule must be given besides scores.

    Attributes:
        attributes: When it needs groups: never, while it is fitted, or at each decision.
        transductive: Whether it needs all examples to be decided at once.
    """

    attributes: Literal["never", "fit", "each example"]
    transductive: bool = False

    @property
    def sentence(self) -> str:
        """The needs in words.

        >>> Needs("fit").sentence
        'It needs groups while it is fitted, and none when it decides.'
        """
        words = {
            "never": "It needs no groups.",
            "fit": "It needs groups while it is fitted, and none when it decides.",
            "each example": "It reads each example's group whenever it decides.",
        }[self.attributes]
        return words + self.transductive * " It decides over the whole test set at once."


class Rule(BaseModel):
    """From scores, and groups where it needs them, to classes."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")
    needs: ClassVar[Needs]

    def __call__(self, scores: Array, attributes: Array | None = None) -> Ints:
        """Decide.

        Args:
            scores: As in `fit`, finite.
            attributes: Group ids, shape (N,); read only by rules that need them at each example.

        Returns:
            Class ids, shape (N,).

        Raises:
            DataError: Scores of another width, or groups missing or unknown.
        """
        scores = np.asarray(scores, np.float64)
        if not np.isfinite(scores).all():
            raise DataError(
                "scores must be finite, got nan or infinity; look at the model's output"
            )
        if self.needs.attributes != "each example":
            return self.decide(scores, None)
        if attributes is None:
            raise DataError(
                f"{type(self).__name__} reads each example's group, got none; pass attributes or "
                "take a rule that needs none"
            )
        return self.decide(scores, np.asarray(attributes))

    @classmethod
    @abstractmethod
    def fit(cls, scores: Array, labels: Array, attributes: Array | None = None) -> Self:
        """Fit the rule: arguments as for `scotoma.mitigation.decide.fit`, and its own options."""

    @abstractmethod
    def decide(self, scores: Floats, attributes: Array | None) -> Ints:
        """Decide on checked scores: see `__call__`."""


def check_scores(scores: Array, width: int, who: str) -> Floats:
    """Take an (N, width) table.

    Raises:
        DataError: It has another shape.
    """
    if scores.ndim != 2 or scores.shape[1] != width:
        raise DataError(
            f"{who} decides on scores of shape (examples, {width}), got {scores.shape}; "
            "pass the scores of the model it was fitted on"
        )
    return np.asarray(scores, np.float64)


def check_groups(attributes: Array | None, examples: int, groups: int) -> Ints:
    """Take one group id from 0 to G - 1 an example.

    Raises:
        DataError: Another length, or an id outside.
    """
    if attributes is None or len(attributes) != examples:
        n = "none" if attributes is None else len(attributes)
        raise DataError(f"attributes must hold one group per example, {examples}, got {n}")
    if examples and not 0 <= attributes.min() <= attributes.max() < groups:
        raise DataError(
            f"attributes must be group ids from 0 to {groups - 1}, got {attributes.min()} to "
            f"{attributes.max()}; leave out examples of no group"
        )
    return np.asarray(attributes, np.int64)


def cell_counts(
    labels: Array, attributes: Array | None, classes: int, groups: int, who: str
) -> Ints:
    """Count the examples of every group and class, shape (G, C).

    Raises:
        DataError: A cell is empty, a label is outside, or there is one group only.

    >>> cell_counts(np.array([0, 1, 1]), np.array([0, 0, 0]), 2, 1, "DFR")
    array([[1, 2]])
    """
    labels = np.asarray(labels)
    if labels.size and not 0 <= labels.min() <= labels.max() < classes:
        raise DataError(
            f"labels must be class ids from 0 to {classes - 1}, got {labels.min()} to "
            f"{labels.max()}"
        )
    group = check_groups(attributes, len(labels), groups)
    counts = np.bincount(group * classes + labels, minlength=groups * classes)
    counts = counts.reshape(groups, classes)
    if not counts.all():
        g, y = (int(at) for at in np.argwhere(counts == 0)[0])
        raise DataError(
            f"{who} needs examples of every class in every group, got none of class {y} in group "
            f"{g}; add some or merge groups"
        )
    return counts
