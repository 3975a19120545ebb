"""Outcomes as they might be if no slice meant anything, dealt out where each row lies."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scotoma.hashing import hash_ids
from scotoma.slices.evidence.interface import Flags
from scotoma.slices.evidence.outcomes import Outcome, Scored


@dataclass(frozen=True, eq=False)
class Chance:
    """One dealing-out of outcomes, which depends on (seed, number, example id) alone.

    A row of a shard cannot change places with one of another shard. Against a baseline that is not
    needed: the two exchange what they did on a random half of the examples, or their members are
    dealt out anew where they have not as many. Without one every row draws from a pool of outcomes.

    Attributes:
        seed: Of the search.
        number: Of the dealing-out.
        pool: Outcomes of a sample of the rows that count; None against a baseline.
    """

    seed: int
    number: int
    pool: Outcome | None

    def deal(self, outcome: Outcome, ids: np.ndarray) -> Outcome:
        """Outcomes for rows that are given their ids.

        Args:
            outcome: What they were.
            ids: Ids of the examples that count, shape (n,).

        >>> from scotoma.slices.evidence.outcomes import METRICS, prepare
        >>> two = prepare(METRICS["error"], np.ones(6), np.zeros(6), None, 6)
        >>> dealt = Chance(0, 0, None).deal(two, np.arange(6))
        >>> (dealt.model.above + dealt.baseline.above).ravel().tolist()
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
        """
        drawn = hash_ids(ids, self.seed + 1 + self.number)
        model, other = outcome.model, outcome.baseline
        if self.pool is not None:
            places = (drawn % np.uint64(len(self.pool.model.above))).astype(np.intp)
            return replace(outcome, model=self.pool.model.take(places))
        if other is None:
            raise ValueError("without a baseline outcomes are drawn from a pool")
        if model.members == other.members:
            swap = (drawn >> np.uint64(63)).astype(np.bool_)
            return replace(
                outcome, model=_either(swap, other, model), baseline=_either(swap, model, other)
            )
        order = np.random.default_rng([self.seed % 2**63, 3, self.number])
        members = order.permutation(model.members + other.members)
        first, second = np.split(members, [model.members])
        both = _beside(model, other)
        return replace(outcome, model=_members(both, first), baseline=_members(both, second))


def _either(swap: Flags, yes: Scored, no: Scored) -> Scored:
    above = np.where(swap[:, None], yes.above, no.above)
    if yes.below is None or no.below is None:
        return Scored(above)
    return Scored(above, np.where(swap[:, None], yes.below, no.below))


def _beside(first: Scored, second: Scored) -> Scored:
    above = np.concatenate([first.above, second.above], axis=1)
    if first.below is None or second.below is None:
        return Scored(above)
    return Scored(above, np.concatenate([first.below, second.below], axis=1))


def _members(scored: Scored, chosen: np.ndarray) -> Scored:
    below = scored.below
    return Scored(scored.above[:, chosen], None if below is None else below[:, chosen])
