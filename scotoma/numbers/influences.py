"""What influences of examples, and rates of members, give to a variance by themselves."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scotoma.numbers.inputs import Floats


def example_variance(psi: Floats, n: float, times: Floats | None = None) -> tuple[Floats, Floats]:
    """V_ex of a mean of n examples' influences psi, shape (..., n), and its kurtosis minus 1."""
    if n < 2:
        nothing = np.full(psi.shape[:-1], np.nan)
        return nothing, nothing
    squares = (psi - _mean(psi, n, times)[..., None]) ** 2
    second, fourth = _mean(squares, n, times), _mean(squares**2, n, times)
    second = np.where(constant(psi), 0.0, second)
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.where(second > 0, fourth / second**2 - 1, 0.0)
    return second / (n - 1), np.maximum(excess, 0.0)


def member_variance(rates: Floats) -> Floats:
    """V_mod of one population: the variance of the mean of its members' rates.

    Args:
        rates: One rate (times its gradient) a member, shape (..., K), K >= 2.

    >>> import numpy as np
    >>> float(member_variance(np.array([0.1, 0.2, 0.3])).round(6))
    0.003333
    """
    return np.where(constant(rates), 0.0, rates.var(-1, ddof=1) / rates.shape[-1])


def constant(values: Floats) -> npt.NDArray[np.bool_]:
    """Whether nothing varies along the last axis but the last bits of rounding.

    >>> import numpy as np
    >>> constant(np.array([[0.1 + 0.2, 0.3], [0.3, 0.4]])).tolist()
    [True, False]
    """
    if values.shape[-1] == 0:
        return np.ones(values.shape[:-1], np.bool_)
    # Eight roundings: what sums of equal terms in another order differ by.
    reach = 8 * np.finfo(np.float64).eps * np.abs(values).max(-1)
    return np.asarray(np.ptp(values, axis=-1) <= reach)


def _mean(values: Floats, n: float, times: Floats | None) -> Floats:
    """Mean over the last axis, whose entries stand for `times` examples each, n in all."""
    return np.asarray(values.mean(-1) if times is None else (values * times).sum(-1) / n)
