"""Which linear scores explain labels best: L2-penalised multinomial logistic regression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp, softmax

from scotoma.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["logistic_regression"]

MAX_ITERATIONS = 10_000


def logistic_regression(
    features: NDArray[np.float64],
    labels: NDArray[Any],
    classes: int,
    *,
    inverse_penalty: float,
    tolerance: float = 1e-6,
    start: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Minimise the sum of cross-entropies plus |W|^2 / (2 * inverse_penalty).

    Args:
        features: Shape (N, D).
        labels: Class ids, shape (N,).
        classes: C.
        inverse_penalty: As scikit-learn's `C`; the biases are not penalised.
        tolerance: Largest slope of the mean loss at the end.
        start: Weights and biases to begin at, such as those of similar rows.

    Returns:
        Weights (C, D) and biases (C,) that sum to 0 over classes.

    Raises:
        DataError: The optimiser did not converge.
    """
    from scipy.optimize import minimize

    n, d = features.shape
    hot = np.zeros((n, classes))
    hot[np.arange(n), labels] = 1

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weight, bias = flat[: classes * d].reshape(classes, d), flat[classes * d :]
        scores = features @ weight.T + bias
        error = (softmax(scores, axis=1) - hot) / n
        value = (logsumexp(scores, axis=1) - (scores * hot).sum(axis=1)).mean()
        value += (weight**2).sum() / (2 * inverse_penalty * n)
        slope = error.T @ features + weight / (inverse_penalty * n)
        return float(value), np.concatenate([slope.ravel(), error.sum(axis=0)])

    begin = np.zeros(classes * (d + 1))
    if start is not None:
        begin = np.concatenate([start[0].ravel(), start[1]])
    result = minimize(
        loss,
        begin,
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": MAX_ITERATIONS,
            "maxfun": MAX_ITERATIONS,
            "ftol": 0.0,
            "gtol": tolerance,
        },
    )
    if float(np.abs(result.jac).max()) > max(1e-5, 2 * tolerance):
        raise DataError(
            f"logistic regression must converge, got a slope of {np.abs(result.jac).max():.2g} "
            f"after {result.nit} iterations; give a smaller inverse_penalty"
        )
    weight, bias = result.x[: classes * d].reshape(classes, d), result.x[classes * d :]
    return weight, bias - bias.mean()
