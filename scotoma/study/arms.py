"""Which examples go into which arm of a study?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

__all__ = [
    "MOST_IMBALANCE",
    "WARNED_IMBALANCE",
    "Arms",
    "choose_arms",
    "matched_arms",
    "mean_difference",
]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Seed = int | Sequence[int]
WARNED_IMBALANCE, MOST_IMBALANCE = 0.1, 0.25  # standardised mean differences of agreement


@dataclass(frozen=True, eq=False)
class Arms:
    """Rows of a study's examples; no row is in two arms, and each arm has as many of a class.

    Attributes:
        a: CIEs.
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
    seed: Seed,
    refused: Flags | None = None,
) -> Arms:
    """Draw the three arms, arm A at random from all CIEs.

    CIEs come in random order as long as their class has two non-CIEs for each; contested controls
    are matched without replacement, so that the differences of agreement add up to the least.

    Args:
        cie: Whether an example is a CIE, shape (N,).
        classes: True class ids, shape (N,).
        agreement: Largest share of all votes of both populations on one class, shape (N,).
        per_arm: Examples an arm, at most; as many as there are.
        seed: Same seed, same arms.
        refused: Examples that may be in no arm, shape (N,); None for none.

    >>> cie = np.arange(12) < 4
    >>> arms = choose_arms(cie, np.zeros(12, int), np.linspace(0.5, 1, 12), 3, seed=0)
    >>> bool(cie[arms.a].all()), bool(cie[arms.b].any()), arms.c.tolist()
    (True, False, [4, 5, 7])
    """
    allowed = np.ones(len(cie), bool) if refused is None else ~refused
    rng = np.random.default_rng(seed)
    room = {
        int(one): int((allowed & ~cie & (classes == one)).sum()) // 2 for one in np.unique(classes)
    }
    drawn: list[int] = []
    for row in rng.permutation(np.flatnonzero(cie & allowed)):
        if room[int(classes[row])]:
            room[int(classes[row])] -= 1
            drawn.append(int(row))
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


def matched_arms(
    cie: Flags,
    classes: Ints,
    agreement: Floats,
    per_arm: int,
    *,
    seed: Seed,
    refused: Flags | None = None,
) -> Arms:
    """Draw the three arms, arm A from the CIEs that have an equally contested non-CIE.

    For populations in which few non-CIEs are as contested as CIEs are. Pairs are those of the best
    assignment in each class; the worst leave until agreement differs by less than 0.1 standard
    deviations. Arm B is drawn at random before them.

    Args:
        cie: As for `choose_arms`.
        classes: The same.
        agreement: The same.
        per_arm: Examples an arm, at most; as many as there are pairs.
        seed: Same seed, same arms.
        refused: Examples that may be in no arm, shape (N,); None for none.

    >>> cie = np.arange(12) < 4
    >>> agreement = np.array([0.5, 0.5, 0.6, 0.7] + [0.6, 0.7] + [1.0] * 6)
    >>> arms = matched_arms(cie, np.zeros(12, int), agreement, 4, seed=1)
    >>> sorted(agreement[arms.a]) == sorted(agreement[arms.c])
    True
    """
    allowed = np.ones(len(cie), bool) if refused is None else ~refused
    rng = np.random.default_rng(seed)
    waiting: dict[int, Ints] = {}  # non-CIEs of a class for arm B, in random order
    pairs: list[tuple[int, int]] = []
    for one in np.unique(classes[cie & allowed]):
        own = rng.permutation(np.flatnonzero(cie & allowed & (classes == one)))
        others = rng.permutation(np.flatnonzero(allowed & ~cie & (classes == one)))
        reserved = min(len(own), len(others) // 2)
        waiting[int(one)], rest = others[:reserved], others[reserved:]
        # Square roots: one exact match and one poor one are better than two that are half as poor.
        costs = np.sqrt(np.abs(agreement[own][:, None] - agreement[rest]))
        chosen = zip(*linear_sum_assignment(costs), strict=True)
        found = [(int(own[i]), int(rest[j])) for i, j in chosen]
        pairs += sorted(found, key=_gap(agreement))[:reserved]
    kept = _balanced(pairs, agreement)
    rows = rng.permutation(len(kept))[:per_arm]
    a, c = (np.array([kept[row][side] for row in rows], np.int64) for side in (0, 1))
    b = np.empty_like(a)
    for name, ids in waiting.items():
        at = np.flatnonzero(classes[a] == name)
        b[at] = ids[: len(at)]
    return Arms(a, b, c)


def _gap(agreement: Floats) -> Callable[[tuple[int, int]], float]:
    return lambda pair: abs(float(agreement[pair[0]] - agreement[pair[1]]))


def _balanced(pairs: list[tuple[int, int]], agreement: Floats) -> list[tuple[int, int]]:
    """The pairs without the worst ones, until both sides agree as much on average."""
    kept = sorted(pairs, key=lambda pair: float(agreement[pair[0]] - agreement[pair[1]]))
    while len(kept) > 1:
        first, second = (agreement[[pair[side] for pair in kept]] for side in (0, 1))
        difference = mean_difference(first, second)
        if abs(difference) <= WARNED_IMBALANCE:
            break
        kept.pop(0 if difference < 0 else -1)
    return kept


def mean_difference(first: Floats, second: Floats) -> float:
    """Standardised mean difference: in standard deviations, the root mean of both variances.

    >>> round(mean_difference(np.array([1.0, 3]), np.array([0.0, 2])), 3)
    0.707
    """
    spread = ((first.var(ddof=1) + second.var(ddof=1)) / 2) ** 0.5
    gap = float(first.mean() - second.mean())
    return gap / float(spread) if spread else (0.0 if gap == 0 else float("inf"))
