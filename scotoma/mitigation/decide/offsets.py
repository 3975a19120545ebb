"""Which shift of its scores serves each group: additive offsets per group and class."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import FiniteFloat
from scipy.special import logsumexp, softmax

from scotoma.mitigation.decide.rule import (
    EqualRows,
    Needs,
    Rule,
    cell_counts,
    check_groups,
    check_scores,
)
from scotoma.numbers.inputs import Array, Floats, Ints

SHARPNESS = (1e-3, 1e3)


class Offsets(Rule):
    """Argmax over y of s(y) + b(g, y): deterministic, for any number of classes."""

    rule: Literal["offsets"] = "offsets"
    needs: ClassVar[Needs] = Needs("each example")
    offsets: Annotated[tuple[tuple[FiniteFloat, ...], ...], EqualRows]

    @classmethod
    def fit(
        cls,
        scores: Array,
        labels: Array,
        attributes: Array | None = None,
        *,
        inverse_penalty: float = 1.0,
    ) -> Self:
        """Fit the offsets with which each group's predicted classes are as frequent as its labels.

        Every class of a group weighs the same. Minimise over b(g, y) and one sharpness t the mean
        over groups and classes of the mean cross-entropy of softmax(t * s + b(g)), times N, plus
        |b|^2 / (2 * inverse_penalty); the rule's offsets are b / t. The problem is convex. Where b
        is free, each class of a group receives 1 / C of the probability: recalls are equalised
        through probabilities, not by counting errors.

        Args:
            scores: Shape (N, C).
            labels: Class ids, shape (N,).
            attributes: Group ids, shape (N,); every group needs every class.
            inverse_penalty: The larger, the freer the offsets of small groups.

        Raises:
            DataError: A class and group have no example.

        >>> scores = np.log([[0.6, 0.4]] * 2 + [[0.9, 0.1]] * 2)
        >>> alone = np.zeros(4, int)
        >>> rule = Offsets.fit(scores, np.array([1, 1, 0, 0]), alone, inverse_penalty=100)
        >>> rule(scores, alone)
        array([1, 1, 0, 0])
        """
        from scipy.optimize import minimize

        scores = np.asarray(scores, np.float64)
        labels = np.asarray(labels)
        n, classes = scores.shape
        groups = 1 if attributes is None else 1 + int(np.max(attributes, initial=0))
        counts = cell_counts(labels, attributes, classes, groups, "offsets")
        group = np.asarray(attributes, np.int64)
        scale = float(scores.std()) or 1.0
        unit = scores / scale  # so that the sharpness starts near its size
        weight = n / (groups * classes * counts[group, labels])
        hot = np.zeros((n, classes))
        hot[np.arange(n), labels] = 1

        def loss(flat: Floats) -> tuple[float, Floats]:
            offsets = flat[1:].reshape(groups, classes)
            logits = flat[0] * unit + offsets[group]
            value = (weight * (logsumexp(logits, axis=1) - (logits * hot).sum(axis=1))).sum()
            value += (offsets**2).sum() / (2 * inverse_penalty)
            error = weight[:, None] * (softmax(logits, axis=1) - hot)
            slope = np.zeros((groups, classes))
            np.add.at(slope, group, error)
            slope += offsets / inverse_penalty
            return float(value) / n, np.concatenate([[(error * unit).sum()], slope.ravel()]) / n

        start = np.concatenate([[scale], np.zeros(groups * classes)])
        bounds: list[tuple[float | None, float | None]] = [
            SHARPNESS,
            *[(None, None)] * (groups * classes),
        ]
        result = minimize(
            loss,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": 10_000, "maxfun": 10_000, "ftol": 0.0, "gtol": 1e-9},
        )
        shift = result.x[1:].reshape(groups, classes) / (result.x[0] / scale)
        shift -= shift.mean(axis=1, keepdims=True)
        return cls.model_validate({"offsets": shift.tolist()})

    def decide(self, scores: Floats, attributes: Array | None) -> Ints:
        """See `Rule.decide`."""
        offsets = np.asarray(self.offsets)
        table = check_scores(scores, offsets.shape[1], "offsets")
        group = check_groups(attributes, len(table), len(offsets))
        return np.asarray((table + offsets[group]).argmax(axis=1))
