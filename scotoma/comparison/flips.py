"""How many answers change, and do they become right, wrong or otherwise wrong?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from scotoma.divergence.agreement import flip_ledger
from scotoma.numbers import Estimate
from scotoma.numbers.inputs import Labels

RIGHT, WRONG = 0, 1  # codes of `answer_codes`; those above are of wrong answers

Kind = Literal["changed", "right_to_wrong", "wrong_to_right", "wrong_to_other"]
KINDS: tuple[Kind, ...] = ("changed", "right_to_wrong", "wrong_to_right", "wrong_to_other")


@dataclass(frozen=True)
class Flip:
    """One way in which answers change.

    Attributes:
        kind: `right_to_wrong`, `wrong_to_right`, `wrong_to_other` (both wrong, with different
            answers), or `changed`, the sum of these.
        count: Examples; a mean over pairs of reruns or models where there are several.
        share: The same as a share of all examples.
    """

    kind: Kind
    count: float
    share: Estimate


def answer_codes(
    before_right: npt.ArrayLike,
    after_right: npt.ArrayLike,
    before_answers: npt.ArrayLike | None = None,
    after_answers: npt.ArrayLike | None = None,
) -> tuple[Labels, Labels]:
    """Number what each model answered: 0 where it is right, a number above for each wrong answer.

    Args:
        before_right: Whether the answers are right, bool, shape (n,).
        after_right: The same of the other model.
        before_answers: What was answered, comparable values of one type, shape (n,); None where
            only right and wrong are known.
        after_answers: The same of the other model.

    Returns:
        Codes of both, shape (n, 1): equal codes are equal answers, or two right ones.

    >>> before, after = answer_codes([True, False, False], [True, False, False], list("abc"),
    ...                              list("dbe"))
    >>> (before == after).ravel().tolist()
    [True, True, False]
    """
    was, now = np.asarray(before_right, bool), np.asarray(after_right, bool)
    codes = np.full((2, len(was)), WRONG)
    if before_answers is not None and after_answers is not None:
        both = np.concatenate([np.asarray(before_answers), np.asarray(after_answers)])
        codes += np.unique(both, return_inverse=True)[1].reshape(2, -1)
    before, after = np.where(was, RIGHT, codes[0]), np.where(now, RIGHT, codes[1])
    return before[:, None], after[:, None]


def flips(
    labels: npt.ArrayLike | None,
    dense: npt.ArrayLike,
    compressed: npt.ArrayLike,
    *,
    clusters: npt.ArrayLike | None = None,
    paired: bool = False,
) -> tuple[Flip, ...]:
    """Count the flips both ways, and the wrong answers that become other wrong ones.

    Args:
        labels: True class ids, shape (n,); None where they are not known.
        dense: Class ids of the dense models, shape (n, K).
        compressed: Class ids of the same rows, shape (n, K').
        clusters: Id of each row's cluster, shape (n,), such as the example of each rerun.
        paired: Each compressed model was made from the dense model at the same place.

    Returns:
        `changed`, then its parts; without labels `changed` alone.

    Raises:
        DataError: As `flip_ledger`.

    >>> [(one.kind, one.count) for one in flips([0, 0, 0, 0], [[0], [1], [1], [0]],
    ...                                         [[1], [0], [2], [0]])]
    [('changed', 3.0), ('right_to_wrong', 1.0), ('wrong_to_right', 1.0), ('wrong_to_other', 1.0)]
    """
    rows = len(np.asarray(dense))
    every = np.ones((1, rows), np.bool_)
    (row,) = flip_ledger(
        dense, compressed, labels, every, ["all"], clusters=clusters, paired=paired
    )
    n = rows if clusters is None else len(np.unique(np.asarray(clusters)))
    shares: dict[Kind, Estimate | None] = {kind: getattr(row, kind) for kind in KINDS}
    return tuple(
        Flip(kind, share.value * n, share) for kind, share in shares.items() if share is not None
    )
