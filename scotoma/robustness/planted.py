"""Audits under corruption whose truth is planted, and the smallest effect that one can find."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy.special import ndtri, stdtrit

from scotoma.numbers import COMPRESSED, DENSE, Units
from scotoma.numbers.enough import FEWEST_PICTURES
from scotoma.numbers.inputs import Flags
from scotoma.robustness.losses import RightAnswers, group_contrast

POWER = 0.9
LEVEL = 0.95  # of all tests together
DIFFICULTY_SD = 1.5  # how much examples differ, on the probit scale
CORRELATION = 0.95  # of an example's dense and compressed difficulty
SHARED = 0.5  # of a member's chance on an example: alike on its clean and corrupted pictures
SIMULATED = 2_000  # examples at most, of which the variance is taken
DRAWN = 4  # audits, over which it is averaged


def planted_robustness(
    group: Flags,
    *,
    members: int,
    families: tuple[int, ...],
    severities: int,
    seed: int,
    clean: float = 0.9,
    corrupted: float = 0.75,
    extra: float = 0.0,
    run_sd: float = 0.1,
) -> tuple[RightAnswers, RightAnswers]:
    """Draw the right answers of a dense and a compressed population.

    Args:
        group: The examples in which `extra` is planted, bool, shape (n,).
        members: Members of each population.
        families: Corruptions of each family; `extra` is planted in the first.
        severities: Severities of each corruption.
        seed: Of the draws.
        clean: Accuracy of every member on clean pictures, a fraction.
        corrupted: Accuracy under every corruption, a fraction.
        extra: What the compressed members lose beyond it, in the first group and family.
        run_sd: How much training runs differ, on the probit scale.

    Returns:
        Dense and compressed; members are independent.

    >>> dense, compressed = planted_robustness(np.arange(9) < 4, members=2, families=(2, 1),
    ...     severities=3, seed=0)
    >>> compressed.corrupted.shape
    (3, 3, 9, 2)
    """
    draw = np.random.default_rng(seed).standard_normal
    n, conditions = len(group), sum(families) * severities
    spread = math.sqrt(1 + DIFFICULTY_SD**2 + run_sd**2)
    common, own = math.sqrt(CORRELATION), math.sqrt(1 - CORRELATION)
    hard = draw((1 + conditions, n))  # what a corruption makes of each picture
    shared = draw(n)
    populations = []
    for more, axis in ((0.0, DENSE), (extra, COMPRESSED)):
        easy = common * shared + own * draw(n)
        chance = math.sqrt(SHARED) * draw((n, members))
        run = run_sd * draw(members)
        right = np.empty((1 + conditions, n, members), np.bool_)
        for place in range(1 + conditions):
            accuracy = np.full(n, corrupted if place else clean)
            if 0 < place <= families[0] * severities:
                accuracy = accuracy - more * group
            difficulty = DIFFICULTY_SD * (0.8 * easy + 0.6 * hard[place])
            lucky = chance + math.sqrt(1 - SHARED) * draw((n, members))
            threshold = spread * ndtri(accuracy) + difficulty
            right[place] = threshold[:, None] + run + lucky > 0
        worse = right[1:].reshape(sum(families), severities, n, members)
        populations.append(RightAnswers(right[0], worse, Units.of(n), axis))
    return populations[0], populations[1]


def smallest_contrast(
    group_n: int,
    rest_n: int,
    *,
    members: int,
    corruptions: int,
    severities: int,
    tests: int,
    error: float = 0.1,
) -> float:
    """The smallest extra loss of a group that one family shows, a fraction.

    Shown means: its contrast with the rest differs from 0 after Bonferroni over all tests.
    Assumes that corruption costs the dense models 15 points, and errors as `planted_robustness` has
    them.

    Args:
        group_n: Examples (or clusters) of the group.
        rest_n: Those of all others.
        members: Members of each population.
        corruptions: Corruptions of the family.
        severities: Severities of each.
        tests: Groups times families.
        error: Error of the dense members on clean pictures, a fraction.

    Returns:
        nan where the group or the rest is too small to be compared.

    >>> round(smallest_contrast(500, 1500, members=10, corruptions=3, severities=3, tests=16), 3)
    0.029
    """
    fewest = min(group_n, rest_n)
    if fewest < FEWEST_PICTURES:
        return math.nan
    shrunk = max(1.0, (group_n + rest_n) / SIMULATED)
    drawn = (
        round(max(group_n / shrunk, FEWEST_PICTURES)),
        round(max(rest_n / shrunk, FEWEST_PICTURES)),
    )
    deviation, freedom = _contrast(drawn, members, corruptions, severities, round(error, 3))
    chances = np.array([1 - (1 - LEVEL) / 2 / max(tests, 1), POWER])
    size = math.sqrt((1 / group_n + 1 / rest_n) / (1 / drawn[0] + 1 / drawn[1]))
    return float(stdtrit(freedom, chances).sum() * deviation * size)


@cache
def _contrast(
    sizes: tuple[int, int], members: int, corruptions: int, severities: int, error: float
) -> tuple[float, float]:
    """Standard error of a contrast where nothing is planted, and its degrees of freedom."""
    group = np.arange(sum(sizes)) < sizes[0]
    clean = 1 - error
    contrasts = []
    for seed in range(DRAWN):
        dense, compressed = planted_robustness(
            group, members=members, families=(corruptions,), severities=severities, seed=seed,
            clean=clean, corrupted=max(clean - 0.15, 0.05),
        )  # fmt: skip
        own = [right.under(range(corruptions)) for right in (dense, compressed)]
        contrasts.append(group_contrast(own[0], own[1], group))
    deviation = math.sqrt(np.mean([contrast.se**2 for contrast in contrasts]))
    return deviation, 1 / float(np.mean([1 / contrast.df for contrast in contrasts]))
