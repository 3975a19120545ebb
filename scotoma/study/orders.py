"""In which order does each annotator see the images?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from scotoma.study.plan import Orders

BLOCKS = (6, 9, 12)  # lengths of blocks in which arms are balanced; which comes next is random
APART = 20  # images between the two showings of a repeated one, where there are as many


def orders_for(
    arms: Mapping[str, Sequence[str]],
    practice: Sequence[str],
    *,
    repeats: int,
    guesses: int,
    seed: Sequence[int],
    annotators: int,
) -> list[Orders]:
    """Order the items for every annotator, anew for each.

    Args:
        arms: Item ids by arm, as many in each.
        practice: Ids of the practice images.
        repeats: Items that are shown twice; the second time at least 20 images later.
        guesses: Items of the second pass, as many of each arm as can be.
        seed: Same seed, same orders.
        annotators: How many orders.

    >>> arms = {"A": ["a", "b"], "B": ["c", "d"], "C": ["e", "f"]}
    >>> (one,) = orders_for(arms, ["p"], repeats=1, guesses=3, seed=[0], annotators=1)
    >>> len(one.main), sorted(set(one.main)), len(one.guess)
    (7, ['a', 'b', 'c', 'd', 'e', 'f'], 3)
    """
    return [
        _order(arms, practice, repeats, guesses, np.random.default_rng([*seed, number]))
        for number in range(annotators)
    ]


def _order(
    arms: Mapping[str, Sequence[str]],
    practice: Sequence[str],
    repeats: int,
    guesses: int,
    rng: np.random.Generator,
) -> Orders:
    waiting = [[str(one) for one in rng.permutation(list(ids))] for ids in arms.values()]
    main: list[str] = []
    while any(waiting):
        size = int(rng.choice(BLOCKS)) // len(waiting)
        block = [one for ids in waiting for one in ids[:size]]
        waiting = [ids[size:] for ids in waiting]
        main += [str(one) for one in rng.permutation(block)]
    shown = len(main)
    repeated = [main[row] for row in rng.permutation(max(1, shown - APART))[:repeats]]
    for one in repeated:
        earliest = min(main.index(one) + APART + 1, len(main))
        main.insert(int(rng.integers(earliest, len(main) + 1)), one)
    shares = [list(rng.permutation(list(ids))) for ids in arms.values()]
    guess = [str(ids[row]) for row in range(max(map(len, shares))) for ids in shares][:guesses]
    return Orders(
        practice=tuple(str(one) for one in rng.permutation(list(practice))),
        main=tuple(main),
        guess=tuple(str(one) for one in rng.permutation(guess)),
    )
