"""What do reruns of one model say: the same model evaluated again, on the same examples?

A rerun is no training run. It repeats a measurement of one model, so that the reruns of an example
are rows of one cluster: they take away noise of sampling or kernels, and add no doubt.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.numbers import Estimate, Units, none_seen
from scotoma.numbers.inputs import Codes, Floats
from scotoma.predictions.reruns import rerun_rows


@dataclass(frozen=True)
class RerunFloor:
    """How many answers change from one rerun to the next, beside those that compression changes.

    Attributes:
        n: Examples.
        within: Share of examples whose answer differs between two reruns of the dense model.
        across: Share whose answer differs between a rerun of the dense and one of the compressed
            model.
        excess: across - within, with the interval of a paired comparison.
    """

    n: int
    within: Estimate
    across: Estimate
    excess: Estimate


def align_reruns(before: int, after: int) -> tuple[Codes, Codes]:
    """Choose which rerun of one model stands beside which of the other.

    Args:
        before: Reruns of the dense model, at least 1.
        after: Reruns of the compressed model, at least 1.

    Returns:
        Numbers of reruns, each of shape (T,). Every rerun occurs equally often, unless that took
        more than four times as many rows as there are reruns; then some occur once more.

    Raises:
        DataError: A number below 1.

    >>> [side.tolist() for side in align_reruns(2, 3)]
    [[0, 1, 0, 1, 0, 1], [0, 1, 2, 0, 1, 2]]
    >>> align_reruns(16, 14)[1].size
    16
    """
    if min(before, after) < 1:
        raise DataError(f"reruns must be at least 1 a model, got {before} and {after}")
    place = np.arange(rerun_rows([before, after]))
    return place % before, place % after


def rerun_floor(before: npt.ArrayLike, after: npt.ArrayLike, *, level: float = 0.95) -> RerunFloor:
    """Compare how often answers change between two reruns and between the two models.

    Args:
        before: Codes of the dense model's answers, integers, shape (n, R) with R >= 2 reruns.
        after: Codes of the compressed model's answers, shape (n, R').
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        Shares over all pairs of reruns; only examples are random.

    Raises:
        DataError: Fewer than two reruns of the dense model, or other examples.

    >>> before = np.zeros((100, 2), int)
    >>> before[:4, 1] = 1
    >>> after = (np.arange(100) < 20).astype(int)[:, None]
    >>> floor = rerun_floor(before, after)
    >>> [round(one.value, 3) for one in (floor.within, floor.across, floor.excess)]
    [0.04, 0.18, 0.14]
    """
    d, c = np.asarray(before), np.asarray(after)
    if d.ndim != 2 or c.ndim != 2 or len(d) != len(c) or d.shape[1] < 2 or not c.shape[1]:
        raise DataError(
            "a rerun floor needs two reruns of the dense model and one of the compressed on the "
            f"same examples, got shapes {d.shape} and {c.shape}; evaluate the dense model again"
        )
    own = _mean(d[:, i] != d[:, j] for i, j in combinations(range(d.shape[1]), 2))
    pairs = product(range(d.shape[1]), range(c.shape[1]))
    other = _mean(d[:, i] != c[:, j] for i, j in pairs)
    n = len(d)
    units = Units(n)
    excess = replace(units.mean(other).since(units.mean(own)), events=np.nan).estimate(level=level)
    return RerunFloor(n, _share(own, level), _share(other, level), excess)


def _mean(flags: object) -> Floats:
    return np.asarray(np.mean(np.stack(list(flags)), axis=0), np.float64)  # type: ignore[call-overload]


def _share(values: Floats, level: float) -> Estimate:
    n, value = len(values), float(values.mean())
    if not 0 < value < 1:
        return none_seen(value, n=n, members=1, lowest=0.0, highest=1.0, level=level)
    return Units(n).mean(values, flip=None).estimate("logit", level=level)
