"""Is a mitigation still there after compression, and beside models that are as accurate?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from scotoma.errors import DataError
from scotoma.inputs import Floats, floats
from scotoma.numbers import Estimate, benjamini_hochberg, check_level, undefined
from scotoma.tournament.paired import paired_permutation_p
from scotoma.tournament.two_levels import covariance_of_draws, two_level_mean
from scotoma.variance import THIS_TEST_SET
from scotoma.variance.effects import variance_of

__all__ = [
    "LARGEST_GAP",
    "MOST_ACCURACY_LOST",
    "SurvivalCell",
    "equal_accuracy",
    "fieller",
    "null_floor",
    "survival_cells",
]

LARGEST_GAP = 0.01  # of accuracy, up to which two populations count as equally accurate
MOST_ACCURACY_LOST = 0.02  # by the compressed baseline; beyond it everything collapses
HALVINGS = 1000  # random ones, where there are more ways to halve the seeds
NO_GAIN = "undefined (no gain to survive: the interval of the dense gain holds 0)"
A_LOSS = "undefined (no gain to survive: the technique is worse than the baseline while dense)"


@dataclass(frozen=True)
class SurvivalCell:
    """One technique under one compressed variant, in one metric; members paired by seed.

    Attributes:
        technique: The technique.
        variant: The compressed variant.
        metric: The metric; 0 is fair.
        harm: H, bias of the mitigated members under the variant minus dense.
        gain_dense: Bias of the dense baseline minus that of the dense mitigated members.
        gain: The same under the variant.
        interaction: I = gain_dense - gain: above 0, compression eats the mitigation.
        interaction_sd: I in standard deviations of the dense baseline over seeds; nan where those
            do not vary.
        survival: S = gain / gain_dense with Fieller's interval; nan where the interval of the dense
            gain holds 0 or lies below it.
        p: P-value of the paired permutation test of I, two-sided.
        p_adjusted: p after Benjamini-Hochberg over all techniques, variants and metrics.
        floor: Null floor of I: 95% of the gains of one half of the dense seeds lie nearer to the
            gain of the other half.
        baseline_loss: Accuracy that the baseline loses under the variant, a fraction; nan where
            accuracy is not known.
        collapsed: Whether that is more than `MOST_ACCURACY_LOST`, so that bias means little.
        seeds: Number of seeds.
    """

    technique: str
    variant: str
    metric: str
    harm: Estimate
    gain_dense: Estimate
    gain: Estimate
    interaction: Estimate
    interaction_sd: float
    survival: Estimate
    p: float
    p_adjusted: float
    floor: float
    baseline_loss: float
    collapsed: bool
    seeds: int


def survival_cells(
    values: npt.ArrayLike,
    techniques: Sequence[str],
    variants: Sequence[str],
    metrics: Sequence[str],
    *,
    accuracy: npt.ArrayLike | None = None,
    resampled: npt.ArrayLike | None = None,
    base: int = 0,
    dense: int = 0,
    level: float = 0.95,
) -> list[SurvivalCell]:
    """Measure harm, interaction and survival of every technique under every variant.

    With B(m, v) the bias of members of technique m under variant v, per seed:

        H = B(m, v) - B(m, dense)
        I = [B(m, v) - B(base, v)] - [B(m, dense) - B(base, dense)]
        S = mean of B(base, v) - B(m, v) over mean of B(base, dense) - B(m, dense)

    Args:
        values: Bias, shape (techniques, variants, seeds, metrics); member i of every technique and
            variant has seed i. A nan makes its cells undefined.
        techniques: Names of axis 0.
        variants: Names of axis 1.
        metrics: Names of axis 3.
        accuracy: Fractions, shape (techniques, variants, seeds); None where it is not known.
        resampled: Mean bias over seeds on test sets drawn anew, shape (draws, techniques,
            variants, metrics), from `resampled_bias`: intervals are over seeds and examples then.
            None for intervals over seeds on this test set.
        base: Place of the baseline in `techniques`.
        dense: Place of the uncompressed variant in `variants`.
        level: Coverage of the intervals, which are not adjusted, a fraction in (0, 1).

    Returns:
        Cells of every technique but the baseline under every variant but dense, in every metric.

    Raises:
        DataError: Shapes and names that do not fit together, or fewer than two seeds.

    >>> rng = np.random.default_rng(0)
    >>> values = rng.normal(0, 0.002, (2, 2, 8, 1)) + np.array([0.10, 0.04])[:, None, None, None]
    >>> values[1, 1] += 0.03
    >>> [cell] = survival_cells(values, ["base", "fair"], ["dense", "prune-0.9"], ["DP"])
    >>> round(cell.harm.value, 2), round(cell.interaction.value, 2), round(cell.survival.value, 1)
    (0.03, 0.03, 0.5)
    >>> cell.p
    0.0078125
    """
    check_level(level)
    bias = _shaped(values, techniques, variants, metrics)
    top1 = None if accuracy is None else _per_member(accuracy, bias)
    draws = None if resampled is None else floats(resampled, "resampled")
    if draws is not None and draws.shape[1:] != (*bias.shape[:2], bias.shape[3]):
        raise DataError(
            f"resampled must have shape (draws, {bias.shape[0]}, {bias.shape[1]}, "
            f"{bias.shape[3]}), got {draws.shape}: pass what `resampled_bias` returns"
        )
    gains = bias[base] - bias  # of every technique, variant, seed and metric
    eaten = gains[:, dense, None] - gains
    by_seed = np.moveaxis(eaten, 2, 0)
    p = paired_permutation_p(by_seed.reshape(len(by_seed), -1)).reshape(by_seed.shape[1:])
    cells = []
    for t in (t for t in range(len(techniques)) if t != base):
        for v in (v for v in range(len(variants)) if v != dense):
            lost = math.nan if top1 is None else float((top1[base, dense] - top1[base, v]).mean())
            for m, metric in enumerate(metrics):
                before, after = gains[t, dense, :, m], gains[t, v, :, m]
                own = None if draws is None else draws[:, :, :, m]
                drawn = _Drawn.of(own, base, dense, t, v)
                interaction = two_level_mean(
                    eaten[t, v, :, m],
                    None if drawn is None else drawn.before - drawn.after,
                    level=level,
                )
                sd = math.sqrt(variance_of(bias[base, dense, :, m]))
                cells.append(
                    SurvivalCell(
                        technique=techniques[t],
                        variant=variants[v],
                        metric=metric,
                        harm=two_level_mean(
                            bias[t, v, :, m] - bias[t, dense, :, m],
                            None if drawn is None else drawn.harm,
                            level=level,
                        ),
                        gain_dense=two_level_mean(
                            before, None if drawn is None else drawn.before, level=level
                        ),
                        gain=two_level_mean(
                            after, None if drawn is None else drawn.after, level=level
                        ),
                        interaction=interaction,
                        interaction_sd=interaction.value / sd if sd > 0 else math.nan,
                        survival=_survival(after, before, drawn, level),
                        p=float(p[t, v, m]),
                        p_adjusted=math.nan,
                        floor=null_floor(before),
                        baseline_loss=lost,
                        collapsed=lost > MOST_ACCURACY_LOST,
                        seeds=bias.shape[2],
                    )
                )
    adjusted = benjamini_hochberg([cell.p for cell in cells]) if cells else ()
    return [replace(cell, p_adjusted=float(p)) for cell, p in zip(cells, adjusted, strict=True)]


def equal_accuracy(
    values: npt.ArrayLike,
    accuracy: npt.ArrayLike,
    techniques: Sequence[str],
    variants: Sequence[str],
    metrics: Sequence[str],
    *,
    base: int = 0,
    resampled: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> list[dict[str, Any]]:
    """Compare every technique and variant with the baseline's variant of nearest accuracy.

    Models that err more often can look fairer or less fair for that alone. Where no variant of the
    baseline comes within `LARGEST_GAP`, there is no comparison at equal accuracy, and it says so.

    Args:
        values: Bias, shape (techniques, variants, seeds, metrics), paired by seed.
        accuracy: Fractions, shape (techniques, variants, seeds).
        techniques: Names of axis 0.
        variants: Names of axis 1.
        metrics: Names of axis 3.
        base: Place of the baseline in `techniques`.
        resampled: As for `survival_cells`.
        level: Coverage of the intervals, which are not adjusted, a fraction in (0, 1).

    Returns:
        A row for each `technique` but the baseline, `variant` and `metric`: the baseline's variant
        `beside` it; `accuracy_gap`, the technique's minus that one's, a fraction; `comparable`,
        whether that is at most `LARGEST_GAP` either way; and `gain`, bias of the baseline's variant
        minus the technique's. Estimates are paired by seed.

    Raises:
        DataError: Shapes that do not fit together.

    >>> rng = np.random.default_rng(0)
    >>> bias = rng.normal(0, 0.001, (2, 2, 8, 1)) + [[[[0.1]], [[0.2]]], [[[0.04]], [[0.05]]]]
    >>> right = rng.normal(0, 0.001, (2, 2, 8)) + [[[0.92], [0.88]], [[0.95], [0.92]]]
    >>> rows = equal_accuracy(bias, right, ["base", "fair"], ["dense", "prune-0.9"], ["BA"])
    >>> [(row["variant"], row["beside"], row["comparable"]) for row in rows]
    [('dense', 'dense', False), ('prune-0.9', 'dense', True)]
    """
    check_level(level)
    bias = _shaped(values, techniques, variants, metrics)
    top1 = _per_member(accuracy, bias)
    draws = None if resampled is None else floats(resampled, "resampled")
    means = top1.mean(axis=2)
    rows = []
    for t in (t for t in range(len(techniques)) if t != base):
        for v, variant in enumerate(variants):
            nearest = int(np.abs(means[base] - means[t, v]).argmin())
            gap = two_level_mean(top1[t, v] - top1[base, nearest], level=level)
            for m, metric in enumerate(metrics):
                drawn = None if draws is None else draws[:, base, nearest, m] - draws[:, t, v, m]
                gains = bias[base, nearest, :, m] - bias[t, v, :, m]
                rows.append(
                    {
                        "technique": techniques[t],
                        "variant": variant,
                        "metric": metric,
                        "beside": variants[nearest],
                        "accuracy_gap": gap,
                        "comparable": abs(gap.value) <= LARGEST_GAP,
                        "gain": two_level_mean(gains, drawn, level=level),
                    }
                )
    return rows


@dataclass(frozen=True, eq=False)
class _Drawn:
    """What the mean over seeds is on test sets drawn anew, shape (draws,) each."""

    before: Floats
    after: Floats
    harm: Floats

    @classmethod
    def of(cls, bias: Floats | None, base: int, dense: int, t: int, v: int) -> _Drawn | None:
        if bias is None:
            return None
        return cls(
            before=bias[:, base, dense] - bias[:, t, dense],
            after=bias[:, base, v] - bias[:, t, v],
            harm=bias[:, t, v] - bias[:, t, dense],
        )

    @property
    def covariance(self) -> Floats:
        return covariance_of_draws(np.stack([self.after, self.before], axis=1))


def fieller(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    *,
    examples: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> Estimate:
    """Ratio of two paired means with Fieller's interval.

    The interval holds every ratio r at which a paired t test does not reject that the mean of
    numerator - r * denominator is 0.

    Args:
        numerator: Shape (R,), R >= 2.
        denominator: Shape (R,), run i the same as in `numerator`.
        examples: Covariance of both means over test examples, shape (2, 2), added to that over
            runs; None for an interval over runs on this test set.
        level: Coverage, a fraction in (0, 1).

    Returns:
        The ratio; nan where the t interval of the denominator's mean holds 0, which is where
        Fieller's is unbounded.

    Raises:
        DataError: Different shapes, or fewer than two runs.

    References:
        Fieller (1954), Some problems in interval estimation, JRSS B 16:175-185.

    >>> ratio = fieller([1.0, 1.2, 0.9, 1.1], [2.0, 2.1, 1.9, 2.2])
    >>> round(ratio.value, 3), round(ratio.low, 3), round(ratio.high, 3)
    (0.512, 0.442, 0.576)
    """
    check_level(level)
    x, y = floats(numerator, "numerator"), floats(denominator, "denominator")
    if x.ndim != 1 or x.shape != y.shape or x.size < 2:
        raise DataError(
            f"numerator and denominator must be pairs of two or more runs, got shapes {x.shape} "
            f"and {y.shape}: pass one number per run"
        )
    runs = x.size
    note = THIS_TEST_SET if examples is None else ""
    if not np.isfinite(np.concatenate([x, y])).all():
        return undefined(
            "undefined (the metric is undefined in a run)", n=runs, members=runs, level=level,
            note=note,
        )  # fmt: skip
    of_examples = 0.0 if examples is None else floats(examples, "examples")
    (xx, xy), (_, yy) = (np.cov(x, y) / runs + of_examples).tolist()
    a, b = float(x.mean()), float(y.mean())
    t2 = float(stdtrit(runs - 1, (1 + level) / 2)) ** 2
    square, half, rest = b**2 - t2 * yy, a * b - t2 * xy, a**2 - t2 * xx
    if not square > 0:
        return undefined(NO_GAIN, n=runs, members=runs, level=level, note=note)
    root = math.sqrt(max(half**2 - square * rest, 0.0))
    return Estimate(
        a / b, (half - root) / square, (half + root) / square, runs, runs, math.nan, runs - 1.0,
        level, note=note,
    )  # fmt: skip


def _survival(after: Floats, before: Floats, drawn: _Drawn | None, level: float) -> Estimate:
    """Ratio of gains, where there was a gain."""
    ratio = fieller(
        after, before, examples=None if drawn is None else drawn.covariance, level=level
    )
    if math.isnan(ratio.value) or before.mean() > 0:
        return ratio
    return undefined(A_LOSS, n=ratio.n, members=ratio.n, level=level, note=ratio.note)


def null_floor(values: npt.ArrayLike, *, share: float = 0.95, seed: int = 0) -> float:
    """Measure how far the mean of one half of the seeds lies from that of the other.

    Args:
        values: One a seed, shape (R,), R >= 2; of an odd number one half has one more.
        share: Of the ways to halve that lie nearer.
        seed: Of random halvings, where there are more than 1,000.

    Returns:
        The distance, in the unit of the values; nan where a value is. Halves are smaller than the
        whole: the floor of a difference over all seeds lies lower.

    >>> null_floor([1.0, 1.0, 1.0, 1.0]), null_floor([0.0, 1.0])
    (0.0, 1.0)
    """
    x = floats(values, "values")
    half = x.size // 2
    if math.comb(x.size, half) <= HALVINGS:
        halves = np.array(list(combinations(range(x.size), half)))
    else:
        rng = np.random.Generator(np.random.Philox(key=seed))
        halves = rng.permuted(np.tile(np.arange(x.size), (HALVINGS, 1)), axis=1)[:, :half]
    inside = x[halves].sum(axis=1)
    distances = np.abs(inside / half - (x.sum() - inside) / (x.size - half))
    return float(np.quantile(distances, share, method="higher"))


def _shaped(
    values: npt.ArrayLike,
    techniques: Sequence[str],
    variants: Sequence[str],
    metrics: Sequence[str],
) -> Floats:
    bias = floats(values, "values")
    named = (len(techniques), len(variants), len(metrics))
    if bias.ndim != 4 or (bias.shape[0], bias.shape[1], bias.shape[3]) != named:
        raise DataError(
            f"values must have shape ({named[0]}, {named[1]}, seeds, {named[2]}), got "
            f"{bias.shape}: pass bias by technique, variant, seed and metric"
        )
    if bias.shape[2] < 2:
        raise DataError(f"survival needs two seeds or more, got {bias.shape[2]}: train more")
    return bias


def _per_member(accuracy: npt.ArrayLike, bias: Floats) -> Floats:
    top1 = floats(accuracy, "accuracy")
    if top1.shape != bias.shape[:3]:
        raise DataError(
            f"accuracy must have shape {bias.shape[:3]}, got {top1.shape}: pass one number a member"
        )
    return top1
