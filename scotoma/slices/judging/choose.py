"""Which test does an outcome get, under which protocol?"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.numbers import Estimate, few_runs, undefined
from scotoma.numbers.inputs import Ints
from scotoma.numbers.wilson_interval import wilson
from scotoma.slices.hashing import poisson_weights
from scotoma.slices.judging.auc import Ranks
from scotoma.slices.judging.bootstrap import BootstrapLane, member_draws
from scotoma.slices.judging.evidence import (
    Direction,
    Evidence,
    JudgedCells,
    Lane,
    Shared,
    hypergeometric_tail,
    sign_tail,
    two_sided,
)
from scotoma.slices.judging.means import Centre, MeanLane
from scotoma.slices.judging.tally import Part, Sums
from scotoma.slices.outcomes import Outcome, Scored, SliceMetric
from scotoma.slices.settings import SearchSettings

Judge = Evidence | Ranks  # what a search asks: the test of any cells, of any rows

FEWEST = 30.0  # predictions, a member, that a ratio of counts rests on


def evidence_of(outcome: Outcome, ids: npt.NDArray[np.generic], asked: SearchSettings) -> Judge:
    """Choose and prepare the test of an outcome."""
    compared = outcome.baseline is not None
    reference = asked.compares_with(compared)
    if takes_draws(outcome.metric, asked.protocol, reference):
        weights = poisson_weights(ids, asked.bootstrap, asked.seed)
        outcome = replace(outcome, weights=weights)
    elif outcome.metric.kind == "ratio":
        outcome = outcome.having([linear(own) for own in outcome.populations])
    if outcome.metric.kind == "auc":
        if compared and reference != "baseline":
            raise DataError(
                f"metric 'auc' compares a slice with the whole or with the baseline, got reference="
                f"{reference!r} with a baseline: leave one of them out"
            )
        sound = asked.protocol == "sound"
        return Ranks.of(outcome, asked.side, asked.seed, sound=sound)
    members = tuple(own.members for own in outcome.populations)
    lane = choose_lane(
        asked, outcome.metric, members, binary=outcome.binary,
        clustered=outcome.clusters is not None, centre=lambda: Centre.of(outcome),
        drawn=lambda: member_draws(members, asked.bootstrap, asked.seed, paired=asked.paired),
    )  # fmt: skip
    return Evidence(lane, outcome, outcome.clusters)


def choose_lane(
    asked: SearchSettings,
    metric: SliceMetric,
    members: tuple[int, ...],
    *,
    binary: bool,
    clustered: bool,
    centre: Callable[[], Centre],
    drawn: Callable[[], tuple[Ints, ...]],
) -> Lane:
    """Choose the test of the outcomes of any metric but AUC.

    Published: the bootstrap. Sound: Fisher's exact test for one model's rate, McNemar's for two
    models' rates on the same slice, the crossed t for populations, scores and ratios; the bootstrap
    for ratios against a baseline. Rows of one cluster have no exact test: rates are then tested as
    means over clusters.
    """
    reference = asked.compares_with(len(members) > 1)
    if takes_draws(metric, asked.protocol, reference):
        fewest = 0.0 if asked.protocol == "published" else FEWEST * members[0]
        return BootstrapLane(asked.side, drawn(), fewest)
    if metric.kind == "rate" and binary and not clustered:
        if members == (1,):
            return RateLane(asked.side)
        if members == (1, 1) and reference == "baseline":
            return ChangeLane(asked.side)
    several = members[:1] if asked.paired else members
    widths = tuple(k for k in several if k > 1)
    return MeanLane(asked.side, "baseline" if reference == "baseline" else "rest", widths, centre())


def takes_draws(metric: SliceMetric, protocol: str, reference: str) -> bool:
    """Say whether the p-values of a search come from a bootstrap.

    >>> from scotoma.slices.outcomes import SLICE_METRICS
    >>> takes_draws(SLICE_METRICS["auc"], "sound", "whole")
    True
    """
    ratios = metric.kind == "ratio" and reference == "baseline"
    return protocol == "published" or metric.kind == "auc" or ratios


def linear(scored: Scored) -> Scored:
    """Compute what each row adds to a ratio of sums, (u - R v) / mean(v), by the whole's own R.

    The slices' means of it differ where their ratios do.

    >>> linear(Scored(np.array([[1.0], [0.0]]), np.array([[1.0], [1.0]]))).above.ravel().tolist()
    [0.5, -0.5]
    """
    above, below = scored.above, scored.below
    if below is None:
        return scored
    total = below.sum()
    if total == 0:
        return Scored(np.zeros_like(above))
    return Scored(np.asarray((above - above.sum() / total * below) / below.mean()))


@dataclass(frozen=True)
class RateLane(Lane):
    """One model's rate in the slice against its rate in the rest: Fisher's exact test.

    Its sums are the rows and the events of a slice.
    """

    direction: Direction
    widths = (1, 1)

    def adds(self, outcome: Outcome) -> list[Part]:
        """Count rows, and rows with the event."""
        return [(None, None), (np.flatnonzero(outcome.model.above[:, 0]), None)]

    def judge(
        self, sums: Sums, whole: Sums, least: int, keep: float, shared: Shared | None = None
    ) -> JudgedCells:
        """Test every cell that holds enough rows and leaves a rest.

        >>> sums = np.array([2, 2]), np.array([2, 0])
        >>> whole = np.array([4]), np.array([2])
        >>> RateLane("higher").judge(sums, whole, 1, 1.0).p.round(4)
        array([0.1667, 1.    ])
        """
        size, events = (own.astype(np.intp, copy=False) for own in sums)
        N, K = (int(own[0]) for own in whole)
        cell = np.flatnonzero((size >= max(least, 1)) & (size < N))
        n, k = size[cell], events[cell]
        upper = lower = np.ones(n.shape)
        keep = keep if self.direction != "both" else keep / 2
        if self.direction != "lower":
            upper = hypergeometric_tail(k, n, K, N, keep=keep)
        if self.direction != "higher":
            lower = hypergeometric_tail(n - k, n, N - K, N, keep=keep)
        effect = k / n - (K - k) / (N - n)
        return JudgedCells(size, cell, effect, two_sided(upper, lower, self.direction))

    def effect(self, sums: Sums, whole: Sums, level: float) -> Estimate:
        """Estimate the rate inside minus the rate outside, with Newcombe's interval."""
        (n, k), (N, K) = ([int(own[0]) for own in each] for each in (sums, whole))
        j, m = K - k, N - n
        if n == 0 or m == 0:
            where = "no examples in the slice" if n == 0 else "no examples outside the slice"
            return undefined(f"undefined ({where})", n=n, members=1, level=level)
        low, high = newcombe(k, n, j, m, level)
        nan = math.nan
        return Estimate(k / n - j / m, low, high, n, 1, float(k), nan, level, note=few_runs(1))


