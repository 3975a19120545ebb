"""Which examples go into which arm of a study?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from scotoma.errors import DataError

__all__ = ["MOST_IMBALANCE", "WARNED_IMBALANCE", "Arms", "choose_arms", "mean_difference"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
WARNED_IMBALANCE, MOST_IMBALANCE = 0.1, 0.25  # standardised mean differences of agreement


@dataclass(frozen=True, eq=False)
class Arms:
    """Rows of a study's examples; no row is in two arms, and each arm has as many of a class.

    Attributes:
        a: CIEs, at random.
        b: Non-CIEs at random, of the same classes.
        c: Contested non-CIEs: matched to `a` by class and nearest agreement, in the order of `a`.
    """

    a: Ints
    b: Ints
    c: Ints


def choose_arms(
    cie: Flags,
    classes: Ints,
    agreement: Floats,
    per_arm: int,
    *,
    seed: int,
    refused: Flags | None = None,
    variant: str = "the variant",
) -> Arms:
    """Draw the three arms.

    CIEs come in random order as long as their class has two non-CIEs for each; contested controls
    are matched without replacement, so that the differences of agreement add up to the least.

    Args:
        cie: Whether an example is a CIE, shape (N,).
        classes: True class ids, shape (N,).
        agreement: Largest share of all votes of both populations on one class, shape (N,).
        per_arm: Examples an arm, at least 2.
        seed: Same seed, same arms.
        refused: Examples that may be in no arm, shape (N,); None for none.
        variant: Its name, for errors.

    Raises:
        DataError: There are fewer CIEs with controls than `per_arm`.

    >>> cie = np.arange(12) < 4
    >>> arms = choose_arms(cie, np.zeros(12, int), np.linspace(0.5, 1, 12), 3, seed=0)
    >>> bool(cie[arms.a].all()), bool(cie[arms.b].any()), arms.c.tolist()
    (True, False, [4, 5, 7])
    """
    allowed = np.ones(len(cie), bool) if refused is None else ~refused
    rng = np.random.default_rng(seed)
    if not cie.any():
        raise DataError(
            f"{variant} has no changed examples (CIEs), so there is nothing to study; choose a "
            "stronger compression with --variant"
        )
    room = {
        int(one): int((allowed & ~cie & (classes == one)).sum()) // 2 for one in np.unique(classes)
    }
    drawn: list[int] = []
    for row in rng.permutation(np.flatnonzero(cie & allowed)):
        if room[int(classes[row])]:
            room[int(classes[row])] -= 1
            drawn.append(int(row))
    if len(drawn) < per_arm:
        raise DataError(
            f"{variant} has {len(drawn):,} changed examples with two unchanged ones of their class "
            f"each, fewer than --per-arm {per_arm:,}; give --per-arm {len(drawn):,} or less"
        )
    a = np.array(drawn[:per_arm], np.int64)
    b, c = np.empty_like(a), np.empty_like(a)
    for one in np.unique(classes[a]):
        own = np.flatnonzero(classes[a] == one)
        others = rng.permutation(np.flatnonzero(allowed & ~cie & (classes == one)))
        b[own], rest = others[: len(own)], others[len(own) :]
        c[own] = rest[_nearest(agreement[a[own]], agreement[rest])]
    return Arms(a, b, c)


def _nearest(wanted: Floats, offered: Floats) -> Ints:
    """Assign each wanted value an offered one, none twice, with the least sum of differences."""
    order = np.argsort(offered, kind="stable")
    place = np.searchsorted(offered[order], wanted)
    # In one dimension nobody needs to look farther than as many neighbours as there are rivals.
    near = np.unique(
        np.clip(place[:, None] + np.arange(-len(wanted), len(wanted)), 0, len(offered) - 1)
    )
    costs = np.abs(wanted[:, None] - offered[order[near]])
    _, chosen = linear_sum_assignment(costs)
    return np.asarray(order[near[chosen]], np.int64)


def mean_difference(first: Floats, second: Floats) -> float:
    """Standardised mean difference: in standard deviations, the root mean of both variances.

    >>> round(mean_difference(np.array([1.0, 3]), np.array([0.0, 2])), 3)
    0.707
    """
    spread = ((first.var(ddof=1) + second.var(ddof=1)) / 2) ** 0.5
    gap = float(first.mean() - second.mean())
    return gap / float(spread) if spread else (0.0 if gap == 0 else float("inf"))
