"""At which temperature are models as sure of clean pictures as they are right?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import logsumexp, softmax

from scotoma.inputs import Floats
from scotoma.uncertainty import (
    Estimate,
    cluster_sums,
    crossed_variance,
    of_variance,
    ratio_influence,
    undefined,
)

__all__ = ["energy_and_tempered", "fit_temperature", "mean_temperature", "temperature_influence"]

LOWEST, HIGHEST = 0.05, 20.0  # temperatures between which one is looked for


def fit_temperature(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Find the temperature by which scores are divided where the labels are most likely.

    Args:
        scores: Scores before softmax, of pictures that are not judged by it, shape (n, C).
        labels: Class ids, shape (n,).

    Returns:
        Above 1 where the model is too sure. nan where no temperature from 0.05 to 20 is best, such
        as for a model that is always right: the surer, the likelier.

    References:
        Guo et al. (2017), On Calibration of Modern Neural Networks.

    >>> round(fit_temperature([[2.0, 0], [2.0, 0], [2.0, 0], [2.0, 0]], [0, 0, 0, 1]), 3)
    1.82
    """
    values, truth = np.asarray(scores, np.float64), np.asarray(labels, np.int64)
    if not len(values) or not np.isfinite(values).all():
        return float("nan")

    def slope(log_temperature: float) -> float:
        return float(_slopes(values, truth, float(np.exp(log_temperature)))[0].mean())

    ends = np.log(LOWEST), np.log(HIGHEST)
    if not slope(ends[1]) > 0 > slope(ends[0]):
        return float("nan")
    return float(np.exp(brentq(slope, *ends, xtol=1e-10)))


def temperature_influence(
    scores: npt.ArrayLike, labels: npt.ArrayLike, temperature: float
) -> Floats:
    """Compute how much each picture moves the temperature that was fitted to all of them.

    Args:
        scores: As for `fit_temperature`.
        labels: As for `fit_temperature`.
        temperature: Its result.

    Returns:
        Shape (n,); the mean is 0.

    >>> two = [[2.0, 0], [2.0, 0], [2.0, 0], [2.0, 0]]
    >>> temperature_influence(two, [0, 0, 0, 1], fit_temperature(two, [0, 0, 0, 1])).round(2)
    array([-2.21, -2.21, -2.21,  6.63])
    """
    values, truth = np.asarray(scores, np.float64), np.asarray(labels, np.int64)
    slopes, curvature = _slopes(values, truth, temperature)
    return np.asarray(-(temperature**2) * slopes / curvature.mean())


def _slopes(
    scores: Floats, labels: npt.NDArray[np.int64], temperature: float
) -> tuple[Floats, Floats]:
    """First derivative of each log likelihood by 1 / temperature, and minus the second."""
    chance = softmax(scores / temperature, axis=1)
    mean = (chance * scores).sum(axis=1)
    spread = (chance * (scores - mean[:, None]) ** 2).sum(axis=1)
    return scores[np.arange(len(scores)), labels] - mean, spread


def energy_and_tempered(
    scores: npt.ArrayLike, temperatures: npt.ArrayLike
) -> tuple[Floats, Floats]:
    """Compute how familiar pictures are to a model, and how sure it is at a temperature.

    Args:
        scores: Scores before softmax, shape (n, C).
        temperatures: Of each picture, shape (n,).

    Returns:
        The logarithm of the sum of exponentials, which is minus the energy: high where a picture is
        familiar; and the probability of the predicted class. Each of shape (n,).

    References:
        Liu et al. (2020), Energy-based Out-of-distribution Detection.

    >>> energy, tempered = energy_and_tempered([[2.0, 0.0]], [2.0])
    >>> round(float(energy[0]), 3), round(float(tempered[0]), 3)
    (2.127, 0.731)
    """
    values = np.asarray(scores, np.float64)
    each = values / np.asarray(temperatures, np.float64)[:, None]
    highest = each.max(axis=1)
    return np.asarray(logsumexp(values, axis=1)), np.exp(highest - logsumexp(each, axis=1))


def mean_temperature(
    temperatures: npt.ArrayLike,
    influences: npt.ArrayLike,
    *,
    clusters: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> Estimate:
    """Mean temperature of a population, with its interval over examples and members.

    Args:
        temperatures: Of each member, shape (K,).
        influences: From `temperature_influence`, shape (n, K).
        clusters: Id of each example's cluster, shape (n,); None leaves every one its own.
        level: Coverage, a fraction in (0, 1).

    >>> mean_temperature([1.5, 1.7], np.zeros((9, 2))).value
    1.6
    """
    each, psi = np.asarray(temperatures, np.float64), np.asarray(influences, np.float64)
    rows = cluster_sums(np.ones(len(psi)), clusters)
    if lacking := int(np.isnan(each).sum()):
        reason = f"undefined (no temperature fits {lacking} of the models)"
        return undefined(reason, n=len(rows), members=len(each), level=level)
    events = ratio_influence(cluster_sums(psi + each, clusters), rows)
    value, variance = float(each.mean()), crossed_variance(events)
    return of_variance(value, variance, n=len(rows), members=len(each), level=level)
