"""Could a machine tell the arms apart from what stands beside the images?"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from scipy import optimize, stats

from scotoma.study.plan import MeasuredNumber
from scotoma.study.questions import CONTRASTS

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
REFUSED = 0.60  # AUC above which a study is not blind
FOLDS = 10
PENALTY = 1.0  # ridge on every weight, in units of one example's log-likelihood


def machine_leak(
    labels: npt.NDArray[np.int64], shown: Floats, first: Flags, *, classes: int, seed: int
) -> MeasuredNumber:
    """Predict the arm of held-out items by ridge logistic regression, ten folds.

    Args:
        labels: Class ids shown as labels 1, 2 and 3, as many as there are, shape (N, 1 to 3).
        shown: What else is shown or sent, a column each: order, bytes, width, height, format;
            shape (N, M).
        first: Whether an item is of the first arm, shape (N,); both arms have 2 items at least.
        classes: Number of classes.
        seed: Of the folds.

    Returns:
        Area under the ROC curve, 0.5 for a blind study, with DeLong's interval.

    References:
        DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44:837-845.

    >>> labels = np.array([[0, 1, 1], [0, 1, 2]] * 20)
    >>> first = labels[:, 1] != labels[:, 2]
    >>> machine_leak(labels, np.zeros((40, 1)), first, classes=3, seed=0).value
    1.0
    """
    features = _features(labels, shown, classes)
    rng = np.random.default_rng(seed)
    fold = np.empty(len(first), np.int64)
    for side in (first, ~first):
        # Arms have as many of each class. A fold that held more of one arm's would teach the others
        # the opposite, and bring the AUC below 0.5.
        rows = rng.permutation(np.flatnonzero(side))
        fold[rows[np.argsort(labels[rows, 0], kind="stable")]] = np.arange(len(rows)) % FOLDS
    scores = np.empty(len(first))
    for number in range(FOLDS):
        held = fold == number
        if held.any():
            weights = _fitted(features[~held], first[~held])
            scores[held] = features[held] @ weights
            # Ranks within a fold: intercepts of different folds are not compared.
            scores[held] = stats.rankdata(scores[held]) / (held.sum() + 1)
    above = (scores[first][:, None] > scores[~first]).astype(float)
    above += (scores[first][:, None] == scores[~first]) / 2
    auc, (rows, columns) = float(above.mean()), above.shape
    variance = above.mean(axis=1).var(ddof=1) / rows + above.mean(axis=0).var(ddof=1) / columns
    half = NormalDist().inv_cdf(0.975) * float(variance) ** 0.5
    return MeasuredNumber(value=auc, low=max(0.0, auc - half), high=min(1.0, auc + half))


def contrast_leaks(
    labels: npt.NDArray[np.int64],
    shown: Floats,
    arms: npt.NDArray[np.str_],
    *,
    classes: int,
    seed: int,
) -> dict[str, MeasuredNumber]:
    """Measure the leak between arm A and each of the others.

    Args:
        labels: As for `machine_leak`, of the items of all arms.
        shown: The same.
        arms: Arm of each item, shape (N,).
        classes: Number of classes.
        seed: Of the folds.
    """
    found = {}
    for first, second in CONTRASTS:
        of = (arms == first) | (arms == second)
        found[f"{first}-{second}"] = machine_leak(
            labels[of], shown[of], arms[of] == first, classes=classes, seed=seed
        )
    return found


def _features(labels: npt.NDArray[np.int64], shown: Floats, classes: int) -> Floats:
    wide = labels.shape[1]
    pairs = [labels[:, i] == labels[:, j] for i in range(wide) for j in range(i)]
    equal = np.stack(pairs, axis=1) * 2.0 if pairs else np.zeros((len(labels), 0))
    one_hot = [labels[:, i, None] == np.arange(classes) for i in range(wide)]
    centred = shown - shown.mean(axis=0)
    spread = centred.std(axis=0)
    scaled = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
    parts = [np.ones((len(labels), 1)), equal, *one_hot, scaled]
    return np.concatenate([np.asarray(part, float) for part in parts], axis=1)


def _fitted(features: Floats, first: Flags) -> Floats:
    sign = np.where(first, 1.0, -1.0)

    def loss(weights: Floats) -> tuple[float, Floats]:
        margin = sign * (features @ weights)
        slope = -sign / (1 + np.exp(np.clip(margin, -500, 500)))
        value = np.logaddexp(0, -margin).sum() + PENALTY / 2 * (weights[1:] ** 2).sum()
        return float(value), features.T @ slope + PENALTY * np.append(0.0, weights[1:])

    start = np.zeros(features.shape[1])
    found: Floats = optimize.minimize(loss, start, jac=True, method="L-BFGS-B").x
    return found
