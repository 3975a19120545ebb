"""Which last layer serves all groups on these features: deep feature reweighting (DFR).

Kirichenko, Izmailov, Wilson (2023), "Last Layer Re-Training is Sufficient for Robustness to
Spurious Correlations". The features stay as they are, so it can follow compression.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, FiniteFloat, model_validator
from scipy.special import logsumexp

from scotoma.errors import DataError
from scotoma.extras import needs
from scotoma.mitigation.decide.rule import EqualRows, Needs, Rule, cell_counts, check_scores
from scotoma.mitigation.held_out import judged_half
from scotoma.numbers.inputs import Array, Floats, Ints

DRAWS = 10
MAX_ITERATIONS = 10_000
PENALTIES = (0.001, 0.01, 0.1, 1.0, 10.0)  # inverse ones, the strongest first
UNCHOSEN = 1.0  # where a class and group have one example, and none can be held out


class LastLayer(Rule):
    """Argmax of weight @ features + bias."""

    rule: Literal["dfr"] = "dfr"
    needs: ClassVar[Needs] = Needs("fit")
    weight: Annotated[tuple[tuple[FiniteFloat, ...], ...], EqualRows]
    bias: tuple[FiniteFloat, ...]
    inverse_penalty: FiniteFloat | None = Field(None, gt=0)  # of the fit, where there was one

    @classmethod
    def fit(
        cls,
        scores: Array,
        labels: Array,
        attributes: Array | None = None,
        *,
        classes: int | None = None,
        inverse_penalty: float | None = None,
        draws: int = DRAWS,
        seed: int = 0,
        balanced: bool = True,
        tolerance: float = 1e-6,
    ) -> Self:
        """Fit a last layer on the same number of examples of every class and group.

        Each draw takes as many examples of every class and group as the smallest has; the layer is
        the mean of the draws' layers. Features are standardised by all examples passed, and the
        layer returned takes them as they are.

        Args:
            scores: Features, the inputs of the last layer, shape (N, D).
            labels: Class ids, shape (N,).
            attributes: Group ids, shape (N,); may be None if not `balanced`.
            classes: C, where the labels do not name all.
            inverse_penalty: As scikit-learn's `C`; None: that of `PENALTIES` whose layer, fitted on
                one half of every class and group, decides best for the worst group of the other.
            draws: How many.
            seed: Seed of the draws.
            balanced: False: one fit on all examples.
            tolerance: Largest slope of the mean loss at the end of a fit, as scikit-learn's `tol`.

        Raises:
            DataError: A class and group have no example, or the fit does not converge.
            MissingExtra: scikit-learn is not installed.

        >>> z = np.array([[0.0], [1.0], [0.2], [1.2]])
        >>> LastLayer.fit(z, np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1]))(z)
        array([0, 1, 0, 1])
        """
        features = np.asarray(scores, np.float64)
        labels = np.asarray(labels)
        count = int(labels.max(initial=0)) + 1 if classes is None else classes
        mean, spread = features.mean(axis=0), features.std(axis=0)
        spread = np.where(spread > 1e-12 * (1 + np.abs(mean)), spread, 1.0)
        standard = (features - mean) / spread
        if inverse_penalty is None:
            inverse_penalty = _chosen_penalty(
                standard, labels, attributes if balanced else None, count, seed
            )
        chosen = (
            _draws(labels, attributes, count, draws, seed) if balanced else [np.arange(len(labels))]
        )
        fitted = _Head(tolerance)
        layers = [fitted(standard[rows], labels[rows], count, inverse_penalty) for rows in chosen]
        weight = np.mean([weight for weight, _ in layers], axis=0) / spread
        bias = np.mean([bias for _, bias in layers], axis=0) - weight @ mean
        return cls.of(weight, bias, inverse_penalty)

    @model_validator(mode="after")
    def _bias_of_each_class(self) -> LastLayer:
        if len(self.bias) != len(self.weight):
            raise ValueError(f"bias must have {len(self.weight)} values, one a row of weight")
        return self

    @classmethod
    def of(cls, weight: Array, bias: Array, inverse_penalty: float | None = None) -> Self:
        """Make a rule of a layer's arrays, shapes (C, features) and (C,)."""
        return cls.model_validate(
            {
                "weight": weight.tolist(),
                "bias": bias.tolist(),
                "inverse_penalty": inverse_penalty,
            }
        )

    def scores(self, features: Array) -> Floats:
        """The layer's output, shape (N, C)."""
        weight = np.asarray(self.weight)
        table = check_scores(features, weight.shape[1], "DFR")
        return np.asarray(table @ weight.T + np.asarray(self.bias))

    def decide(self, scores: Floats, attributes: Array | None) -> Ints:
        """See `Rule.decide`; `scores` are features, shape (N, features)."""
        return np.asarray(self.scores(scores).argmax(axis=1))


