"""The one-model trap: how often do a few models a side contradict all of them?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError

__all__ = ["Contradiction", "one_model_trap"]

DRAWS = 1_000  # of models, where not every choice of one is taken
SIZES = (1, 2, 3, 5, 10, 20)  # models a side that are looked at
NO_INTERVAL = (
    "no interval: the same models appear in many draws, and all of them together are taken for "
    "the truth"
)


@dataclass(frozen=True)
class Contradiction:
    """How often comparisons of a few models contradict all models.

    Attributes:
        members: Models a side.
        wrong: Share of such comparisons that contradict all models together on whether some group's
            rate rises beyond the margins.
        wrong_worst: The same for the group that is most affected in all models together.
        draws: Comparisons.
        reason: Why there is no interval.
    """

    members: int
    wrong: float
    wrong_worst: float
    draws: int
    reason: str = NO_INTERVAL


def one_model_trap(
    dense: npt.ArrayLike,
    compressed: npt.ArrayLike,
    *,
    relative: float,
    absolute: float,
    paired: bool = False,
    seed: int = 0,
) -> list[Contradiction]:
    """Draw models from both populations, decide by their means alone, and compare with all.

    Whoever has one dense and one compressed model decides so: by whether the rate of a group rose.
    A rise counts where it exceeds both margins.

    Args:
        dense: Rates of the dense members by group, fractions, shape (G, K); nan where undefined.
        compressed: Rates of the compressed members, shape (G, K').
        relative: Margin on compressed / dense - 1, a fraction.
        absolute: Margin on compressed - dense, a fraction.
        paired: Member m of `compressed` derives from member m of `dense`: they are drawn in pairs.
        seed: Of the draws; with one model a side every pair is taken instead.

    Returns:
        A row a number of models, up to less than all of them; none where a population is one model.

    Raises:
        DataError: Tables of other groups, or pairs of unequal number.

    >>> rows = one_model_trap([[0.10, 0.10]], [[0.11, 0.15]], relative=0.2, absolute=0.005)
    >>> [(row.members, row.wrong, row.draws) for row in rows]
    [(1, 0.5, 4)]
    """
    d, c = np.asarray(dense, np.float64), np.asarray(compressed, np.float64)
    if d.ndim != 2 or c.ndim != 2 or len(d) != len(c):
        raise DataError(
            f"rates must be two tables of groups by members, got shapes {d.shape} and {c.shape}; "
            "pass a row a group"
        )
    if paired and d.shape != c.shape:
        raise DataError(
            f"paired populations must have as many members, got {d.shape[1]} and {c.shape[1]}; "
            "leave out what has no partner"
        )
    known = ~(np.isnan(d).any(axis=1) | np.isnan(c).any(axis=1))
    d, c = d[known], c[known]
    if not len(d):
        return []

    def beyond(
        before: npt.NDArray[np.float64], after: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        return (after - before) - np.maximum(relative * before, absolute)

    whole = beyond(d.mean(axis=1), c.mean(axis=1))
    worst = int(whole.argmax())
    rng = np.random.Generator(np.random.Philox(key=[seed, 1_000_033]))
    rows = []
    for few in SIZES:
        if few >= min(d.shape[1], c.shape[1]):
            break
        first, second = _choices(d.shape[1], c.shape[1], few, paired=paired, rng=rng)
        excess = beyond(d[:, first].mean(axis=2), c[:, second].mean(axis=2))
        harmed = (excess > 0).any(axis=0)
        rows.append(
            Contradiction(
                few,
                float((harmed != (whole > 0).any()).mean()),
                float(((excess[worst] > 0) != (whole[worst] > 0)).mean()),
                harmed.size,
            )
        )
    return rows


def _choices(
    k: int, other: int, few: int, *, paired: bool, rng: np.random.Generator
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Members of each comparison, dense and compressed, shape (draws, few) each."""
    if few == 1:
        if paired:
            both = np.arange(k)[:, None]
            return both, both
        first, second = np.meshgrid(np.arange(k), np.arange(other), indexing="ij")
        return first.reshape(-1, 1), second.reshape(-1, 1)
    first = rng.random((DRAWS, k)).argsort(axis=1)[:, :few]
    return first, first if paired else rng.random((DRAWS, other)).argsort(axis=1)[:, :few]
