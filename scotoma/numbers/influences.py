"""Influences of examples on the members of one population, and what follows from them alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.inputs import Floats


@dataclass(frozen=True, eq=False)
class Influences:
    """Influences of examples (or clusters) on the members of one population.

    A population that is compared with several others is summed up once.

    Attributes:
        values: Shape (..., n, K).
        times: How many examples each row stands for, shape (n,); None for one each.
        n: Number of examples.
        means: Means over members, shape (..., n).
        of_members: V_mod, V_res and K, as `combine` takes them.
    """

    values: Floats
    times: Floats | None
    n: float
    means: Floats
    of_members: tuple[Floats, Floats, int]

    @classmethod
    def of(cls, values: Floats, times: Floats | None = None) -> Influences:
        """Sum up a population.

        >>> influences = Influences.of(np.array([[0.0, 1.0], [1.0, 1.0]]))
        >>> influences.means.tolist(), influences.of_members
        ([0.5, 1.0], (array(0.0625), array(0.0625), 2))
        """
        n = values.shape[-2] if times is None else float(times.sum())
        means = np.asarray(values.mean(-1))
        return cls(values, times, n, means, _of_members(values, means, n, times))

    def of_examples(self, psi: Floats) -> tuple[Floats, Floats]:
        """V_ex of a mean of examples' influences psi, shape (..., n), and its kurtosis minus 1."""
        return example_variance(psi, self.n, self.times)


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
    reach = 8 * np.finfo(np.float64).eps * np.abs(values).max(-1)
    return np.asarray(np.ptp(values, axis=-1) <= reach)


def _mean(values: Floats, n: float, times: Floats | None) -> Floats:
    """Mean over the last axis, whose entries stand for `times` examples each, n in all."""
    return np.asarray(values.mean(-1) if times is None else (values * times).sum(-1) / n)


def _of_members(
    e: Floats, means: Floats, n: float, times: Floats | None
) -> tuple[Floats, Floats, int]:
    """V_mod, V_res and number of members of one population of influences."""
    k = e.shape[-1]
    if k == 1 or n < 2:
        return np.zeros(e.shape[:-2]), np.zeros(e.shape[:-2]), k
    columns = _mean(np.swapaxes(e, -1, -2), n, times)[..., None, :]
    residuals = e - means[..., None]
    residuals -= columns
    residuals += columns.mean(-1, keepdims=True)
    weighed = residuals if times is None else residuals * times[:, None]
    sse = np.einsum("...xm,...xm->...", residuals, weighed)
    residual = np.asarray(sse / ((n - 1) * (k - 1) * n * k))
    return member_variance(columns[..., 0, :]), residual, k