@dataclass(frozen=True)
class ChangeLane(Lane):
    """Two models on the same slice: McNemar's exact test of the examples on which they differ.

    Its sums are the rows of a slice, those on which only the second model has the event, and those
    on which only the first has it.
    """

    direction: Direction
    widths = (1, 1, 1)
    exchanges = True  # half of the changes are for the better if no slice means anything

    def adds(self, outcome: Outcome) -> list[Part]:
        """Count rows, and those that change either way."""
        model, baseline = (own.above[:, 0] for own in outcome.populations)
        return [
            (None, None),
            (np.flatnonzero(model > baseline), None),
            (np.flatnonzero(model < baseline), None),
        ]

    def judge(
        self, sums: Sums, whole: Sums, least: int, keep: float, shared: Shared | None = None
    ) -> JudgedCells:
        """Test every cell that holds enough rows.

        >>> sums = np.array([4, 2]), np.array([3, 0]), np.array([0, 1])
        >>> ChangeLane("higher").judge(sums, (), 1, 1.0).p
        array([0.125, 1.   ])
        """
        size, up, down = (own.astype(np.intp, copy=False) for own in sums)
        cell = np.flatnonzero(size >= max(least, 1))
        n, worse, better = size[cell], up[cell], down[cell]
        upper, lower = sign_tail(worse, worse + better), sign_tail(better, worse + better)
        p = two_sided(upper, lower, self.direction)
        return JudgedCells(size, cell, (worse - better) / n, p)


def newcombe(k: int, n: int, j: int, m: int, level: float) -> tuple[float, float]:
    """Compute the interval of the difference k/n - j/m of two independent rates.

    References:
        Newcombe (1998), Statistics in Medicine 17:873-890, method 10.

    >>> [round(end, 4) for end in newcombe(56, 70, 48, 80, 0.95)]  # his table II, example (a)
    [0.0524, 0.3339]
    """
    (low1, high1), (low2, high2) = wilson(k, n, level), wilson(j, m, level)
    p, q = k / n, j / m
    below = math.sqrt((p - low1) ** 2 + (high2 - q) ** 2)
    above = math.sqrt((high1 - p) ** 2 + (q - low2) ** 2)
    return p - q - below, p - q + above