class _Head:
    """scikit-learn's multinomial logistic regression; each fit begins where the last one ended."""

    def __init__(self, tolerance: float = 1e-6) -> None:
        linear_model = needs("sklearn.linear_model", "train", "fitting a last layer")
        self.model = linear_model.LogisticRegression(
            tol=tolerance, max_iter=MAX_ITERATIONS, warm_start=True
        )

    def __call__(
        self,
        features: Floats,
        labels: Array,
        classes: int,
        inverse_penalty: float,
    ) -> tuple[Floats, Floats]:
        """Fit weights (C, D) and biases (C,) that sum to 0 over classes.

        Raises:
            DataError: A class has no example, or the fit does not converge.
        """
        cell_counts(labels, np.zeros_like(labels), classes, 1, "DFR")
        # Of two classes it fits one row of weights: twice each class's, and half as penalised.
        self.model.set_params(C=inverse_penalty * (2 if classes == 2 else 1))
        self.model.fit(features, labels)
        if self.model.n_iter_.max() >= MAX_ITERATIONS:
            raise DataError(
                f"logistic regression must converge, got none in {MAX_ITERATIONS:,} iterations; "
                "give a smaller inverse_penalty"
            )
        weight, bias = self.model.coef_, self.model.intercept_
        if classes == 2:
            weight, bias = np.stack([-weight[0], weight[0]]) / 2, np.array([-bias[0], bias[0]]) / 2
        return np.asarray(weight), np.asarray(bias - bias.mean())


def _chosen_penalty(
    standard: Floats,
    labels: Array,
    attributes: Array | None,
    classes: int,
    seed: int,
) -> float:
    """Choose the inverse penalty by the worst group of held-out examples, classes alike.

    Ties go to the lower loss of held-out examples, whose cells weigh alike.
    """
    group = np.zeros(len(labels), np.int64) if attributes is None else np.asarray(attributes)
    cell = group * classes + labels
    counts = np.bincount(cell)
    if counts[counts > 0].min() < 2:
        return UNCHOSEN
    held = judged_half(cell, None, seed)
    draws = _draws(labels[~held], group[~held], classes, 1, seed)[0]
    rows = np.flatnonzero(~held)[draws]
    fitted, scored = _Head(), []
    for penalty in PENALTIES:
        weight, bias = fitted(standard[rows], labels[rows], classes, penalty)
        scores = standard[held] @ weight.T + bias
        right = scores.argmax(axis=1) == labels[held]
        loss = logsumexp(scores, axis=1) - scores[np.arange(len(scores)), labels[held]]
        accuracy, losses = (_cell_means(x, cell[held], len(counts)) for x in (right, loss))
        worst = min(
            float(np.nanmean(accuracy[at : at + classes])) for at in range(0, len(counts), classes)
        )
        scored.append((-worst, float(np.nanmean(losses)), penalty))
    return min(scored)[2]


def _cell_means(values: Array, cell: Array, cells: int) -> Floats:
    count = np.bincount(cell, minlength=cells)
    total = np.bincount(cell, weights=values, minlength=cells)
    return np.asarray(np.divide(total, count, out=np.full(cells, np.nan), where=count > 0))


def _draws(
    labels: Array, attributes: Array | None, classes: int, draws: int, seed: int
) -> list[Ints]:
    groups = 1 if attributes is None else 1 + int(np.max(attributes, initial=0))
    counts = cell_counts(labels, attributes, classes, groups, "DFR")
    cell = np.asarray(attributes) * classes + labels
    members = [np.flatnonzero(cell == number) for number in range(groups * classes)]
    random = np.random.default_rng(seed)
    smallest = int(counts.min())
    return [
        np.sort(np.concatenate([random.choice(rows, smallest, replace=False) for rows in members]))
        for _ in range(draws)
    ]
