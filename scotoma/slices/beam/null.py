"""What would the outcomes be if no slice meant anything, worked out where each row lies?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from scotoma.hashing import hash_ids
from scotoma.slices.evidence.outcomes import Outcome, Scored


@dataclass(frozen=True, eq=False)
class Shuffle:
    """One shuffle of the outcomes, which depends on (seed, number, example id) alone.

    A row cannot change places with a row of another part of the table. Against a baseline that is
    not needed: the two populations change places on a random half of the examples, or all members
    are dealt out anew where they are not equally many. Otherwise every row draws the outcome of one
    row of a pool.

    Attributes:
        seed: Seed of the search.
        number: Number of the shuffle.
        pool: Outcomes of a sample of the rows that count; None against a baseline.
    """

    seed: int
    number: int
    pool: Outcome | None

    def deal(self, outcome: Outcome, ids: npt.NDArray[np.generic]) -> Outcome:
        """Shuffled outcomes of some rows.

        Args:
            outcome: The outcome of the rows that count.
            ids: Ids of those examples, shape (n,).

        >>> from scotoma.slices.evidence.outcomes import SLICE_METRICS, prepare_outcome
        >>> two = prepare_outcome(SLICE_METRICS["error"], np.ones(6), np.zeros(6), None, 6)
        >>> shuffled = Shuffle(0, 0, None).deal(two, np.arange(6))
        >>> (shuffled.model.above + shuffled.baseline.above).ravel().tolist()
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
        """
        drawn = hash_ids(ids, self.seed + 1 + self.number)
        if self.pool is not None:
            rows = (drawn % np.uint64(len(self.pool.rows))).astype(np.intp)
            pool = self.pool.take(rows)
            return replace(outcome, model=pool.model, baseline=pool.baseline)
        if outcome.baseline is None:
            raise ValueError("without a baseline outcomes are drawn from a pool")
        model, baseline = outcome.model.above, outcome.baseline.above
        if outcome.model.members == outcome.baseline.members:
            swap = (drawn >> np.uint64(63)).astype(np.bool_)[:, None]
            first, second = np.where(swap, baseline, model), np.where(swap, model, baseline)
        else:
            order = np.random.default_rng([self.seed % 2**63, 3, self.number])
            members = np.concatenate([model, baseline], axis=1)
            members = members[:, order.permutation(members.shape[1])]
            first, second = np.split(members, [outcome.model.members], axis=1)
        return replace(outcome, model=Scored(first), baseline=Scored(second))
