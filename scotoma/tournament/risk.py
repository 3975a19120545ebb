"""How often do two single runs, one of each technique, point the wrong way?"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import ndtri

from scotoma.errors import DataError
from scotoma.inputs import floats
from scotoma.numbers import Estimate, check_level
from scotoma.variance import THIS_TEST_SET

__all__ = ["single_run_risk"]

NEAR = 1e-9


def single_run_risk(base: npt.ArrayLike, other: npt.ArrayLike, *, level: float = 0.95) -> Estimate:
    """Measure how often one run a side would contradict the means of all runs.

    It is U / (R R'), U of Mann and Whitney: the share of pairs (one run of the baseline, one of
    the technique) that order the two against their means; a tie counts half. The interval is the
    score interval of Newcombe's method 5, which also holds where no pair points the wrong way.

    Args:
        base: Values of the baseline's runs, shape (R,), R >= 2, finite.
        other: Values of the technique's runs, shape (R',), R' >= 2, finite.
        level: Coverage of the interval, a fraction in (0, 1).

    Returns:
        A share in [0, 1]; `n` is the number of pairs, `members` the smaller number of runs.

    Raises:
        DataError: Fewer than two runs on a side, or a value that is not finite.

    References:
        Newcombe (2006), Statistics in Medicine 25:559-573, method 5; Hanley and McNeil (1982).

    >>> risk = single_run_risk([3, 4, 5, 6], [1, 2, 3.5, 2.5])
    >>> risk.value, round(risk.low, 2), round(risk.high, 2)
    (0.0625, 0.01, 0.49)
    """
    check_level(level)
    b, o = floats(base, "base"), floats(other, "other")
    for values, name in ((b, "base"), (o, "other")):
        if values.ndim != 1 or values.size < 2 or not np.isfinite(values).all():
            raise DataError(
                f"{name} must hold finite values of two or more runs, got shape {values.shape}: "
                "pass one number per run"
            )
    above = (o[:, None] > b).sum() + 0.5 * (o[:, None] == b).sum()
    pairs = b.size * o.size
    wrong = float(above / pairs if o.mean() <= b.mean() else 1 - above / pairs)
    low, high = _score_interval(wrong, b.size, o.size, level)
    return Estimate(
        wrong, low, high, pairs, min(b.size, o.size), math.nan, math.nan, level,
        note=THIS_TEST_SET,
    )  # fmt: skip


def _score_interval(share: float, n: int, m: int, level: float) -> tuple[float, float]:
    """Where (share - t)^2 = z^2 V(t), V that of exponential runs, the same from both sides."""
    z, extra = float(ndtri((1 + level) / 2)), (n + m) / 2 - 1

    def beyond(t: float) -> float:
        spread = 1 + extra * (1 - t) / (2 - t) + extra * t / (1 + t)
        return (share - t) ** 2 - z**2 * t * (1 - t) * spread / (n * m)

    # At 0 and 1 the share itself is a root, beside the one that is meant.
    low = 0.0 if share == 0 else float(brentq(beyond, 0.0, min(share, 1 - NEAR)))
    high = 1.0 if share == 1 else float(brentq(beyond, max(share, NEAR), 1.0))
    return low, high
