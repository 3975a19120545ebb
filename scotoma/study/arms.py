"""Which examples go into which arm of a study?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Seed = int | Sequence[int]
WARNED_IMBALANCE, MOST_IMBALANCE = 0.1, 0.25  # standardised mean differences of agreement
CANDIDATES = 10  # CIEs for which a match is sought, for each image of an arm
EMPTY = np.empty(0, np.int64)


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
    rng = np.random.default_rng(seed)
    changed, others = _pools(cie, classes, refused, rng)
    room = {name: len(rows) // 2 for name, rows in others.items()}
    drawn: list[int] = []
    for row in changed:
        name = int(classes[row])
        if len(drawn) < per_arm and room.get(name, 0):
            room[name] -= 1
            drawn.append(int(row))
    a = np.array(drawn, np.int64)
    b, c = np.empty_like(a), np.empty_like(a)
    for name in np.unique(classes[a]).tolist():
        own = np.flatnonzero(classes[a] == name)
        offered = rng.permutation(others[name])
        b[own], rest = offered[: len(own)], offered[len(own) :]
        c[own] = rest[_assigned(agreement[a[own]], agreement[rest], power=1.0)]
    return Arms(a, b, c)


def _pools(
    cie: Flags, classes: Ints, refused: Flags | None, rng: np.random.Generator
) -> tuple[Ints, dict[int, Ints]]:
    """Rows of CIEs in random order, and of other examples by class."""
    allowed = np.ones(len(cie), bool) if refused is None else ~refused
    changed = rng.permutation(np.flatnonzero(cie & allowed))
    return changed, _by_class(np.flatnonzero(~cie & allowed), classes)


def _by_class(rows: Ints, classes: Ints) -> dict[int, Ints]:
    rows = rows[np.argsort(classes[rows], kind="stable")]
    names, starts = np.unique(classes[rows], return_index=True)
    return dict(zip(names.tolist(), np.split(rows, starts[1:]), strict=False))


def _assigned(wanted: Floats, offered: Floats, *, power: float) -> Ints:
    """Assign each wanted value an offered one, none twice, with the least sum of costs.

    Args:
        wanted: Values, shape (M,).
        offered: Values, shape (N,), N >= M.
        power: Of the differences, which makes them costs.
    """
    order = np.argsort(offered, kind="stable")
    place = np.searchsorted(offered[order], wanted)
    # In one dimension nobody needs to look farther than as many neighbours as there are rivals.
    near = np.unique(
        np.clip(place[:, None] + np.arange(-len(wanted), len(wanted)), 0, len(offered) - 1)
    )
    costs = np.abs(wanted[:, None] - offered[order[near]]) ** power
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
    assignment in each class, by the square roots of differences: one exact match and one poor one
    are better than two that are half as poor. The worst leave until agreement differs by less than
    0.1 standard deviations. Arm B is drawn at random before them.

    Args:
        cie: As for `choose_arms`.
        classes: The same.
        agreement: The same.
        per_arm: Examples an arm, at most; as many as there are pairs, the closest first.
        seed: Same seed, same arms.
        refused: Examples that may be in no arm, shape (N,); None for none.

    >>> cie = np.arange(24) < 4
    >>> agreement = np.array([0.1, 0.1, 0.6, 0.7] + [0.6, 0.7] * 5 + [1.0] * 10)
    >>> arms = matched_arms(cie, np.zeros(24, int), agreement, 4, seed=0)
    >>> sorted(agreement[arms.a].tolist()), sorted(agreement[arms.c].tolist())
    ([0.6, 0.7], [0.6, 0.7])
    """
    rng = np.random.default_rng(seed)
    changed, others = _pools(cie, classes, refused, rng)
    waiting: dict[int, Ints] = {}  # non-CIEs of a class for arm B, in random order
    pairs: list[tuple[int, int]] = []
    for name, rows in _by_class(changed[: CANDIDATES * per_arm], classes).items():
        offered = rng.permutation(others.get(name, EMPTY))
        own = rows[: len(offered) // 2]
        waiting[name], rest = offered[: len(own)], offered[len(own) :]
        if len(own):
            chosen = rest[_assigned(agreement[own], agreement[rest], power=0.5)]
            pairs += zip(own.tolist(), chosen.tolist(), strict=True)
    kept = np.array(_balanced(pairs, agreement), np.int64).reshape(-1, 2)
    kept = rng.permutation(kept)
    gaps = np.abs(agreement[kept[:, 0]] - agreement[kept[:, 1]])
    a, c = kept[np.argsort(gaps, kind="stable")[:per_arm]].T
    b = np.empty_like(a)
    for name, ids in waiting.items():
        at = np.flatnonzero(classes[a] == name)
        b[at] = ids[: len(at)]
    return Arms(a, b, c)


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
