"""What can averages show that keep no samples: a difference, its interval, and what they miss?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.readers.summaries import Average, Summary

SHARES = ("acc", "accuracy", "exact_match", "quasi_exact_match", "correct", "match", "em")
WIDE = NormalDist().inv_cdf(0.975)  # of an interval at 95%
POWER = NormalDist().inv_cdf(0.8)


@dataclass(frozen=True)
class AverageChange:
    """The change of one score of one task.

    Attributes:
        task: Its name.
        metric: The score's name.
        before: The average of the original model.
        after: That of the compressed one.
        n: Examples, the fewer of both; None where a file does not say.
        low: Lower end of the interval of the change at 95%; nan if there is none.
        high: Upper end; nan if there is none.
        smallest: The smallest change that would have been shown with 80% power; nan likewise.
        reason: Why there is no interval; empty otherwise.
    """

    task: str
    metric: str
    before: float
    after: float
    n: int | None
    low: float
    high: float
    smallest: float
    reason: str

    @property
    def change(self) -> float:
        """After minus before."""
        return self.after - self.before


def average_changes(before: Summary, after: Summary, tasks: Sequence[str]) -> list[AverageChange]:
    """Compare the scores that two models share.

    Both averages are taken as independent, which they are not where both models answered the same
    examples: the interval is then too wide, never too narrow, as answers agree more than by chance.

    Args:
        before: Averages of the original model.
        after: Those of the compressed one.
        tasks: The tasks to take; empty for all.

    Raises:
        DataError: They share no score.
    """
    known = {(one.task, one.metric): one for one in after.averages}
    pairs = [
        (one, known[one.task, one.metric])
        for one in before.averages
        if (one.task, one.metric) in known and (not tasks or one.task in tasks)
    ]
    if not pairs:
        names = [
            printable(", ".join(dict.fromkeys(one.task for one in side.averages)))[:200]
            for side in (before, after)
        ]
        raise DataError(
            f"averages must share a score of a task, got those of {names[0]} and of {names[1]}; "
            "name results of the same evaluation"
        )
    return [_change(*pair) for pair in pairs]


def _change(before: Average, after: Average) -> AverageChange:
    errors = _error(before), _error(after)
    counts = [one.n for one in (before, after) if one.n is not None]
    low = high = smallest = math.nan
    reason = ""
    if None in errors:
        reason = "the files hold no standard error, and no number of examples that gives one"
    else:
        error = math.hypot(*(one for one in errors if one is not None))
        change = after.value - before.value
        low, high = change - WIDE * error, change + WIDE * error
        smallest = (WIDE + POWER) * error
    n = min(counts) if len(counts) == 2 else None
    return AverageChange(
        before.task, before.metric, before.value, after.value, n, low, high, smallest, reason
    )


def _error(one: Average) -> float | None:
    """The standard error: that of the file, else that of a share; none is 0.

    Where all are right or wrong, it is that of Agresti and Coull (1998), The American Statistician
    52:119-126: two more of each.

    >>> [round(_error(Average("t", "acc", *one)), 4) for one in ((0.75, 101), (1, 96))]
    [0.0433, 0.014]
    """
    if one.stderr is not None and one.stderr > 0:
        return one.stderr
    share = one.metric.partition(",")[0].rpartition(".")[2] in SHARES and 0 <= one.value <= 1
    if one.n is None or one.n < 2 or not share:
        return None
    if one.value in (0, 1):
        p = (one.n * one.value + 2) / (one.n + 4)
        return math.sqrt(p * (1 - p) / (one.n + 4))
    return math.sqrt(one.value * (1 - one.value) / (one.n - 1))
