"""Could annotators tell the arms apart? Bang's index an arm and James's index of all."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from scipy import optimize

from scotoma.audit.study import Blinding, Told
from scotoma.document import show
from scotoma.study.answer_table import CANT_TELL, NO, YES, AnswerTable
from scotoma.study.effects import FEWEST_ANNOTATORS, drawn_times, mean_variances, middle
from scotoma.study.plan import StudyPlan

DRAWS = 2000
NOBODY = "undefined (nobody guessed)"
FLAGGED = 0.2  # |Bang's index| above which a report warns


def bang(
    correct: int, wrong: int, cant_tell: int, *, level: float = 0.95, effective: float | None = None
) -> Told:
    """Compute Bang's blinding index: (correct - wrong) / n.

    The index is a difference of two shares of the same guesses, so its interval is Tango's score
    interval, which holds where all guesses are right, too; Bang's own has no width there.

    Args:
        correct: Guesses that named the arm.
        wrong: Guesses that named the other.
        cant_tell: Guesses that named none.
        level: Of the interval.
        effective: How many independent guesses they are worth; all of them where left out.

    References:
        Bang, Ni and Davis (2004), Controlled Clinical Trials 25:143-156; Tango (1998), Statistics
        in Medicine 17:891-908.

    >>> found = bang(82, 25, 170)
    >>> round(found.value, 2), round(found.low, 2), round(found.high, 2)
    (0.21, 0.14, 0.27)
    """
    n = correct + wrong + cant_tell
    if not n:
        return Told(reason=NOBODY)
    value, size = (correct - wrong) / n, n if effective is None else effective
    z = NormalDist().inv_cdf((1 + level) / 2)
    shares = correct / n, wrong / n
    low = _limit(shares, size, z, -1.0, value)
    high = -_limit(shares[::-1], size, z, -1.0, -value)
    return Told(value=value, low=low, high=high, n=n)


def _limit(shares: tuple[float, float], n: float, z: float, least: float, value: float) -> float:
    """The lower limit of the first share less the second: where the score test just rejects."""
    first, second = shares

    def excess(difference: float) -> float:
        # The second share most likely if the first exceeds it by `difference`.
        b = -first - second + (2 - first + second) * difference
        c = -second * difference * (1 - difference)
        likely = ((b * b - 8 * c) ** 0.5 - b) / 4
        variance = max(0.0, 2 * likely + difference * (1 - difference)) / n
        return value - difference - z * float(variance**0.5)

    if value <= least or excess(least) <= 0:
        return least
    # The share itself is a root, too, where all guesses are right and it has no variance.
    return float(optimize.brentq(excess, least, value - 1e-9, xtol=1e-12))


def effective_guesses(scores: npt.NDArray[np.float64]) -> float:
    """How many independent guesses the guesses of several annotators about several items are worth.

    By Kish's design effect: the variance of their mean if items and annotators are both random,
    over that if all guesses were independent. Where all are equal nothing tells how much they
    depend on each other, and only the fewer of items and annotators count.

    Args:
        scores: 1 right, -1 wrong, 0 can't tell, nan for none, shape (items, J).

    >>> effective_guesses(np.ones((10, 3)))
    3.0
    """
    known = ~np.isnan(scores)
    n, items, judges = (int(one.sum()) for one in (known, known.any(axis=1), known.any(axis=0)))
    fewest = float(min(items, judges))
    if fewest < 2 or not np.ptp(scores[known]):
        return fewest
    by_items, by_annotators, by_guesses = mean_variances([scores], [1])
    variance = max(by_items + by_annotators - by_guesses, by_items, by_annotators)
    return max(fewest, n * min(1.0, by_guesses / variance)) if variance else float(n)


def james(first: tuple[int, int, int], second: tuple[int, int, int]) -> float | None:
    """Compute James's blinding index of two arms: 0 unblinded, 0.5 random, 1 all "can't tell".

    Args:
        first: Guesses "first arm", "second arm" and "can't tell" about the first arm.
        second: The same three about the second arm.

    Returns:
        The index; None without guesses, or where chance would never guess wrong.

    References:
        James, Bloch, Lee, Kraemer and Fuller (1996), Statistics in Medicine 15:1421-1434.

    >>> round(james((82, 25, 170), (27, 29, 83)), 2)
    0.75
    """
    n = sum(first) + sum(second)
    if not n:
        return None
    told = n - first[2] - second[2]
    if not told:
        return 1.0
    observed = 0.5 * (first[1] + second[0]) / told
    guessed_first, guessed_second = first[0] + second[0], first[1] + second[1]
    wrong = guessed_second * (first[0] + first[1]) + guessed_first * (second[0] + second[1])
    expected = 0.5 * wrong / told**2
    if not expected:
        return None
    agreement = (observed - expected) / expected
    return (1 + (n - told) / n + told / n * agreement) / 2


def james_interval(
    guesses: npt.NDArray[np.int64], first: npt.NDArray[np.bool_], *, seed: int, level: float = 0.95
) -> tuple[float, float] | None:
    """Interval of James's index: items and annotators are drawn again and again.

    Args:
        guesses: 0 first arm, 1 second arm, 2 can't tell, -1 for none, shape (items, J).
        first: Whether an item is of the first arm, shape (items,).
        seed: Of the draws.
        level: Of the interval.

    Returns:
        The limits; None with fewer than 3 annotators, or where every draw has the same index.

    References:
        Owen (2007), Annals of Applied Statistics 1:386-411: the pigeonhole bootstrap.
    """
    guesses = guesses[:, (guesses >= 0).any(axis=0)]
    judges = guesses.shape[1]
    if judges < FEWEST_ANNOTATORS:
        return None
    rng = np.random.default_rng(seed)
    columns = drawn_times(rng, judges, DRAWS)
    counted = []
    for side in (first, ~first):
        own = guesses[side]
        if not len(own):
            return None
        rows = drawn_times(rng, len(own), DRAWS)
        counted.append(
            np.stack(
                [((rows @ (own == place)) * columns).sum(axis=1) for place in range(3)], axis=1
            )
        )
    draws = [
        index
        for one, two in zip(*(part.tolist() for part in counted), strict=True)
        if (index := james(tuple(one), tuple(two))) is not None
    ]
    if not draws or not np.ptp(draws):
        return None
    return middle(draws, level)


def blinding_of(plan: StudyPlan, table: AnswerTable) -> Blinding:
    """Both indices of a study's guesses, and what speaks against its blinding."""
    counts = {
        arm: [int((table.guesses[table.arms == arm] == place).sum()) for place in range(3)]
        for arm in ("A", "B", "C")
    }
    indices = {}
    flagged = []
    for arm, (yes, no, cant_tell) in counts.items():
        right, wrong = (YES, NO) if arm == "A" else (NO, YES)
        guesses = table.guesses[table.arms == arm]
        scores = np.select(
            [guesses == right, guesses == wrong, guesses == CANT_TELL], [1.0, -1.0, 0.0], np.nan
        )
        found = indices[arm] = bang(
            (yes, no)[right], (yes, no)[wrong], cant_tell,
            level=plan.level, effective=effective_guesses(scores),
        )  # fmt: skip
        if found.value is not None and abs(found.value) > FLAGGED:
            flagged.append(
                f"Guesses about arm {arm} were {'right' if found.value > 0 else 'wrong'} more "
                f"often than chance (Bang's index {show(found.value, 'effect')})."
            )
    if plan.labels == "paper":
        flagged.append("Not blind: labels 2 and 3 differ exactly in arm A.")
    flagged += [
        f"A machine tells arms {name} apart without pixels (AUC {show(leak.value, 'ratio')})."
        for name, leak in plan.leak.items()
        if leak.low > 0.5
    ]
    a, b, c = (counts[arm] for arm in ("A", "B", "C"))
    index = james((a[0], a[1], a[2]), (b[0] + c[0], b[1] + c[1], b[2] + c[2]))
    ends = james_interval(table.guesses, table.arms == "A", seed=plan.seed, level=plan.level)
    low, high = ends or (None, None)
    alike = "" if ends else "guesses too alike, or people too few, for an interval"
    reason = NOBODY if index is None else alike
    return Blinding(
        machine={
            name: Told(n=2 * plan.per_arm, **leak.model_dump()) for name, leak in plan.leak.items()
        },
        bang=indices,
        james=Told(value=index, low=low, high=high, n=sum(a) + sum(b) + sum(c), reason=reason),
        flagged=tuple(flagged),
    )
