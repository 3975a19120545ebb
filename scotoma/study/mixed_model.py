"""How much larger are the odds of an answer in one arm? A logistic model with random effects."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, optimize, sparse, special

from scotoma.audit.study import OddsRatio
from scotoma.study.effects import FEWEST_ANNOTATORS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
LARGEST_LOG_SD = 2.0  # of items or annotators; beyond, answers are all but certain
SMALLEST_LOG_SD = -4.0
STEPS = 50


def odds_ratio(first: Floats, second: Floats, *, level: float = 0.95) -> OddsRatio:
    """Fit log odds = intercept + arm + item + annotator, the last two normal, by Laplace's method.

    The likelihood of the two standard deviations is that of lme4's `glmer` with `nAGQ=1`: random
    effects are integrated out at their mode. The interval is Wald's, at these deviations.

    Args:
        first: 1 where the answer was given, 0 where another was, nan for none, shape (items, J).
        second: The same of the other arm, whose columns are the same annotators.
        level: Of the interval.

    References:
        Breslow and Clayton (1993), Journal of the American Statistical Association 88:9-25.

    >>> one = np.array([[1, 1, 0], [0, 1, 0.0], [1, 0, 1]])
    >>> round(odds_ratio(one, one).value, 3)
    1.0
    """
    arms = [np.asarray(arm, float) for arm in (first, second)]
    known = [~np.isnan(arm) for arm in arms]
    both = known[0].any(axis=0) & known[1].any(axis=0)
    n = sum(int(k.any(axis=1).sum()) for k in known)
    if both.sum() < FEWEST_ANNOTATORS:
        return OddsRatio(n=n, reason=f"{int(both.sum())} of {FEWEST_ANNOTATORS} annotators needed")
    given = [arm[k] for arm, k in zip(arms, known, strict=True)]
    if any(len(np.unique(one)) < 2 for one in given):
        return OddsRatio(n=n, reason="all answers are equal within an arm")
    item, judge = (
        np.concatenate(parts)
        for parts in zip(
            *(
                np.nonzero(k) if arm == 0 else (np.nonzero(k)[0] + len(first), np.nonzero(k)[1])
                for arm, k in enumerate(known)
            ),
            strict=True,
        )
    )
    y = np.concatenate(given)
    arm = np.concatenate([np.ones(len(given[0])), np.zeros(len(given[1]))])
    item, judge = (np.unique(one, return_inverse=True)[1] for one in (item, judge))
    model = _Model(y, arm, item, judge)
    odds = [float(np.log(one.mean() / (1 - one.mean()))) for one in given]
    best = optimize.minimize(
        model.loss,
        np.array([odds[1], odds[0] - odds[1], 0.0, 0.0]),
        method="L-BFGS-B",
        bounds=[(None, None)] * 2 + [(SMALLEST_LOG_SD, LARGEST_LOG_SD)] * 2,
        options={"ftol": 1e-12, "eps": 1e-4},  # above the noise of Newton's steps
    )
    _, precision = model.mode(best.x)
    sd = float(np.linalg.inv(precision)[1, 1]) ** 0.5
    half = NormalDist().inv_cdf((1 + level) / 2) * sd
    low, value, high = np.exp(best.x[1] + np.array([-half, 0.0, half]))
    sd_items, sd_annotators = np.exp(best.x[2:])
    return OddsRatio(
        value=float(value),
        low=float(low),
        high=float(high),
        n=n,
        sd_items=float(sd_items),
        sd_annotators=float(sd_annotators),
    )


class _Model:
    """Answers, and a column for each parameter: intercept, arm, items, annotators."""

    def __init__(self, y: Floats, arm: Floats, item: Ints, judge: Ints) -> None:
        self._y, rows = y, np.arange(len(y))
        self._items, self._judges = int(item.max()) + 1, int(judge.max()) + 1
        blocks: list[Any] = [np.column_stack([np.ones(len(y)), arm])]
        blocks += [sparse.csr_array((np.ones(len(y)), (rows, one))) for one in (item, judge)]
        self._design = sparse.csr_array(sparse.hstack(blocks))
        self._start = np.zeros(self._design.shape[1])

    def loss(self, parameters: Floats) -> float:
        """Minus the log of Laplace's approximation to the marginal likelihood.

        Args:
            parameters: Intercept, effect of the arm, and the log standard deviations of items and
                annotators.
        """
        mode, precision = self.mode(parameters)
        prior = self._prior(parameters)
        log_det = 2 * np.log(np.diag(linalg.cholesky(precision[2:, 2:]))).sum()
        return float(-self._joint(mode, prior) + log_det / 2 - np.log(prior[2:]).sum() / 2)

    def mode(self, parameters: Floats) -> tuple[Floats, Floats]:
        """The most likely random effects, by Newton's method, and the precision of all effects."""
        prior = self._prior(parameters)
        effects = np.concatenate([parameters[:2], self._start[2:]])
        fit = self._joint(effects, prior)
        for _ in range(STEPS):
            share = self._share(effects)
            slope = (self._design.T @ (self._y - share) - prior * effects)[2:]
            precision = self._crossed(share * (1 - share)) + np.diag(prior)
            step = np.append([0.0, 0.0], linalg.solve(precision[2:, 2:], slope, assume_a="pos"))
            length = 1.0
            while (new := self._joint(effects + length * step, prior)) < fit and length > 1e-6:
                length /= 2
            effects, gain, fit = effects + length * step, new - fit, new
            if abs(gain) < 1e-10:
                break
        self._start = effects
        share = self._share(effects)
        return effects, self._crossed(share * (1 - share)) + np.diag(prior)

    def _prior(self, parameters: Floats) -> Floats:
        """Precision of every effect before any answer: none of fixed ones."""
        of_items, of_judges = np.exp(-2 * parameters[2:])
        return np.repeat([0.0, of_items, of_judges], [2, self._items, self._judges])

    def _share(self, effects: Floats) -> Floats:
        return np.asarray(special.expit(self._design @ effects))

    def _joint(self, effects: Floats, prior: Floats) -> float:
        odds = self._design @ effects
        return float(self._y @ odds - np.logaddexp(0, odds).sum() - prior @ effects**2 / 2)

    def _crossed(self, weights: Floats) -> Floats:
        """The design's crossproduct, each answer with its weight."""
        design = self._design
        return np.asarray((design.T @ sparse.diags_array(weights) @ design).toarray())
